//! What people say, as events: kept before it is answered, answered once.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use skillhost_contract::payload::{ErrorKind, Event};
use skillhost_events::{DeadLetter, Delivery, StoredEvent};

use crate::bus::{BuiltinHandler, HandlerOutcome};
use crate::channel::{Channel as _, RunEvent};
use crate::control::{MessageError, ServerMessage, UserMessage};
use crate::conversations::MessageChannel;
use crate::error::CallError;
use crate::events::topic;
use crate::kernel::Kernel;
use crate::runtime::{RunError, RunOutcome, RunRequest};
use crate::thread::ThreadStore;

/// The payload of `agent.replied`.
#[derive(Debug, Serialize, Deserialize)]
struct AgentRepliedEvent {
    message_id: String,
    thread: String,
    #[serde(flatten)]
    reply: MessageReply,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MessageReply {
    Outcome(RunOutcome),
    Error(MessageError),
}

impl From<MessageReply> for ServerMessage {
    fn from(reply: MessageReply) -> Self {
        match reply {
            MessageReply::Outcome(outcome) => Self::Done(outcome),
            MessageReply::Error(failure) => Self::Failed(failure),
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
    pub(crate) async fn accept_message(
        &self,
        said: UserMessage,
    ) -> Result<Arc<MessageChannel>, CallError> {
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
        let conversation = self.shared.conversations.get_or_create(&said);
        match self.store_message(said).await {
            Ok(Some(reply)) => self.shared.conversations.close(&id, reply.into()),
            Ok(None) => {}
            Err(error) => {
                let failure = MessageError { what: "request".to_owned(), error: error.clone() };
                self.shared.conversations.close(&id, ServerMessage::Failed(failure));
                return Err(error);
            }
        }
        Ok(conversation)
    }

    /// Keeps a message that is new; returns the reply to one that was replied to.
    async fn store_message(&self, said: UserMessage) -> Result<Option<MessageReply>, CallError> {
        let journal = self.shared.events.journal();
        if let Some(known) = journal.find(topic::USER_MESSAGE, &said.message_id).await? {
            if let Some(replied) = journal.find(topic::AGENT_REPLIED, &said.message_id).await? {
                let AgentRepliedEvent { reply, .. } = read(&replied.payload)?;
                return Ok(Some(reply));
            }
            let dead = journal.dead_letters().await?;
            return Ok(dead.iter().find(|dead| dead.event.id == known.id).map(dead_letter_reply));
        }
        // What nobody could answer is told at once, and not kept.
        self.refresh_agent(&said.agent).await?.require_ready()?;
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
    pub(crate) fn open_message_channel(
        &self,
        thread: &str,
    ) -> Result<Arc<MessageChannel>, CallError> {
        self.shared.conversations.find_by_thread(thread).ok_or_else(|| {
            let message =
                format!("nothing in thread `{}` waits for an answer", thread.escape_debug());
            CallError::new(ErrorKind::NotFound, message)
        })
    }

    /// Publishes what a message came to, once.
    async fn publish_reply(
        &self,
        said: &UserMessage,
        reply: &MessageReply,
    ) -> Result<(), CallError> {
        let (message_id, thread) = (said.message_id.clone(), said.thread.clone());
        let replied =
            AgentRepliedEvent { message_id: message_id.clone(), thread, reply: reply.clone() };
        self.shared
            .events
            .publish(Event {
                key: Some(message_id.clone()),
                correlation_id: Some(message_id),
                ..Event::new(topic::AGENT_REPLIED, "kernel", write(&replied)?)
            })
            .await
            .map(drop)
    }
}

/// Lets agents answer what people say.
pub(crate) struct UserMessageHandler;

#[async_trait]
impl BuiltinHandler for UserMessageHandler {
    fn topic(&self) -> &str {
        topic::USER_MESSAGE
    }

    /// A thread is one conversation at a time.
    fn ordering_key(&self, event: &StoredEvent) -> Option<String> {
        read::<UserMessage>(&event.payload).ok().map(|said| said.thread)
    }

    async fn handle(&self, kernel: &Kernel, delivery: &Delivery) -> HandlerOutcome {
        let said: UserMessage = match read(&delivery.event.payload) {
            Ok(said) => said,
            Err(error) => return HandlerOutcome::Failed(error),
        };
        let conversations = &kernel.shared.conversations;
        let conversation = conversations.get_or_create(&said);
        let reply = match run_message(kernel, &said, conversation).await {
            Ok(outcome) => MessageReply::Outcome(outcome),
            Err(RunError::Restarting) => {
                let again = kernel.shared.restarts.will_restart();
                conversations.close(&said.message_id, ServerMessage::ShuttingDown { again });
                return HandlerOutcome::Released;
            }
            // Saying it again is the person's choice: they are told, and it is done.
            Err(error) => MessageReply::Error(error.into()),
        };
        // Where it cannot be kept, the thread has the answer: the next attempt only says so.
        let kept = kernel.publish_reply(&said, &reply).await;
        conversations.close(&said.message_id, reply.into());
        kept.map_or_else(HandlerOutcome::Failed, |()| HandlerOutcome::Done)
    }
}

async fn run_message(
    kernel: &Kernel,
    said: &UserMessage,
    conversation: Arc<MessageChannel>,
) -> Result<RunOutcome, RunError> {
    let mut thread = ThreadStore::new(kernel.home()).open(&said.thread)?;
    if let Some(note) = thread.recovery_note() {
        let (agent_id, text) = (said.agent.clone(), format!("thread {}: {note}", thread.id()));
        conversation.on_event(&RunEvent::Note { agent_id, text });
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
    kernel.shared.sessions.clear_approvals(thread.id());
    outcome
}

/// What is told of a message that ended the kernel too often, or could not be replied to.
fn dead_letter_reply(dead: &DeadLetter) -> MessageReply {
    let message = format!("it was given up after {} attempts: {}", dead.attempts, dead.error);
    let hint = format!("say it again, or: skillhost events retry {}", dead.id);
    let error = CallError::new(ErrorKind::Failed, message).with_hint(hint);
    MessageReply::Error(MessageError { what: "dead".to_owned(), error })
}

fn read<'a, T: Deserialize<'a>>(payload: &'a RawValue) -> Result<T, CallError> {
    serde_json::from_str(payload.get()).map_err(|error| CallError::protocol_error(&error))
}

fn write<T: Serialize>(value: &T) -> Result<Box<RawValue>, CallError> {
    serde_json::value::to_raw_value(value).map_err(|error| CallError::protocol_error(&error))
}
