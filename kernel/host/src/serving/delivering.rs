//! The loop that delivers.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use skillhost_contract::payload::ErrorKind;
use skillhost_events::{DeadLetter, Delivery, Journal, JournalError, RetentionLimits};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::EventDelivery;
use super::handlers::HandlerTable;
use crate::bus::HandlerOutcome;
use crate::error::CallError;
use crate::kernel::Kernel;

/// How often the kernel looks for events of other processes, and tries again what failed.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often what is old is dropped.
const PRUNE_EVERY: Duration = Duration::from_secs(60 * 60);

/// Between two attempts to record outcomes when the kernel ends.
const RECORD_EVERY: Duration = Duration::from_millis(100);

/// The loop that delivers.
pub(super) struct Delivering {
    kernel: Kernel,
    journal: Journal,
    handlers: Arc<ArcSwap<HandlerTable>>,
    /// Keeps other processes from delivering.
    alone: Option<File>,
    recovered: bool,
    running: JoinSet<HandlerOutcome>,
    /// The delivery that each task makes.
    under_way: HashMap<Id, Delivery>,
    /// Outcomes that are not in the journal yet.
    unrecorded: Vec<(Delivery, AttemptOutcome)>,
}

/// What the journal is to have of an attempt.
enum AttemptOutcome {
    Done,
    Released,
    Retry { error: String, at: u64 },
    Dead { error: String },
}

impl Delivering {
    pub(super) fn new(kernel: Kernel, handlers: Arc<ArcSwap<HandlerTable>>) -> Self {
        Self {
            journal: kernel.shared.events.journal().clone(),
            kernel,
            handlers,
            alone: None,
            recovered: false,
            running: JoinSet::new(),
            under_way: HashMap::new(),
            unrecorded: Vec::new(),
        }
    }

    /// Takes over what an earlier process left and makes every subscriber known to the journal. May
    /// be called again after an error.
    pub(super) async fn prepare(&mut self) -> Result<(), CallError> {
        if self.alone.is_none() {
            self.alone = Some(self.kernel.lock_event_delivery()?);
        }
        let mut lost = Vec::new();
        if !self.recovered {
            let retries = self.kernel.event_retries();
            let attempts = u32::try_from(retries.len() + 1).unwrap_or(u32::MAX);
            let longest = retries.into_iter().max().unwrap_or_default();
            lost = self.journal.recover(attempts, longest).await?;
            // Once: from here on, what is claimed is this process's own.
            self.recovered = true;
        }
        // A reload that comes meanwhile is followed at the next look.
        self.serving().state().current = true;
        let handlers = self.handlers.load_full();
        let known = self.journal.set_subscribers(handlers.subscribers()).await;
        {
            let mut state = self.serving().state();
            state.prepared |= known.is_ok();
            state.current &= known.is_ok() && Arc::ptr_eq(&handlers, &self.handlers.load());
        }
        known?;
        for letter in &lost {
            self.kernel.publish_dead_letter(letter).await;
        }
        Ok(())
    }

    pub(super) async fn run(mut self, cancel: CancellationToken) {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut prune_at = Instant::now();
        while !cancel.is_cancelled() {
            let next = match self.deliver_due().await {
                Ok(next) => {
                    self.serving().succeed();
                    if Instant::now() >= prune_at {
                        prune_at += PRUNE_EVERY;
                        self.prune().await;
                    }
                    next
                }
                Err(error) => {
                    self.serving().fail(&error);
                    Some(LOOK_EVERY)
                }
            };
            self.wait(&cancel, next, &mut look).await;
        }
        self.end().await;
    }

    fn serving(&self) -> &EventDelivery {
        &self.kernel.shared.serving
    }

    /// Begins every delivery that is due; returns how long it is until another one is.
    async fn deliver_due(&mut self) -> Result<Option<Duration>, CallError> {
        let current = {
            let state = self.serving().state();
            state.prepared && state.current
        };
        if !current {
            self.prepare().await?;
        }
        let recorded = self.record_outcomes().await;
        // An outcome that cannot be recorded holds up its own lane alone.
        let claim = self.journal.claim_due().await?;
        for delivery in claim.deliveries {
            let (kernel, handlers) = (self.kernel.clone(), Arc::clone(&self.handlers));
            let own = delivery.clone();
            let task = self.running.spawn(async move {
                let handlers = handlers.load_full();
                handlers.handle(&kernel, &own).await
            });
            self.under_way.insert(task.id(), delivery);
        }
        recorded?;
        Ok(claim.next_ms.map(Duration::from_millis))
    }

    /// Waits until there may be something to deliver.
    async fn wait(
        &mut self,
        cancel: &CancellationToken,
        next: Option<Duration>,
        look: &mut Interval,
    ) {
        let due = async {
            match next {
                Some(next) => sleep(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(due);
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = self.kernel.shared.events.appended.notified() => return,
                Some(ended) = self.running.join_next_with_id() => return self.note(ended),
                () = &mut due => return,
                _ = look.tick() => {
                    if self.journal.has_external_changes().await.unwrap_or(false) {
                        return;
                    }
                }
            }
        }
    }

    /// Takes note of the end of an attempt.
    fn note(&mut self, ended: Result<(Id, HandlerOutcome), JoinError>) {
        let (task, handled) = match ended {
            Ok(ended) => ended,
            // The kernel is about to end, and has given it up.
            Err(error) if error.is_cancelled() => (error.id(), HandlerOutcome::Released),
            Err(error) => {
                let failed = CallError::new(ErrorKind::Panicked, "the delivery panicked");
                (error.id(), HandlerOutcome::Failed(failed))
            }
        };
        if let Some(delivery) = self.under_way.remove(&task) {
            let outcome = self.outcome_of(&delivery, handled);
            self.unrecorded.push((delivery, outcome));
        }
    }

    fn outcome_of(&self, delivery: &Delivery, handled: HandlerOutcome) -> AttemptOutcome {
        let error = match handled {
            HandlerOutcome::Done => return AttemptOutcome::Done,
            HandlerOutcome::Released => return AttemptOutcome::Released,
            HandlerOutcome::Failed(error) => error.to_string(),
        };
        let tried = usize::try_from(delivery.attempt).unwrap_or(usize::MAX);
        let retries = self.kernel.event_retries();
        let Some(wait) = retries.get(tried.saturating_sub(1)) else {
            return AttemptOutcome::Dead { error };
        };
        let (subscriber, topic) = (&delivery.subscriber, &delivery.event.topic);
        tracing::warn!(subscriber, topic, attempt = tried, error, "an event was not handled");
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        AttemptOutcome::Retry { error, at: self.journal.steady_ms().saturating_add(wait) }
    }

    /// Records the outcomes of attempts; those that cannot be recorded are kept.
    async fn record_outcomes(&mut self) -> Result<(), JournalError> {
        let mut recorded = Ok(());
        for (delivery, outcome) in std::mem::take(&mut self.unrecorded) {
            if let Err(error) = self.record(&delivery, &outcome).await {
                recorded = Err(error);
                self.unrecorded.push((delivery, outcome));
            }
        }
        recorded
    }

    async fn record(
        &self,
        delivery: &Delivery,
        outcome: &AttemptOutcome,
    ) -> Result<(), JournalError> {
        let id = delivery.id;
        match outcome {
            AttemptOutcome::Done => self.journal.ack(id).await?,
            AttemptOutcome::Released => self.journal.release(id).await?,
            AttemptOutcome::Retry { error, at } => self.journal.fail(id, error, Some(*at)).await?,
            AttemptOutcome::Dead { error } => {
                let dead = self.journal.fail(id, error, None).await?;
                let letter = DeadLetter {
                    id,
                    subscriber: delivery.subscriber.clone(),
                    attempts: delivery.attempt,
                    error: error.clone(),
                    at_ms: self.journal.now_ms(),
                    event: delivery.event.clone(),
                };
                self.kernel.publish_dead_letter(&letter).await;
                dead
            }
        };
        Ok(())
    }

    async fn prune(&self) {
        match self.journal.prune(RetentionLimits::default()).await {
            Ok(pruned) if pruned.undelivered > 0 => tracing::error!(
                undelivered = pruned.undelivered,
                "too many events: some were dropped before they were delivered"
            ),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "old events are not dropped"),
        }
    }

    async fn end(mut self) {
        let (drain, stop) = (self.kernel.shared.limits.drain, self.kernel.shared.limits.stop);
        if timeout(drain, self.join_all()).await.is_err() {
            self.running.abort_all();
            // One that blocks its thread cannot be given up; it is made again after the next start.
            let _ = timeout(stop, self.join_all()).await;
        }
        let recording = async {
            while let Err(error) = self.record_outcomes().await {
                tracing::debug!(%error, "outcomes of deliveries are not recorded yet");
                sleep(RECORD_EVERY).await;
            }
        };
        let recorded = timeout(stop, recording).await.is_ok();
        if !recorded {
            let left = self.unrecorded.len();
            tracing::warn!(left, "deliveries are made again after the next start");
        }
    }

    async fn join_all(&mut self) {
        while let Some(ended) = self.running.join_next_with_id().await {
            self.note(ended);
        }
    }
}
