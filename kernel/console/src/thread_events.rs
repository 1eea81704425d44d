//! The events of a thread's replies, with the names of the Agent-User Interaction Protocol (AG-UI).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};
use skillhost_control::{QuestionReference, ServerMessage};
use skillhost_conversation::RunEvent;
use skillhost_kernel::{Kernel, MessageLines};
use skillhost_payload::Event;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

/// The events of a thread, from its pending message on until the kernel shuts down.
pub(crate) struct ThreadEvents {
    kernel: Kernel,
    thread: String,
    /// The events of the home, each of which may start a reply.
    bus: Receiver<Arc<Event>>,
    stopping: CancellationToken,
    lines: Option<MessageLines>,
    mapper: EventMapper,
    ready: VecDeque<Value>,
}

impl ThreadEvents {
    /// Creates the events of a thread.
    pub(crate) fn new(kernel: Kernel, thread: String) -> Self {
        // Subscribed before the first look, so that no reply starts unseen in between.
        let (bus, stopping) = (kernel.events().subscribe_all(), kernel.shutdown_token());
        let mut ready = VecDeque::new();
        let lines = kernel.follow_thread(&thread);
        if lines.is_none() {
            // The reply that a page was drawn with may have ended since.
            ready.push_back(custom_event("idle", &json!({})));
        }
        let mapper = EventMapper { thread: thread.clone(), ..EventMapper::default() };
        Self { kernel, thread, bus, stopping, lines, mapper, ready }
    }

    /// Returns the next event; `None` when the kernel shuts down.
    pub(crate) async fn next_event(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            // A stream must not keep a kernel from its shutdown.
            let stopping = self.stopping.clone();
            match &mut self.lines {
                Some(lines) => match stopping.run_until_cancelled(lines.next_line()).await? {
                    Some(line) => self.mapper.map_line(line, &mut self.ready),
                    None => self.lines = None,
                },
                None => match stopping.run_until_cancelled(self.bus.recv()).await? {
                    Ok(_) | Err(RecvError::Lagged(_)) => {
                        self.lines = self.kernel.follow_thread(&self.thread);
                        if self.lines.is_none() {
                            // Such as the notice of a task's end, or a decision elsewhere.
                            self.ready.push_back(custom_event("changed", &json!({})));
                        }
                    }
                    Err(RecvError::Closed) => return None,
                },
            }
        }
    }
}

/// The state of one reply: which text and which calls are open.
#[derive(Default)]
struct EventMapper {
    thread: String,
    run: String,
    /// The number of the last text or call.
    last_id: u64,
    /// The open text of each agent.
    texts: BTreeMap<String, String>,
    /// The open calls of each agent and tool, the oldest first.
    calls: BTreeMap<(String, String), VecDeque<String>>,
}

impl EventMapper {
    fn map_line(&mut self, line: ServerMessage, events: &mut VecDeque<Value>) {
        match line {
            ServerMessage::Accepted(message) => {
                let thread = std::mem::take(&mut self.thread);
                // A reply that was cut off may have left texts and calls open.
                *self = Self { thread, run: message.message_id, ..Self::default() };
                events.push_back(self.run_event("RUN_STARTED"));
            }
            ServerMessage::RunEvent(event) => self.map_run_event(event, events),
            ServerMessage::ApprovalRequested { question, .. }
            | ServerMessage::UncertainCall { question, .. }
            | ServerMessage::PersonQuestion { question, .. } => {
                let id = question.map(|QuestionReference { question, .. }| question);
                events.push_back(custom_event("question_opened", &json!({ "question": id })));
            }
            // A secret is typed in a terminal only.
            ServerMessage::SecretRequested { request, .. } => {
                let value = json!({ "agent": request.agent_id, "name": request.name });
                events.push_back(custom_event("secret_requested", &value));
            }
            // The page reads the decision again: it may come from another surface.
            ServerMessage::QuestionWithdrawn { .. } => {
                events.push_back(custom_event("question_closed", &json!({})));
            }
            ServerMessage::ShuttingDown { again } => {
                self.close_texts(events);
                let message = if again { "the kernel restarts" } else { "the kernel has ended" };
                events.push_back(
                    json!({ "type": "RUN_ERROR", "message": message, "code": "shutting_down" }),
                );
            }
            ServerMessage::Done(_) => {
                self.close_texts(events);
                events.push_back(self.run_event("RUN_FINISHED"));
            }
            ServerMessage::Failed(failure) => {
                self.close_texts(events);
                let (message, hint) = (failure.error.message, failure.error.hint);
                events.push_back(json!({
                    "type": "RUN_ERROR", "message": message, "code": failure.what, "hint": hint,
                }));
            }
        }
    }

    fn map_run_event(&mut self, event: RunEvent, events: &mut VecDeque<Value>) {
        match event {
            RunEvent::Text { agent_id, text } => {
                let id = match self.texts.get(&agent_id) {
                    Some(id) => id.clone(),
                    None => {
                        // Of several agents each writes a message of its own.
                        let id = self.next_id("text");
                        events.push_back(json!({
                            "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant",
                            "name": agent_id,
                        }));
                        self.texts.insert(agent_id, id.clone());
                        id
                    }
                };
                events.push_back(
                    json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text }),
                );
            }
            RunEvent::ReplyRestarted { agent_id, reason } => {
                // The protocol has no event that takes a text back, so the page removes it.
                let id = self.texts.get(&agent_id).cloned();
                self.close_text(&agent_id, events);
                let value = json!({ "messageId": id, "reason": reason });
                events.push_back(custom_event("reply_restarted", &value));
            }
            RunEvent::ToolStarted { agent_id, tool, arguments } => {
                // The text before a call is complete; what follows is another message.
                self.close_text(&agent_id, events);
                let id = self.next_id("call");
                events.push_back(
                    json!({ "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": tool }),
                );
                events.push_back(
                    json!({ "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments }),
                );
                events.push_back(json!({ "type": "TOOL_CALL_END", "toolCallId": id }));
                self.calls.entry((agent_id, tool)).or_default().push_back(id);
            }
            RunEvent::ToolFinished { agent_id, tool, is_error, summary } => {
                let open = self.calls.get_mut(&(agent_id, tool));
                // A client that attaches late has not seen the start.
                let id = open.and_then(VecDeque::pop_front).unwrap_or_else(|| self.next_id("call"));
                events.push_back(json!({
                    "type": "TOOL_CALL_RESULT", "messageId": format!("{id}-result"),
                    "toolCallId": id, "role": "tool", "content": summary, "isError": is_error,
                }));
            }
            // The last event of a model's reply.
            RunEvent::UsageReported { agent_id, .. } => self.close_text(&agent_id, events),
            RunEvent::SkillActive { agent_id, skill_id, .. } => {
                let value = json!({ "agent": agent_id, "skill": skill_id });
                events.push_back(custom_event("skill_active", &value));
            }
            RunEvent::Delegated { agent_id, to, .. } => {
                events
                    .push_back(custom_event("delegated", &json!({ "agent": agent_id, "to": to })));
            }
            RunEvent::Compacted { agent_id, messages, .. } => {
                let value = json!({ "agent": agent_id, "messages": messages });
                events.push_back(custom_event("compacted", &value));
            }
            RunEvent::Note { agent_id, text } => {
                events.push_back(custom_event("note", &json!({ "agent": agent_id, "text": text })));
            }
        }
    }

    fn run_event(&self, name: &str) -> Value {
        json!({ "type": name, "threadId": self.thread, "runId": self.run })
    }

    fn close_text(&mut self, agent: &str, events: &mut VecDeque<Value>) {
        if let Some(id) = self.texts.remove(agent) {
            events.push_back(json!({ "type": "TEXT_MESSAGE_END", "messageId": id }));
        }
    }

    fn close_texts(&mut self, events: &mut VecDeque<Value>) {
        for id in std::mem::take(&mut self.texts).into_values() {
            events.push_back(json!({ "type": "TEXT_MESSAGE_END", "messageId": id }));
        }
    }

    fn next_id(&mut self, kind: &str) -> String {
        self.last_id += 1;
        format!("{}-{kind}-{}", self.run, self.last_id)
    }
}

fn custom_event(name: &str, value: &Value) -> Value {
    json!({ "type": "CUSTOM", "name": name, "value": value })
}

#[cfg(test)]
mod tests {
    use skillhost_control::UserMessage;

    use super::*;

    fn map_lines(lines: impl IntoIterator<Item = ServerMessage>) -> Vec<String> {
        let mut mapper = EventMapper { thread: "t".to_owned(), ..EventMapper::default() };
        let mut events = VecDeque::new();
        lines.into_iter().for_each(|line| mapper.map_line(line, &mut events));
        let line = |event: Value| {
            let id =
                ["messageId", "toolCallId", "runId"].map(|key| event[key].as_str().unwrap_or(""));
            let text = ["delta", "content", "name"].map(|key| event[key].as_str().unwrap_or(""));
            format!("{} {} {}", event["type"].as_str().unwrap(), id.concat(), text.concat())
        };
        events.into_iter().map(line).collect()
    }

    fn text(text: &str) -> ServerMessage {
        ServerMessage::RunEvent(RunEvent::Text { agent_id: "a".into(), text: text.into() })
    }

    #[test]
    fn reply_has_agent_interface_events() {
        let message = UserMessage {
            message_id: "m".into(),
            thread: "t".into(),
            agent: "a".into(),
            text: "Hi".into(),
            model: None,
            channel: None,
            workspaces: Vec::new(),
        };
        let started = RunEvent::ToolStarted {
            agent_id: "a".into(),
            tool: "echo".into(),
            arguments: "{}".into(),
        };
        let finished = RunEvent::ToolFinished {
            agent_id: "a".into(),
            tool: "echo".into(),
            is_error: false,
            summary: "done".into(),
        };
        assert_eq!(
            map_lines([
                ServerMessage::Accepted(message),
                text("one "),
                text("two"),
                ServerMessage::RunEvent(started),
                ServerMessage::RunEvent(finished),
                text("three"),
                ServerMessage::ShuttingDown { again: true },
            ]),
            [
                "RUN_STARTED m ",
                "TEXT_MESSAGE_START m-text-1 a",
                "TEXT_MESSAGE_CONTENT m-text-1 one ",
                "TEXT_MESSAGE_CONTENT m-text-1 two",
                "TEXT_MESSAGE_END m-text-1 ",
                "TOOL_CALL_START m-call-2 ",
                "TOOL_CALL_ARGS m-call-2 {}",
                "TOOL_CALL_END m-call-2 ",
                "TOOL_CALL_RESULT m-call-2-resultm-call-2 done",
                "TEXT_MESSAGE_START m-text-3 a",
                "TEXT_MESSAGE_CONTENT m-text-3 three",
                "TEXT_MESSAGE_END m-text-3 ",
                "RUN_ERROR  ",
            ]
        );
    }
}
