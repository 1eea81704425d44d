//! One run, turn by turn.

use std::sync::Arc;

use skillhost_contract::payload::{CallContext, Origin, SkillRef};
use skillhost_manifest::AllowedToolsMode;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::RunError;
use super::arguments::cut;
use super::calls::{Answer, Answers, with_distinct_ids};
use super::compaction;
use super::loop_guard::{LoopGuard, Round, WORD};
use super::permissions::Permissions;
use super::session::Session;
use super::skills::{ActiveSkills, SkillNews};
use crate::agents::{Agent, LayerKind};
use crate::channel::RunEvent;
use crate::context_chain::{Outcome, SEPARATOR};
use crate::kernel::{Kernel, TurnRequest};
use crate::model::{
    Message, ModelCall, ModelErrorKind, ModelProvider, ModelReply, ModelRequest, ModelTool, Piece,
    StopReason, Usage,
};
use crate::thread::{LEFT_OUT, Thread};
use crate::transcript::RunEntry;

/// What the model is told once when it says nothing. Not kept in the thread.
const ASK_AGAIN: &str = "(Your last reply was empty. Answer, or call a tool.)";

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
    system: String,
    pub(super) tools: Vec<ModelTool>,
}

impl Run<'_> {
    /// Goes on until the model answers without calling a tool.
    pub(super) async fn run(&mut self, prompt: String) -> Result<String, RunError> {
        self.hear(&prompt)?;
        let mut loops = LoopGuard::default();
        loop {
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

    /// What was cut off earlier is settled, then the user's word is kept.
    fn hear(&mut self, prompt: &str) -> Result<(), RunError> {
        self.thread.settle()?;
        self.thread.push(Message::User { text: prompt.to_owned() })?;
        self.session.reporter.record(&RunEntry::Prompt { text: prompt.to_owned() });
        Ok(())
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
            origin: Origin::Agent,
        };
        let composed = self.kernel.turn(&request).await?;
        for block in &composed.blocks {
            if let Outcome::Skipped(error) = &block.outcome {
                let extension = &block.extension;
                self.note(format!("the block of `{extension}` is left out: {error}"));
            }
        }
        self.refresh_skills(&composed.context).await?;
        let tools = self.offered_tools(&composed.context).await?;
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
    async fn offered_tools(&self, context: &CallContext) -> Result<Vec<ModelTool>, RunError> {
        let (tools, failures) = self.kernel.tools_of(&self.agent, context).await;
        for (extension, error) in failures {
            self.note(format!("the tools of `{extension}` are not offered: {error}"));
        }
        let restricted = self.agent.settings().allowed_tools_mode == AllowedToolsMode::Restrict;
        let permitted = |name: &str| !restricted || self.kernel.permits(&self.session, name);
        let offered = tools.into_iter().filter(|tool| permitted(&tool.spec.name));
        Ok(offered
            .map(|tool| ModelTool {
                name: tool.spec.name,
                description: tool.spec.description,
                input_schema: tool.spec.input_schema,
            })
            .collect())
    }

    /// Asks the model, and once more if it says nothing.
    async fn answer_of_the_model(&mut self, turn: &Turn) -> Result<ModelReply, RunError> {
        for again in [false, true] {
            let reply = self.ask_within_the_window(turn, again).await?;
            match reply.stop {
                StopReason::Length => {
                    self.note(format!(
                        "the reply to request {} was cut off: it is too long",
                        turn.number
                    ));
                }
                StopReason::Filtered => {
                    self.note(format!(
                        "the provider held the reply to request {} back",
                        turn.number
                    ));
                }
                StopReason::End => {}
            }
            if !reply.calls.is_empty() || !reply.text.trim().is_empty() {
                return Ok(ModelReply { calls: with_distinct_ids(reply.calls), ..reply });
            }
            if again {
                let (model, only_reasoning) = (self.model_name(), reply.only_reasoning);
                return Err(RunError::NothingSaid { model, only_reasoning });
            }
        }
        unreachable!("the second reply was returned or refused")
    }

    /// Asks the model; where the conversation does not fit into its window, older messages go first.
    async fn ask_within_the_window(
        &mut self,
        turn: &Turn,
        again: bool,
    ) -> Result<ModelReply, RunError> {
        let window = self.model.facts().context_window;
        loop {
            let request = self.request(turn, again);
            let tokens = compaction::request_tokens(&request);
            if !compaction::fits(&request, window) && self.make_room(turn, tokens).await? {
                continue;
            }
            let overflow = RunError::Overflow { model: self.model_name(), tokens };
            if window.is_some_and(|window| tokens > u64::from(window)) {
                return Err(overflow);
            }
            match self.ask(turn.number, &request, tokens).await {
                Err(RunError::Model(error)) if error.kind == ModelErrorKind::TooLong => {
                    if !self.make_room(turn, tokens).await? {
                        return Err(overflow);
                    }
                }
                other => return other,
            }
        }
    }

    fn request(&self, turn: &Turn, again: bool) -> ModelRequest {
        let settings = self.agent.settings();
        let section = self.skills.section(self.thread);
        let parts: Vec<_> = [Some(turn.system.as_str()), section.as_deref()]
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
            .collect();
        let mut messages = self.thread.messages().to_vec();
        if again {
            messages.push(Message::User { text: ASK_AGAIN.to_owned() });
        }
        ModelRequest {
            system: parts.join(SEPARATOR),
            messages,
            tools: turn.tools.clone(),
            parallel_tool_calls: settings.parallel_tool_calls,
            parameters: settings.parameters.clone(),
        }
    }

    /// One request, streamed to whoever listens, paid for, and given up when the run has to end.
    async fn ask(
        &mut self,
        number: u32,
        request: &ModelRequest,
        tokens: u64,
    ) -> Result<ModelReply, RunError> {
        let reporter = &self.session.reporter;
        reporter.record_system(&request.system);
        reporter.record(&RunEntry::Request {
            turn: number,
            messages: request.messages.len(),
            tools: request.tools.len(),
            tokens,
        });
        let mut on_piece = |piece| {
            let agent_id = reporter.agent_id();
            reporter.tell(&match piece {
                Piece::Text(text) => RunEvent::Text { agent_id, text },
                Piece::Restart { reason } => RunEvent::Restart { agent_id, reason },
            });
        };
        let reply = self.unless_over(self.model.stream(request, &mut on_piece)).await??;
        self.pay(number, &reply);
        Ok(reply)
    }

    /// What a reply used up counts, whatever it says.
    fn pay(&mut self, number: u32, reply: &ModelReply) {
        let (facts, usage) = (self.model.facts(), reply.usage);
        let cost = facts.price.map(|price| price.of(&usage));
        let (agent_id, model) = (self.session.reporter.agent_id(), facts.name.clone());
        self.spent.usage += usage;
        self.spent.cost =
            cost.map(|cost| self.spent.cost.unwrap_or_default() + cost).or(self.spent.cost);
        self.session.budget.spend(&usage);
        self.session.reporter.record(&RunEntry::Reply { turn: number, reply: reply.clone(), cost });
        self.session.reporter.tell(&RunEvent::Used { agent_id, model, usage });
    }

    /// Replaces older messages by a summary that the same model makes; where that fails, leaves the
    /// older answers of tools out. Says whether anything has gone.
    async fn make_room(&mut self, turn: &Turn, before: u64) -> Result<bool, RunError> {
        let window = self.model.facts().context_window;
        let messages = self.thread.messages();
        let Some(until) = compaction::cut_at(messages, compaction::room(messages, window)) else {
            return Ok(false);
        };
        let (older, newer) = messages.split_at(until);
        let parameters = self.agent.settings().parameters.clone();
        let question = compaction::question(older, window, parameters);
        let (older, newer) = (older.to_vec(), newer.to_vec());
        let tokens = compaction::request_tokens(&question);
        let summary = match self.ask_silently(turn.number, &question, tokens).await {
            Ok(reply) => compaction::summary(&reply, &older, &newer),
            Err(RunError::Model(error)) => {
                self.note(format!("no summary was made: {error}"));
                None
            }
            Err(error) => return Err(error),
        };
        match summary {
            Some(summary) => self.thread.compact(summary, until)?,
            None if older.iter().any(has_an_answer) => self.thread.leave_out(until)?,
            None => return Ok(false),
        }
        let after = compaction::request_tokens(&self.request(turn, false));
        self.session.reporter.record(&RunEntry::Compacted { messages: until, before, after });
        let short = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        let (agent_id, messages) = (self.session.reporter.agent_id(), until);
        let (before, after) = (short(before), short(after));
        self.session.reporter.tell(&RunEvent::Compacted { agent_id, messages, before, after });
        Ok(true)
    }

    /// As [`Run::ask`], for what nobody is to read along.
    async fn ask_silently(
        &mut self,
        number: u32,
        request: &ModelRequest,
        tokens: u64,
    ) -> Result<ModelReply, RunError> {
        let reporter = &self.session.reporter;
        reporter.record_system(&request.system);
        let (messages, tools) = (request.messages.len(), request.tools.len());
        reporter.record(&RunEntry::Request { turn: number, messages, tools, tokens });
        let reply = self.unless_over(self.model.complete(request)).await??;
        self.pay(number, &reply);
        Ok(reply)
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
            which = self.session.budget.time_is_up() => Err(RunError::Budget { which }),
            done = what => Ok(done),
        }
    }

    fn tell_active(&self, skill: &SkillRef) {
        let SkillRef { skill_id, digest } = skill.clone();
        let agent_id = self.session.reporter.agent_id();
        self.session.reporter.tell(&RunEvent::SkillActive { agent_id, skill_id, digest });
    }

    fn model_name(&self) -> String {
        self.model.facts().name.clone()
    }

    pub(super) fn note(&self, text: String) {
        self.session.reporter.note(text);
    }
}

/// Whether a message is a tool's answer that could be left out.
fn has_an_answer(message: &Message) -> bool {
    matches!(message, Message::Tool { text, .. } if text != LEFT_OUT)
}
