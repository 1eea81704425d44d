//! The handler of the events that channels tell people about.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use skillhost_channels::ChannelHub;
use skillhost_core::{ExtensionHost, KernelState};
use skillhost_events::{Delivery, StoredEvent, topic};
use skillhost_home::KERNEL_OWNER;
use skillhost_payload::{CallError, Event, channel_interface};
use skillhost_tasks::{Task, TaskId};

use crate::bus::{BuiltinHandler, HandlerOutcome};

/// The topic of the event about a message that could not be sent.
const DELIVERY_FAILED: &str = "delivery.failed";
/// The subscriber that runs agents on user messages.
const MESSAGE_SUBSCRIBER: &str = "kernel:user.message";

/// An event that channels tell people about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelTopic {
    Replied,
    MessageDead,
    TaskEnded,
    QuestionOpened,
    QuestionClosed,
}

/// The part of an event that identifies its subject.
#[derive(Deserialize)]
struct SubjectReference {
    #[serde(default)]
    thread: Option<String>,
    #[serde(default)]
    task: Option<TaskId>,
    #[serde(default)]
    question: Option<String>,
    #[serde(default)]
    delivery: Option<i64>,
    #[serde(default)]
    subscriber: Option<String>,
}

/// The event handler that submits the deliveries of one topic.
pub(crate) struct ChannelEventHandler {
    hub: Arc<ChannelHub>,
    host: Arc<ExtensionHost>,
    topic: ChannelTopic,
}

impl ChannelEventHandler {
    /// Creates the handlers of all topics.
    pub(crate) fn create_all(
        hub: &Arc<ChannelHub>,
        host: &Arc<ExtensionHost>,
    ) -> impl Iterator<Item = Arc<dyn BuiltinHandler>> {
        let topics = [
            ChannelTopic::Replied,
            ChannelTopic::MessageDead,
            ChannelTopic::TaskEnded,
            ChannelTopic::QuestionOpened,
            ChannelTopic::QuestionClosed,
        ];
        topics
            .map(|topic| {
                let (hub, host) = (Arc::clone(hub), Arc::clone(host));
                Arc::new(Self { hub, host, topic }) as Arc<dyn BuiltinHandler>
            })
            .into_iter()
    }

    async fn handle_event(&self, event: &StoredEvent) -> Result<(), CallError> {
        let payload = event.payload.get();
        let subject: SubjectReference =
            serde_json::from_str(payload).map_err(|error| CallError::protocol_error(&error))?;
        match (self.topic, subject) {
            // A reply is the kernel's; an extension may publish such an event, too.
            (ChannelTopic::Replied, _) if event.source == KERNEL_OWNER => {
                self.hub.handle_reply(payload).await
            }
            // Of the other subscribers of the message its author knows nothing.
            (
                ChannelTopic::MessageDead,
                SubjectReference { delivery: Some(delivery), subscriber, .. },
            ) if event.source == KERNEL_OWNER
                && subscriber.as_deref() == Some(MESSAGE_SUBSCRIBER) =>
            {
                // The event about a dead letter has the correlation id of its message, the message id.
                self.hub.handle_dead_message(&event.correlation_id, delivery).await
            }
            (ChannelTopic::TaskEnded, SubjectReference { task: Some(task), .. }) => {
                match self.hub.handle_task_end(&task).await? {
                    Some(failed) => self.publish_failure(&failed).await,
                    None => Ok(()),
                }
            }
            (ChannelTopic::QuestionOpened, SubjectReference { question: Some(id), .. }) => {
                self.hub.handle_question_opened(&id).await
            }
            (ChannelTopic::QuestionClosed, SubjectReference { question: Some(id), .. }) => {
                self.hub.handle_question_closed(&id).await
            }
            _ => Ok(()),
        }
    }

    /// Publishes that a message was not sent: once, as its key is that of the task.
    async fn publish_failure(&self, task: &Task) -> Result<(), CallError> {
        let payload = json!({
            "task": task.id,
            "channel": task.target,
            "title": task.title,
            "outcome": task.outcome,
        });
        let payload = serde_json::value::to_raw_value(&payload)
            .map_err(|error| CallError::protocol_error(&error))?;
        let event = Event {
            key: Some(task.id.to_string()),
            ..Event::new(DELIVERY_FAILED, KERNEL_OWNER, payload)
        };
        self.host.events().publish(event).await.map(drop)
    }
}

#[async_trait]
impl BuiltinHandler for ChannelEventHandler {
    fn topic(&self) -> &str {
        match self.topic {
            ChannelTopic::Replied => topic::AGENT_REPLIED,
            ChannelTopic::MessageDead => topic::EVENT_DEAD,
            ChannelTopic::TaskEnded => topic::TASK_ENDED,
            ChannelTopic::QuestionOpened => "question.opened",
            ChannelTopic::QuestionClosed => "question.closed",
        }
    }

    fn owner(&self) -> &str {
        "kernel:channels"
    }

    /// Returns `false` in a home without channels: its events have no deliveries to wait for.
    fn is_active(&self, state: &KernelState) -> bool {
        let is_channel =
            |instance: &Arc<skillhost_core::Instance>| instance.provides(channel_interface::NAME);
        state.instances.values().any(is_channel) || self.hub.store().exists()
    }

    fn ordering_key(&self, event: &StoredEvent) -> Option<String> {
        let subject: SubjectReference = serde_json::from_str(event.payload.get()).ok()?;
        let SubjectReference { thread, task, question, delivery, .. } = subject;
        match self.topic {
            ChannelTopic::Replied => thread,
            ChannelTopic::MessageDead => delivery.map(|delivery| delivery.to_string()),
            ChannelTopic::TaskEnded => task.map(|task| task.to_string()),
            ChannelTopic::QuestionOpened | ChannelTopic::QuestionClosed => question,
        }
    }

    /// Returns `false`: it only writes to stores, and a repetition is harmless.
    fn counts_crashes(&self) -> bool {
        false
    }

    async fn handle(&self, delivery: &Delivery) -> HandlerOutcome {
        match self.handle_event(&delivery.event).await {
            Ok(()) => HandlerOutcome::Done,
            Err(error) => HandlerOutcome::Failed(error),
        }
    }
}
