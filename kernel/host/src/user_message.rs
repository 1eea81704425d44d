//! User messages as events: stored before they are processed, and answered once.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use skillhost_agents::{AgentRuntime, RunError, RunRequest};
use skillhost_channels::ChannelHub;
use skillhost_control::{
    ChannelOrigin, ChannelRole, MessageError, MessageFailure, ServerMessage, UserMessage,
};
use skillhost_conversation::{Channel as _, RunEvent, RunOutcome, ThreadError};
use skillhost_core::{ContextBlock, ContextOutcome};
use skillhost_events::{DeadLetter, Delivery, EventBus, StoredEvent, topic};
use skillhost_home::OPERATOR_SOURCE;
use skillhost_manifest::ExtensionId;
use skillhost_payload::{CallError, ErrorKind, Event, OperatorCommand};
use skillhost_questions::{QuestionTable, message_of_question};

use crate::bus::{BuiltinHandler, HandlerOutcome};
use crate::conversations::{MessageChannel, MessageChannels};
use crate::restart::RestartCoordinator;
use crate::serving::EventDelivery;
use crate::thread_locks::open_thread;

/// The prefix of the sources of messages that channels received. An extension's id has no colon, so
/// none can publish under such a source.
pub(crate) const CHANNEL_SOURCE: &str = "channel:";

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
        // A client acts as the operator, not as a person of a channel.
        let message = UserMessage { channel: None, ..message };
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
            if let Some(dead) = dead.iter().find(|dead| dead.event.id == known.id) {
                return Ok(Some(dead_letter_reply(dead)));
            }
            // It runs, or is parked: then the reply follows the decision.
            return Ok(None);
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
    questions: Arc<QuestionTable>,
    restarts: Arc<RestartCoordinator>,
    channels: Arc<ChannelHub>,
}

impl UserMessageHandler {
    pub(crate) fn new(
        agents: AgentRuntime,
        conversations: Arc<MessageChannels>,
        questions: Arc<QuestionTable>,
        restarts: Arc<RestartCoordinator>,
        channels: Arc<ChannelHub>,
    ) -> Self {
        Self { agents, conversations, questions, restarts, channels }
    }

    /// Runs the agent on a message, or continues its run after a decision, unless it is answered.
    /// The events of a message may say so several times.
    pub(crate) async fn continue_message(&self, message_id: &str) -> HandlerOutcome {
        let journal = self.agents.extensions().events().journal();
        let found = match journal.find(topic::USER_MESSAGE, message_id).await {
            // The journal has removed an old event; its run cannot be continued.
            Ok(None) => return HandlerOutcome::Done,
            Ok(Some(event)) => event,
            Err(error) => return HandlerOutcome::Failed(error.into()),
        };
        match parse_message(&found) {
            Ok(message) => self.answer_message(&message, &found.source).await,
            Err(error) => HandlerOutcome::Failed(error),
        }
    }

    async fn answer_message(&self, message: &UserMessage, source: &str) -> HandlerOutcome {
        // A continued run comes from another event than the messages of its thread.
        let _alone = self.conversations.threads.lock(&message.thread).await;
        let (id, conversations) = (&message.message_id, &self.conversations);
        let events = self.agents.extensions().events();
        match events.journal().find(topic::AGENT_REPLIED, id).await {
            Ok(None) => {}
            Ok(Some(_)) => return HandlerOutcome::Done,
            Err(error) => return HandlerOutcome::Failed(error.into()),
        }
        let channel = conversations.get_or_create(message);
        let reply = match self.run_message(message, Arc::clone(&channel)).await {
            Ok(outcome) => MessageReply::Outcome(outcome),
            Err(RunError::Restarting) => {
                let again = self.restarts.will_restart();
                conversations.close(id, ServerMessage::ShuttingDown { again });
                return HandlerOutcome::Released;
            }
            Err(RunError::Parked) => {
                let error = parked_error(&channel.parked_questions());
                conversations.close(id, ServerMessage::Failed(error));
                // The delivery is handled; the event of the decision starts the run again.
                return HandlerOutcome::Done;
            }
            // No client would send it again: the turn after a task, or a message of a channel.
            Err(RunError::Thread(error @ ThreadError::Busy { .. }))
                if source != OPERATOR_SOURCE =>
            {
                let error = MessageError::from(RunError::from(error));
                conversations.close(id, ServerMessage::Failed(error.clone()));
                return HandlerOutcome::Failed(error.error);
            }
            // A retry is the user's choice, so a failed run completes the delivery.
            Err(error) => MessageReply::Error(error.into()),
        };
        // If the reply cannot be stored, the thread still has it, and the next attempt only
        // publishes it.
        let published = publish_reply(events, message, &reply).await;
        conversations.close(id, reply.into());
        published.map_or_else(HandlerOutcome::Failed, |()| HandlerOutcome::Done)
    }

    async fn run_message(
        &self,
        message: &UserMessage,
        channel: Arc<MessageChannel>,
    ) -> Result<RunOutcome, RunError> {
        let agents = &self.agents;
        let opening = open_thread(agents.extensions().home(), &message.thread).await;
        let mut thread = opening.map_err(|error| RunError::Agent(error.into()))??;
        if let Some(note) = thread.recovery_note() {
            let (agent_id, text) =
                (message.agent.clone(), format!("thread {}: {note}", thread.id()));
            channel.on_event(&RunEvent::Note { agent_id, text });
        }
        let is_guest = |origin: &ChannelOrigin| origin.role == ChannelRole::Guest;
        let request = RunRequest {
            agent: Some(message.agent.clone()),
            model: message.model.clone(),
            prompt: message.text.clone(),
            cancel: channel.cancel.clone(),
            message_id: Some(message.message_id.clone()),
            correlation_id: Some(message.message_id.clone()),
            workspaces: message.workspaces.clone(),
            channel_block: self.compose_channel_block(message).await,
            is_confined: message.channel.as_deref().is_some_and(is_guest),
            ..RunRequest::default()
        };
        let outcome = agents.run_agent(&mut thread, request, channel).await;
        // The next message may come from another client, whose user has to approve again.
        agents.run_sessions().clear_approvals(thread.id());
        outcome
    }

    /// Returns the block about the channel of a message.
    async fn compose_channel_block(&self, message: &UserMessage) -> Option<ContextBlock> {
        let origin = message.channel.as_deref()?;
        let extension = ExtensionId::new(&origin.channel).ok()?;
        let text = self.channels.compose_block(origin).await;
        Some(ContextBlock { extension, priority: 0, outcome: ContextOutcome::Text(text) })
    }

    /// Withdraws the questions of earlier messages in the thread: the user goes on without them.
    async fn withdraw_earlier_questions(&self, message: &UserMessage) {
        let withdrawing = async {
            for question in self.questions.list_open(&message.thread).await? {
                let earlier = message_of_question(&question);
                if earlier.is_some_and(|earlier| earlier != message.message_id) {
                    self.questions.withdraw(&question.id, "a later message was sent").await;
                }
            }
            Ok::<(), CallError>(())
        };
        if let Err(error) = withdrawing.await {
            // Decided later, it continues a run that the thread has left behind.
            tracing::warn!(%error, "questions of earlier messages could not be withdrawn");
        }
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
        let message = match parse_message(&delivery.event) {
            Ok(message) => message,
            Err(error) => return HandlerOutcome::Failed(error),
        };
        self.withdraw_earlier_questions(&message).await;
        self.answer_message(&message, &delivery.event.source).await
    }
}

/// Reads a message from its event.
pub(crate) fn parse_message(event: &StoredEvent) -> Result<UserMessage, CallError> {
    let mut message: UserMessage = parse_payload(&event.payload)?;
    // An extension may publish such an event, but it cannot give access to a directory.
    if event.source != OPERATOR_SOURCE {
        message.workspaces.clear();
    }
    // Only the kernel knows the people of channels.
    if !event.source.starts_with(CHANNEL_SOURCE) {
        message.channel = None;
    }
    Ok(message)
}

/// Returns the failure of a message whose run waits for decisions; the hint names the first.
fn parked_error(questions: &[String]) -> MessageError {
    let error = CallError::new(ErrorKind::Unavailable, "the run waits for a decision");
    let error = match questions {
        [] => error,
        [id, ..] => {
            let show = OperatorCommand::ShowQuestion { id };
            error.with_hint(format!("decide: {show}; the reply follows in the thread"))
        }
    };
    MessageError { what: MessageFailure::Parked, error }
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
