//! The event bus: events are stored in the home's journal, then delivered to listeners in this
//! process.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use skillhost_manifest::ExtensionId;
use skillhost_payload::{CallError, ErrorKind, Event};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex as AsyncMutex, Notify, broadcast};

use crate::error::JournalErrorKind;
use crate::event::{NewEvent, StoredEvent, topic_matches};
use crate::journal::Journal;

/// Topics published by the kernel itself.
pub mod topic {
    /// A line of an extension for the user at the terminal: payload `{"text": …}`. The only topic
    /// that is not stored.
    pub const NOTICE: &str = "kernel.notice";
    /// An agent or extension has requested a restart: payload `{"text": …}`, the reason.
    pub const RESTART_REQUESTED: &str = "kernel.restart_requested";
    /// A user message was accepted: payload `UserMessage`, its key the message's
    /// id.
    pub const USER_MESSAGE: &str = "user.message";
    /// A user message was answered, or will not be: payload `{"message_id": …, "thread": …}` and
    /// `outcome` or `error`.
    pub const AGENT_REPLIED: &str = "agent.replied";
    /// The kernel was restarted on request: payload `RestartedEvent`.
    pub const RESTARTED: &str = "kernel.restarted";
    /// A new build of an extension is loaded: payload `{"id": …, "version": …}`.
    pub const RELOADED: &str = "kernel.extension_reloaded";
    /// A delivery was moved to the dead letters: payload `{"delivery": …, "subscriber": …, "event":
    /// …, "topic": …, "attempts": …, "error": …}`.
    pub const EVENT_DEAD: &str = "event.dead";
    /// A task has ended: its key is the task's id, its payload the task without its input.
    pub const TASK_ENDED: &str = "task.ended";
    /// A service ended with an error: payload `{"id": …, "reason": …}`.
    pub const SERVICE_FAILED: &str = "kernel.service_failed";
    /// An extension was built and installed: payload `{"id": …, "sha256": …, "tools": […]}`.
    pub const BUILT: &str = "extension.built";
    /// A tool call used a capability that an active skill does not declare: payload `{"agent": …,
    /// "thread": …, "skill": …, "tool": …, "capability": …}`, once in a run.
    pub const CAPABILITY_UNDECLARED: &str = "skill.capability_undeclared";
    /// The build of an extension failed: payload `{"id": …, "reason": …}`.
    pub const BUILD_FAILED: &str = "extension.build_failed";
}

/// The number of events that a slow receiver may lag behind before the oldest are dropped.
const BUFFER: usize = 256;

/// The number of keyed events that are remembered as delivered.
const MAX_REMEMBERED_EVENTS: usize = 4096;

/// The event bus of a home.
///
/// A published event is on disk before any delivery. Listeners and subscriptions of extensions
/// receive it once, in this process; a subscriber that must receive every event is declared in a
/// manifest and served by the event delivery of the kernel.
pub struct EventBus {
    journal: Journal,
    /// Notified when this process has appended an event.
    appended: Notify,
    sender: broadcast::Sender<Arc<Event>>,
    subscriptions: Mutex<HashMap<u64, Arc<Subscription>>>,
    next: AtomicU64,
    started_ms: u64,
    /// The ids of keyed events that listeners have received.
    delivered_ids: Mutex<BTreeSet<i64>>,
}

struct Subscription {
    owner: ExtensionId,
    topic: String,
    receiver: AsyncMutex<broadcast::Receiver<Arc<Event>>>,
}

impl EventBus {
    /// Creates the bus of a journal.
    #[must_use]
    pub fn new(journal: Journal) -> Self {
        let (sender, _) = broadcast::channel(BUFFER);
        Self {
            started_ms: journal.now_ms(),
            delivered_ids: Mutex::default(),
            journal,
            appended: Notify::new(),
            sender,
            subscriptions: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }

    /// Returns the journal of the bus.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the signal that this process has appended an event.
    #[must_use]
    pub fn appended(&self) -> &Notify {
        &self.appended
    }

    /// Stores an event, then notifies the listeners. Returns the event with its id; if one with the
    /// same topic and key is already stored, that one. Listeners still receive it if another
    /// process stored it after this one started, as it is new here.
    ///
    /// # Errors
    /// Rejects an event that can never be stored, without notifying any listener. If the journal
    /// fails, listeners are notified all the same, as live delivery does not depend on it.
    pub async fn publish(&self, event: Event) -> Result<Arc<Event>, CallError> {
        let new = NewEvent {
            topic: event.topic.clone(),
            source: event.source.clone(),
            payload: event.payload.clone(),
            correlation_id: event.correlation_id.clone(),
            key: event.key.clone(),
        };
        match self.journal.append(new).await {
            Ok((stored, new)) => {
                let at_ms = stored.at_ms;
                let event = Arc::new(to_event(stored));
                // Only this process's own events wake its delivery loop; the loop polls for all
                // others.
                if new {
                    self.appended.notify_one();
                }
                if new || at_ms >= self.started_ms {
                    self.notify_once(&event);
                }
                Ok(event)
            }
            Err(error) => {
                let malformed =
                    matches!(error.kind(), JournalErrorKind::Invalid | JournalErrorKind::TooLarge);
                if !malformed {
                    // The id 0 marks an event without a place in the journal.
                    let _ = self.sender.send(Arc::new(Event { id: 0, ..event }));
                }
                Err(error.into())
            }
        }
    }

    /// Notifies the listeners, unless they have received the event before.
    fn notify_once(&self, event: &Arc<Event>) {
        if event.key.is_some() {
            let mut delivered_ids =
                self.delivered_ids.lock().unwrap_or_else(PoisonError::into_inner);
            if !delivered_ids.insert(event.id) {
                return;
            }
            // The oldest id is the least likely to be published again.
            if delivered_ids.len() > MAX_REMEMBERED_EVENTS {
                delivered_ids.pop_first();
            }
        }
        let _ = self.sender.send(Arc::clone(event));
    }

    /// Notifies the listeners without storing the event; returns the number of receivers of
    /// [`EventBus::subscribe_all`], without those of extensions.
    pub fn notify_listeners(&self, event: Event) -> usize {
        let readers = self.sender.send(Arc::new(event)).unwrap_or(0);
        readers.saturating_sub(self.lock().len())
    }

    /// Publishes one of the kernel's own events. A storage error is only logged, as the reported
    /// action has already happened.
    pub async fn publish_kernel_event(&self, topic: &str, payload: &(impl Serialize + Sync)) {
        let payload = match serde_json::value::to_raw_value(payload) {
            Ok(payload) => payload,
            Err(error) => return tracing::error!(topic, %error, "event could not be serialized"),
        };
        if let Err(error) = self.publish(Event::new(topic, "kernel", payload)).await {
            tracing::error!(topic, %error, "event could not be stored");
        }
    }

    /// Returns a receiver of all events from now on.
    #[must_use]
    pub fn subscribe_all(&self) -> broadcast::Receiver<Arc<Event>> {
        self.sender.subscribe()
    }

    /// Subscribes an extension to a topic; returns the id of the subscription.
    pub fn subscribe(&self, owner: &ExtensionId, topic: &str) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let subscription = Subscription {
            owner: owner.clone(),
            topic: topic.to_owned(),
            receiver: AsyncMutex::new(self.sender.subscribe()),
        };
        self.lock().insert(id, Arc::new(subscription));
        id
    }

    /// Ends a subscription; only its owner may call this.
    pub fn unsubscribe(&self, owner: &ExtensionId, id: u64) {
        let mut subscriptions = self.lock();
        if subscriptions.get(&id).is_some_and(|subscription| subscription.owner == *owner) {
            subscriptions.remove(&id);
        }
    }

    /// Waits for the next event of a subscription; only its owner may call this.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] without the subscription, [`ErrorKind::Unavailable`] at the end.
    pub async fn next_event(&self, owner: &ExtensionId, id: u64) -> Result<Arc<Event>, CallError> {
        let subscription =
            self.lock().get(&id).filter(|subscription| subscription.owner == *owner).cloned();
        let subscription = subscription.ok_or_else(|| {
            CallError::new(ErrorKind::NotFound, format!("subscription {id} not found"))
        })?;
        let mut receiver = subscription.receiver.lock().await;
        loop {
            match receiver.recv().await {
                Ok(event) if topic_matches(&subscription.topic, &event.topic) => return Ok(event),
                // A lagging receiver lost the oldest events, and continues with the next one.
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => {
                    return Err(CallError::new(ErrorKind::Unavailable, "kernel is shutting down"));
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Subscription>>> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Converts an event of the journal for extensions and listeners.
#[must_use]
pub fn to_event(event: StoredEvent) -> Event {
    let StoredEvent { id, topic, source, payload, correlation_id, key, .. } = event;
    Event { topic, source, payload, id, correlation_id: Some(correlation_id), key }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clock::Clock;

    fn bus(directory: &tempfile::TempDir) -> EventBus {
        EventBus::new(Journal::new(directory.path().join("kernel/events.db"), Clock::new(|| 7)))
    }

    fn notice() -> Event {
        let payload = serde_json::value::to_raw_value(&json!({"text": "hello"})).unwrap();
        Event::new(topic::NOTICE, "mine", payload)
    }

    #[tokio::test]
    async fn subscription_filters_topic_and_owner() {
        let directory = tempfile::tempdir().unwrap();
        let bus = bus(&directory);
        let (mine, other) = (ExtensionId::new("mine").unwrap(), ExtensionId::new("other").unwrap());
        let id = bus.subscribe(&mine, "skill");
        assert_eq!(bus.notify_listeners(notice()), 0);
        let listener = bus.subscribe_all();
        assert_eq!(bus.notify_listeners(notice()), 1);
        drop(listener);
        assert!(!bus.journal().path().exists(), "a notice is not kept");
        bus.publish_kernel_event("skill.added", &json!({"id": "a"})).await;
        let event = bus.next_event(&mine, id).await.unwrap();
        assert_eq!((event.topic.as_str(), event.payload.get()), ("skill.added", r#"{"id":"a"}"#));
        let denied = bus.next_event(&other, id).await.unwrap_err();
        assert_eq!(denied.kind, ErrorKind::NotFound);
        bus.unsubscribe(&other, id);
        bus.publish_kernel_event("skill.removed", &json!({})).await;
        assert_eq!(bus.next_event(&mine, id).await.unwrap().topic, "skill.removed");
        bus.unsubscribe(&mine, id);
        assert_eq!(bus.next_event(&mine, id).await.unwrap_err().kind, ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn keyed_event_is_delivered_once() {
        let directory = tempfile::tempdir().unwrap();
        let bus = bus(&directory);
        let mut listener = bus.subscribe_all();
        let payload = serde_json::value::to_raw_value(&json!({"n": 1})).unwrap();
        let event = Event { key: Some("k".into()), ..Event::new("a.b", "mine", payload) };
        let first = bus.publish(event.clone()).await.unwrap();
        assert_eq!((first.id, first.correlation_id.as_deref()), (1, Some("event-1")));
        assert_eq!(listener.try_recv().unwrap().id, 1);
        assert_eq!(bus.publish(event).await.unwrap().id, 1);
        assert!(listener.try_recv().is_err(), "the same event is not delivered again");
        let kept = bus.journal().find("a.b", "k").await.unwrap().unwrap();
        assert_eq!((kept.id, kept.at_ms, kept.payload.get()), (1, 7, r#"{"n":1}"#));
    }

    #[tokio::test]
    async fn broken_journal_still_notifies_listeners() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("kernel"), "not a directory").unwrap();
        let bus = bus(&directory);
        let mut listener = bus.subscribe_all();
        let payload = || serde_json::value::to_raw_value(&json!(1)).unwrap();
        let lost = bus.publish(Event::new("a", "mine", payload())).await.unwrap_err();
        assert_eq!(lost.kind, ErrorKind::Io);
        assert_eq!(listener.try_recv().unwrap().id, 0);
        let rejected = bus.publish(Event::new("a b", "mine", payload())).await.unwrap_err();
        assert_eq!(rejected.kind, ErrorKind::InvalidArgument);
        assert!(listener.try_recv().is_err());
    }
}
