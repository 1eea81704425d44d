//! Delivers durable events to their handlers, as long as the kernel runs.
//!
//! One process per home does, behind a lock file; the others only append. Deliveries of one lane are
//! made one after the other. The outcome of an attempt is in the journal before the next one begins;
//! one that cannot be recorded is kept and recorded as soon as the journal works again.

use std::fs::{File, TryLockError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::json;
use skillhost_contract::payload::{ErrorKind, Event};
use skillhost_events::DeadLetter;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::error::CallError;
use crate::events::topic;
use crate::journal::create_private_dir;
use crate::kernel::{Kernel, KernelState};

mod delivering;
mod handlers;
mod templates;

use delivering::Delivering;
use handlers::HandlerTable;

/// The delivery of events in this process, and its state.
#[derive(Default)]
pub(crate) struct EventDelivery {
    service: Mutex<Option<RunningDelivery>>,
    state: Mutex<DeliveryState>,
}

struct RunningDelivery {
    handlers: Arc<ArcSwap<HandlerTable>>,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

/// Whether events can be delivered just now.
#[derive(Default)]
struct DeliveryState {
    /// What was left behind is taken over, and every subscriber is known to the journal.
    prepared: bool,
    /// The subscribers in the journal are those of what is loaded.
    current: bool,
    /// The last error, until everything works again.
    problem: Option<CallError>,
}

impl EventDelivery {
    fn lock(&self) -> MutexGuard<'_, Option<RunningDelivery>> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, DeliveryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: &CallError) {
        let known = self.state().problem.replace(error.clone());
        if known.is_none_or(|known| known.message != error.message) {
            let hint = error.hint.as_str();
            tracing::error!(%error, hint, "events are not delivered; it is tried again");
        }
    }

    fn succeed(&self) {
        if self.state().problem.take().is_some() {
            tracing::warn!("events are delivered again");
        }
    }
}

impl Kernel {
    /// Delivers events from now on, first of all what an earlier process left; a second call does
    /// nothing. Where the journal cannot be used, it is tried again until it can be; until then
    /// [`Kernel::delivery_problem`] has the reason. Ends with [`Kernel::shutdown`].
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] where another process delivers the events of this home.
    pub async fn start_event_delivery(&self) -> Result<(), CallError> {
        let _changes = self.shared.changes.lock().await;
        if self.shared.serving.lock().is_some() {
            return Ok(());
        }
        let handlers =
            Arc::new(ArcSwap::from_pointee(HandlerTable::from_state(&self.shared.state.load())));
        let mut delivering = Delivering::new(self.clone(), Arc::clone(&handlers));
        match delivering.prepare().await {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::Conflict => return Err(error),
            Err(error) => self.shared.serving.fail(&error),
        }
        let cancel = CancellationToken::new();
        let task = tokio::spawn(delivering.run(cancel.clone()));
        *self.shared.serving.lock() = Some(RunningDelivery { handlers, cancel, task });
        Ok(())
    }

    /// The reason why events are not delivered just now; `None` where they are, and where this
    /// process is not the one that delivers.
    #[must_use]
    pub fn delivery_problem(&self) -> Option<CallError> {
        let serving = self.shared.serving.lock().is_some();
        serving.then(|| self.shared.serving.state().problem.clone()).flatten()
    }

    /// Refuses what would wait for a delivery that may never come: before every subscriber is known
    /// to the journal, an event is nobody's.
    pub(crate) fn check_delivery(&self) -> Result<(), CallError> {
        if self.shared.serving.lock().is_none() {
            return Ok(());
        }
        let state = self.shared.serving.state();
        match &state.problem {
            Some(error) if !state.prepared => {
                let message = format!("the kernel does not accept messages yet: {}", error.message);
                Err(CallError::new(error.kind, message).with_hint(error.hint.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Lets deliveries follow what is loaded now.
    pub(crate) async fn update_handlers(&self, state: &KernelState) {
        let found = HandlerTable::from_state(state);
        let subscribers = found.subscribers();
        match &*self.shared.serving.lock() {
            // First the handlers: whoever is claimed for a subscriber finds its handler.
            Some(service) => service.handlers.store(Arc::new(found)),
            None => return,
        }
        if let Err(error) = self.shared.events.journal().set_subscribers(subscribers).await {
            tracing::error!(%error, "the new subscriptions are not in force yet");
            // The loop that delivers tries again.
            self.shared.serving.state().current = false;
        }
    }

    /// Ends the deliveries: those under way have as long as calls have, then they are made again
    /// after the next start.
    pub(crate) async fn stop_event_delivery(&self) {
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

    fn lock_event_delivery(&self) -> Result<File, CallError> {
        let folder = self.shared.home.data_dir("kernel");
        let path = folder.join("serving.lock");
        let failed = |error: std::io::Error| {
            CallError::new(ErrorKind::Io, format!("{}: {error}", path.display()))
        };
        create_private_dir(&folder).map_err(failed)?;
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
    async fn publish_dead_letter(&self, letter: &DeadLetter) {
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
