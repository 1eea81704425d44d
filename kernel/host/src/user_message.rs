//! User messages as events: stored before they are processed, and answered once.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use skillhost_agents::{AgentRuntime, RunError, RunRequest};
use skillhost_control::{MessageError, MessageFailure, ServerMessage, UserMessage};
use skillhost_conversation::{Channel as _, RunEvent, RunOutcome, ThreadStore};
use skillhost_core::spawn_blocking;
use skillhost_events::{DeadLetter, Delivery, EventBus, StoredEvent, topic};
use skillhost_home::OPERATOR_SOURCE;
use skillhost_payload::{CallError, ErrorKind, Event, OperatorCommand};

use crate::bus::{BuiltinHandler, HandlerOutcome};
use crate::conversations::{MessageChannel, MessageChannels};
use crate::restart::RestartCoordinator;
use crate::serving::EventDelivery;

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

/// The user messages of a kernel.
pub(crate) struct UserMessages {
    agents: AgentRuntime,
    delivery: Arc<EventDelivery>,
    conversations: Arc<MessageChannels>,
}

impl UserMessages {
    pub(crate) fn new(
        agents: AgentRuntime,
        delivery: Arc<EventDelivery>,
        conversations: Arc<MessageChannels>,
    ) -> Self {
        Self { agents, delivery, conversations }
    }

    /// Stores a user message. This kernel answers it or, if it ends before, the next one; a message
    /// sent again is treated as the first one.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown agent, [`ErrorKind::InvalidArgument`] for an invalid
    /// message id, [`ErrorKind::TooLarge`] and [`ErrorKind::Io`] if it cannot be stored, and the
    /// kind of [`EventDelivery::delivery_problem`] before the first delivery.
    pub(crate) async fn accept_message(
        &self,
        message: UserMessage,
    ) -> Result<Arc<MessageChannel>, CallError> {
        let id = message.message_id.clone();
        if id.is_empty()
            || id.len() > 64
            || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        {
            return Err(CallError::new(
                ErrorKind::InvalidArgument,
                format!("`{}` is not a valid message id", id.escape_debug()),
            ));
        }
        self.delivery.check_ready()?;
        // The channel exists before the event, so that no line of the run is lost.
        let channel = self.conversations.get_or_create(&message);
        match self.store_message(message).await {
            Ok(Some(reply)) => self.conversations.close(&id, reply.into()),
            Ok(None) => {}
            Err(error) => {
                let failure = MessageError { what: MessageFailure::Request, error: error.clone() };
                self.conversations.close(&id, ServerMessage::Failed(failure));
                return Err(error);
            }
        }
        Ok(channel)
    }

    /// Stores a new message; returns the reply to one that was already answered.
    async fn store_message(&self, message: UserMessage) -> Result<Option<MessageReply>, CallError> {
        let journal = self.agents.extensions().events().journal();
        // The key is the message id, so a second event for it would be ignored.
        if let Some(known) = journal.find(topic::USER_MESSAGE, &message.message_id).await? {
            if let Some(replied) = journal.find(topic::AGENT_REPLIED, &message.message_id).await? {
                let AgentRepliedEvent { reply, .. } = parse_payload(&replied.payload)?;
                return Ok(Some(reply));
            }
            let dead = journal.dead_letters().await?;
            return Ok(dead.iter().find(|dead| dead.event.id == known.id).map(dead_letter_reply));
        }
        // A message that no agent can answer is rejected at once, and not stored.
        self.agents.refresh_agent(&message.agent).await?.require_ready()?;
        let id = message.message_id.clone();
        let payload = to_raw_payload(&message)?;
        self.agents
            .extensions()
            .events()
            .publish(Event {
                key: Some(id.clone()),
                correlation_id: Some(id),
                ..Event::new(topic::USER_MESSAGE, OPERATOR_SOURCE, payload)
            })
            .await?;
        Ok(None)
    }

    /// Returns the channel of a thread's pending message.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub(crate) fn open_channel(&self, thread: &str) -> Result<Arc<MessageChannel>, CallError> {
        self.conversations.find_by_thread(thread).ok_or_else(|| {
            let message = format!("thread `{}` has no pending message", thread.escape_debug());
            CallError::new(ErrorKind::NotFound, message)
        })
    }
}

/// Publishes the reply to a message, once.
async fn publish_reply(
    events: &EventBus,
    message: &UserMessage,
    reply: &MessageReply,
) -> Result<(), CallError> {
    let (message_id, thread) = (message.message_id.clone(), message.thread.clone());
    let replied =
        AgentRepliedEvent { message_id: message_id.clone(), thread, reply: reply.clone() };
    events
        .publish(Event {
            key: Some(message_id.clone()),
            correlation_id: Some(message_id),
            ..Event::new(topic::AGENT_REPLIED, "kernel", to_raw_payload(&replied)?)
        })
        .await
        .map(drop)
}

/// The event handler that runs agents on user messages.
pub(crate) struct UserMessageHandler {
    agents: AgentRuntime,
    conversations: Arc<MessageChannels>,
    restarts: Arc<RestartCoordinator>,
}

impl UserMessageHandler {
    pub(crate) fn new(
        agents: AgentRuntime,
        conversations: Arc<MessageChannels>,
        restarts: Arc<RestartCoordinator>,
    ) -> Self {
        Self { agents, conversations, restarts }
    }
}

#[async_trait]
impl BuiltinHandler for UserMessageHandler {
    fn topic(&self) -> &str {
        topic::USER_MESSAGE
    }

    /// Returns the thread: its messages are processed one after the other.
    fn ordering_key(&self, event: &StoredEvent) -> Option<String> {
        parse_payload::<UserMessage>(&event.payload).ok().map(|message| message.thread)
    }

    async fn handle(&self, delivery: &Delivery) -> HandlerOutcome {
        let mut message: UserMessage = match parse_payload(&delivery.event.payload) {
            Ok(message) => message,
            Err(error) => return HandlerOutcome::Failed(error),
        };
        // An extension may publish such an event, but it cannot give access to a directory.
        if delivery.event.source != OPERATOR_SOURCE {
            message.workspaces.clear();
        }
        let conversations = &self.conversations;
        let channel = conversations.get_or_create(&message);
        let reply = match run_message(&self.agents, &message, channel).await {
            Ok(outcome) => MessageReply::Outcome(outcome),
            Err(RunError::Restarting) => {
                let again = self.restarts.will_restart();
                conversations.close(&message.message_id, ServerMessage::ShuttingDown { again });
                return HandlerOutcome::Released;
            }
            // A retry is the user's choice, so a failed run completes the delivery.
            Err(error) => MessageReply::Error(error.into()),
        };
        // If the reply cannot be stored, the thread still has it, and the next attempt only
        // publishes it.
        let published = publish_reply(self.agents.extensions().events(), &message, &reply).await;
        conversations.close(&message.message_id, reply.into());
        published.map_or_else(HandlerOutcome::Failed, |()| HandlerOutcome::Done)
    }
}

async fn run_message(
    agents: &AgentRuntime,
    message: &UserMessage,
    channel: Arc<MessageChannel>,
) -> Result<RunOutcome, RunError> {
    let threads = ThreadStore::new(agents.extensions().home());
    let id = message.thread.clone();
    let opening = spawn_blocking(move || threads.open(&id)).await;
    let mut thread = opening.map_err(|error| RunError::Agent(error.into()))??;
    if let Some(note) = thread.recovery_note() {
        let (agent_id, text) = (message.agent.clone(), format!("thread {}: {note}", thread.id()));
        channel.on_event(&RunEvent::Note { agent_id, text });
    }
    let request = RunRequest {
        agent: Some(message.agent.clone()),
        model: message.model.clone(),
        prompt: message.text.clone(),
        cancel: channel.cancel.clone(),
        message_id: Some(message.message_id.clone()),
        correlation_id: Some(message.message_id.clone()),
        workspaces: message.workspaces.clone(),
        budget: None,
        control: None,
    };
    let outcome = agents.run_agent(&mut thread, request, channel).await;
    // The next message may come from another client, whose user has to approve again.
    agents.run_sessions().clear_approvals(thread.id());
    outcome
}

/// Returns the error of a message whose delivery ended the kernel too often, or failed too often.
fn dead_letter_reply(dead: &DeadLetter) -> MessageReply {
    let message = format!("delivery failed after {} attempts: {}", dead.attempts, dead.error);
    let retry = OperatorCommand::RetryDelivery { delivery: dead.id };
    let hint = format!("send it again, or run: {retry}");
    let error = CallError::new(ErrorKind::Failed, message).with_hint(hint);
    MessageReply::Error(MessageError { what: MessageFailure::Dead, error })
}

fn parse_payload<'a, T: Deserialize<'a>>(payload: &'a RawValue) -> Result<T, CallError> {
    serde_json::from_str(payload.get()).map_err(|error| CallError::protocol_error(&error))
}

fn to_raw_payload<T: Serialize>(value: &T) -> Result<Box<RawValue>, CallError> {
    serde_json::value::to_raw_value(value).map_err(|error| CallError::protocol_error(&error))
}
