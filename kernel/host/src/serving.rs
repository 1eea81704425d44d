//! Delivers durable events to their handlers, as long as the kernel runs.
//!
//! One process per home does, behind a lock file; the others only append. Deliveries of one lane are
//! made one after the other. What came of an attempt is in the journal before the next one begins.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::json;
use skillhost_contract::payload::{ErrorKind, Event};
use skillhost_events::{DeadLetter, Delivery, Journal, KeepLimits};
use tokio::task::{Id, JoinHandle, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::bus::Handled;
use crate::error::CallError;
use crate::events::topic;
use crate::journal::private_folder;
use crate::kernel::{Kernel, State};

mod handlers;
mod templates;

use handlers::Handlers;

/// How often the kernel looks for events of other processes.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often what is old is dropped.
const PRUNE_EVERY: Duration = Duration::from_secs(60 * 60);

/// What is there while events are delivered.
#[derive(Default)]
pub(crate) struct Serving(Mutex<Option<Service>>);

struct Service {
    handlers: Arc<ArcSwap<Handlers>>,
    cancel: CancellationToken,
    task: JoinHandle<()>,
    /// Held as long as this lives.
    _alone: File,
}

impl Serving {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Service>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kernel {
    /// Delivers events from now on, first of all what an earlier process left; a second call does
    /// nothing. Ends with [`Kernel::shutdown`].
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] where another process delivers the events of this home; of another
    /// kind where the journal cannot be used.
    pub async fn serve_events(&self) -> Result<(), CallError> {
        let _changes = self.shared.changes.lock().await;
        if self.shared.serving.lock().is_some() {
            return Ok(());
        }
        let alone = self.serve_alone()?;
        let journal = self.shared.events.journal().clone();
        let attempts = u32::try_from(self.event_retries().len() + 1).unwrap_or(u32::MAX);
        let lost = journal.recover(attempts).await?;
        let found = Handlers::of(&self.shared.state.load());
        journal.set_subscribers(found.subscribers()).await?;
        let handlers = Arc::new(ArcSwap::from_pointee(found));
        let cancel = CancellationToken::new();
        let delivering = Delivering {
            kernel: self.clone(),
            journal,
            handlers: Arc::clone(&handlers),
            running: JoinSet::new(),
            under_way: HashMap::new(),
        };
        let task = tokio::spawn(delivering.run(cancel.clone()));
        *self.shared.serving.lock() = Some(Service { handlers, cancel, task, _alone: alone });
        for letter in &lost {
            self.publish_dead(letter).await;
        }
        Ok(())
    }

    /// Lets deliveries follow what is loaded now.
    pub(crate) async fn follow_handlers(&self, state: &State) {
        let found = Handlers::of(state);
        let subscribers = found.subscribers();
        match &*self.shared.serving.lock() {
            // First the handlers: whoever is claimed for a subscriber finds its handler.
            Some(service) => service.handlers.store(Arc::new(found)),
            None => return,
        }
        if let Err(error) = self.shared.events.journal().set_subscribers(subscribers).await {
            tracing::error!(%error, "the new subscriptions are not in force");
        }
    }

    /// Ends the deliveries: those under way have as long as calls have, then they are made again
    /// after the next start.
    pub(crate) async fn end_deliveries(&self) {
        let service = self.shared.serving.lock().take();
        if let Some(service) = service {
            service.cancel.cancel();
            let _ = service.task.await;
        }
    }

    /// How long to wait after each failed attempt but the last.
    fn event_retries(&self) -> Vec<Duration> {
        match &self.shared.settings.load().events.retry_ms {
            Some(retries) => retries.iter().take(10).map(|ms| Duration::from_millis(*ms)).collect(),
            None => self.shared.limits.event_retries.clone(),
        }
    }

    fn serve_alone(&self) -> Result<File, CallError> {
        let folder = self.shared.home.data_dir("kernel");
        let path = folder.join("serving.lock");
        let failed = |error: std::io::Error| {
            CallError::new(ErrorKind::Io, format!("{}: {error}", path.display()))
        };
        private_folder(&folder).map_err(failed)?;
        let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(CallError::new(
                ErrorKind::Conflict,
                "another kernel delivers the events of this home",
            )
            .with_hint("stop the other one, or use another --home")),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Tells that a delivery was given up. A delivery of that very event is given up silently, apart
    /// from the log: it would never end.
    async fn publish_dead(&self, letter: &DeadLetter) {
        let DeadLetter { id, subscriber, attempts, error, event, .. } = letter;
        tracing::error!(
            delivery = id,
            subscriber,
            topic = event.topic,
            error,
            "an event was given up"
        );
        if event.topic == topic::EVENT_DEAD {
            return;
        }
        let payload = json!({
            "delivery": id,
            "subscriber": subscriber,
            "event": event.id,
            "topic": event.topic,
            "attempts": attempts,
            "error": error,
        });
        let Ok(payload) = serde_json::value::to_raw_value(&payload) else { return };
        let correlation_id = Some(event.correlation_id.clone());
        let dead = Event { correlation_id, ..Event::new(topic::EVENT_DEAD, "kernel", payload) };
        if let Err(error) = self.shared.events.publish(dead).await {
            tracing::error!(%error, "an event was not kept");
        }
    }
}

/// The loop that delivers.
struct Delivering {
    kernel: Kernel,
    journal: Journal,
    handlers: Arc<ArcSwap<Handlers>>,
    running: JoinSet<()>,
    /// Which delivery each task makes.
    under_way: HashMap<Id, i64>,
}

impl Delivering {
    async fn run(mut self, cancel: CancellationToken) {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut prune_at = Instant::now();
        while !cancel.is_cancelled() {
            if Instant::now() >= prune_at {
                prune_at += PRUNE_EVERY;
                self.prune().await;
            }
            let next = self.begin_due().await;
            self.wait(&cancel, next, &mut look).await;
        }
        self.end().await;
    }

    /// Begins every delivery that is due; returns how long it is until another one is.
    async fn begin_due(&mut self) -> Option<Duration> {
        let claim = match self.journal.claim_due().await {
            Ok(claim) => claim,
            Err(error) => {
                tracing::error!(%error, "no events are delivered");
                return None;
            }
        };
        for delivery in claim.deliveries {
            let id = delivery.id;
            let attempt = attempt(self.kernel.clone(), Arc::clone(&self.handlers), delivery);
            let task = self.running.spawn(attempt);
            self.under_way.insert(task.id(), id);
        }
        claim.next_ms.map(Duration::from_millis)
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
                Some(ended) = self.running.join_next_with_id() => {
                    self.under_way.remove(&task_of(&ended));
                    return;
                }
                () = &mut due => return,
                _ = look.tick() => {
                    if self.journal.changed_elsewhere().await.unwrap_or(false) {
                        return;
                    }
                }
            }
        }
    }

    async fn prune(&self) {
        match self.journal.prune(KeepLimits::default()).await {
            Ok(pruned) if pruned.undelivered > 0 => tracing::error!(
                undelivered = pruned.undelivered,
                "too many events: some were dropped before they were delivered"
            ),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "old events are not dropped"),
        }
    }

    async fn end(mut self) {
        let drained = async {
            while let Some(ended) = self.running.join_next_with_id().await {
                self.under_way.remove(&task_of(&ended));
            }
        };
        if tokio::time::timeout(self.kernel.shared.limits.drain, drained).await.is_ok() {
            return;
        }
        self.running.shutdown().await;
        for delivery in self.under_way.into_values() {
            // False where it had come to its end.
            if let Err(error) = self.journal.release(delivery).await {
                tracing::warn!(delivery, %error, "a delivery was not put back");
            }
        }
    }
}

fn task_of(ended: &Result<(Id, ()), tokio::task::JoinError>) -> Id {
    ended.as_ref().map_or_else(tokio::task::JoinError::id, |(id, ())| *id)
}

/// Makes one attempt, and notes what came of it.
async fn attempt(kernel: Kernel, handlers: Arc<ArcSwap<Handlers>>, delivery: Delivery) {
    let handled = handlers.load_full().handle(&kernel, &delivery).await;
    let journal = kernel.shared.events.journal();
    let noted = match handled {
        Handled::Done => journal.ack(delivery.id).await,
        Handled::Released => journal.release(delivery.id).await,
        Handled::Failed(error) => failed(&kernel, journal, &delivery, &error).await,
    };
    if let Err(error) = noted {
        // It stays claimed, and is made again after the next start.
        tracing::error!(delivery = delivery.id, %error, "what came of an event was not noted");
    }
}

async fn failed(
    kernel: &Kernel,
    journal: &Journal,
    delivery: &Delivery,
    error: &CallError,
) -> Result<bool, skillhost_events::JournalError> {
    let retries = kernel.event_retries();
    let tried = usize::try_from(delivery.attempt).unwrap_or(usize::MAX);
    let text = error.to_string();
    let (subscriber, topic) = (&delivery.subscriber, &delivery.event.topic);
    if let Some(wait) = retries.get(tried.saturating_sub(1)) {
        tracing::warn!(
            subscriber,
            topic,
            attempt = tried,
            error = text,
            "an event was not handled"
        );
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        return journal.fail(delivery.id, &text, Some(journal.now_ms().saturating_add(wait))).await;
    }
    let noted = journal.fail(delivery.id, &text, None).await?;
    let letter = DeadLetter {
        id: delivery.id,
        subscriber: subscriber.clone(),
        attempts: delivery.attempt,
        error: text,
        at_ms: journal.now_ms(),
        event: delivery.event.clone(),
    };
    kernel.publish_dead(&letter).await;
    Ok(noted)
}
