//! One run, turn by turn.

use std::sync::Arc;

use skillhost_contract::payload::{CallContext, CallOrigin, SkillRef};
use skillhost_manifest::AllowedToolsMode;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::RunError;
use super::arguments::cut;
use super::calls::{Answer, Answers};
use super::loop_guard::{LoopGuard, Round, WORD};
use super::permissions::Permissions;
use super::session::Session;
use super::skills::{ActiveSkills, SkillNews};
use crate::agents::{Agent, LayerKind};
use crate::channel::RunEvent;
use crate::context_chain::Outcome;
use crate::foreign_text::{element_text, neutralize, new_nonce};
use crate::kernel::{Kernel, TurnRequest};
use crate::model::{Message, ModelCall, ModelProvider, ModelReply, ModelTool, Usage};
use crate::thread::{Heard, Thread};
use crate::transcript::RunEntry;

/// A run under way.
pub(super) struct Run<'t> {
    pub(super) kernel: Kernel,
    pub(super) agent: Arc<Agent>,
    pub(super) model: Arc<dyn ModelProvider>,
    pub(super) session: Arc<Session>,
    pub(super) cancel: CancellationToken,
    pub(super) skills: ActiveSkills,
    pub(super) spent: Spent,
    pub(super) thread: &'t mut Thread,
}

/// What the requests of a run have used up.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    pub(super) usage: Usage,
    /// Known only where the model's price is.
    pub(super) cost: Option<f64>,
}

/// What one turn is made with.
pub(super) struct Turn {
    pub(super) number: u32,
    /// Who calls, for every tool call of this turn.
    pub(super) context: CallContext,
    /// Instructions and the blocks of the context chain.
    pub(super) system: String,
    pub(super) tools: Vec<ModelTool>,
}

impl Run<'_> {
    /// Goes on until the model answers without calling a tool.
    pub(super) async fn run(
        &mut self,
        prompt: String,
        message_id: Option<String>,
    ) -> Result<String, RunError> {
        if let Some(answer) = self.hear(&prompt, message_id)? {
            return Ok(answer);
        }
        let mut loops = LoopGuard::default();
        loop {
            self.rest_if_wanted()?;
            let turn = self.compose(&prompt).await?;
            let reply = self.answer_of_the_model(&turn).await?;
            self.keep(&reply)?;
            if reply.calls.is_empty() {
                return Ok(reply.text);
            }
            self.afford_the_calls(&reply.calls)?;
            let answers = self.call_tools(&turn, &reply.calls).await;
            self.keep_answers(answers, &mut loops)?;
        }
    }

    /// What was cut off earlier is settled, then the user's word is kept: once, however often it
    /// comes. Returns the answer where there is one already.
    fn hear(
        &mut self,
        prompt: &str,
        message_id: Option<String>,
    ) -> Result<Option<String>, RunError> {
        let id = message_id.unwrap_or_else(|| ulid::Ulid::generate().to_string().to_lowercase());
        match self.thread.heard(&id) {
            Some(Heard::Answered(text)) => return Ok(Some(text)),
            Some(Heard::LeftBehind) => return Err(RunError::LeftBehind),
            Some(Heard::Open) => self.go_on()?,
            None => {
                // Tasks come from models and events, too, and people paste what they do not read.
                self.thread.hear(neutralize(prompt).into_owned(), id)?;
                self.session.reporter.record(&RunEntry::Prompt { text: prompt.to_owned() });
            }
        }
        Ok(None)
    }

    /// Goes on where the kernel before this one ended; after a restart that was asked for, with what
    /// came of it.
    fn go_on(&mut self) -> Result<(), RunError> {
        self.thread.settle()?;
        let notice = self.kernel.shared.restarts.notice(&new_nonce());
        let told = |text: &String| {
            let is_same = |said: &str| element_text(said) == element_text(text);
            let said = |m: &Message| matches!(m, Message::User { text: said } if is_same(said));
            self.thread.messages().iter().any(said)
        };
        if let Some(text) = notice.filter(|text| !told(text)) {
            self.session.reporter.record(&RunEntry::Prompt { text: text.clone() });
            self.thread.push(Message::User { text })?;
        }
        self.note("the kernel was started again; the run goes on where it was".to_owned());
        Ok(())
    }

    /// Between an answer and the next request nothing is under way, and all that was said is kept.
    fn rest_if_wanted(&self) -> Result<(), RunError> {
        match self.session.lasts && self.kernel.shared.restarts.resting() {
            true => Err(RunError::Restarting),
            false => Ok(()),
        }
    }

    /// Puts together what the model is to know: instructions, the context chain, the active skills
    /// and what they permit, the tools.
    async fn compose(&mut self, prompt: &str) -> Result<Turn, RunError> {
        let number = self.session.budget.take_turn(Instant::now())?;
        let request = TurnRequest {
            agent: Some(self.agent.manifest.id.to_string()),
            prompt: prompt.to_owned(),
            session_id: Some(self.session.id.clone()),
            context_window: self.model.facts().context_window,
            origin: CallOrigin::Agent,
            correlation_id: self.session.correlation_id.clone(),
        };
        let composed = self.unless_over(self.kernel.turn(&request)).await??;
        for block in &composed.blocks {
            if let Outcome::Skipped(error) = &block.outcome {
                let extension = &block.extension;
                self.note(format!("the block of `{extension}` is left out: {error}"));
            }
        }
        self.refresh_skills(&composed.context).await?;
        let tools = self.unless_over(self.offered_tools(&composed.context)).await?;
        Ok(Turn { number, context: composed.context, system: composed.system_prompt, tools })
    }

    /// Skills may have changed, and with them what they permit.
    async fn refresh_skills(&mut self, context: &CallContext) -> Result<(), RunError> {
        let bound = self.bound_skills();
        let ids: Vec<_> = bound.iter().map(|skill| skill.skill_id.clone()).collect();
        let provider = self.kernel.skill_provider(&self.agent.manifest);
        let limits = &self.kernel.shared.limits;
        let news =
            self.skills.refresh(provider.as_deref(), limits, context, &ids, self.thread).await?;
        for news in news {
            match news {
                SkillNews::Changed(skill) => {
                    self.note(format!(
                        "the skill `{}` has changed; its new text is in force",
                        skill.skill_id
                    ));
                    self.tell_active(&skill);
                }
                SkillNews::Lost { skill_id, reason } => {
                    self.note(format!("the skill `{skill_id}` is not active: {reason}"));
                }
            }
        }
        let mode = self.agent.settings().allowed_tools_mode;
        let permissions = Permissions::of(mode, &self.skills.statements());
        self.session.permissions.store(Arc::new(permissions));
        let active = self.thread.skills().iter().map(|active| active.skill.clone()).collect();
        self.session.reporter.record(&RunEntry::Skills { bound, active });
        Ok(())
    }

    fn bound_skills(&self) -> Vec<SkillRef> {
        let resolved = self.agent.resolved();
        let bound = resolved.layers.iter().filter(|layer| layer.kind == LayerKind::Skill);
        bound
            .map(|layer| SkillRef {
                skill_id: layer.skill_id.clone().unwrap_or_default(),
                digest: layer.digest.clone(),
            })
            .collect()
    }

    /// The tools of `uses_tools` that may be called now.
    async fn offered_tools(&self, context: &CallContext) -> Vec<ModelTool> {
        let (tools, failures) = self.kernel.tools_of(&self.agent, context).await;
        for (extension, error) in failures {
            self.note(format!("the tools of `{extension}` are not offered: {error}"));
        }
        let restricted = self.agent.settings().allowed_tools_mode == AllowedToolsMode::Restrict;
        let permitted = |name: &str| !restricted || self.kernel.permits(&self.session, name);
        let offered = tools.into_iter().filter(|tool| permitted(&tool.spec.name));
        offered
            .map(|tool| ModelTool {
                name: tool.spec.name,
                description: tool.spec.description,
                input_schema: tool.spec.input_schema,
            })
            .collect()
    }

    fn keep(&mut self, reply: &ModelReply) -> Result<(), RunError> {
        let (text, calls) = (reply.text.clone(), reply.calls.clone());
        Ok(self.thread.push(Message::Assistant { text, calls })?)
    }

    /// Calls whose answers the model will not see any more are not made.
    fn afford_the_calls(&mut self, calls: &[ModelCall]) -> Result<(), RunError> {
        let Err(which) = self.session.budget.check(Instant::now()) else { return Ok(()) };
        for call in calls {
            let text = format!("not called: the budget of {which} is used up");
            let (call_id, name) = (call.id.clone(), call.name.clone());
            self.thread.push(Message::Tool { call_id, name, text, is_error: true })?;
        }
        Err(which.into())
    }

    /// Keeps what the tools answered, and looks whether the run turns in a circle. Answers that did
    /// not come before the run had to end are settled by whoever ends it.
    fn keep_answers(&mut self, answers: Answers, loops: &mut LoopGuard) -> Result<(), RunError> {
        let round = loops.see(answers.made.iter().map(Answer::signature));
        let last = answers.made.len().saturating_sub(1);
        for (index, answer) in answers.made.into_iter().enumerate() {
            let word = if round == Round::New || index != last { "" } else { WORD };
            let Answer { call, text, is_error, skill } = answer;
            let (call_id, name, text) = (call.id, call.name, format!("{text}{word}"));
            self.thread.push(Message::Tool { call_id, name, text, is_error })?;
            if let Some((skill, in_messages)) = skill {
                self.thread.activate(skill.clone(), in_messages)?;
                self.tell_active(&skill);
            }
        }
        answers.over.map_or(Ok(()), Err)?;
        match (round, self.last_call()) {
            (Round::Endless, Some(call)) => {
                Err(RunError::Loop { call: cut(&format!("{} {}", call.name, call.arguments), 200) })
            }
            _ => Ok(()),
        }
    }

    fn last_call(&self) -> Option<&ModelCall> {
        self.thread.messages().iter().rev().find_map(|message| match message {
            Message::Assistant { calls, .. } => calls.last(),
            Message::User { .. } | Message::Tool { .. } => None,
        })
    }

    /// Waits for something, unless the run is cancelled or its time is up: then that is dropped.
    pub(super) async fn unless_over<T>(
        &self,
        what: impl Future<Output = T>,
    ) -> Result<T, RunError> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(RunError::Cancelled),
            () = self.kernel.shared.restarts.over() => Err(match self.session.lasts {
                true => RunError::Restarting,
                false => RunError::Cancelled,
            }),
            which = self.session.budget.time_is_up() => Err(RunError::Budget { which }),
            done = what => Ok(done),
        }
    }

    fn tell_active(&self, skill: &SkillRef) {
        let SkillRef { skill_id, digest } = skill.clone();
        let agent_id = self.session.reporter.agent_id();
        self.session.reporter.tell(&RunEvent::SkillActive { agent_id, skill_id, digest });
    }

    pub(super) fn model_name(&self) -> String {
        self.model.facts().name.clone()
    }

    pub(super) fn note(&self, text: String) {
        self.session.reporter.note(text);
    }
}
