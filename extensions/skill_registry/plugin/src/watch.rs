//! Watches the folders: polls, publishes what changed, says what is wrong.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use skill_format::{Digest, LARGE_SKILL, Severity, SkillId, sanitise_line};
use skill_store::{PollReport, Problem, Snapshot, Store};
use skillhost_sdk::prelude::*;
use skillhost_sdk::tokio;

use crate::blocking;
use crate::desk::Desk;

/// Polls a store and tells everybody.
pub(crate) struct Watch {
    cx: ExtensionContext,
    store: Arc<Store>,
    desk: Arc<Desk>,
    /// The versions of skills that were called large.
    warned: Mutex<HashSet<(SkillId, Digest)>>,
}

impl Watch {
    pub(crate) fn new(cx: ExtensionContext, store: Arc<Store>, desk: Arc<Desk>) -> Self {
        Self { cx, store, desk, warned: Mutex::default() }
    }

    /// Polls for ever; 0 turns polling off.
    ///
    /// A poll that goes wrong is told and does not end the watching.
    pub(crate) async fn run(self: &Arc<Self>, interval_ms: u64) {
        self.desk.tell(blocking(|| self.desk.keeper.begin(&self.store))).await;
        // The first pass reads every text once, so that there is a last good one to serve.
        self.told(self.poll_fully().await);
        if interval_ms == 0 {
            return;
        }
        loop {
            tokio::time::sleep(Duration::from_millis(interval_ms)).await;
            self.told(self.poll().await);
        }
    }

    /// Looks for changes once; fails if the poll panicked or the kernel shuts down.
    pub(crate) async fn poll(self: &Arc<Self>) -> Result<()> {
        self.poll_with(Store::poll).await
    }

    /// Looks at every skill, whatever its stamps say.
    pub(crate) async fn poll_fully(self: &Arc<Self>) -> Result<()> {
        self.poll_with(Store::poll_everything).await
    }

    async fn poll_with(self: &Arc<Self>, poll: fn(&Store) -> PollReport) -> Result<()> {
        // A caller that gives up must not take the events with it.
        let watch = Arc::clone(self);
        let look = tokio::spawn(async move { watch.look(poll).await });
        look.await.unwrap_or_else(|error| Err(ExtError::failed(error.to_string())))
    }

    async fn look(&self, poll: fn(&Store) -> PollReport) -> Result<()> {
        let before = self.store.snapshot();
        let (report, kept) = blocking(|| {
            let report = poll(&self.store);
            let fully = report.changed || report.full_pass;
            let kept = self.desk.keeper.keep_up(&self.store, &report.events, fully);
            (report, kept)
        });
        if report.changed || report.full_pass {
            self.warn_of_large_skills();
            let after = self.store.snapshot();
            log_new_problems(&before, &after);
            for event in &report.events {
                self.cx.emit(event.topic(), event).await?;
            }
        }
        self.desk.tell(kept).await;
        Ok(())
    }

    /// Warns once of each version of a skill that should be split.
    fn warn_of_large_skills(&self) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        for skill in self.store.snapshot().large() {
            // What was only listed so far has no digest, and its size is an estimate.
            let Some(digest) = skill.digest() else { continue };
            if warned.insert((skill.id().clone(), digest)) {
                tracing::warn!(
                    skill = skill.id().as_str(),
                    tokens = skill.tokens().get(),
                    "a skill over {LARGE_SKILL} tokens: split it, or move detail into references/"
                );
            }
        }
    }

    fn told(&self, polled: Result<()>) {
        if let Err(error) = polled {
            tracing::warn!(%error, "a look at the skill folders went wrong");
        }
    }
}

/// Says what is wrong with the folders at the start: what is left out, and what cannot be searched.
pub(crate) fn log_skipped(snapshot: &Snapshot) {
    snapshot.problems().iter().filter(|problem| problem.skipped).for_each(|problem| log(problem));
}

/// Says what is wrong now and was not before.
fn log_new_problems(before: &Snapshot, after: &Snapshot) {
    let known: HashSet<_> = before.problems().iter().map(|problem| key(problem)).collect();
    after
        .problems()
        .iter()
        .filter(|problem| !known.contains(&key(problem)))
        .for_each(|problem| log(problem));
}

/// What makes two findings the same, whatever line they have moved to.
fn key(problem: &Problem) -> (&Path, &str) {
    (&problem.path, problem.diagnostic.rule)
}

/// Writes one line; the finding may quote anybody's text.
fn log(problem: &Problem) {
    let line = sanitise_line(&problem.to_string());
    match problem.diagnostic.severity {
        Severity::Error | Severity::Warning => tracing::warn!("{line}"),
        Severity::Note => tracing::debug!("{line}"),
    }
}
