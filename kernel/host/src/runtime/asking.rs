//! How the model is asked: within its window, once more if it says nothing.

use super::RunError;
use super::calls::with_distinct_ids;
use super::compaction;
use super::run::{Run, Turn};
use crate::channel::RunEvent;
use crate::context_chain::SEPARATOR;
use crate::foreign_text::{new_nonce, nonce_statement, nonces};
use crate::model::{Message, ModelErrorKind, ModelReply, ModelRequest, Piece, StopReason};
use crate::thread::LEFT_OUT;
use crate::transcript::RunEntry;

/// What the model is told once when it says nothing. Not kept in the thread.
const ASK_AGAIN: &str = "(Your last reply was empty. Answer, or call a tool.)";

impl Run<'_> {
    /// Asks the model, and once more if it says nothing.
    pub(super) async fn answer_of_the_model(
        &mut self,
        turn: &Turn,
    ) -> Result<ModelReply, RunError> {
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
            match self.ask(turn.number, &request, true).await {
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
        let statement = self.nonce_statement();
        let parts: Vec<_> = [Some(turn.system.as_str()), section.as_deref(), statement.as_deref()]
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

    /// Which elements of the conversation are the kernel's: those in messages that it wrote, as all
    /// other messages are neutralized.
    fn nonce_statement(&self) -> Option<String> {
        let texts = self.thread.messages().iter().filter_map(|message| match message {
            Message::User { text } => Some(text),
            Message::Assistant { .. } | Message::Tool { .. } => None,
        });
        let all: Vec<_> = texts.flat_map(|text| nonces(text)).collect();
        nonce_statement(&all)
    }

    /// One request, recorded and paid for, and given up when the run has to end. Whoever listens
    /// hears the reply as it comes, if it is `aloud`.
    async fn ask(
        &mut self,
        number: u32,
        request: &ModelRequest,
        aloud: bool,
    ) -> Result<ModelReply, RunError> {
        let reporter = &self.session.reporter;
        reporter.record_system(&request.system);
        reporter.record(&RunEntry::Request {
            turn: number,
            messages: request.messages.len(),
            tools: request.tools.len(),
            tokens: compaction::request_tokens(request),
        });
        let mut on_piece = |piece| {
            if !aloud {
                return;
            }
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
        let nonce = new_nonce();
        let question = compaction::question(older, window, parameters, &nonce);
        let (older, newer) = (older.to_vec(), newer.to_vec());
        let summary = match self.ask(turn.number, &question, false).await {
            Ok(reply) => compaction::summary(&reply, &older, &newer, &nonce),
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
}

/// Whether a message is a tool's answer that could be left out.
fn has_an_answer(message: &Message) -> bool {
    matches!(message, Message::Tool { text, .. } if text != LEFT_OUT)
}
