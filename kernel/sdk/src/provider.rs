//! The traits an extension implements.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use skillhost_contract::payload::{
    ActiveSkill, CallContext, EmbeddingModelInfo, ErrorKind, Event, PublishedBody,
    PublishedDetails, PublishedEntry, PublishedPrompt, PublishedSkills, ReviewDecision,
    ReviewOffer, SkillContent, ToolEffect,
};
use tokio_util::sync::CancellationToken;

use crate::args::ToolArgs;
use crate::context::ExtensionContext;
use crate::error::{ExtensionError, Result};
use crate::output::{ToolOutput, ToolSpec};

/// The lifecycle every extension has.
///
/// Order: `new` → `start` → calls → the service is cancelled → `stop` → drop.
#[async_trait]
pub trait Extension: Send + Sync + Sized + 'static {
    /// Creates the extension. Reads its configuration here, does no long work.
    ///
    /// # Errors
    /// An error rejects this extension, and only this one, with the message shown by `ext doctor`.
    fn new(cx: ExtensionContext) -> Result<Self>;

    /// Prepares for the first call.
    ///
    /// # Errors
    /// As for [`Extension::new`].
    async fn start(&self) -> Result<()> {
        Ok(())
    }

    /// Ends the work; no call follows.
    ///
    /// # Errors
    /// Is reported; the shutdown goes on.
    async fn stop(&self) -> Result<()> {
        Ok(())
    }

    /// Tells whether the extension can do its work right now.
    ///
    /// # Errors
    /// Says why it cannot.
    async fn health_check(&self) -> Result<()> {
        Ok(())
    }
}

/// Offers tools to agents and operators.
#[async_trait]
pub trait ToolProvider: Send + Sync + 'static {
    /// Lists the tools this caller may see. Names are the same for every caller; descriptions and
    /// schemas may differ. Must be quick.
    fn tools(&self, cx: &CallContext) -> Vec<ToolSpec>;

    /// Calls a tool.
    ///
    /// # Errors
    /// Go to the model with their kind and hint.
    async fn invoke(&self, cx: &CallContext, tool: &str, args: ToolArgs<'_>) -> Result<ToolOutput>;
}

/// Tells what a tool call would change before it is made, so that a person approves the effect and
/// not the name of a tool.
///
/// The kernel asks for every call of a tool that changes something. Where the paths say that the
/// effect decides what runs or what agents are told (extensions, agents, skills, settings), a person
/// is shown it, and the call carries its digest in
/// [`CallContext::approved_effect`](crate::CallContext).
#[async_trait]
pub trait EffectProvider: Send + Sync + 'static {
    /// Returns what a call of the tool would change, or `None` for a tool whose effect is not known
    /// beforehand. Changes nothing. Without `with_text` the paths are enough.
    ///
    /// # Errors
    /// Those of the call itself: it is then not made, and nobody is asked.
    async fn preview(
        &self,
        cx: &CallContext,
        tool: &str,
        args: ToolArgs<'_>,
        with_text: bool,
    ) -> Result<Option<ToolEffect>>;
}

/// Adds a block to every prompt.
#[async_trait]
pub trait ContextProvider: Send + Sync + 'static {
    /// Position in the chain: lower comes first (channel 0, skills 60, memory 100). Constant.
    fn context_priority(&self) -> i32;

    /// Answers from what is at hand: without waiting, without locks, within microseconds.
    ///
    /// It runs on the kernel's thread, which spares the two thread switches that a call of
    /// [`ContextProvider::get_context`] costs. One that blocks takes that thread away: its block is left
    /// out after two seconds, and until it returns it is not asked again. The outer `None`, which is
    /// the default, means that nothing is at hand and `get_context` is to be asked.
    fn ready_context(&self, _cx: &CallContext, _prompt: &str) -> Option<Option<Arc<str>>> {
        None
    }

    /// Renders the block for one turn, or nothing. The kernel waits at most two seconds.
    ///
    /// # Errors
    /// The block is left out and the reason is reported.
    async fn get_context(&self, cx: &CallContext, prompt: &str) -> Result<Option<Arc<str>>>;
}

/// Works in the background.
#[async_trait]
pub trait ServiceProvider: Send + Sync + 'static {
    /// Runs until `cancel` is cancelled or the work is done.
    ///
    /// # Errors
    /// End the service and are reported by `ext doctor`.
    async fn run_background(&self, cancel: CancellationToken) -> Result<()>;
}

/// Provides skills, so that the loader can bind an agent's `uses_skills`.
#[async_trait]
pub trait SkillProvider: Send + Sync + 'static {
    /// Returns a skill's instructions, ready for a prompt.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind) with similar ids in the hint.
    async fn get_skill_content(&self, skill_id: &str) -> Result<SkillContent>;

    /// Returns a skill that an agent works by from now on, as it is now, with what it says about
    /// tools. It is the context's caller who wants it: an agent has what its catalog shows or binds,
    /// an operator what users may invoke. By default every skill that can be bound, which then makes
    /// no statement and grants nothing.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind) and [`ErrorKind::Denied`](crate::ErrorKind) for what
    /// the caller may not have.
    async fn activate(&self, _cx: &CallContext, skill_id: &str) -> Result<ActiveSkill> {
        let content = self.get_skill_content(skill_id).await?;
        Ok(ActiveSkill { content, allowed_tools: None, grants: false })
    }

    /// Takes note that the agent of a call created a skill. An extension whose tool writes files for
    /// agents reports each new skill, with the context of the call as it came; until a person
    /// approves the skill, it grants nothing and cannot be bound.
    ///
    /// # Errors
    /// When it cannot be recorded: the tool then takes back what it wrote. That is so by default.
    async fn skill_created(&self, _cx: &CallContext, _skill_id: &str) -> Result<()> {
        Err(ExtensionError::new(
            ErrorKind::Unavailable,
            "this extension does not record who created a skill",
        ))
    }

    /// Lists the skills that a client outside of the kernel may see, sorted by id. The scope is the
    /// context's. By default nothing is published.
    ///
    /// # Errors
    /// Go to the client.
    async fn list_published(&self, _cx: &CallContext) -> Result<PublishedSkills> {
        Ok(PublishedSkills::default())
    }

    /// Returns frontmatter and files of published skills, in the order asked for; what the client
    /// may not see is left out.
    ///
    /// # Errors
    /// Go to the client.
    async fn published_details(
        &self,
        _cx: &CallContext,
        _skill_ids: &[String],
    ) -> Result<Vec<PublishedDetails>> {
        Ok(Vec::new())
    }

    /// Returns a number that changes whenever [`SkillProvider::published_details`] of these skills may
    /// answer otherwise, and costs less. By default there is none, and the details are asked for
    /// every time.
    ///
    /// # Errors
    /// Are taken for none.
    async fn published_stamp(
        &self,
        _cx: &CallContext,
        _skill_ids: &[String],
    ) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Reads a whole file of a published skill. The address comes from a stranger.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind) for what the client may not see.
    async fn read_published(&self, _cx: &CallContext, uri: &str) -> Result<PublishedBody> {
        Err(ExtensionError::not_found(format!("there is no file `{uri}`")))
    }

    /// Lists a directory of a published skill. The address comes from a stranger.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind) for what the client may not see.
    async fn read_published_directory(
        &self,
        _cx: &CallContext,
        uri: &str,
    ) -> Result<Vec<PublishedEntry>> {
        Err(ExtensionError::not_found(format!("there is no directory `{uri}`")))
    }

    /// Returns what a model is told when a person invokes a published skill with arguments.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind) for a skill that the person may not invoke.
    async fn published_prompt(
        &self,
        _cx: &CallContext,
        skill_id: &str,
        _arguments: &BTreeMap<String, String>,
    ) -> Result<PublishedPrompt> {
        Err(ExtensionError::not_found(format!("there is no skill `{skill_id}`")))
    }

    /// Returns a proposal as a person is to see it; nothing if all of it cannot be shown. Called only
    /// where the settings let clients ask their humans.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind) for a proposal that is not open.
    async fn offer_review(
        &self,
        _cx: &CallContext,
        _proposal: &str,
    ) -> Result<Option<ReviewOffer>> {
        Ok(None)
    }

    /// Takes a person's decision about a proposal from their client, and tells the model what came of
    /// it. No model can call this.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`](crate::ErrorKind) if the proposal is not what the person saw.
    async fn decide(&self, _decision: &ReviewDecision) -> Result<String> {
        Err(ExtensionError::new(ErrorKind::Unavailable, "this extension takes no decisions"))
    }

    /// Returns a number that changes whenever any skill's content may have changed. Called once per
    /// turn, so it must be cheap.
    ///
    /// # Errors
    /// Are reported; the agent keeps what it had.
    async fn generation(&self) -> Result<u64>;
}

/// Does what the manifest's `schedules` name as a `task`, when it is due.
///
/// The kernel decides when: under `skillhost run` only, never two runs of one schedule at once, each
/// within the schedule's `timeout_ms`. What was missed while nothing ran is reported, not made up.
#[async_trait]
pub trait SchedulerProvider: Send + Sync + 'static {
    /// Does a task; a line about what was done goes into the event `schedule.ran`.
    ///
    /// # Errors
    /// Go into the event `schedule.failed`; the next run comes at its time.
    /// [`ErrorKind::NotFound`](crate::ErrorKind) for a task that this extension does not have.
    async fn run_task(&self, cx: &CallContext, task: &str) -> Result<Option<String>>;
}

/// Handles the events that the manifest's `events.subscribes` lists with `handler: custom`.
///
/// The kernel delivers under `skillhost run`, one event of a subscription after the other, each
/// within the subscription's `timeout_ms`. What was published while nothing ran comes later.
#[async_trait]
pub trait EventProvider: Send + Sync + 'static {
    /// Handles an event. It may come more than once, with the same `id`: what must not happen twice
    /// is to be remembered by it. `cx` carries the event's correlation id on.
    ///
    /// # Errors
    /// The event comes again after 1, 5 and 25 seconds, then it is put to the dead letters.
    async fn handle(&self, cx: &CallContext, event: &Event) -> Result<()>;
}

/// Turns texts into vectors, so that other extensions can compare what texts mean.
#[async_trait]
pub trait EmbeddingProvider: Send + Sync + 'static {
    /// Names the model and the number of components of its vectors. Constant as long as the
    /// extension lives, and quick: it is asked before every use. Whatever changes the vectors
    /// changes the id, because callers keep vectors under it.
    fn model(&self) -> EmbeddingModelInfo;

    /// Makes one vector per text, in the order of the texts, each of
    /// [`EmbeddingModelInfo::dimension`](crate::EmbeddingModelInfo) finite components. Callers compare directions, not
    /// lengths; a text without any meaning to the model may get a vector of zeros.
    ///
    /// # Errors
    /// Are the caller's to judge: search goes on without vectors.
    async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>>;
}
