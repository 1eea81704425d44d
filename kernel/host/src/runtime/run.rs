//! One run, turn by turn.

use std::sync::Arc;

use skillhost_contract::payload::{CallContext, CallOrigin, SkillRef};
use skillhost_manifest::AllowedToolsMode;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::RunError;
use super::arguments::truncate;
use super::calls::{ToolCallResult, ToolCallResults};
use super::loop_guard::{LoopGuard, LoopVerdict, REPEAT_NOTICE};
use super::permissions::ToolPermissions;
use super::session::RunSession;
use super::skills::{ActiveSkills, SkillChange};
use crate::agents::{Agent, InstructionLayerKind};
use crate::channel::RunEvent;
use crate::context_chain::ContextOutcome;
use crate::foreign_text::{element_text, neutralize, new_nonce};
use crate::kernel::{Kernel, TurnRequest};
use crate::model::{Message, ModelProvider, ModelReply, ModelTool, ModelToolCall, TokenUsage};
use crate::thread::{MessageStatus, Thread};
use crate::transcript::RunEntry;

/// A run under way.
pub(super) struct AgentRun<'t> {
    pub(super) kernel: Kernel,
    pub(super) agent: Arc<Agent>,
    pub(super) model: Arc<dyn ModelProvider>,
    pub(super) session: Arc<RunSession>,
    pub(super) cancel: CancellationToken,
    pub(super) skills: ActiveSkills,
    pub(super) spent: RunUsage,
    pub(super) thread: &'t mut Thread,
}

/// What the requests of a run have used up.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunUsage {
    pub(super) usage: TokenUsage,
    /// Known only where the model's price is.
    pub(super) cost: Option<f64>,
}

/// What one turn is made with.
pub(super) struct TurnContext {
    pub(super) number: u32,
    /// Who calls, for every tool call of this turn.
    pub(super) context: CallContext,
    /// Instructions and the blocks of the context chain.
    pub(super) system: String,
    pub(super) tools: Vec<ModelTool>,
}

impl AgentRun<'_> {
    /// Goes on until the model answers without calling a tool.
    pub(super) async fn run(
        &mut self,
        prompt: String,
        message_id: Option<String>,
    ) -> Result<String, RunError> {
        if let Some(answer) = self.accept_prompt(&prompt, message_id)? {
            return Ok(answer);
        }
        let mut loops = LoopGuard::default();
        loop {
            self.pause_if_restarting()?;
            let turn = self.compose_turn(&prompt).await?;
            let reply = self.request_reply(&turn).await?;
            self.store_reply(&reply)?;
            if reply.calls.is_empty() {
                return Ok(reply.text);
            }
            self.check_budget(&reply.calls)?;
            let answers = self.call_tools(&turn, &reply.calls).await;
            self.store_results(answers, &mut loops)?;
        }
    }

    /// What was cut off earlier is settled, then the user's word is kept: once, however often it
    /// comes. Returns the answer where there is one already.
    fn accept_prompt(
        &mut self,
        prompt: &str,
        message_id: Option<String>,
    ) -> Result<Option<String>, RunError> {
        let id = message_id.unwrap_or_else(|| ulid::Ulid::generate().to_string().to_lowercase());
        match self.thread.message_status(&id) {
            Some(MessageStatus::Answered(text)) => return Ok(Some(text)),
            Some(MessageStatus::Superseded) => return Err(RunError::Superseded),
            Some(MessageStatus::Open) => self.resume()?,
            None => {
                // Tasks come from models and events, too, and people paste what they do not read.
                self.thread.push_user_message(neutralize(prompt).into_owned(), id)?;
                self.session.reporter.record(&RunEntry::Prompt { text: prompt.to_owned() });
            }
        }
        Ok(None)
    }

    /// Goes on where the kernel before this one ended; after a restart that was asked for, with what
    /// came of it.
    fn resume(&mut self) -> Result<(), RunError> {
        self.thread.close_open_calls()?;
        let notice = self.kernel.shared.restarts.resume_notice(&new_nonce());
        let told = |text: &String| {
            let is_same = |said: &str| element_text(said) == element_text(text);
            let said = |m: &Message| matches!(m, Message::User { text: said } if is_same(said));
            self.thread.messages().iter().any(said)
        };
        if let Some(text) = notice.filter(|text| !told(text)) {
            self.session.reporter.record(&RunEntry::Prompt { text: text.clone() });
            self.thread.push(Message::User { text })?;
        }
        self.note_once("the kernel was started again; the run goes on where it was".to_owned());
        Ok(())
    }

    /// Between an answer and the next request nothing is under way, and all that was said is kept.
    fn pause_if_restarting(&self) -> Result<(), RunError> {
        match self.session.durable && self.kernel.shared.restarts.is_draining() {
            true => Err(RunError::Restarting),
            false => Ok(()),
        }
    }

    /// Puts together what the model is to know: instructions, the context chain, the active skills
    /// and what they permit, the tools.
    async fn compose_turn(&mut self, prompt: &str) -> Result<TurnContext, RunError> {
        let number = self.session.budget.start_turn(Instant::now())?;
        let request = TurnRequest {
            agent: Some(self.agent.manifest.id.to_string()),
            prompt: prompt.to_owned(),
            session_id: Some(self.session.id.clone()),
            context_window: self.model.metadata().context_window,
            origin: CallOrigin::Agent,
            correlation_id: self.session.correlation_id.clone(),
        };
        let composed = self.cancellable(self.kernel.compose_turn(&request)).await??;
        for block in &composed.blocks {
            if let ContextOutcome::Skipped(error) = &block.outcome {
                let extension = &block.extension;
                self.note_once(format!("the block of `{extension}` is left out: {error}"));
            }
        }
        self.refresh_skills(&composed.context).await?;
        let tools = self.cancellable(self.offered_tools(&composed.context)).await?;
        Ok(TurnContext { number, context: composed.context, system: composed.system_prompt, tools })
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
                SkillChange::Changed(skill) => {
                    self.note_once(format!(
                        "the skill `{}` has changed; its new text is in force",
                        skill.skill_id
                    ));
                    self.emit_skill_active(&skill);
                }
                SkillChange::Lost { skill_id, reason } => {
                    self.note_once(format!("the skill `{skill_id}` is not active: {reason}"));
                }
            }
        }
        let mode = self.agent.agent_manifest().allowed_tools_mode;
        let permissions = ToolPermissions::from_policies(mode, &self.skills.tool_policies());
        self.session.permissions.store(Arc::new(permissions));
        let active = self.thread.skills().iter().map(|active| active.skill.clone()).collect();
        self.session.reporter.record(&RunEntry::Skills { bound, active });
        Ok(())
    }

    fn bound_skills(&self) -> Vec<SkillRef> {
        let resolved = self.agent.instructions();
        let bound =
            resolved.layers.iter().filter(|layer| layer.kind == InstructionLayerKind::Skill);
        bound
            .map(|layer| SkillRef {
                skill_id: layer.skill_id.clone().unwrap_or_default(),
                digest: layer.digest.clone(),
            })
            .collect()
    }

    /// The tools of `uses_tools` that may be called now.
    async fn offered_tools(&self, context: &CallContext) -> Vec<ModelTool> {
        let (tools, failures) = self.kernel.list_agent_tools(&self.agent, context).await;
        for (extension, error) in failures {
            self.note_once(format!("the tools of `{extension}` are not offered: {error}"));
        }
        let restricted =
            self.agent.agent_manifest().allowed_tools_mode == AllowedToolsMode::Restrict;
        let permitted = |name: &str| !restricted || self.kernel.is_permitted(&self.session, name);
        let offered = tools.into_iter().filter(|tool| permitted(&tool.spec.name));
        offered
            .map(|tool| ModelTool {
                name: tool.spec.name,
                description: tool.spec.description,
                input_schema: tool.spec.input_schema,
            })
            .collect()
    }

    fn store_reply(&mut self, reply: &ModelReply) -> Result<(), RunError> {
        let (text, calls) = (reply.text.clone(), reply.calls.clone());
        Ok(self.thread.push(Message::Assistant { text, calls })?)
    }

    /// Calls whose answers the model will not see any more are not made.
    fn check_budget(&mut self, calls: &[ModelToolCall]) -> Result<(), RunError> {
        let Err(which) = self.session.budget.check_limits(Instant::now()) else { return Ok(()) };
        for call in calls {
            let text = format!("not called: the budget of {which} is used up");
            let (call_id, name) = (call.id.clone(), call.name.clone());
            self.thread.push(Message::Tool { call_id, name, text, is_error: true })?;
        }
        Err(which.into())
    }

    /// Keeps what the tools answered, and looks whether the run turns in a circle. Answers that did
    /// not come before the run had to end are settled by whoever ends it.
    fn store_results(
        &mut self,
        answers: ToolCallResults,
        loops: &mut LoopGuard,
    ) -> Result<(), RunError> {
        let round = loops.observe(answers.made.iter().map(ToolCallResult::loop_key));
        let last = answers.made.len().saturating_sub(1);
        for (index, answer) in answers.made.into_iter().enumerate() {
            let word = if round == LoopVerdict::New || index != last { "" } else { REPEAT_NOTICE };
            let ToolCallResult { call, text, is_error, skill } = answer;
            let (call_id, name, text) = (call.id, call.name, format!("{text}{word}"));
            self.thread.push(Message::Tool { call_id, name, text, is_error })?;
            if let Some((skill, in_messages)) = skill {
                self.thread.activate(skill.clone(), in_messages)?;
                self.emit_skill_active(&skill);
            }
        }
        answers.over.map_or(Ok(()), Err)?;
        match (round, self.last_call()) {
            (LoopVerdict::LoopDetected, Some(call)) => Err(RunError::Loop {
                call: truncate(&format!("{} {}", call.name, call.arguments), 200),
            }),
            _ => Ok(()),
        }
    }

    fn last_call(&self) -> Option<&ModelToolCall> {
        self.thread.messages().iter().rev().find_map(|message| match message {
            Message::Assistant { calls, .. } => calls.last(),
            Message::User { .. } | Message::Tool { .. } => None,
        })
    }

    /// Waits for something, unless the run is cancelled or its time is up: then that is dropped.
    pub(super) async fn cancellable<T>(
        &self,
        what: impl Future<Output = T>,
    ) -> Result<T, RunError> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(RunError::Cancelled),
            () = self.kernel.shared.restarts.wait_until_shutdown() => Err(match self.session.durable {
                true => RunError::Restarting,
                false => RunError::Cancelled,
            }),
            which = self.session.budget.wait_for_deadline() => Err(RunError::Budget { which }),
            done = what => Ok(done),
        }
    }

    fn emit_skill_active(&self, skill: &SkillRef) {
        let SkillRef { skill_id, digest } = skill.clone();
        let agent_id = self.session.reporter.agent_id();
        self.session.reporter.emit(&RunEvent::SkillActive { agent_id, skill_id, digest });
    }

    pub(super) fn model_name(&self) -> String {
        self.model.metadata().name.clone()
    }

    pub(super) fn note_once(&self, text: String) {
        self.session.reporter.note_once(text);
    }
}
