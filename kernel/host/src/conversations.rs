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

use crate::channel::{ApprovalRequest, Channel, Decision, RunEvent, SecretAsk, SecretReply};
use crate::control::{FromKernel, Spoken, TalkRequest};

/// Every message that is not answered yet, as far as this kernel knows.
#[derive(Default)]
pub(crate) struct Conversations {
    open: Mutex<HashMap<String, Arc<Conversation>>>,
}

/// The other end of a run: whoever is attached just now.
pub(crate) struct Conversation {
    said: TalkRequest,
    /// Gives the run up.
    pub(crate) cancel: CancellationToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Told without waiting: who is slow hears it later, and who is gone is forgotten.
    attached: Vec<mpsc::UnboundedSender<FromKernel>>,
    /// What each agent has said of the reply that is coming in, for whoever comes in the middle.
    said: BTreeMap<String, String>,
    questions: BTreeMap<u64, Question>,
    asked: u64,
    /// How it ended.
    last: Option<FromKernel>,
}

/// A question that nobody has answered.
struct Question {
    asked: FromKernel,
    answer: oneshot::Sender<Answer>,
}

/// What somebody said to a question.
pub(crate) enum Answer {
    Decision(Decision),
    Secret(SecretReply),
}

impl Conversations {
    /// The conversation about a message; begun where there is none.
    pub(crate) fn about(&self, said: &TalkRequest) -> Arc<Conversation> {
        let mut open = lock(&self.open);
        let begun = || {
            Arc::new(Conversation {
                said: said.clone(),
                cancel: CancellationToken::new(),
                state: Mutex::default(),
            })
        };
        Arc::clone(open.entry(said.message_id.clone()).or_insert_with(begun))
    }

    /// The conversation in a thread that is not over, if there is one.
    pub(crate) fn in_thread(&self, thread: &str) -> Option<Arc<Conversation>> {
        lock(&self.open).values().find(|conversation| conversation.said.thread == thread).cloned()
    }

    /// Tells whoever is attached how it ended, and forgets the conversation.
    pub(crate) fn end(&self, message_id: &str, last: FromKernel) {
        if let Some(conversation) = lock(&self.open).remove(message_id) {
            conversation.end(last);
        }
    }

    /// Ends what is left when the kernel ends.
    pub(crate) fn end_all(&self, last: &FromKernel) {
        let all = std::mem::take(&mut *lock(&self.open));
        for conversation in all.into_values() {
            conversation.end(last.clone());
        }
    }
}

impl Conversation {
    /// Hears from now on what happens, after what is needed to follow it. The last line is the one
    /// that says how it ended.
    pub(crate) fn attach(&self) -> mpsc::UnboundedReceiver<FromKernel> {
        let (sender, news) = mpsc::unbounded_channel();
        let mut state = lock(&self.state);
        // The other end is in this function.
        let _ = sender.send(FromKernel::Hears(self.said.clone()));
        for (agent_id, text) in &state.said {
            let (agent_id, text) = (agent_id.clone(), text.clone());
            let _ = sender.send(FromKernel::RunEvent(RunEvent::Text { agent_id, text }));
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
    pub(crate) fn answer(&self, said: Spoken) {
        let (id, answer) = match said {
            Spoken::Cancel => return self.cancel.cancel(),
            Spoken::Answer { id, decision } => (id, Answer::Decision(decision)),
            Spoken::Secret { id, value } => {
                (id, Answer::Secret(SecretReply::Given(SecretString::from(value))))
            }
            Spoken::NoSecret { id, reason } => {
                (id, Answer::Secret(SecretReply::Refused { reason }))
            }
        };
        let question = lock(&self.state).questions.remove(&id);
        if let Some(question) = question {
            // Whoever asked may have given up.
            let _ = question.answer.send(answer);
            self.tell(&FromKernel::GivenUp { id });
        }
    }

    fn tell(&self, line: &FromKernel) {
        lock(&self.state).attached.retain(|sender| sender.send(line.clone()).is_ok());
    }

    fn end(&self, last: FromKernel) {
        let mut state = lock(&self.state);
        for sender in state.attached.drain(..) {
            let _ = sender.send(last.clone());
        }
        state.last = Some(last);
    }

    /// Asks whoever is attached, now or later. Nothing where the asking was given up.
    async fn ask(&self, line: impl FnOnce(u64) -> FromKernel) -> Option<Answer> {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut state = lock(&self.state);
            state.asked += 1;
            let (id, asked) = (state.asked, line(state.asked));
            state.attached.retain(|sender| sender.send(asked.clone()).is_ok());
            state.questions.insert(id, Question { asked, answer });
            id
        };
        // The kernel's patience ends by dropping this.
        let _asking = Asking { conversation: self, id };
        answered.await.ok()
    }
}

/// A question that is open as long as somebody waits for the answer.
struct Asking<'a> {
    conversation: &'a Conversation,
    id: u64,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let open = lock(&self.conversation.state).questions.remove(&self.id);
        if open.is_some() {
            self.conversation.tell(&FromKernel::GivenUp { id: self.id });
        }
    }
}

#[async_trait]
impl Channel for Conversation {
    fn notice(&self, event: &RunEvent) {
        let mut state = lock(&self.state);
        match event {
            RunEvent::Text { agent_id, text } => {
                state.said.entry(agent_id.clone()).or_default().push_str(text);
            }
            // The reply is whole, or void.
            RunEvent::Restart { agent_id, .. } | RunEvent::Used { agent_id, .. } => {
                state.said.remove(agent_id);
            }
            _ => {}
        }
        let line = FromKernel::RunEvent(event.clone());
        state.attached.retain(|sender| sender.send(line.clone()).is_ok());
    }

    async fn approve(&self, request: &ApprovalRequest) -> Decision {
        let request = request.clone();
        match self.ask(|id| FromKernel::Ask { id, request }).await {
            Some(Answer::Decision(decision)) => decision,
            _ => Decision::Refuse { reason: "the question was not answered".to_owned() },
        }
    }

    async fn secret(&self, ask: &SecretAsk) -> SecretReply {
        let request = ask.clone();
        match self.ask(|id| FromKernel::AskSecret { id, request }).await {
            Some(Answer::Secret(reply)) => reply,
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

    fn heard(news: &mut mpsc::UnboundedReceiver<FromKernel>) -> Vec<FromKernel> {
        std::iter::from_fn(|| news.try_recv().ok()).collect()
    }

    fn said() -> TalkRequest {
        TalkRequest {
            message_id: "m1".into(),
            thread: "t1".into(),
            agent: "worker".into(),
            text: "Do it".into(),
            model: None,
        }
    }

    fn hears() -> FromKernel {
        FromKernel::Hears(said())
    }

    fn ended() -> FromKernel {
        FromKernel::Ending { again: true }
    }

    #[test]
    fn whoever_comes_in_the_middle_hears_the_reply_from_its_beginning() {
        let conversations = Conversations::default();
        let conversation = conversations.about(&said());
        conversation.notice(&text("one "));
        conversation.notice(&text("two "));
        let mut news = conversation.attach();
        conversation.notice(&text("three"));
        let line = |t| FromKernel::RunEvent(text(t));
        assert_eq!(heard(&mut news), [hears(), line("one two "), line("three")]);
        let again = RunEvent::Restart { agent_id: "worker".into(), reason: "broken".into() };
        conversation.notice(&again);
        let mut later = conversation.attach();
        assert_eq!(heard(&mut later), [hears()]);
        conversations.end("m1", ended());
        assert_eq!(heard(&mut later), [ended()]);
        assert_eq!(heard(&mut conversation.attach()), [hears(), ended()]);
        assert!(conversations.in_thread("t1").is_none());
    }

    #[tokio::test]
    async fn a_question_waits_for_somebody_and_the_first_answer_counts() {
        let conversation = Conversations::default().about(&said());
        let asked = request("delete_file");
        let asking = conversation.approve(&asked);
        let answering = async {
            let mut first = conversation.attach();
            let mut second = conversation.attach();
            let question = FromKernel::Ask { id: 1, request: asked.clone() };
            assert_eq!(heard(&mut first), [hears(), question.clone()]);
            assert_eq!(heard(&mut second), [hears(), question]);
            conversation.answer(Spoken::Answer { id: 7, decision: Decision::Session });
            conversation.answer(Spoken::Answer { id: 1, decision: Decision::Once });
            let no = Decision::Refuse { reason: String::new() };
            conversation.answer(Spoken::Answer { id: 1, decision: no });
            assert_eq!(heard(&mut second), [FromKernel::GivenUp { id: 1 }]);
        };
        let (decision, ()) = tokio::join!(asking, answering);
        assert_eq!(decision, Decision::Once);
    }

    #[tokio::test]
    async fn a_question_that_is_given_up_is_taken_back() {
        let conversation = Conversations::default().about(&said());
        let mut news = conversation.attach();
        let asked = request("delete_file");
        let asking = conversation.approve(&asked);
        assert!(tokio::time::timeout(Duration::ZERO, asking).await.is_err());
        let question = FromKernel::Ask { id: 1, request: asked };
        assert_eq!(heard(&mut news), [hears(), question, FromKernel::GivenUp { id: 1 }]);
        assert_eq!(heard(&mut conversation.attach()), [hears()]);
    }

    #[tokio::test]
    async fn a_secret_that_is_not_given_is_refused() {
        let conversation = Conversations::default().about(&said());
        let ask = SecretAsk {
            agent_id: "worker".into(),
            name: "KEY".into(),
            extensions: Vec::new(),
            reason: "to log in".into(),
        };
        let answering = async {
            conversation.answer(Spoken::NoSecret { id: 1, reason: "the user said no".into() });
        };
        let (reply, ()) = tokio::join!(conversation.secret(&ask), answering);
        let SecretReply::Refused { reason } = reply else { panic!("it was given") };
        assert_eq!(reason, "the user said no");
    }
}
