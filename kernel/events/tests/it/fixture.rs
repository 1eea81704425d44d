//! A journal in a temporary directory, with a manual clock.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::value::to_raw_value;
use skillhost_events::{Clock, Delivery, Journal, NewEvent, StoredEvent, Subscriber, TailQuery};
use tempfile::TempDir;

/// The maximum delay between two attempts.
pub(crate) const MAX_DELAY: Duration = Duration::from_secs(25);

pub(crate) struct JournalFixture {
    directory: TempDir,
    now: Arc<AtomicU64>,
    pub(crate) journal: Journal,
}

impl JournalFixture {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let now = Arc::new(AtomicU64::new(1_000_000));
        let journal = open(&directory, &now);
        Self { directory, now, journal }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("kernel/events.db")
    }

    pub(crate) fn advance(&self, ms: u64) {
        self.now.fetch_add(ms, Ordering::SeqCst);
    }

    /// Opens the same file like a second process.
    pub(crate) fn second_process(&self) -> Journal {
        open(&self.directory, &self.now)
    }

    /// Replaces the process by a new one without a shutdown.
    pub(crate) async fn crash(&mut self, subscribers: &[Subscriber]) {
        self.journal = self.second_process();
        self.journal.recover(4, MAX_DELAY).await.unwrap();
        self.journal.set_subscribers(subscribers.to_vec()).await.unwrap();
    }

    pub(crate) async fn append(&self, topic: &str, n: u64) -> StoredEvent {
        self.journal.append(event(topic, n)).await.unwrap().0
    }

    pub(crate) async fn claim(&self) -> Vec<Delivery> {
        self.journal.claim_due().await.unwrap().deliveries
    }

    /// Claims the due deliveries: subscriber, event, attempt.
    pub(crate) async fn claimed(&self) -> Vec<(String, i64, u32)> {
        let claimed = self.claim().await;
        claimed.into_iter().map(|d| (d.subscriber, d.event.id, d.attempt)).collect()
    }

    pub(crate) async fn topics(&self, tail: TailQuery) -> Vec<String> {
        self.journal.tail(tail).await.unwrap().into_iter().map(|event| event.topic).collect()
    }
}

fn open(directory: &TempDir, now: &Arc<AtomicU64>) -> Journal {
    let now = Arc::clone(now);
    let clock = Clock::new(move || now.load(Ordering::SeqCst));
    Journal::new(directory.path().join("kernel/events.db"), clock)
}

pub(crate) fn event(topic: &str, n: u64) -> NewEvent {
    NewEvent {
        topic: topic.to_owned(),
        source: "fixture".to_owned(),
        payload: to_raw_value(&serde_json::json!({ "n": n })).unwrap(),
        correlation_id: None,
        key: None,
    }
}

pub(crate) fn event_with_key(topic: &str, n: u64, key: &str) -> NewEvent {
    NewEvent { key: Some(key.to_owned()), ..event(topic, n) }
}

pub(crate) fn subscriber(id: &str, topic: &str) -> Subscriber {
    Subscriber::new(id, topic)
}
