//! The watcher of the skill directories: it polls, publishes changes and logs problems.

use std::time::Duration;

use skill_catalog::{PollReport, Store};
use skill_ledger::LedgerEvent;
use skill_service::{ChangeLog, to_skill_events};
use skillhost_sdk::prelude::*;
use skillhost_sdk::tokio;
use skillhost_sdk::tokio::sync::Notify;

use crate::bridge::{log_messages, run_blocking};
use crate::registry_state::RegistryState;
use crate::review;

/// A watcher that polls a store and publishes the changes.
pub(crate) struct SkillWatcher {
    registry: Arc<RegistryState>,
    /// Notified after a change that affects the search.
    pub(crate) changed: Notify,
    log: ChangeLog,
}

impl SkillWatcher {
    pub(crate) fn new(registry: &Arc<RegistryState>) -> Self {
        Self { registry: Arc::clone(registry), changed: Notify::new(), log: ChangeLog::default() }
    }

    /// Polls at the configured interval; 0 turns polling off.
    ///
    /// A failed poll is logged and does not end the watcher.
    pub(crate) async fn run(self: &Arc<Self>) {
        self.registry
            .publish_outcome(run_blocking(|| self.registry.keeper.start(&self.registry.store)))
            .await;
        // A message has a key, by which the log drops a repetition.
        self.registry.publish_outcome(run_blocking(|| self.registry.keeper.recent_events())).await;
        // The first pass reads every text once, so that there is a last good one to serve.
        self.log_poll_error(self.poll_fully().await);
        review::spawn_review(&self.registry);
        let interval_ms = self.registry.finder.config().poll_interval_ms;
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
        let before = self.registry.store.snapshot();
        let (report, kept) = run_blocking(|| {
            let report = poll(&self.registry.store);
            let fully = report.changed || report.full_pass;
            let kept = self.registry.keeper.sync(&self.registry.store, &report.events, fully);
            self.registry.programs.refresh();
            self.registry.declarations.refresh();
            (report, kept)
        });
        if report.changed || report.full_pass {
            self.changed.notify_one();
            log_messages(&self.log.messages_since(&before, &self.registry.store.snapshot()));
            self.registry.publish(to_skill_events(&report.events)).await;
        }
        let proposed = kept.events.iter().any(LedgerEvent::is_proposal);
        self.registry.publish_outcome(kept).await;
        // Events that could not be published before are retried with every poll.
        self.registry.publish(Vec::new()).await;
        if proposed {
            review::spawn_review(&self.registry);
        }
        Ok(())
    }

    fn log_poll_error(&self, polled: Result<()>) {
        if let Err(error) = polled {
            tracing::warn!(%error, "polling the skill directories failed");
        }
    }
}
