//! Watches the folders: polls, publishes what changed, warns of skills that are too long.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use skill_format::LARGE_SKILL;
use skill_store::{PollReport, Problem, Store};
use skillhost_sdk::prelude::*;
use skillhost_sdk::tokio;

/// Polls a store and tells everybody.
pub(crate) struct Watch {
    cx: ExtensionContext,
    store: Arc<Store>,
    /// Skills that were called too long, with the size they had.
    warned: Mutex<HashSet<(String, u32)>>,
}

impl Watch {
    pub(crate) fn new(cx: ExtensionContext, store: Arc<Store>) -> Self {
        Self { cx, store, warned: Mutex::default() }
    }

    /// Polls until cancelled; 0 turns polling off.
    pub(crate) async fn run(&self, interval_ms: u64, cancel: &CancellationToken) -> Result<()> {
        // The first pass reads every text once, so that there is a last good one to serve.
        self.poll_with(Store::poll_everything).await?;
        if interval_ms == 0 {
            cancel.cancelled().await;
            return Ok(());
        }
        let interval = Duration::from_millis(interval_ms);
        while cancel.run_until_cancelled(tokio::time::sleep(interval)).await.is_some() {
            self.poll().await?;
        }
        Ok(())
    }

    /// Looks for changes once.
    pub(crate) async fn poll(&self) -> Result<()> {
        self.poll_with(Store::poll).await
    }

    async fn poll_with(&self, poll: fn(&Store) -> PollReport) -> Result<()> {
        let (store, before) = (Arc::clone(&self.store), self.store.snapshot());
        let report = tokio::task::spawn_blocking(move || poll(&store))
            .await
            .map_err(|error| ExtError::failed(format!("a poll failed: {error}")))?;
        if !report.changed {
            return Ok(());
        }
        for event in &report.events {
            self.cx.emit(event.topic(), event).await?;
        }
        let after = self.store.snapshot();
        let known: HashSet<_> = before.problems().iter().map(|problem| key(problem)).collect();
        for problem in after.problems().iter().filter(|problem| !known.contains(&key(problem))) {
            tracing::warn!("{problem}");
        }
        self.warn_of_large_skills();
        Ok(())
    }

    /// Warns once of each version of a skill that should be split.
    pub(crate) fn warn_of_large_skills(&self) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        for skill in self.store.snapshot().large() {
            if warned.insert((skill.id().to_string(), skill.size())) {
                tracing::warn!(
                    skill = skill.id().as_str(),
                    tokens = skill.tokens().get(),
                    "a skill over {LARGE_SKILL} tokens: split it, or move detail into references/"
                );
            }
        }
    }
}

/// What makes two findings the same, whatever line they have moved to.
fn key(problem: &Problem) -> (&Path, &str) {
    (&problem.path, problem.diagnostic.rule)
}
