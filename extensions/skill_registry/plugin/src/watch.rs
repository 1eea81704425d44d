//! The watcher of the skill directories: it polls, publishes changes and logs problems.

use std::time::Duration;

use skill_store::{ChangeLog, LedgerEvent, LogMessage, PollReport, Store};
use skillhost_sdk::prelude::*;
use skillhost_sdk::tokio::{self, sync::Notify};

use crate::desk::{RegistryState, new_event};
use crate::{blocking, review};

/// A watcher that polls a store and publishes the changes.
pub(crate) struct SkillWatcher {
    desk: Arc<RegistryState>,
    /// Notified after a change that affects the search.
    pub(crate) changed: Notify,
    news: ChangeLog,
}

impl SkillWatcher {
    pub(crate) fn new(desk: &Arc<RegistryState>) -> Self {
        Self { desk: Arc::clone(desk), changed: Notify::new(), news: ChangeLog::default() }
    }

    /// Polls at the configured interval; 0 turns polling off.
    ///
    /// A failed poll is logged and does not end the watcher.
    pub(crate) async fn run(self: &Arc<Self>) {
        self.desk.publish_outcome(blocking(|| self.desk.keeper.start(&self.desk.store))).await;
        // A message has a key, by which the log drops a repetition.
        self.desk.publish_outcome(blocking(|| self.desk.keeper.recent_events())).await;
        // The first pass reads every text once, so that there is a last good one to serve.
        self.log_poll_error(self.poll_fully().await);
        review::spawn_review(&self.desk);
        let interval_ms = self.desk.finder.config().poll_interval_ms;
        if interval_ms == 0 {
            return;
        }
        loop {
            tokio::time::sleep(Duration::from_millis(interval_ms)).await;
            self.log_poll_error(self.poll().await);
        }
    }

    /// Polls for changes once; fails if the poll panicked or the kernel shuts down.
    pub(crate) async fn poll(self: &Arc<Self>) -> Result<()> {
        self.poll_with(Store::poll).await
    }

    /// Examines every skill, even if all stamps are equal.
    pub(crate) async fn poll_fully(self: &Arc<Self>) -> Result<()> {
        self.poll_with(Store::poll_full).await
    }

    async fn poll_with(self: &Arc<Self>, poll: fn(&Store) -> PollReport) -> Result<()> {
        // A cancelled caller must not drop the events, so a task of its own publishes them.
        let watch = Arc::clone(self);
        let look = tokio::spawn(async move { watch.poll_store(poll).await });
        look.await.unwrap_or_else(|error| Err(ExtensionError::failed(error.to_string())))
    }

    async fn poll_store(&self, poll: fn(&Store) -> PollReport) -> Result<()> {
        let before = self.desk.store.snapshot();
        let (report, kept) = blocking(|| {
            let report = poll(&self.desk.store);
            let fully = report.changed || report.full_pass;
            let kept = self.desk.keeper.sync(&self.desk.store, &report.events, fully);
            (report, kept)
        });
        if report.changed || report.full_pass {
            self.changed.notify_one();
            log_messages(&self.news.messages_since(&before, &self.desk.store.snapshot()));
            let events = report.events.iter();
            self.desk.publish(events.map(|event| new_event(event.topic(), event)).collect()).await;
        }
        let proposed = kept.events.iter().any(LedgerEvent::is_proposal);
        self.desk.publish_outcome(kept).await;
        // Events that could not be published before are retried with every poll.
        self.desk.publish(Vec::new()).await;
        if proposed {
            review::spawn_review(&self.desk);
        }
        Ok(())
    }

    fn log_poll_error(&self, polled: Result<()>) {
        if let Err(error) = polled {
            tracing::warn!(%error, "a look at the skill folders went wrong");
        }
    }
}

/// Logs the messages.
pub(crate) fn log_messages(news: &[LogMessage]) {
    for line in news {
        match line.warning {
            true => tracing::warn!("{}", line.text),
            false => tracing::debug!("{}", line.text),
        }
    }
}
