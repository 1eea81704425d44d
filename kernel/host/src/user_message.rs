//! What people say, as events: kept before it is answered, answered once.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use skillhost_contract::payload::{ErrorKind, Event};
use skillhost_events::{DeadLetter, Delivery, StoredEvent};

use crate::bus::{Handled, OwnHandler};
use crate::channel::{Channel as _, RunEvent};
use crate::control::{Failure, FromKernel, TalkRequest};
use crate::conversations::Conversation;
use crate::error::CallError;
use crate::events::topic;
use crate::kernel::Kernel;
use crate::runtime::{RunError, RunOutcome, RunRequest};
use crate::thread::Threads;

/// The payload of `agent.replied`.
#[derive(Debug, Serialize, Deserialize)]
struct Replied {
    message_id: String,
    thread: String,
    #[serde(flatten)]
    reply: Reply,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Outcome(RunOutcome),
    Error(Failure),
}

impl From<Reply> for FromKernel {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Outcome(outcome) => Self::Done(outcome),
            Reply::Error(failure) => Self::Failed(failure),
        }
    }
}

impl Kernel {
    /// Keeps what a person says. It is answered by this kernel or, where this one ends before, by the
    /// next one; a message that is sent again is the one that was sent first.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown agent, [`ErrorKind::InvalidArgument`] for a message id
    /// that is none, [`ErrorKind::TooLarge`] and [`ErrorKind::Io`] where it cannot be kept, and the
    /// kind of [`Kernel::delivery_problem`] while nothing could be delivered yet.
    pub(crate) async fn hear(&self, said: TalkRequest) -> Result<Arc<Conversation>, CallError> {
        let id = said.message_id.clone();
        if id.is_empty()
            || id.len() > 64
            || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        {
            return Err(CallError::new(
                ErrorKind::InvalidArgument,
                format!("`{}` is not the id of a message", id.escape_debug()),
            ));
        }
        self.check_delivery()?;
        let conversation = self.shared.conversations.about(&said);
        match self.keep(said).await {
            Ok(Some(reply)) => self.shared.conversations.end(&id, reply.into()),
            Ok(None) => {}
            Err(error) => {
                let failure = Failure { what: "request".to_owned(), error: error.clone() };
                self.shared.conversations.end(&id, FromKernel::Failed(failure));
                return Err(error);
            }
        }
        Ok(conversation)
    }

    /// Keeps a message that is new; returns the reply to one that was replied to.
    async fn keep(&self, said: TalkRequest) -> Result<Option<Reply>, CallError> {
        let journal = self.shared.events.journal();
        if let Some(known) = journal.find(topic::USER_MESSAGE, &said.message_id).await? {
            if let Some(replied) = journal.find(topic::REPLIED, &said.message_id).await? {
                let Replied { reply, .. } = read(&replied.payload)?;
                return Ok(Some(reply));
            }
            let dead = journal.dead_letters().await?;
            return Ok(dead.iter().find(|dead| dead.event.id == known.id).map(given_up));
        }
        // What nobody could answer is told at once, and not kept.
        self.agent(&said.agent).await?.ready()?;
        let id = said.message_id.clone();
        let payload = write(&said)?;
        self.shared
            .events
            .publish(Event {
                key: Some(id.clone()),
                correlation_id: Some(id),
                ..Event::new(topic::USER_MESSAGE, "operator", payload)
            })
            .await?;
        Ok(None)
    }

    /// The conversation in a thread that waits for its answer.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub(crate) fn conversation_in(&self, thread: &str) -> Result<Arc<Conversation>, CallError> {
        self.shared.conversations.in_thread(thread).ok_or_else(|| {
            let message =
                format!("nothing in thread `{}` waits for an answer", thread.escape_debug());
            CallError::new(ErrorKind::NotFound, message)
        })
    }

    /// Publishes what a message came to, once.
    async fn reply(&self, said: &TalkRequest, reply: &Reply) -> Result<(), CallError> {
        let (message_id, thread) = (said.message_id.clone(), said.thread.clone());
        let replied = Replied { message_id: message_id.clone(), thread, reply: reply.clone() };
        self.shared
            .events
            .publish(Event {
                key: Some(message_id.clone()),
                correlation_id: Some(message_id),
                ..Event::new(topic::REPLIED, "kernel", write(&replied)?)
            })
            .await
            .map(drop)
    }
}

/// Lets agents answer what people say.
pub(crate) struct UserMessages;

#[async_trait]
impl OwnHandler for UserMessages {
    fn topic(&self) -> &str {
        topic::USER_MESSAGE
    }

    /// A thread is one conversation at a time.
    fn lane(&self, event: &StoredEvent) -> Option<String> {
        read::<TalkRequest>(&event.payload).ok().map(|said| said.thread)
    }

    async fn handle(&self, kernel: &Kernel, delivery: &Delivery) -> Handled {
        let said: TalkRequest = match read(&delivery.event.payload) {
            Ok(said) => said,
            Err(error) => return Handled::Failed(error),
        };
        let conversations = &kernel.shared.conversations;
        let conversation = conversations.about(&said);
        let reply = match answer(kernel, &said, conversation).await {
            Ok(outcome) => Reply::Outcome(outcome),
            Err(RunError::Restarting) => {
                let again = kernel.shared.restarts.again();
                conversations.end(&said.message_id, FromKernel::Ending { again });
                return Handled::Released;
            }
            // Saying it again is the person's choice: they are told, and it is done.
            Err(error) => Reply::Error(error.into()),
        };
        // Where it cannot be kept, the thread has the answer: the next attempt only says so.
        let kept = kernel.reply(&said, &reply).await;
        conversations.end(&said.message_id, reply.into());
        kept.map_or_else(Handled::Failed, |()| Handled::Done)
    }
}

async fn answer(
    kernel: &Kernel,
    said: &TalkRequest,
    conversation: Arc<Conversation>,
) -> Result<RunOutcome, RunError> {
    let mut thread = Threads::of(kernel.home()).open(&said.thread)?;
    if let Some(note) = thread.note() {
        let (agent_id, text) = (said.agent.clone(), format!("thread {}: {note}", thread.id()));
        conversation.notice(&RunEvent::Note { agent_id, text });
    }
    let request = RunRequest {
        agent: Some(said.agent.clone()),
        model: said.model.clone(),
        prompt: said.text.clone(),
        cancel: conversation.cancel.clone(),
        message_id: Some(said.message_id.clone()),
        correlation_id: Some(said.message_id.clone()),
    };
    let outcome = kernel.run_agent(&mut thread, request, conversation).await;
    // Who talks next may be somebody else; who talks on says so again.
    kernel.shared.sessions.forget_consents(thread.id());
    outcome
}

/// What is told of a message that ended the kernel too often, or could not be replied to.
fn given_up(dead: &DeadLetter) -> Reply {
    let message = format!("it was given up after {} attempts: {}", dead.attempts, dead.error);
    let hint = format!("say it again, or: skillhost events retry {}", dead.id);
    let error = CallError::new(ErrorKind::Failed, message).with_hint(hint);
    Reply::Error(Failure { what: "dead".to_owned(), error })
}

fn read<'a, T: Deserialize<'a>>(payload: &'a RawValue) -> Result<T, CallError> {
    serde_json::from_str(payload.get()).map_err(|error| CallError::protocol(&error))
}

fn write<T: Serialize>(value: &T) -> Result<Box<RawValue>, CallError> {
    serde_json::value::to_raw_value(value).map_err(|error| CallError::protocol(&error))
}
