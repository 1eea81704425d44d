//! The traits that an extension implements.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use skillhost_payload::{
    ActiveSkill, AgentTools, BindingProblem, CallContext, ChannelInfo, ChannelPeer,
    EmbeddingModelInfo, ErrorKind, Event, OutgoingMessage, PublishedBody, PublishedDetails,
    PublishedEntry, PublishedPrompt, PublishedSkills, ReviewDecision, ReviewOffer, ReviewQuestion,
    SendOutcome, SkillContent, SkillProgram, SkillTree, SkillVersionFile, SkillVersionSummary,
    TaskKindSpec, ToolEffect,
};
use tokio_util::sync::CancellationToken;

use crate::args::ToolArgs;
use crate::context::ExtensionContext;
use crate::error::{ExtensionError, Result};
use crate::output::{ToolOutput, ToolSpec};
use crate::task::{TaskResult, TaskRun};

/// The lifecycle of every extension.
///
/// Order: `new` → `start` → calls → the service is cancelled → `stop` → drop.
#[async_trait]
pub trait Extension: Send + Sync + Sized + 'static {
    /// Creates the extension. Reads the configuration and does no long work.
    ///
    /// # Errors
    /// An error rejects this extension, and only this one; `ext doctor` reports the message.
    fn new(cx: ExtensionContext) -> Result<Self>;

    /// Prepares for the first call.
    ///
    /// # Errors
    /// As for [`Extension::new`].
    async fn start(&self) -> Result<()> {
        Ok(())
    }

    /// Stops the work; no call follows.
    ///
    /// # Errors
    /// An error is reported; the shutdown continues.
    async fn stop(&self) -> Result<()> {
        Ok(())
    }

    /// Checks whether the extension can do its work now.
    ///
    /// # Errors
    /// An error states the reason that it cannot.
    async fn health_check(&self) -> Result<()> {
        Ok(())
    }
}

/// A provider of tools for agents and operators.
#[async_trait]
pub trait ToolProvider: Send + Sync + 'static {
    /// Lists the tools that this caller may see.
    ///
    /// Names are the same for every caller; descriptions and schemas may differ. Must be quick.
    // Names are registered once, when the extension is wired.
    fn tools(&self, cx: &CallContext) -> Vec<ToolSpec>;

    /// Calls a tool.
    ///
    /// # Errors
    /// Errors are sent to the model with their kind and hint.
    async fn invoke(&self, cx: &CallContext, tool: &str, args: ToolArgs<'_>) -> Result<ToolOutput>;
}

/// A provider of previews of tool calls, so that a person approves the effect of a call.
///
/// The kernel requests a preview for every call of a tool with side effects. If the changed paths
/// belong to extensions, agents, skills or settings, the effect requires a person's approval, and
/// the call carries its digest in [`CallContext::approved_effect`](crate::CallContext).
#[async_trait]
pub trait EffectProvider: Send + Sync + 'static {
    /// Returns the changes that a call would make, or `None` for a tool whose effect is unknown.
    ///
    /// A preview has no side effects. Without `with_text` the paths suffice.
    ///
    /// # Errors
    /// The errors of the call itself: the kernel then neither requests approval nor makes the call.
    async fn preview(
        &self,
        cx: &CallContext,
        tool: &str,
        args: ToolArgs<'_>,
        with_text: bool,
    ) -> Result<Option<ToolEffect>>;
}

/// A provider of a block in every prompt.
#[async_trait]
pub trait ContextProvider: Send + Sync + 'static {
    /// Returns the position in the chain: lower comes first (channel 0, skills 60, memory 100).
    ///
    /// The position is constant.
    fn context_priority(&self) -> i32;

    /// Returns a prepared block: without waiting, without locks, within microseconds.
    ///
    /// It runs on the kernel's thread, which saves the two thread switches that a call of
    /// [`ContextProvider::get_context`] costs. A call that blocks occupies that thread: its block
    /// is omitted after two seconds, and the provider is not called again until it returns. The
    /// outer `None`, which is the default, means that no block is prepared and `get_context` is
    /// called.
    fn ready_context(&self, _cx: &CallContext, _prompt: &str) -> Option<Option<Arc<str>>> {
        None
    }

    /// Renders the block of one turn, or returns `None`. The timeout is two seconds.
    ///
    /// # Errors
    /// On an error the block is omitted and the reason is reported.
    async fn get_context(&self, cx: &CallContext, prompt: &str) -> Result<Option<Arc<str>>>;
}

/// A provider of a background service.
#[async_trait]
pub trait ServiceProvider: Send + Sync + 'static {
    /// Runs until `cancel` is cancelled or the work is done.
    ///
    /// # Errors
    /// An error ends the service and is reported by `ext doctor`.
    async fn run_background(&self, cancel: CancellationToken) -> Result<()>;
}

/// A provider of skills, through which the loader binds an agent's `uses_skills`.
#[async_trait]
pub trait SkillProvider: Send + Sync + 'static {
    /// Returns a skill's instructions, ready for a prompt.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind) with similar ids in the hint.
    async fn get_skill_content(&self, skill_id: &str) -> Result<SkillContent>;

    /// Returns the current version of a skill that an agent activates, with its `allowed-tools`.
    ///
    /// The context names the caller: an agent may activate the skills that its catalog lists or it
    /// binds, an operator those that users may invoke. The default implementation returns every
    /// skill that can be bound, without `allowed-tools` and without grants.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind) and [`ErrorKind::Denied`](crate::ErrorKind) for
    /// skills that the caller may not activate.
    async fn activate(&self, _cx: &CallContext, skill_id: &str) -> Result<ActiveSkill> {
        let content = self.get_skill_content(skill_id).await?;
        Ok(ActiveSkill {
            content,
            allowed_tools: None,
            grants: false,
            capabilities: None,
            precedes: Vec::new(),
            follows: Vec::new(),
        })
    }

    /// Takes the tools of all agents, before the first turn and before a turn after a change.
    ///
    /// A name that the settings give to a tool is a tool of its own here. By default they are
    /// ignored.
    ///
    /// # Errors
    /// Errors are logged; the provider then does not know the tools.
    async fn set_agent_tools(&self, _agents: Vec<AgentTools>) -> Result<()> {
        Ok(())
    }

    /// Returns the reasons why an agent with these tools cannot bind these skills together.
    ///
    /// An agent with a reason is in error until its skills or tools change. By default there is none.
    ///
    /// # Errors
    /// An error is a reason, too.
    async fn check_binding(
        &self,
        _agent: &AgentTools,
        _skill_ids: &[String],
    ) -> Result<Vec<BindingProblem>> {
        Ok(Vec::new())
    }

    /// Returns the files of a skill as they are now, with their digests.
    ///
    /// Without an id, it is the skill that the caller loaded last. The kernel copies the files and
    /// runs a script of the copy only if it has these digests. By default no skill has files.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind) and [`ErrorKind::Denied`](crate::ErrorKind) for
    /// skills that the caller may not load.
    async fn tree(&self, _cx: &CallContext, _skill_id: Option<&str>) -> Result<SkillTree> {
        Err(ExtensionError::new(ErrorKind::Unavailable, "this extension has no files of skills"))
    }

    /// Records that the agent of a call created a skill.
    ///
    /// An extension whose tool writes files for agents reports each new skill with the unchanged
    /// context of the call. Until a person approves the skill, it has no grants and cannot be
    /// bound.
    ///
    /// # Errors
    /// An error when the author cannot be recorded, which is the default: the tool then reverts its
    /// changes.
    async fn skill_created(&self, _cx: &CallContext, _skill_id: &str) -> Result<()> {
        Err(ExtensionError::new(
            ErrorKind::Unavailable,
            "this extension does not record the authors of skills",
        ))
    }

    /// Counts a run of a script of a skill, for the agent of the call that ran it.
    ///
    /// By default nothing is counted.
    ///
    /// # Errors
    /// Errors are logged; the result of the script does not depend on them.
    async fn script_ran(&self, _cx: &CallContext, _skill_id: &str) -> Result<()> {
        Ok(())
    }

    /// Lists the skills that a client outside of the kernel may see, sorted by id.
    ///
    /// The scope is that of the context. By default no skill is published.
    ///
    /// # Errors
    /// Errors are sent to the client.
    async fn list_published(&self, _cx: &CallContext) -> Result<PublishedSkills> {
        Ok(PublishedSkills::default())
    }

    /// Returns the frontmatter and files of published skills, in the order of the request.
    ///
    /// Skills that the client may not see are omitted.
    ///
    /// # Errors
    /// Errors are sent to the client.
    async fn published_details(
        &self,
        _cx: &CallContext,
        _skill_ids: &[String],
    ) -> Result<Vec<PublishedDetails>> {
        Ok(Vec::new())
    }

    /// Returns a number that changes with the result of [`SkillProvider::published_details`].
    ///
    /// It costs less than the details. The default is `None`: the details are requested every time.
    ///
    /// # Errors
    /// An error is treated as `None`.
    async fn published_stamp(
        &self,
        _cx: &CallContext,
        _skill_ids: &[String],
    ) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Reads a file of a published skill. The URI comes from an untrusted client.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind) for files that the client may not see.
    async fn read_published(&self, _cx: &CallContext, uri: &str) -> Result<PublishedBody> {
        Err(ExtensionError::not_found(format!("file `{uri}` not found")))
    }

    /// Lists a directory of a published skill. The URI comes from an untrusted client.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind) for directories that the client may not see.
    async fn read_published_directory(
        &self,
        _cx: &CallContext,
        uri: &str,
    ) -> Result<Vec<PublishedEntry>> {
        Err(ExtensionError::not_found(format!("directory `{uri}` not found")))
    }

    /// Returns the prompt of a published skill that a person invokes with arguments.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind) for a skill that the person may not invoke.
    async fn published_prompt(
        &self,
        _cx: &CallContext,
        skill_id: &str,
        _arguments: &BTreeMap<String, String>,
    ) -> Result<PublishedPrompt> {
        Err(ExtensionError::not_found(format!("skill `{skill_id}` not found")))
    }

    /// Returns a proposal in the form that is displayed to a person, or `None` if it is incomplete.
    ///
    /// Called only if the settings allow reviews by clients.
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

    /// Applies a person's decision on a proposal and returns the outcome for the model.
    ///
    /// The decision comes from the person's client; no model can call this.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`](crate::ErrorKind) if the proposal differs from the one displayed.
    async fn decide(&self, _decision: &ReviewDecision) -> Result<String> {
        Err(ExtensionError::new(ErrorKind::Unavailable, "this extension does not accept decisions"))
    }

    /// Lists the proposals that wait for a decision, and the `known` ones in any state. By default
    /// there is no proposal.
    ///
    /// # Errors
    /// The proposals cannot be read.
    async fn list_reviews(&self, _known: &[String]) -> Result<Vec<ReviewQuestion>> {
        Ok(Vec::new())
    }

    /// Lists the recorded versions of a skill, the oldest first. By default no version is recorded.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind); the versions cannot be read.
    async fn list_versions(&self, _skill_id: &str) -> Result<Vec<SkillVersionSummary>> {
        Ok(Vec::new())
    }

    /// Returns the files of a version, in the order of their paths.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind); the version cannot be read.
    async fn read_version(&self, _skill_id: &str, _number: u64) -> Result<Vec<SkillVersionFile>> {
        Err(ExtensionError::new(ErrorKind::NotFound, "this extension records no versions"))
    }

    /// Lists the programs of the skills that a caller sees, or those of one skill.
    ///
    /// A list of all skills contains the programs that are offered as tools; the list of one skill is
    /// never empty: a skill without a program has an entry without a file. By default no skill has
    /// programs.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind) for a skill that the caller does not see, and
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind) for one whose `tool.json` is not valid.
    async fn list_programs(
        &self,
        _cx: &CallContext,
        _skill_id: Option<&str>,
    ) -> Result<Vec<SkillProgram>> {
        Ok(Vec::new())
    }

    /// Returns a number that changes whenever any skill's content may have changed.
    ///
    /// Called once per turn, so it must be cheap.
    ///
    /// # Errors
    /// An error is reported; the agent retains the previous content.
    async fn generation(&self) -> Result<u64>;
}

/// A provider of the scheduled jobs that the manifest's `schedules` declare with `task`.
///
/// The kernel runs them under `skillhost run` only, never two runs of one schedule at once, each
/// within the schedule's `timeout_ms`. Runs missed while the kernel was down are reported, not
/// repeated.
#[async_trait]
pub trait SchedulerProvider: Send + Sync + 'static {
    /// Runs a task and returns a summary line for the event `schedule.ran`.
    ///
    /// # Errors
    /// An error is part of the event `schedule.failed`; the schedule continues.
    /// [`ErrorKind::NotFound`](crate::ErrorKind) for a task that this extension does not have.
    async fn run_task(&self, cx: &CallContext, task: &str) -> Result<Option<String>>;
}

/// A provider of background tasks: work that survives the end of the process.
///
/// A task of the kind `KIND` has the target `EXTENSION/KIND`. The kernel executes tasks under
/// `skillhost run` only. A run that was cut off, or that waited for a person, begins again and skips
/// the steps that [`TaskRun::step`](crate::TaskRun::step) has stored.
///
/// ```
/// use skillhost_sdk::prelude::*;
/// # struct Importer;
/// # async fn fetch(_page: u32, _key: String) -> Result<Vec<String>> { Ok(Vec::new()) }
///
/// #[async_trait]
/// impl TaskProvider for Importer {
///     fn kinds(&self) -> Vec<TaskKindSpec> {
///         let schema = json!({"type": "object", "properties": {"pages": {"type": "integer"}}});
///         vec![TaskKindSpec::new("import", "Imports pages of records.", schema)]
///     }
///
///     async fn run(&self, _cx: &CallContext, run: &TaskRun) -> Result<TaskResult> {
///         let pages = run.input().value()?["pages"].as_u64().unwrap_or(1) as u32;
///         let mut records = 0;
///         for page in 0..pages {
///             let step = format!("page {page}");
///             let fetched = run.step(&step, fetch(page, run.idempotency_key(&step))).await?;
///             records += fetched.len();
///             run.progress(f64::from(page + 1), Some(f64::from(pages)), "importing").await?;
///         }
///         if run.ask("publish", "Publish the imported records?", &["yes", "no"])? == "no" {
///             return Ok(TaskResult::text("imported, not published"));
///         }
///         Ok(TaskResult::text(format!("{records} records imported")))
///     }
/// }
/// ```
#[async_trait]
pub trait TaskProvider: Send + Sync + 'static {
    /// Lists the kinds of tasks.
    fn kinds(&self) -> Vec<TaskKindSpec>;

    /// Checks the input of a task before it is stored, and returns its title. Has no side effects.
    ///
    /// The default accepts every input; the title is the kind.
    ///
    /// # Errors
    /// An error rejects the submission.
    async fn prepare(&self, _cx: &CallContext, kind: &str, _input: ToolArgs<'_>) -> Result<String> {
        Ok(kind.to_owned())
    }

    /// Executes a task, or continues it.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind) and [`ErrorKind::Timeout`](crate::ErrorKind) are
    /// transient: the task is retried after a pause. Every other error fails it.
    async fn run(&self, cx: &CallContext, run: &TaskRun) -> Result<TaskResult>;
}

/// A channel: it carries messages between people on another platform and agents.
///
/// What people write reaches the kernel by
/// [`ExtensionContext::receive_message`](crate::ExtensionContext::receive_message), usually from
/// [`ServiceProvider::run_background`]. The kernel decides who is answered, keeps the threads, and
/// sends replies, notices and questions through [`ChannelProvider::send`], each until the platform
/// has it.
#[async_trait]
pub trait ChannelProvider: Send + Sync + 'static {
    /// Returns the properties of the channel. Quick: it is called before every use.
    fn info(&self) -> ChannelInfo;

    /// Sends a message, or replaces the text and the buttons of one that was sent.
    ///
    /// A message whose result the kernel could not store, because it was killed, is sent again with
    /// the same key.
    ///
    /// # Errors
    /// Every error is transient: the message is sent again, after a pause that grows.
    async fn send(&self, message: &OutgoingMessage) -> Result<SendOutcome>;

    /// Returns a hint for agents about writing to a person, of at most 500 characters.
    ///
    /// The default returns `None`.
    ///
    /// # Errors
    /// An error omits the hint.
    async fn hint(&self, _peer: &ChannelPeer) -> Result<Option<String>> {
        Ok(None)
    }
}

/// A handler of the events that the manifest's `events.subscribes` lists with `handler: custom`.
///
/// The kernel delivers under `skillhost run`, one event of a subscription after the other, each
/// within the subscription's `timeout_ms`. Events published while the kernel was down are delivered
/// later.
#[async_trait]
pub trait EventProvider: Send + Sync + 'static {
    /// Handles an event.
    ///
    /// Delivery is at least once, with the same `id` at every attempt: store the id if a repetition
    /// does harm. `cx` carries the event's correlation id.
    ///
    /// # Errors
    /// An error causes a retry after 1, 5 and 25 seconds; then the delivery becomes a dead letter.
    async fn handle(&self, cx: &CallContext, event: &Event) -> Result<()>;
}

/// A provider of text embeddings for other extensions.
#[async_trait]
pub trait EmbeddingProvider: Send + Sync + 'static {
    /// Returns the id of the model and the number of components of its vectors.
    ///
    /// Constant during the lifetime of the extension, and quick: it is called before every use. Any
    /// change of the vectors requires a new id, because callers store vectors under it.
    fn model(&self) -> EmbeddingModelInfo;

    /// Computes one vector per text, in the order of the texts.
    ///
    /// Each has [`EmbeddingModelInfo::dimension`](crate::EmbeddingModelInfo) finite components.
    /// Callers compare directions, not lengths; a text without meaning to the model may have a
    /// vector of zeros.
    ///
    /// # Errors
    /// The caller handles errors: search continues without vectors.
    async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>>;
}
