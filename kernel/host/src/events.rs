//! Events between extensions, in this process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use skillhost_contract::payload::{ErrorKind, Event};
use skillhost_manifest::ExtensionId;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex as AsyncMutex, broadcast};

use crate::error::CallError;

/// Topics the kernel itself publishes.
pub mod topic {
    /// An extension has a line for the person at the terminal: payload `{"text": …}`.
    pub const NOTICE: &str = "kernel.notice";
    /// An agent or extension has asked for a restart: payload `{"text": …, "by": …}`, the reason.
    pub const RESTART_REQUESTED: &str = "kernel.restart_requested";
    /// The kernel was started again, as asked: payload [`crate::Restarted`].
    pub const RESTARTED: &str = "kernel.restarted";
    /// A new build of an extension is in use: payload `{"id": …, "version": …}`.
    pub const RELOADED: &str = "kernel.extension_reloaded";
    /// A service ended with an error: payload `{"id": …, "reason": …}`.
    pub const SERVICE_FAILED: &str = "kernel.service_failed";
    /// An extension was built and installed: payload `{"id": …, "sha256": …, "tools": […]}`.
    pub const BUILT: &str = "extension.built";
    /// An extension was not built: payload `{"id": …, "reason": …}`.
    pub const BUILD_FAILED: &str = "extension.build_failed";
}

/// Events a slow reader may lag behind before the oldest are dropped.
const BUFFER: usize = 256;

/// The in-process event bus.
pub struct EventBus {
    sender: broadcast::Sender<Arc<Event>>,
    subscriptions: Mutex<HashMap<u64, Arc<Subscription>>>,
    next: AtomicU64,
}

struct Subscription {
    owner: ExtensionId,
    topic: String,
    receiver: AsyncMutex<broadcast::Receiver<Arc<Event>>>,
}

impl Default for EventBus {
    fn default() -> Self {
        let (sender, _) = broadcast::channel(BUFFER);
        Self { sender, subscriptions: Mutex::default(), next: AtomicU64::new(1) }
    }
}

impl EventBus {
    /// Publishes an event; returns how many [`EventBus::listen`], extensions not counted.
    pub fn publish(&self, event: Event) -> usize {
        let readers = self.sender.send(Arc::new(event)).unwrap_or(0);
        readers.saturating_sub(self.lock().len())
    }

    /// Publishes one of the kernel's own events.
    pub(crate) fn publish_own(&self, topic: &str, payload: &serde_json::Value) -> usize {
        match serde_json::value::to_raw_value(payload) {
            Ok(payload) => self.publish(Event::new(topic, "kernel", payload)),
            Err(_) => 0,
        }
    }

    /// Reads every event from now on.
    #[must_use]
    pub fn listen(&self) -> broadcast::Receiver<Arc<Event>> {
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
    pub(crate) async fn next(&self, owner: &ExtensionId, id: u64) -> Result<Arc<Event>, CallError> {
        let found = self.lock().get(&id).filter(|found| found.owner == *owner).cloned();
        let subscription = found
            .ok_or_else(|| CallError::new(ErrorKind::NotFound, format!("no subscription {id}")))?;
        let mut receiver = subscription.receiver.lock().await;
        loop {
            match receiver.recv().await {
                Ok(event) if matches(&subscription.topic, &event.topic) => return Ok(event),
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

/// Whether `topic` is `wanted` or lies below it.
fn matches(wanted: &str, topic: &str) -> bool {
    wanted.is_empty()
        || topic.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn topics_match_whole_segments() {
        assert!(matches("", "skill.added"));
        assert!(matches("skill", "skill.added"));
        assert!(matches("skill.added", "skill.added"));
        assert!(!matches("skill.add", "skill.added"));
        assert!(!matches("skill.added", "skill"));
    }

    #[tokio::test]
    async fn a_subscription_sees_its_topic_only_and_belongs_to_its_owner() {
        let bus = EventBus::default();
        let (mine, other) = (ExtensionId::new("mine").unwrap(), ExtensionId::new("other").unwrap());
        let id = bus.subscribe(&mine, "skill");
        assert_eq!(bus.publish_own("kernel.notice", &json!({"text": "hello"})), 0);
        let listener = bus.listen();
        assert_eq!(bus.publish_own("kernel.notice", &json!({"text": "hello"})), 1);
        drop(listener);
        bus.publish_own("skill.added", &json!({"id": "a"}));
        let event = bus.next(&mine, id).await.unwrap();
        assert_eq!((event.topic.as_str(), event.payload.get()), ("skill.added", r#"{"id":"a"}"#));
        let denied = bus.next(&other, id).await.unwrap_err();
        assert_eq!(denied.kind, ErrorKind::NotFound);
        bus.unsubscribe(&other, id);
        bus.publish_own("skill.removed", &json!({}));
        assert_eq!(bus.next(&mine, id).await.unwrap().topic, "skill.removed");
        bus.unsubscribe(&mine, id);
        assert_eq!(bus.next(&mine, id).await.unwrap_err().kind, ErrorKind::NotFound);
    }
}
