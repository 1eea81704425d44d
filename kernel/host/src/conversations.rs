//! Runs that serve people who come and go: whoever is attached hears what happens and is asked.
//!
//! A conversation is about one message of a person. It is there from the moment the message is kept
//! until it is answered or the kernel ends; nobody has to be attached for its run to go on.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use secrecy::SecretString;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::channel::{
    ApprovalDecision, ApprovalRequest, Channel, RunEvent, SecretPrompt, SecretReply,
};
use crate::control::{ClientMessage, ServerMessage, UserMessage};

/// Every message that is not answered yet, as far as this kernel knows.
#[derive(Default)]
pub(crate) struct MessageChannels {
    open: Mutex<HashMap<String, Arc<MessageChannel>>>,
}

/// The other end of a run: whoever is attached just now.
pub(crate) struct MessageChannel {
    said: UserMessage,
    /// Gives the run up.
    pub(crate) cancel: CancellationToken,
    state: Mutex<ChannelState>,
}

#[derive(Default)]
struct ChannelState {
    /// Told without waiting: who is slow hears it later, and who is gone is forgotten.
    attached: Vec<mpsc::UnboundedSender<ServerMessage>>,
    /// What each agent has said of the reply that is coming in, for whoever comes in the middle.
    said: BTreeMap<String, String>,
    questions: BTreeMap<u64, OpenQuestion>,
    asked: u64,
    /// How it ended.
    last: Option<ServerMessage>,
}

/// A question that nobody has answered.
struct OpenQuestion {
    asked: ServerMessage,
    answer: oneshot::Sender<QuestionAnswer>,
}

/// What somebody said to a question.
pub(crate) enum QuestionAnswer {
    Decision(ApprovalDecision),
    Secret(SecretReply),
}

impl MessageChannels {
    /// The conversation about a message; begun where there is none.
    pub(crate) fn get_or_create(&self, said: &UserMessage) -> Arc<MessageChannel> {
        let mut open = lock(&self.open);
        let begun = || {
            Arc::new(MessageChannel {
                said: said.clone(),
                cancel: CancellationToken::new(),
                state: Mutex::default(),
            })
        };
        Arc::clone(open.entry(said.message_id.clone()).or_insert_with(begun))
    }

    /// The conversation in a thread that is not over, if there is one.
    pub(crate) fn find_by_thread(&self, thread: &str) -> Option<Arc<MessageChannel>> {
        lock(&self.open).values().find(|conversation| conversation.said.thread == thread).cloned()
    }

    /// Tells whoever is attached how it ended, and forgets the conversation.
    pub(crate) fn close(&self, message_id: &str, last: ServerMessage) {
        if let Some(conversation) = lock(&self.open).remove(message_id) {
            conversation.close(last);
        }
    }

    /// Ends what is left when the kernel ends.
    pub(crate) fn close_all(&self, last: &ServerMessage) {
        let all = std::mem::take(&mut *lock(&self.open));
        for conversation in all.into_values() {
            conversation.close(last.clone());
        }
    }
}

impl MessageChannel {
    /// Hears from now on what happens, after what is needed to follow it. The last line is the one
    /// that says how it ended.
    pub(crate) fn attach(&self) -> mpsc::UnboundedReceiver<ServerMessage> {
        let (sender, news) = mpsc::unbounded_channel();
        let mut state = lock(&self.state);
        // The other end is in this function.
        let _ = sender.send(ServerMessage::Accepted(self.said.clone()));
        for (agent_id, text) in &state.said {
            let (agent_id, text) = (agent_id.clone(), text.clone());
            let _ = sender.send(ServerMessage::RunEvent(RunEvent::Text { agent_id, text }));
        }
        let questions = state.questions.values().map(|question| question.asked.clone());
        for line in questions.chain(state.last.clone()) {
            let _ = sender.send(line);
        }
        if state.last.is_none() {
            state.attached.push(sender);
        }
        news
    }

    /// Takes what somebody said to a question; of several answers the first counts.
    pub(crate) fn handle_client_message(&self, said: ClientMessage) {
        let (id, answer) = match said {
            ClientMessage::Cancel => return self.cancel.cancel(),
            ClientMessage::Answer { id, decision } => (id, QuestionAnswer::Decision(decision)),
            ClientMessage::Secret { id, value } => {
                (id, QuestionAnswer::Secret(SecretReply::Given(SecretString::from(value))))
            }
            ClientMessage::SecretDeclined { id, reason } => {
                (id, QuestionAnswer::Secret(SecretReply::Refused { reason }))
            }
        };
        let question = lock(&self.state).questions.remove(&id);
        if let Some(question) = question {
            // Whoever asked may have given up.
            let _ = question.answer.send(answer);
            self.broadcast(&ServerMessage::QuestionWithdrawn { id });
        }
    }

    fn broadcast(&self, line: &ServerMessage) {
        lock(&self.state).attached.retain(|sender| sender.send(line.clone()).is_ok());
    }

    fn close(&self, last: ServerMessage) {
        let mut state = lock(&self.state);
        for sender in state.attached.drain(..) {
            let _ = sender.send(last.clone());
        }
        state.last = Some(last);
    }

    /// Asks whoever is attached, now or later. Nothing where the asking was given up.
    async fn ask_attached(
        &self,
        line: impl FnOnce(u64) -> ServerMessage,
    ) -> Option<QuestionAnswer> {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut state = lock(&self.state);
            state.asked += 1;
            let (id, asked) = (state.asked, line(state.asked));
            state.attached.retain(|sender| sender.send(asked.clone()).is_ok());
            state.questions.insert(id, OpenQuestion { asked, answer });
            id
        };
        // The kernel's patience ends by dropping this.
        let _asking = QuestionGuard { conversation: self, id };
        answered.await.ok()
    }
}

/// A question that is open as long as somebody waits for the answer.
struct QuestionGuard<'a> {
    conversation: &'a MessageChannel,
    id: u64,
}

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        let open = lock(&self.conversation.state).questions.remove(&self.id);
        if open.is_some() {
            self.conversation.broadcast(&ServerMessage::QuestionWithdrawn { id: self.id });
        }
    }
}

#[async_trait]
impl Channel for MessageChannel {
    fn on_event(&self, event: &RunEvent) {
        let mut state = lock(&self.state);
        match event {
            RunEvent::Text { agent_id, text } => {
                state.said.entry(agent_id.clone()).or_default().push_str(text);
            }
            // The reply is whole, or void.
            RunEvent::ReplyRestarted { agent_id, .. }
            | RunEvent::UsageReported { agent_id, .. } => {
                state.said.remove(agent_id);
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
            _ => ApprovalDecision::Refuse { reason: "the question was not answered".to_owned() },
        }
    }

    async fn request_secret(&self, ask: &SecretPrompt) -> SecretReply {
        let request = ask.clone();
        match self.ask_attached(|id| ServerMessage::SecretRequested { id, request }).await {
            Some(QuestionAnswer::Secret(reply)) => reply,
            _ => SecretReply::Refused { reason: "the question was not answered".to_owned() },
        }
    }
}

/// A panic elsewhere leaves whole entries behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
        }
    }

    fn heard(news: &mut mpsc::UnboundedReceiver<ServerMessage>) -> Vec<ServerMessage> {
        std::iter::from_fn(|| news.try_recv().ok()).collect()
    }

    fn said() -> UserMessage {
        UserMessage {
            message_id: "m1".into(),
            thread: "t1".into(),
            agent: "worker".into(),
            text: "Do it".into(),
            model: None,
        }
    }

    fn hears() -> ServerMessage {
        ServerMessage::Accepted(said())
    }

    fn ended() -> ServerMessage {
        ServerMessage::ShuttingDown { again: true }
    }

    #[test]
    fn whoever_comes_in_the_middle_hears_the_reply_from_its_beginning() {
        let conversations = MessageChannels::default();
        let conversation = conversations.get_or_create(&said());
        conversation.on_event(&text("one "));
        conversation.on_event(&text("two "));
        let mut news = conversation.attach();
        conversation.on_event(&text("three"));
        let line = |t| ServerMessage::RunEvent(text(t));
        assert_eq!(heard(&mut news), [hears(), line("one two "), line("three")]);
        let again = RunEvent::ReplyRestarted { agent_id: "worker".into(), reason: "broken".into() };
        conversation.on_event(&again);
        let mut later = conversation.attach();
        assert_eq!(heard(&mut later), [hears()]);
        conversations.close("m1", ended());
        assert_eq!(heard(&mut later), [ended()]);
        assert_eq!(heard(&mut conversation.attach()), [hears(), ended()]);
        assert!(conversations.find_by_thread("t1").is_none());
    }

    #[tokio::test]
    async fn a_question_waits_for_somebody_and_the_first_answer_counts() {
        let conversation = MessageChannels::default().get_or_create(&said());
        let asked = request("delete_file");
        let asking = conversation.request_approval(&asked);
        let answering = async {
            let mut first = conversation.attach();
            let mut second = conversation.attach();
            let question = ServerMessage::ApprovalRequested { id: 1, request: asked.clone() };
            assert_eq!(heard(&mut first), [hears(), question.clone()]);
            assert_eq!(heard(&mut second), [hears(), question]);
            conversation.handle_client_message(ClientMessage::Answer {
                id: 7,
                decision: ApprovalDecision::Session,
            });
            conversation.handle_client_message(ClientMessage::Answer {
                id: 1,
                decision: ApprovalDecision::Once,
            });
            let no = ApprovalDecision::Refuse { reason: String::new() };
            conversation.handle_client_message(ClientMessage::Answer { id: 1, decision: no });
            assert_eq!(heard(&mut second), [ServerMessage::QuestionWithdrawn { id: 1 }]);
        };
        let (decision, ()) = tokio::join!(asking, answering);
        assert_eq!(decision, ApprovalDecision::Once);
    }

    #[tokio::test]
    async fn a_question_that_is_given_up_is_taken_back() {
        let conversation = MessageChannels::default().get_or_create(&said());
        let mut news = conversation.attach();
        let asked = request("delete_file");
        let asking = conversation.request_approval(&asked);
        assert!(tokio::time::timeout(Duration::ZERO, asking).await.is_err());
        let question = ServerMessage::ApprovalRequested { id: 1, request: asked };
        assert_eq!(
            heard(&mut news),
            [hears(), question, ServerMessage::QuestionWithdrawn { id: 1 }]
        );
        assert_eq!(heard(&mut conversation.attach()), [hears()]);
    }

    #[tokio::test]
    async fn a_secret_that_is_not_given_is_refused() {
        let conversation = MessageChannels::default().get_or_create(&said());
        let ask = SecretPrompt {
            agent_id: "worker".into(),
            name: "KEY".into(),
            extensions: Vec::new(),
            reason: "to log in".into(),
        };
        let answering = async {
            conversation.handle_client_message(ClientMessage::SecretDeclined {
                id: 1,
                reason: "the user said no".into(),
            });
        };
        let (reply, ()) = tokio::join!(conversation.request_secret(&ask), answering);
        let SecretReply::Refused { reason } = reply else { panic!("it was given") };
        assert_eq!(reason, "the user said no");
    }
}
