//! Model requests: kept within the model's window, and repeated once after an empty reply.

use skillhost_conversation::{
    ELIDED_RESULT, Message, ModelErrorKind, ModelReply, ModelRequest, ReplyChunk, RunEntry,
    RunEvent, StopReason, TokenUsage,
};
use skillhost_core::SEPARATOR;
use skillhost_core::foreign_text::{new_nonce, nonce_statement, nonces, sanitize_line};

use super::calls::deduplicate_call_ids;
use super::run_state::{AgentRun, TurnContext};
use super::{RequestEstimate, RunError, compaction};

/// The message that follows an empty reply. It is not stored in the thread.
const ASK_AGAIN: &str = "(Your last reply was empty. Answer, or call a tool.)";

impl AgentRun<'_> {
    /// Requests a reply, and once more if it is empty.
    pub(super) async fn request_reply(
        &mut self,
        turn: &TurnContext,
    ) -> Result<ModelReply, RunError> {
        for is_retry in [false, true] {
            let reply = self.request_with_compaction(turn, is_retry).await?;
            match reply.stop {
                StopReason::Length => {
                    self.note_once(format!(
                        "reply to request {} was truncated at the output limit",
                        turn.number
                    ));
                }
                StopReason::Filtered => {
                    self.note_once(format!(
                        "provider filtered the reply to request {}",
                        turn.number
                    ));
                }
                StopReason::End => {}
            }
            if !reply.calls.is_empty() || !reply.text.trim().is_empty() {
                return Ok(ModelReply { calls: deduplicate_call_ids(reply.calls), ..reply });
            }
            if is_retry {
                let (model, only_reasoning) = (self.model_name(), reply.only_reasoning);
                return Err(RunError::EmptyReply { model, only_reasoning });
            }
        }
        unreachable!("the second reply was returned or rejected")
    }

    /// Requests a reply; where the messages do not fit into the model's window, older ones are
    /// compacted first.
    async fn request_with_compaction(
        &mut self,
        turn: &TurnContext,
        is_retry: bool,
    ) -> Result<ModelReply, RunError> {
        let window = self.model.metadata().context_window;
        loop {
            let request = self.build_request(turn, is_retry);
            let tokens = compaction::request_tokens(&request);
            if !compaction::fits_window(&request, window)
                && self.compact_history(turn, None).await?.is_some()
            {
                continue;
            }
            let overflow = RunError::ContextOverflow { model: self.model_name(), tokens };
            // Without a compaction left, sending would only return the provider's error later.
            if window.is_some_and(|window| tokens > u64::from(window)) {
                return Err(overflow);
            }
            // Token counts are estimates, so the provider may still reject the request.
            match self.send_request(turn.number, &request, true).await {
                Err(RunError::Model(error)) if error.kind == ModelErrorKind::TooLong => {
                    if self.compact_history(turn, None).await?.is_none() {
                        return Err(overflow);
                    }
                }
                other => return other,
            }
        }
    }

    fn build_request(&self, turn: &TurnContext, is_retry: bool) -> ModelRequest {
        let settings = self.agent.agent_manifest();
        let section = self.skills.render_section(self.thread);
        let statement = self.nonce_statement();
        let parts: Vec<_> = [Some(turn.system.as_str()), section.as_deref(), statement.as_deref()]
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
            .collect();
        let mut messages = self.thread.messages().to_vec();
        if is_retry {
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

    /// Returns the sentence that names the kernel's own elements in the messages. Only its own
    /// messages can have any, as all others are neutralized.
    fn nonce_statement(&self) -> Option<String> {
        let texts = self.thread.messages().iter().filter_map(|message| match message {
            Message::User { text } => Some(text),
            Message::Assistant { .. } | Message::Tool { .. } => None,
        });
        let all: Vec<_> = texts.flat_map(|text| nonces(text)).collect();
        nonce_statement(&all)
    }

    /// Sends one request, recorded and charged to the budget; dropped when the run has to end. The
    /// channel receives the reply as it streams, if `stream` is set.
    async fn send_request(
        &mut self,
        number: u32,
        request: &ModelRequest,
        stream: bool,
    ) -> Result<ModelReply, RunError> {
        let reporter = &self.session.reporter;
        reporter.record_system(&request.system);
        reporter.record(&RunEntry::Request {
            turn: number,
            messages: request.messages.len(),
            tools: request.tools.len(),
            tokens: compaction::request_tokens(request),
        });
        let estimate = self.estimate_request(request);
        if let Some(control) = &self.session.control {
            control.start_request(estimate).await?;
        }
        let budget = &self.session.budget;
        let mut active = Some(budget.start_request());
        let mut on_chunk = |chunk| {
            match &chunk {
                // The delay before the next attempt uses no time.
                ReplyChunk::ReplyRestarted { .. } => active = None,
                ReplyChunk::RequestRepeated => active = Some(budget.start_request()),
                ReplyChunk::Text(_) => {}
            }
            if !stream {
                return;
            }
            let agent_id = reporter.agent_id();
            reporter.emit(&match chunk {
                ReplyChunk::Text(text) => RunEvent::Text { agent_id, text },
                ReplyChunk::ReplyRestarted { reason, .. } => {
                    RunEvent::ReplyRestarted { agent_id, reason }
                }
                ReplyChunk::RequestRepeated => return,
            });
        };
        let reply = self.cancellable(self.model.stream(request, &mut on_chunk)).await;
        drop(active);
        // A request that the end of the run cuts off stays charged by its estimate.
        let reply = reply?;
        if let Ok(reply) = &reply {
            self.record_usage(number, reply);
        }
        if let Some(control) = &self.session.control {
            control.finish_request(estimate);
        }
        let reply = reply?;
        Ok(reply)
    }

    fn estimate_request(&self, request: &ModelRequest) -> RequestEstimate {
        let tokens = compaction::request_tokens(request);
        let usage = TokenUsage { input: tokens, ..TokenUsage::default() };
        let cost = self.model.metadata().price.map(|price| usage.cost_at(&price));
        RequestEstimate { tokens, cost }
    }

    /// Records the usage of a reply, even of one that is discarded.
    fn record_usage(&mut self, number: u32, reply: &ModelReply) {
        let (facts, usage) = (self.model.metadata(), reply.usage);
        let cost = facts.price.map(|price| usage.cost_at(&price));
        let (agent_id, model) = (self.session.reporter.agent_id(), facts.name.clone());
        self.spent.usage += usage;
        self.spent.cost =
            cost.map(|cost| self.spent.cost.unwrap_or_default() + cost).or(self.spent.cost);
        // A part of a millionth counts as a whole one.
        let millionths = (cost.unwrap_or_default() * 1e6).ceil() as u64;
        self.session.budget.record_usage(usage.input.saturating_add(usage.output), millionths);
        self.session.reporter.record(&RunEntry::Reply { turn: number, reply: reply.clone(), cost });
        self.session.reporter.emit(&RunEvent::UsageReported { agent_id, model, usage });
    }

    /// Replaces the texts of active skills in the first messages of the thread: they stay in force
    /// word for word, so they are not summarized.
    fn without_skill_texts(&self, mut first: Vec<Message>) -> Vec<Message> {
        for (index, message) in first.iter_mut().enumerate() {
            if let Message::Tool { text, .. } = message
                && let Some(skill) = self.thread.skill_in_message(index)
            {
                *text = loaded_skill_text(&skill.skill_id);
            }
        }
        first
    }

    /// Replaces older messages by a summary from the same model; if that fails, elides the older
    /// tool results. Messages of about `room` tokens stay, by default a share of the window. Returns
    /// the estimated tokens before and after, or `None` if the history could not be shortened.
    pub(super) async fn compact_history(
        &mut self,
        turn: &TurnContext,
        room: Option<u64>,
    ) -> Result<Option<(u64, u64)>, RunError> {
        let before = compaction::request_tokens(&self.build_request(turn, false));
        let window = self.model.metadata().context_window;
        let messages = self.thread.messages();
        let is_requested = room.is_some();
        let room = room.unwrap_or_else(|| compaction::retained_tokens(messages, window));
        let Some(until) = compaction::find_cut(messages, room) else { return Ok(None) };
        let (older, newer) = messages.split_at(until);
        let parameters = self.agent.agent_manifest().parameters.clone();
        let nonce = new_nonce();
        // Cloned, as the request below borrows the run mutably.
        let (older, newer) = (older.to_vec(), newer.to_vec());
        let material = self.without_skill_texts(older.clone());
        let request = compaction::summary_request(&material, window, parameters, &nonce);
        let summary = match self.send_request(turn.number, &request, false).await {
            // An unusable summary is not stored: eliding results loses less.
            Ok(reply) => compaction::format_summary(&reply, &older, &newer, &nonce),
            // A user who requests a summary gets the error; a run goes on without one.
            Err(RunError::Model(error)) if !is_requested => {
                self.note_once(format!("summary failed: {error}"));
                None
            }
            Err(error) => return Err(error),
        };
        match summary {
            Some(summary) => self.thread.compact(summary, until).await?,
            None if older.iter().any(is_elidable_result) => {
                self.thread.elide_tool_results(until).await?;
            }
            None => return Ok(None),
        }
        let after = compaction::request_tokens(&self.build_request(turn, false));
        self.session.reporter.record(&RunEntry::Compacted { messages: until, before, after });
        let short = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        let (agent_id, messages) = (self.session.reporter.agent_id(), until);
        self.session.reporter.emit(&RunEvent::Compacted {
            agent_id,
            messages,
            before: short(before),
            after: short(after),
        });
        Ok(Some((before, after)))
    }
}

/// Returns the text for a summary in the place of an active skill's instructions.
fn loaded_skill_text(skill_id: &str) -> String {
    format!("(the instructions of the skill {}, which stays loaded)", sanitize_line(skill_id))
}

/// Returns whether a message is a tool result that can still be elided.
fn is_elidable_result(message: &Message) -> bool {
    matches!(message, Message::Tool { text, .. } if text != ELIDED_RESULT)
}
