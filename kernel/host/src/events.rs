//! Events: kept in the journal of the home, then told to whoever listens in this process.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use skillhost_contract::payload::{ErrorKind, Event};
use skillhost_events::{
    Clock, Journal, JournalError, JournalErrorKind, NewEvent, StoredEvent, topic_matches,
};
use skillhost_manifest::ExtensionId;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex as AsyncMutex, Notify, broadcast};

use crate::error::CallError;
use crate::home::Home;

/// Topics the kernel itself publishes.
pub mod topic {
    /// An extension has a line for the person at the terminal: payload `{"text": …}`. The only one
    /// that is not kept.
    pub const NOTICE: &str = "kernel.notice";
    /// An agent or extension has asked for a restart: payload `{"text": …}`, the reason.
    pub const RESTART_REQUESTED: &str = "kernel.restart_requested";
    /// A person has said something to an agent: payload [`crate::control::TalkRequest`], its key the
    /// message's id.
    pub const USER_MESSAGE: &str = "user.message";
    /// What a person said was answered, or will not be: payload `{"message_id": …, "thread": …}` and
    /// `outcome` or `error`.
    pub const AGENT_REPLIED: &str = "agent.replied";
    /// The kernel was started again, as asked: payload [`crate::RestartedEvent`].
    pub const RESTARTED: &str = "kernel.restarted";
    /// A new build of an extension is in use: payload `{"id": …, "version": …}`.
    pub const RELOADED: &str = "kernel.extension_reloaded";
    /// A delivery of an event was given up: payload `{"delivery": …, "subscriber": …, "event": …,
    /// "topic": …, "attempts": …, "error": …}`.
    pub const EVENT_DEAD: &str = "event.dead";
    /// A service ended with an error: payload `{"id": …, "reason": …}`.
    pub const SERVICE_FAILED: &str = "kernel.service_failed";
    /// An extension was built and installed: payload `{"id": …, "sha256": …, "tools": […]}`.
    pub const BUILT: &str = "extension.built";
    /// An extension was not built: payload `{"id": …, "reason": …}`.
    pub const BUILD_FAILED: &str = "extension.build_failed";
}

/// Events a slow reader may lag behind before the oldest are dropped.
const BUFFER: usize = 256;

/// Events with keys that are remembered as told.
const MAX_REMEMBERED_EVENTS: usize = 4096;

/// The events of a home.
///
/// What is published is on the disk before anybody is told. Listeners and the subscriptions of
/// extensions are told once, in this process; who has to hear of everything subscribes in a manifest
/// and is served by [`Kernel::start_event_delivery`](crate::Kernel::serve_events).
pub struct EventBus {
    journal: Journal,
    /// Something was appended in this process.
    pub(crate) appended: Notify,
    sender: broadcast::Sender<Arc<Event>>,
    subscriptions: Mutex<HashMap<u64, Arc<Subscription>>>,
    next: AtomicU64,
    began_ms: u64,
    /// Events with keys that listeners were told of.
    told: Mutex<BTreeSet<i64>>,
}

struct Subscription {
    owner: ExtensionId,
    topic: String,
    receiver: AsyncMutex<broadcast::Receiver<Arc<Event>>>,
}

/// The journal of a home; nothing is opened before it is used.
#[must_use]
pub fn home_journal(home: &Home) -> Journal {
    Journal::new(home.data_dir("kernel").join("events.db"), Clock::system())
}

impl EventBus {
    pub(crate) fn new(journal: Journal) -> Self {
        let (sender, _) = broadcast::channel(BUFFER);
        Self {
            began_ms: journal.now_ms(),
            told: Mutex::default(),
            journal,
            appended: Notify::new(),
            sender,
            subscriptions: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }

    /// The journal behind it.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Keeps an event, then tells whoever listens. Returns the event with its id; where one with its
    /// topic and key was kept before, that one. Listeners are told of it all the same if another
    /// process kept it since this one began: here it is news.
    ///
    /// # Errors
    /// For an event that cannot be kept as it is; nobody is told of it. When the journal fails:
    /// listeners are told all the same, for they are promised less.
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
                if new {
                    self.appended.notify_one();
                }
                if new || at_ms >= self.began_ms {
                    self.notify_once(&event);
                }
                Ok(event)
            }
            Err(error) => {
                let malformed =
                    matches!(error.kind(), JournalErrorKind::Invalid | JournalErrorKind::TooLarge);
                if !malformed {
                    let _ = self.sender.send(Arc::new(Event { id: 0, ..event }));
                }
                Err(error.into())
            }
        }
    }

    /// Tells whoever listens, unless that was done before.
    fn notify_once(&self, event: &Arc<Event>) {
        if event.key.is_some() {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if !told.insert(event.id) {
                return;
            }
            if told.len() > MAX_REMEMBERED_EVENTS {
                told.pop_first();
            }
        }
        let _ = self.sender.send(Arc::clone(event));
    }

    /// Tells whoever listens, and keeps nothing; returns how many [`EventBus::subscribe_all`], extensions
    /// not counted.
    pub(crate) fn notify_listeners(&self, event: Event) -> usize {
        let readers = self.sender.send(Arc::new(event)).unwrap_or(0);
        readers.saturating_sub(self.lock().len())
    }

    /// Publishes one of the kernel's own events. That it could not be kept is logged: what it is
    /// about has happened.
    pub(crate) async fn publish_kernel_event(
        &self,
        topic: &str,
        payload: &(impl Serialize + Sync),
    ) {
        let payload = match serde_json::value::to_raw_value(payload) {
            Ok(payload) => payload,
            Err(error) => return tracing::error!(topic, %error, "an event could not be written"),
        };
        if let Err(error) = self.publish(Event::new(topic, "kernel", payload)).await {
            tracing::error!(topic, %error, "an event was not kept");
        }
    }

    /// Reads every event from now on.
    #[must_use]
    pub fn subscribe_all(&self) -> broadcast::Receiver<Arc<Event>> {
        self.sender.subscribe()
    }

    pub(crate) fn subscribe(&self, owner: &ExtensionId, topic: &str) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let subscription = Subscription {
            owner: owner.clone(),
            topic: topic.to_owned(),
            receiver: AsyncMutex::new(self.sender.subscribe()),
        };
        self.lock().insert(id, Arc::new(subscription));
        id
    }

    pub(crate) fn unsubscribe(&self, owner: &ExtensionId, id: u64) {
        let mut subscriptions = self.lock();
        if subscriptions.get(&id).is_some_and(|found| found.owner == *owner) {
            subscriptions.remove(&id);
        }
    }

    /// Waits for the next event of a subscription; only its owner may.
    pub(crate) async fn next_event(
        &self,
        owner: &ExtensionId,
        id: u64,
    ) -> Result<Arc<Event>, CallError> {
        let found = self.lock().get(&id).filter(|found| found.owner == *owner).cloned();
        let subscription = found
            .ok_or_else(|| CallError::new(ErrorKind::NotFound, format!("no subscription {id}")))?;
        let mut receiver = subscription.receiver.lock().await;
        loop {
            match receiver.recv().await {
                Ok(event) if topic_matches(&subscription.topic, &event.topic) => return Ok(event),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => {
                    return Err(CallError::new(ErrorKind::Unavailable, "the kernel shuts down"));
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Subscription>>> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event of the journal, as extensions and listeners see it.
pub(crate) fn to_event(event: StoredEvent) -> Event {
    let StoredEvent { id, topic, source, payload, correlation_id, key, .. } = event;
    Event { topic, source, payload, id, correlation_id: Some(correlation_id), key }
}

impl From<JournalError> for CallError {
    fn from(error: JournalError) -> Self {
        let kind = match error.kind() {
            JournalErrorKind::Invalid => ErrorKind::InvalidArgument,
            JournalErrorKind::TooLarge => ErrorKind::TooLarge,
            JournalErrorKind::NotFound => ErrorKind::NotFound,
            JournalErrorKind::Locked => ErrorKind::Unavailable,
            JournalErrorKind::Io | JournalErrorKind::Corrupt => ErrorKind::Io,
            JournalErrorKind::Newer | JournalErrorKind::Database => ErrorKind::Failed,
        };
        Self::new(kind, error.to_string()).with_hint(error.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bus(folder: &tempfile::TempDir) -> EventBus {
        EventBus::new(Journal::new(folder.path().join("kernel/events.db"), Clock::new(|| 7)))
    }

    fn notice() -> Event {
        let payload = serde_json::value::to_raw_value(&json!({"text": "hello"})).unwrap();
        Event::new(topic::NOTICE, "mine", payload)
    }

    #[tokio::test]
    async fn a_subscription_sees_its_topic_only_and_belongs_to_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let bus = bus(&folder);
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
    async fn an_event_is_kept_before_it_is_told_and_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let bus = bus(&folder);
        let mut listener = bus.subscribe_all();
        let payload = serde_json::value::to_raw_value(&json!({"n": 1})).unwrap();
        let event = Event { key: Some("k".into()), ..Event::new("a.b", "mine", payload) };
        let first = bus.publish(event.clone()).await.unwrap();
        assert_eq!((first.id, first.correlation_id.as_deref()), (1, Some("event-1")));
        assert_eq!(listener.try_recv().unwrap().id, 1);
        assert_eq!(bus.publish(event).await.unwrap().id, 1);
        assert!(listener.try_recv().is_err(), "the same event is not told again");
        let kept = bus.journal().find("a.b", "k").await.unwrap().unwrap();
        assert_eq!((kept.id, kept.at_ms, kept.payload.get()), (1, 7, r#"{"n":1}"#));
    }

    #[tokio::test]
    async fn listeners_hear_what_a_broken_journal_does_not_keep_but_not_what_is_malformed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kernel"), "no folder").unwrap();
        let bus = bus(&folder);
        let mut listener = bus.subscribe_all();
        let payload = || serde_json::value::to_raw_value(&json!(1)).unwrap();
        let lost = bus.publish(Event::new("a", "mine", payload())).await.unwrap_err();
        assert_eq!(lost.kind, ErrorKind::Io);
        assert_eq!(listener.try_recv().unwrap().id, 0);
        let refused = bus.publish(Event::new("a b", "mine", payload())).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::InvalidArgument);
        assert!(listener.try_recv().is_err());
    }
}
