//! The turns of one run.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use skillhost_control::InstructionLayerKind;
use skillhost_conversation::{
    Message, MessageStatus, ModelReply, ModelTool, ModelToolCall, RunEntry, RunEvent,
};
use skillhost_core::ContextOutcome;
use skillhost_core::foreign_text::{element_text, neutralize, new_nonce};
use skillhost_core::mistakes::truncate;
use skillhost_manifest::AllowedToolsMode;
use skillhost_payload::{ActiveSkillsChange, CallContext, CallOrigin, SkillRef};
use tokio::time::Instant;

use super::calls::{ToolCallResult, ToolCallResults};
use super::loop_guard::{LoopGuard, LoopVerdict, REPEAT_NOTICE};
use super::permissions::ToolPermissions;
use super::run_state::{AgentRun, TurnContext};
use super::skills::SkillChange;
use super::{RunError, ThreadNotice};
use crate::turn::TurnRequest;

/// The tools that open any file of the sandbox or of a workspace by its path.
const FILE_TOOLS: [&str; 2] = ["read_file", "run_command"];

/// The state of a user message at the start of a run.
enum AcceptedPrompt {
    /// Stored by this run.
    Stored,
    /// Stored by an earlier run, which has not replied.
    Resumed,
    /// Answered with this reply.
    Answered(String),
}

impl AgentRun<'_> {
    /// Repeats turns until the model replies without a tool call.
    pub(super) async fn run(
        &mut self,
        prompt: String,
        message_id: Option<String>,
    ) -> Result<String, RunError> {
        let mut loops = LoopGuard::default();
        match self.accept_prompt(&prompt, message_id).await? {
            AcceptedPrompt::Answered(reply) => return Ok(reply),
            AcceptedPrompt::Resumed => self.resume(&prompt, &mut loops).await?,
            AcceptedPrompt::Stored => {}
        }
        let mut is_first = true;
        loop {
            self.pause_if_restarting()?;
            self.add_notices(is_first).await?;
            is_first = false;
            let number = self.session.budget.start_turn(Instant::now())?;
            let turn = self.compose_turn(number, &prompt).await?;
            let reply = self.request_reply(&turn).await?;
            self.store_reply(&reply).await?;
            if reply.calls.is_empty() {
                return Ok(reply.text);
            }
            self.check_budget(&reply.calls).await?;
            let calls = self.thread.open_calls();
            let results = self.call_tools(&turn, &calls).await;
            self.store_results(results, &mut loops).await?;
        }
    }

    /// Summarizes all messages but the last round, and returns a sentence about the result. Calls
    /// without a result stay open: their run may be parked, and continues with them.
    pub(super) async fn compact_thread(&mut self) -> Result<String, RunError> {
        let number = self.session.budget.start_turn(Instant::now())?;
        let turn = self.compose_turn(number, "").await?;
        let before = self.thread.messages().len();
        Ok(match self.compact_history(&turn, Some(0)).await? {
            Some((from, to)) => {
                let replaced = match before - self.thread.messages().len() {
                    // The summary was empty, so only results of tools were left out.
                    0 => "older tool results were left out".to_owned(),
                    fewer => format!("{} older messages were summarized", fewer + 1),
                };
                format!("{replaced}, approx. {from} → {to} tokens")
            }
            None => "the thread is too short to be summarized".to_owned(),
        })
    }

    /// Closes aborted calls, then stores the user message: once, even if it arrives again.
    async fn accept_prompt(
        &mut self,
        prompt: &str,
        message_id: Option<String>,
    ) -> Result<AcceptedPrompt, RunError> {
        let id = message_id.unwrap_or_else(|| ulid::Ulid::generate().to_string().to_lowercase());
        match self.thread.message_status(&id) {
            Some(MessageStatus::Answered(text)) => return Ok(AcceptedPrompt::Answered(text)),
            Some(MessageStatus::Superseded) => return Err(RunError::Superseded),
            Some(MessageStatus::Open) => return Ok(AcceptedPrompt::Resumed),
            None => {
                // Tasks also come from models and events, and users paste unread text, so tags are
                // neutralized.
                self.thread.push_user_message(neutralize(prompt).into_owned(), id).await?;
                self.session.reporter.record(&RunEntry::Prompt { text: prompt.to_owned() });
            }
        }
        Ok(AcceptedPrompt::Stored)
    }

    /// Resumes the run of the previous kernel, or one that was parked: the calls without a result
    /// are made, unless they may have happened and must not happen twice. After a requested
    /// restart, adds its outcome to the thread.
    async fn resume(&mut self, prompt: &str, loops: &mut LoopGuard) -> Result<(), RunError> {
        self.note_once("run continues where it stopped".to_owned());
        let calls = self.thread.open_calls();
        if !calls.is_empty() {
            self.pause_if_restarting()?;
            // The model request of this turn was that of the earlier run.
            let turn = self.compose_turn(self.session.budget.turn_count(), prompt).await?;
            let results = self.call_tools(&turn, &calls).await;
            self.store_results(results, loops).await?;
        }
        let notice = self.agents.run_gate().resume_notice(&new_nonce());
        // A kernel that crashed after storing the notice must not add it a second time.
        let is_known = |text: &str| {
            let is_same = |stored: &str| element_text(stored) == element_text(text);
            let matches =
                |m: &Message| matches!(m, Message::User { text: stored } if is_same(stored));
            self.thread.messages().iter().any(matches)
        };
        if let Some(text) = notice.filter(|text| !is_known(text)) {
            self.session.reporter.record(&RunEntry::Prompt { text: text.clone() });
            self.thread.push(Message::User { text }).await?;
        }
        Ok(())
    }

    /// Returns an error while the kernel drains. Between a reply and the next request no call is
    /// active, and every message is stored.
    fn pause_if_restarting(&self) -> Result<(), RunError> {
        match self.session.durable && self.agents.run_gate().is_closed() {
            true => Err(RunError::Restarting),
            false => Ok(()),
        }
    }

    /// Composes a turn: instructions, the context chain, the active skills and their permissions,
    /// the tools.
    async fn compose_turn(&mut self, number: u32, prompt: &str) -> Result<TurnContext, RunError> {
        let request = TurnRequest {
            agent: Some(self.agent.manifest.id.to_string()),
            prompt: prompt.to_owned(),
            session_id: Some(self.session.id.clone()),
            context_window: self.model.metadata().context_window,
            origin: CallOrigin::Agent,
            correlation_id: self.session.correlation_id.clone(),
            workspaces: Some(self.session.workspaces.clone()),
            channel_block: self.session.channel_block.clone(),
        };
        let composed = self.cancellable(self.agents.compose_turn(&request)).await??;
        for block in &composed.blocks {
            if let ContextOutcome::Skipped(error) = &block.outcome {
                let extension = &block.extension;
                self.note_once(format!("context block of `{extension}` was skipped: {error}"));
            }
        }
        self.refresh_skills(&composed.context).await?;
        let tools = self.cancellable(self.offered_tools(&composed.context)).await?;
        let reads_files = tools.iter().any(|tool| FILE_TOOLS.contains(&tool.name.as_str()));
        self.session.reads_files.store(reads_files, Ordering::Relaxed);
        Ok(TurnContext { number, context: composed.context, system: composed.system_prompt, tools })
    }

    /// Reloads the active skills and derives the tool permissions from them.
    async fn refresh_skills(&mut self, context: &CallContext) -> Result<(), RunError> {
        let bound = self.bound_skills();
        let ids: Vec<_> = bound.iter().map(|skill| skill.skill_id.clone()).collect();
        let provider = self.agents.skill_provider(&self.agent.manifest);
        let limits = self.agents.extensions().limits();
        let changes =
            self.skills.refresh(provider.as_deref(), limits, context, &ids, self.thread).await?;
        for change in changes {
            match change {
                SkillChange::Changed(skill) => {
                    self.note_once(format!(
                        "skill `{}` has changed; its new text applies",
                        skill.skill_id
                    ));
                    self.emit_skill_active(&skill);
                }
                SkillChange::Lost { skill_id, reason } => {
                    self.note_once(format!("skill `{skill_id}` is not active: {reason}"));
                }
            }
        }
        let mode = self.agent.agent_manifest().allowed_tools_mode;
        let permissions = ToolPermissions::from_policies(mode, &self.skills.tool_policies());
        self.session.permissions.store(Arc::new(permissions));
        self.session.capabilities.store(Arc::new(self.skills.capabilities()));
        let active = self.thread.active_skills();
        self.session.skills.set(active.clone());
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
                tree: None,
            })
            .collect()
    }

    /// Returns the tools of `uses_tools` that the active skills permit.
    async fn offered_tools(&self, context: &CallContext) -> Vec<ModelTool> {
        let (tools, failures) = self.agents.list_agent_tools(&self.agent, context).await;
        for (extension, error) in failures {
            self.note_once(format!("tools of `{extension}` are not available: {error}"));
        }
        // Only `restrict` mode denies tools, so every other one skips the check.
        let restricted =
            self.agent.agent_manifest().allowed_tools_mode == AllowedToolsMode::Restrict;
        let permitted = |name: &str| !restricted || self.agents.is_permitted(&self.session, name);
        let offered = tools.into_iter().filter(|tool| permitted(&tool.spec.name));
        offered
            .map(|tool| ModelTool {
                name: tool.spec.name,
                description: tool.spec.description,
                input_schema: tool.spec.input_schema,
            })
            .collect()
    }

    /// Adds notices about the ends of tasks to the thread.
    pub(super) async fn add_notices(&mut self, is_first: bool) -> Result<(), RunError> {
        let Some(source) = self.agents.notice_source() else { return Ok(()) };
        // Only a root thread has submitted tasks in its own name.
        if self.session.id != self.session.root_thread_id {
            return Ok(());
        }
        for ThreadNotice { key, text } in source.pending_notices(self.thread.id(), is_first).await {
            if !self.thread.has_notice(&key) {
                self.thread.push_notice(key, text).await?;
            }
        }
        Ok(())
    }

    async fn store_reply(&mut self, reply: &ModelReply) -> Result<(), RunError> {
        let (text, calls) = (reply.text.clone(), reply.calls.clone());
        Ok(self.thread.push(Message::Assistant { text, calls }).await?)
    }

    /// Checks the budget before a round of tool calls; an exhausted budget is the result of each
    /// call, as the model will not see any later one.
    async fn check_budget(&mut self, calls: &[ModelToolCall]) -> Result<(), RunError> {
        let Err(which) = self.session.budget.check_limits(Instant::now()) else { return Ok(()) };
        for call in calls {
            let text = format!("not called: budget of {which} is exhausted");
            let (call_id, name) = (call.id.clone(), call.name.clone());
            self.thread.push(Message::Tool { call_id, name, text, is_error: true }).await?;
        }
        Err(which.into())
    }

    /// Stores the tool results and checks for a loop. Calls without a result are closed at the end
    /// of the run.
    async fn store_results(
        &mut self,
        results: ToolCallResults,
        loops: &mut LoopGuard,
    ) -> Result<(), RunError> {
        let round = loops.observe(results.made.iter().map(ToolCallResult::loop_key));
        let last = results.made.len().saturating_sub(1);
        for (index, result) in results.made.into_iter().enumerate() {
            // One notice per round is enough; it is appended to the last result.
            let notice =
                if round == LoopVerdict::New || index != last { "" } else { REPEAT_NOTICE };
            let ToolCallResult { call, text, is_error, change, carried, is_uncertain } = result;
            let (call_id, name, text) = (call.id, call.name, format!("{text}{notice}"));
            let message = Message::Tool { call_id, name, text, is_error };
            match change {
                Some(change) => self.store_skills_change(message, &change, carried).await?,
                None if is_uncertain => self.thread.push_uncertain_result(message).await?,
                None => self.thread.push(message).await?,
            }
        }
        // Results that arrived before the cancellation are stored first.
        results.over.map_or(Ok(()), Err)?;
        match (round, self.last_call()) {
            (LoopVerdict::LoopDetected, Some(call)) => Err(RunError::Loop {
                call: truncate(&format!("{} {}", call.name, call.arguments), 200),
            }),
            _ => Ok(()),
        }
    }

    /// Stores a result together with the change of the active skills that it reports.
    async fn store_skills_change(
        &mut self,
        result: Message,
        change: &ActiveSkillsChange,
        carried: Option<SkillRef>,
    ) -> Result<(), RunError> {
        let before = self.thread.active_skills();
        let mut skills = before.clone();
        change.apply(&mut skills);
        self.thread.change_skills(skills.clone(), result, carried.clone()).await?;
        let is_new = |skill: &&SkillRef| !before.contains(skill) || carried.as_ref() == Some(skill);
        skills.iter().filter(is_new).for_each(|skill| self.emit_skill_active(skill));
        Ok(())
    }

    fn last_call(&self) -> Option<&ModelToolCall> {
        self.thread.messages().iter().rev().find_map(|message| match message {
            Message::Assistant { calls, .. } => calls.last(),
            Message::User { .. } | Message::Tool { .. } => None,
        })
    }

    fn emit_skill_active(&self, skill: &SkillRef) {
        let SkillRef { skill_id, digest, .. } = skill.clone();
        let agent_id = self.session.reporter.agent_id();
        self.session.reporter.emit(&RunEvent::SkillActive { agent_id, skill_id, digest });
    }
}
