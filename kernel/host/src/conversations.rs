//! Channels of user messages, which clients attach to and detach from.
//!
//! A channel exists from the moment its message is stored until the reply or the end of the kernel;
//! its run continues even with no client attached.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use secrecy::SecretString;
use skillhost_control::{ClientMessage, OpenQuestionSummary, ServerMessage, UserMessage};
use skillhost_conversation::{
    ApprovalDecision, ApprovalRequest, Channel, PersonQuestion, PersonReply, RunEvent,
    SecretPrompt, SecretReply, UncertainCall, UncertainDecision,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// The channels of all pending messages of this kernel.
#[derive(Default)]
pub(crate) struct MessageChannels {
    open: Mutex<HashMap<String, Arc<MessageChannel>>>,
}

/// A channel that relays one run to the attached clients.
pub(crate) struct MessageChannel {
    message: UserMessage,
    /// Cancels the run.
    pub(crate) cancel: CancellationToken,
    state: Mutex<ChannelState>,
}

#[derive(Default)]
struct ChannelState {
    /// Unbounded senders: a slow client receives lines later, and a disconnected one is removed.
    attached: Vec<mpsc::UnboundedSender<ServerMessage>>,
    /// The text of each agent's partial reply, for clients that attach late.
    replies: BTreeMap<String, String>,
    questions: BTreeMap<u64, OpenQuestion>,
    last_request_id: u64,
    /// The line that ended the channel.
    last: Option<ServerMessage>,
}

/// A request without an answer.
struct OpenQuestion {
    request: ServerMessage,
    answer: oneshot::Sender<QuestionAnswer>,
}

/// A client's answer to a request.
pub(crate) enum QuestionAnswer {
    Decision(ApprovalDecision),
    Secret(SecretReply),
    Uncertain(UncertainDecision),
    Person(PersonReply),
}

impl MessageChannels {
    /// Returns the channel of a message, creating it if necessary.
    pub(crate) fn get_or_create(&self, message: &UserMessage) -> Arc<MessageChannel> {
        // A message sent twice must not get two channels, so the lock spans lookup and insertion.
        let mut open = lock_unpoisoned(&self.open);
        let create = || {
            Arc::new(MessageChannel {
                message: message.clone(),
                cancel: CancellationToken::new(),
                state: Mutex::default(),
            })
        };
        Arc::clone(open.entry(message.message_id.clone()).or_insert_with(create))
    }

    /// Returns the open channel of a thread, if there is one.
    pub(crate) fn find_by_thread(&self, thread: &str) -> Option<Arc<MessageChannel>> {
        lock_unpoisoned(&self.open)
            .values()
            .find(|channel| channel.message.thread == thread)
            .cloned()
    }

    /// Lists the requests that wait for an answer of the user, by thread.
    pub(crate) fn open_questions(&self) -> Vec<OpenQuestionSummary> {
        let channels: Vec<_> = lock_unpoisoned(&self.open).values().cloned().collect();
        let mut questions: Vec<_> =
            channels.iter().flat_map(|channel| channel.open_questions()).collect();
        questions.sort_by(|a, b| a.thread.cmp(&b.thread));
        questions
    }

    /// Sends the last line to the attached clients and removes the channel.
    pub(crate) fn close(&self, message_id: &str, last: ServerMessage) {
        if let Some(channel) = lock_unpoisoned(&self.open).remove(message_id) {
            channel.close(last);
        }
    }

    /// Closes all channels during the shutdown.
    pub(crate) fn close_all(&self, last: &ServerMessage) {
        let all = std::mem::take(&mut *lock_unpoisoned(&self.open));
        for channel in all.into_values() {
            channel.close(last.clone());
        }
    }
}

impl MessageChannel {
    /// Attaches a client: it receives the message, the partial reply and the open requests, then
    /// all further lines. The last line is the one that ended the channel.
    pub(crate) fn attach(&self) -> mpsc::UnboundedReceiver<ServerMessage> {
        let (sender, lines) = mpsc::unbounded_channel();
        let mut state = lock_unpoisoned(&self.state);
        // The receiver is still in this function, so sending cannot fail.
        let _ = sender.send(ServerMessage::Accepted(self.message.clone()));
        for (agent_id, text) in &state.replies {
            let (agent_id, text) = (agent_id.clone(), text.clone());
            let _ = sender.send(ServerMessage::RunEvent(RunEvent::Text { agent_id, text }));
        }
        let questions = state.questions.values().map(|question| question.request.clone());
        for line in questions.chain(state.last.clone()) {
            let _ = sender.send(line);
        }
        // A closed channel sends its last line only.
        if state.last.is_none() {
            state.attached.push(sender);
        }
        lines
    }

    /// Handles a client's message; of several answers to a request, the first counts.
    pub(crate) fn handle_client_message(&self, message: ClientMessage) {
        let (id, answer) = match message {
            ClientMessage::Cancel => return self.cancel.cancel(),
            ClientMessage::Answer { id, decision } => (id, QuestionAnswer::Decision(decision)),
            ClientMessage::Secret { id, value } => {
                (id, QuestionAnswer::Secret(SecretReply::Given(SecretString::from(value))))
            }
            ClientMessage::SecretDeclined { id, reason } => {
                (id, QuestionAnswer::Secret(SecretReply::Refused { reason }))
            }
            ClientMessage::UncertainDecided { id, decision } => {
                (id, QuestionAnswer::Uncertain(decision))
            }
            ClientMessage::PersonReplied { id, reply } => (id, QuestionAnswer::Person(reply)),
        };
        let question = lock_unpoisoned(&self.state).questions.remove(&id);
        if let Some(question) = question {
            // The run may have stopped waiting.
            let _ = question.answer.send(answer);
            self.broadcast(&ServerMessage::QuestionWithdrawn { id });
        }
    }

    fn open_questions(&self) -> Vec<OpenQuestionSummary> {
        let summarize = |agent: &str, tool: Option<&str>, secret: Option<&str>| {
            let thread = self.message.thread.clone();
            let (tool, secret) = (tool.map(str::to_owned), secret.map(str::to_owned));
            OpenQuestionSummary { thread, agent: agent.to_owned(), tool, secret }
        };
        let state = lock_unpoisoned(&self.state);
        let requests = state.questions.values().map(|question| &question.request);
        let questions = requests.filter_map(|request| match request {
            ServerMessage::ApprovalRequested { request, .. } => {
                Some(summarize(&request.agent_id, Some(&request.tool), None))
            }
            ServerMessage::SecretRequested { request, .. } => {
                Some(summarize(&request.agent_id, None, Some(&request.name)))
            }
            ServerMessage::UncertainCall { request, .. } => {
                Some(summarize(&request.agent_id, Some(&request.tool), None))
            }
            ServerMessage::PersonQuestion { request, .. } => {
                Some(summarize(&request.agent_id, None, None))
            }
            _ => None,
        });
        questions.collect()
    }

    fn broadcast(&self, line: &ServerMessage) {
        lock_unpoisoned(&self.state).attached.retain(|sender| sender.send(line.clone()).is_ok());
    }

    fn close(&self, last: ServerMessage) {
        // The lock spans both steps: a client that attaches in between would miss the last line.
        let mut state = lock_unpoisoned(&self.state);
        for sender in state.attached.drain(..) {
            let _ = sender.send(last.clone());
        }
        state.last = Some(last);
    }

    /// Sends a request to the attached and later clients; `None` if the channel is dropped before
    /// an answer.
    async fn ask_attached(
        &self,
        line: impl FnOnce(u64) -> ServerMessage,
    ) -> Option<QuestionAnswer> {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut state = lock_unpoisoned(&self.state);
            state.last_request_id += 1;
            let (id, request) = (state.last_request_id, line(state.last_request_id));
            state.attached.retain(|sender| sender.send(request.clone()).is_ok());
            state.questions.insert(id, OpenQuestion { request, answer });
            id
        };
        // At the timeout the kernel drops this future, and with it the request.
        let _guard = QuestionGuard { channel: self, id };
        answered.await.ok()
    }
}

/// A guard that withdraws a request when its run stops waiting.
struct QuestionGuard<'a> {
    channel: &'a MessageChannel,
    id: u64,
}

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        let open = lock_unpoisoned(&self.channel.state).questions.remove(&self.id);
        if open.is_some() {
            self.channel.broadcast(&ServerMessage::QuestionWithdrawn { id: self.id });
        }
    }
}

#[async_trait]
impl Channel for MessageChannel {
    fn on_event(&self, event: &RunEvent) {
        let mut state = lock_unpoisoned(&self.state);
        match event {
            RunEvent::Text { agent_id, text } => {
                state.replies.entry(agent_id.clone()).or_default().push_str(text);
            }
            // From here on the partial reply is either complete or discarded.
            RunEvent::ReplyRestarted { agent_id, .. }
            | RunEvent::UsageReported { agent_id, .. } => {
                state.replies.remove(agent_id);
            }
            _ => {}
        }
        let line = ServerMessage::RunEvent(event.clone());
        state.attached.retain(|sender| sender.send(line.clone()).is_ok());
    }

    async fn request_approval(&self, request: &ApprovalRequest) -> ApprovalDecision {
        let request = request.clone();
        match self.ask_attached(|id| ServerMessage::ApprovalRequested { id, request }).await {
            Some(QuestionAnswer::Decision(decision)) => decision,
            _ => ApprovalDecision::Refuse { reason: "request was not answered".to_owned() },
        }
    }

    async fn request_secret(&self, ask: &SecretPrompt) -> SecretReply {
        let request = ask.clone();
        match self.ask_attached(|id| ServerMessage::SecretRequested { id, request }).await {
            Some(QuestionAnswer::Secret(reply)) => reply,
            _ => SecretReply::Refused { reason: "request was not answered".to_owned() },
        }
    }

    async fn resolve_uncertain_call(&self, call: &UncertainCall) -> UncertainDecision {
        let request = call.clone();
        match self.ask_attached(|id| ServerMessage::UncertainCall { id, request }).await {
            Some(QuestionAnswer::Uncertain(decision)) => decision,
            _ => UncertainDecision::Stop,
        }
    }

    async fn ask_person(&self, question: &PersonQuestion) -> PersonReply {
        let request = question.clone();
        match self.ask_attached(|id| ServerMessage::PersonQuestion { id, request }).await {
            Some(QuestionAnswer::Person(reply)) => reply,
            _ => PersonReply::Refused { reason: "request was not answered".to_owned() },
        }
    }
}

/// Locks a mutex; entries stay consistent even if another thread panicked.
fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn text(text: &str) -> RunEvent {
        RunEvent::Text { agent_id: "worker".into(), text: text.into() }
    }

    fn request(tool: &str) -> ApprovalRequest {
        ApprovalRequest {
            agent_id: "worker".into(),
            tool: tool.into(),
            extension: "core_tools".into(),
            arguments: "{}".into(),
            destructive: false,
            always: true,
            details: Some("one file".into()),
            call_key: None,
            effect_digest: None,
            extension_sha256: None,
            can_park: false,
        }
    }

    fn received(lines: &mut mpsc::UnboundedReceiver<ServerMessage>) -> Vec<ServerMessage> {
        std::iter::from_fn(|| lines.try_recv().ok()).collect()
    }

    fn user_message() -> UserMessage {
        UserMessage {
            message_id: "m1".into(),
            thread: "t1".into(),
            agent: "worker".into(),
            text: "Do it".into(),
            model: None,
            workspaces: Vec::new(),
        }
    }

    fn accepted() -> ServerMessage {
        ServerMessage::Accepted(user_message())
    }

    fn ended() -> ServerMessage {
        ServerMessage::ShuttingDown { again: true }
    }

    #[test]
    fn late_client_receives_full_reply() {
        let channels = MessageChannels::default();
        let channel = channels.get_or_create(&user_message());
        channel.on_event(&text("one "));
        channel.on_event(&text("two "));
        let mut lines = channel.attach();
        channel.on_event(&text("three"));
        let line = |t| ServerMessage::RunEvent(text(t));
        assert_eq!(received(&mut lines), [accepted(), line("one two "), line("three")]);
        let again = RunEvent::ReplyRestarted { agent_id: "worker".into(), reason: "broken".into() };
        channel.on_event(&again);
        let mut later = channel.attach();
        assert_eq!(received(&mut later), [accepted()]);
        channels.close("m1", ended());
        assert_eq!(received(&mut later), [ended()]);
        assert_eq!(received(&mut channel.attach()), [accepted(), ended()]);
        assert!(channels.find_by_thread("t1").is_none());
    }

    #[tokio::test]
    async fn first_answer_wins() {
        let channel = MessageChannels::default().get_or_create(&user_message());
        let approval = request("delete_file");
        let asking = channel.request_approval(&approval);
        let answering = async {
            let mut first = channel.attach();
            let mut second = channel.attach();
            let question = ServerMessage::ApprovalRequested { id: 1, request: approval.clone() };
            assert_eq!(received(&mut first), [accepted(), question.clone()]);
            assert_eq!(received(&mut second), [accepted(), question]);
            channel.handle_client_message(ClientMessage::Answer {
                id: 7,
                decision: ApprovalDecision::Session,
            });
            channel.handle_client_message(ClientMessage::Answer {
                id: 1,
                decision: ApprovalDecision::Once,
            });
            let no = ApprovalDecision::Refuse { reason: String::new() };
            channel.handle_client_message(ClientMessage::Answer { id: 1, decision: no });
            assert_eq!(received(&mut second), [ServerMessage::QuestionWithdrawn { id: 1 }]);
        };
        let (decision, ()) = tokio::join!(asking, answering);
        assert_eq!(decision, ApprovalDecision::Once);
    }

    #[tokio::test]
    async fn client_decides_uncertain_call_and_answers_question() {
        let channel = MessageChannels::default().get_or_create(&user_message());
        let mut lines = channel.attach();
        let call = UncertainCall {
            agent_id: "worker".into(),
            tool: "order".into(),
            extension: "shop".into(),
            arguments: "{}".into(),
            call_key: "k1".into(),
            attempts: 1,
            extension_sha256: None,
            can_park: false,
        };
        let deciding = async {
            let asked = ServerMessage::UncertainCall { id: 1, request: call.clone() };
            assert_eq!(received(&mut lines), [accepted(), asked]);
            assert_eq!(channel.open_questions()[0].tool.as_deref(), Some("order"));
            let decision = UncertainDecision::Happened;
            channel.handle_client_message(ClientMessage::UncertainDecided { id: 1, decision });
        };
        let (decision, ()) = tokio::join!(channel.resolve_uncertain_call(&call), deciding);
        assert_eq!(decision, UncertainDecision::Happened);
        let question = PersonQuestion {
            agent_id: "worker".into(),
            call_key: None,
            question: "Which one?".into(),
            options: vec!["red".into()],
            can_park: false,
        };
        let answering = async {
            let asked = ServerMessage::PersonQuestion { id: 2, request: question.clone() };
            assert_eq!(received(&mut lines), [ServerMessage::QuestionWithdrawn { id: 1 }, asked]);
            let reply = PersonReply::Answer("red".into());
            channel.handle_client_message(ClientMessage::PersonReplied { id: 2, reply });
        };
        let (reply, ()) = tokio::join!(channel.ask_person(&question), answering);
        assert_eq!(reply, PersonReply::Answer("red".into()));
        // An answer of another kind is no decision.
        let wrong = async {
            let decision = ApprovalDecision::Once;
            channel.handle_client_message(ClientMessage::Answer { id: 3, decision });
        };
        let (decision, ()) = tokio::join!(channel.resolve_uncertain_call(&call), wrong);
        assert_eq!(decision, UncertainDecision::Stop);
    }

    #[tokio::test]
    async fn dropped_request_is_withdrawn() {
        let channel = MessageChannels::default().get_or_create(&user_message());
        let mut lines = channel.attach();
        let approval = request("delete_file");
        let asking = channel.request_approval(&approval);
        assert!(tokio::time::timeout(Duration::ZERO, asking).await.is_err());
        let question = ServerMessage::ApprovalRequested { id: 1, request: approval };
        assert_eq!(
            received(&mut lines),
            [accepted(), question, ServerMessage::QuestionWithdrawn { id: 1 }]
        );
        assert_eq!(received(&mut channel.attach()), [accepted()]);
    }

    #[tokio::test]
    async fn declined_secret_returns_reason() {
        let channel = MessageChannels::default().get_or_create(&user_message());
        let ask = SecretPrompt {
            agent_id: "worker".into(),
            name: "KEY".into(),
            extensions: Vec::new(),
            reason: "to log in".into(),
        };
        let answering = async {
            channel.handle_client_message(ClientMessage::SecretDeclined {
                id: 1,
                reason: "the user refused".into(),
            });
        };
        let (reply, ()) = tokio::join!(channel.request_secret(&ask), answering);
        let SecretReply::Refused { reason } = reply else { panic!("it was given") };
        assert_eq!(reason, "the user refused");
    }
}
