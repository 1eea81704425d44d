//! The delivery loop.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use skillhost_events::{DeadLetter, Delivery, Journal, JournalError, RetentionLimits};
use skillhost_payload::{CallError, ErrorKind};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::EventDelivery;
use super::handlers::HandlerTable;
use crate::bus::HandlerOutcome;

/// The interval of checks for events of other processes, and of retries after a journal error.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The interval of pruning old events.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The interval of attempts to store outcomes during shutdown.
const RECORD_INTERVAL: Duration = Duration::from_millis(100);

/// The delivery loop, which runs as one task per process.
pub(super) struct Delivering {
    delivery: Arc<EventDelivery>,
    journal: Journal,
    handlers: Arc<ArcSwap<HandlerTable>>,
    /// The lock file that keeps other processes from delivering.
    lock_file: Option<File>,
    recovered: bool,
    /// Whether the dead letters of earlier processes have their events.
    announced: bool,
    running: JoinSet<HandlerOutcome>,
    /// The delivery of each running task.
    active: HashMap<Id, Delivery>,
    /// Outcomes that are not in the journal yet.
    unrecorded: Vec<(Delivery, AttemptOutcome)>,
}

/// The outcome of an attempt, as the journal stores it.
enum AttemptOutcome {
    Done,
    Released,
    Retry { error: String, at: u64 },
    Dead { error: String },
}

impl Delivering {
    pub(super) fn new(delivery: Arc<EventDelivery>, handlers: Arc<ArcSwap<HandlerTable>>) -> Self {
        Self {
            journal: delivery.agents.extensions().events().journal().clone(),
            delivery,
            handlers,
            lock_file: None,
            recovered: false,
            announced: false,
            running: JoinSet::new(),
            active: HashMap::new(),
            unrecorded: Vec::new(),
        }
    }

    /// Takes over the deliveries of an earlier process and registers every subscriber in the
    /// journal. May be called again after an error.
    pub(super) async fn prepare(&mut self) -> Result<(), CallError> {
        if self.lock_file.is_none() {
            self.lock_file = Some(self.delivery.lock_event_delivery()?);
        }
        let mut dead_letters = Vec::new();
        if !self.recovered {
            let retries = self.delivery.event_retries();
            let attempts = u32::try_from(retries.len() + 1).unwrap_or(u32::MAX);
            let max_pause = retries.into_iter().max().unwrap_or_default();
            for subscriber in self.handlers.load().crash_tolerant() {
                // Without it the attempts count; a damaged journal is replaced by the recovery.
                let _ = self.journal.release_claimed(subscriber).await;
            }
            dead_letters = self.journal.recover(attempts, max_pause).await?;
            // Only once: from here on, claimed deliveries belong to this process.
            self.recovered = true;
        }
        // A reload during this call clears the flag again, so the next round follows it.
        self.delivery.state().current = true;
        let handlers = self.handlers.load_full();
        let known = self.journal.set_subscribers(handlers.subscribers()).await;
        {
            let mut state = self.delivery.state();
            state.prepared |= known.is_ok();
            // A reload may have replaced the table since it was loaded above.
            state.current &= known.is_ok() && Arc::ptr_eq(&handlers, &self.handlers.load());
        }
        known?;
        dead_letters.iter().for_each(log_dead_letter);
        if !self.announced {
            // The new ones, and those whose process ended before it could publish them.
            for letter in &self.journal.dead_letters().await? {
                self.delivery.publish_dead_letter(letter).await;
            }
            self.announced = true;
        }
        Ok(())
    }

    pub(super) async fn run(mut self, cancel: CancellationToken) {
        let mut poll = interval(POLL_INTERVAL);
        // After a suspended machine, missed ticks would otherwise follow at once.
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut prune_at = Instant::now();
        while !cancel.is_cancelled() {
            let next = match self.deliver_due().await {
                Ok(next) => {
                    self.delivery.succeed();
                    if Instant::now() >= prune_at {
                        prune_at += PRUNE_INTERVAL;
                        self.prune().await;
                    }
                    next
                }
                Err(error) => {
                    self.delivery.fail(&error);
                    Some(POLL_INTERVAL)
                }
            };
            self.wait(&cancel, next, &mut poll).await;
        }
        self.drain_and_stop().await;
    }

    /// Starts every due delivery; returns the time until the next one is due.
    async fn deliver_due(&mut self) -> Result<Option<Duration>, CallError> {
        let current = {
            let state = self.delivery.state();
            state.prepared && state.current
        };
        if !current {
            self.prepare().await?;
        }
        let recorded = self.record_outcomes().await;
        // An outcome that cannot be stored holds up its own ordering key alone.
        let claim = self.journal.claim_due().await?;
        for delivery in claim.deliveries {
            let (service, handlers) = (Arc::clone(&self.delivery), Arc::clone(&self.handlers));
            let claimed = delivery.clone();
            let task = self.running.spawn(async move {
                let handlers = handlers.load_full();
                handlers.handle(&service.agents, &service.tasks, &claimed).await
            });
            self.active.insert(task.id(), delivery);
        }
        // Only now: other ordering keys are delivered even while the journal rejects outcomes.
        recorded?;
        Ok(claim.next_ms.map(Duration::from_millis))
    }

    /// Waits until a delivery may be due.
    async fn wait(
        &mut self,
        cancel: &CancellationToken,
        next: Option<Duration>,
        poll: &mut Interval,
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
                () = self.delivery.agents.extensions().events().appended().notified() => return,
                Some(ended) = self.running.join_next_with_id() => return self.note_finished(ended),
                () = &mut due => return,
                _ = poll.tick() => {
                    // A journal that cannot be read is reported by the next round.
                    if self.journal.has_external_changes().await.unwrap_or(false) {
                        return;
                    }
                }
            }
        }
    }

    /// Removes a finished task and queues its outcome for the journal.
    fn note_finished(&mut self, ended: Result<(Id, HandlerOutcome), JoinError>) {
        let (task, handled) = match ended {
            Ok(ended) => ended,
            // The kernel shuts down and has aborted the task.
            Err(error) if error.is_cancelled() => (error.id(), HandlerOutcome::Released),
            Err(error) => {
                let failed = CallError::new(ErrorKind::Panicked, "delivery panicked");
                (error.id(), HandlerOutcome::Failed(failed))
            }
        };
        if let Some(delivery) = self.active.remove(&task) {
            let outcome = self.outcome_of(&delivery, handled);
            self.unrecorded.push((delivery, outcome));
        }
    }

    fn outcome_of(&self, delivery: &Delivery, handled: HandlerOutcome) -> AttemptOutcome {
        let error = match handled {
            HandlerOutcome::Done => return AttemptOutcome::Done,
            HandlerOutcome::Released => return AttemptOutcome::Released,
            HandlerOutcome::Failed(error) => describe_error(&error),
        };
        let tried = usize::try_from(delivery.attempt).unwrap_or(usize::MAX);
        let retries = self.delivery.event_retries();
        let Some(wait) = retries.get(tried.saturating_sub(1)) else {
            return AttemptOutcome::Dead { error };
        };
        let (subscriber, topic) = (&delivery.subscriber, &delivery.event.topic);
        tracing::warn!(subscriber, topic, attempt = tried, error, "event handler failed");
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        AttemptOutcome::Retry { error, at: self.journal.steady_ms().saturating_add(wait) }
    }

    /// Stores the outcomes of attempts; those that cannot be stored stay queued.
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
                // Published after the journal has it, so that a retry by an operator finds it.
                log_dead_letter(&letter);
                self.delivery.publish_dead_letter(&letter).await;
                dead
            }
        };
        Ok(())
    }

    async fn prune(&self) {
        match self.journal.prune(RetentionLimits::default()).await {
            Ok(pruned) if pruned.undelivered > 0 => tracing::error!(
                undelivered = pruned.undelivered,
                "too many events; some were dropped before delivery"
            ),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "pruning old events failed"),
        }
    }

    async fn drain_and_stop(mut self) {
        let (drain, stop) = (
            self.delivery.agents.extensions().limits().drain,
            self.delivery.agents.extensions().limits().stop,
        );
        if timeout(drain, self.join_all()).await.is_err() {
            self.running.abort_all();
            // A task that blocks its thread cannot be aborted; its delivery is repeated after the
            // next start.
            let _ = timeout(stop, self.join_all()).await;
        }
        let recording = async {
            while let Err(error) = self.record_outcomes().await {
                tracing::debug!(%error, "outcomes of deliveries are not stored yet");
                sleep(RECORD_INTERVAL).await;
            }
        };
        let recorded = timeout(stop, recording).await.is_ok();
        if !recorded {
            let pending = self.unrecorded.len();
            tracing::warn!(pending, "deliveries will be repeated after the next start");
        }
    }

    async fn join_all(&mut self) {
        while let Some(ended) = self.running.join_next_with_id().await {
            self.note_finished(ended);
        }
    }
}

/// Returns the text of an error with its remedy, as a dead letter shows it.
fn describe_error(error: &CallError) -> String {
    match error.hint.as_str() {
        "" => error.message.clone(),
        hint => format!("{}; {hint}", error.message),
    }
}

fn log_dead_letter(letter: &DeadLetter) {
    let DeadLetter { id, subscriber, error, event, .. } = letter;
    tracing::error!(
        delivery = id,
        subscriber,
        topic = event.topic,
        error,
        "event delivery moved to the dead letters"
    );
}
