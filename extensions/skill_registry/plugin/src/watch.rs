//! Watches the folders: polls, publishes what changed, says what is wrong.

use std::time::Duration;

use skill_store::{ChangeLog, LedgerEvent, LogMessage, PollReport, Store};
use skillhost_sdk::prelude::*;
use skillhost_sdk::tokio::{self, sync::Notify};

use crate::desk::{RegistryState, new_event};
use crate::{blocking, review};

/// Polls a store and tells everybody.
pub(crate) struct SkillWatcher {
    desk: Arc<RegistryState>,
    /// There is something new to search.
    pub(crate) changed: Notify,
    news: ChangeLog,
}

impl SkillWatcher {
    pub(crate) fn new(desk: &Arc<RegistryState>) -> Self {
        Self { desk: Arc::clone(desk), changed: Notify::new(), news: ChangeLog::default() }
    }

    /// Polls for ever; 0 turns polling off.
    ///
    /// A poll that goes wrong is told and does not end the watching.
    pub(crate) async fn run(self: &Arc<Self>) {
        self.desk.publish_outcome(blocking(|| self.desk.keeper.start(&self.desk.store))).await;
        // What was told before is not told twice: it has a key.
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

    /// Looks for changes once; fails if the poll panicked or the kernel shuts down.
    pub(crate) async fn poll(self: &Arc<Self>) -> Result<()> {
        self.poll_with(Store::poll).await
    }

    /// Looks at every skill, whatever its stamps say.
    pub(crate) async fn poll_fully(self: &Arc<Self>) -> Result<()> {
        self.poll_with(Store::poll_full).await
    }

    async fn poll_with(self: &Arc<Self>, poll: fn(&Store) -> PollReport) -> Result<()> {
        // A caller that gives up must not take the events with it.
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
        // What could not be published before is tried again with every look.
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

/// Writes what is news.
pub(crate) fn log_messages(news: &[LogMessage]) {
    for line in news {
        match line.warning {
            true => tracing::warn!("{}", line.text),
            false => tracing::debug!("{}", line.text),
        }
    }
}
