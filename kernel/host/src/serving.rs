//! The delivery of durable events to their subscribers, while the kernel runs.
//!
//! A lock file limits delivery to one process per home; all others only append. Deliveries with the
//! same ordering key are made one after the other. The outcome of an attempt is in the journal
//! before the next attempt begins; an outcome that cannot be stored is held in memory until the
//! journal is writable again.

use std::fs::{File, TryLockError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use serde_json::json;
use skillhost_agents::AgentRuntime;
use skillhost_core::{KernelState, StateObserver};
use skillhost_engine::AgentTaskSubmitter;
use skillhost_events::{DeadLetter, topic};
use skillhost_files::create_private_dir;
use skillhost_home::KERNEL_OWNER;
use skillhost_payload::{CallError, ErrorKind, Event};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::bus::BuiltinHandler;

mod delivering;
mod handlers;
mod templates;

use delivering::Delivering;
use handlers::HandlerTable;

/// The event delivery of this process, and its state.
pub(crate) struct EventDelivery {
    agents: AgentRuntime,
    tasks: AgentTaskSubmitter,
    /// The kernel's own handlers.
    builtin: Vec<Arc<dyn BuiltinHandler>>,
    service: Mutex<Option<RunningDelivery>>,
    state: Mutex<DeliveryState>,
}

struct RunningDelivery {
    handlers: Arc<ArcSwap<HandlerTable>>,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

/// The state of event delivery.
#[derive(Default)]
struct DeliveryState {
    /// True if deliveries of an earlier process are taken over and the journal has every
    /// subscriber.
    prepared: bool,
    /// True if the subscribers in the journal match the loaded extensions.
    current: bool,
    /// The last error, until the next success.
    problem: Option<CallError>,
}

impl EventDelivery {
    pub(crate) fn new(
        agents: AgentRuntime,
        tasks: AgentTaskSubmitter,
        builtin: Vec<Arc<dyn BuiltinHandler>>,
    ) -> Self {
        let (service, state) = (Mutex::default(), Mutex::default());
        Self { agents, tasks, builtin, service, state }
    }

    fn lock(&self) -> MutexGuard<'_, Option<RunningDelivery>> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, DeliveryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: &CallError) {
        let known = self.state().problem.replace(error.clone());
        // Logged once per cause: the loop tries again twice a second.
        if known.is_none_or(|known| known.message != error.message) {
            let hint = error.hint.as_str();
            tracing::error!(%error, hint, "event delivery failed; retrying");
        }
    }

    fn succeed(&self) {
        if self.state().problem.take().is_some() {
            tracing::warn!("event delivery resumed");
        }
    }

    /// Starts delivery, first of the events that an earlier process left; a second call has no
    /// effect. If the journal cannot be used, it is tried again until it can; until then
    /// [`EventDelivery::delivery_problem`] has the reason. Ends with [`EventDelivery::stop_delivery`].
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] where another process delivers the events of this home.
    pub(crate) async fn start_delivery(self: &Arc<Self>) -> Result<(), CallError> {
        let host = self.agents.extensions();
        let _changes = host.lock_changes().await;
        if self.lock().is_some() {
            return Ok(());
        }
        let table = HandlerTable::from_state(&host.state(), &self.builtin);
        let handlers = Arc::new(ArcSwap::from_pointee(table));
        let mut delivery = Delivering::new(Arc::clone(self), Arc::clone(&handlers));
        match delivery.prepare().await {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::Conflict => return Err(error),
            Err(error) => self.fail(&error),
        }
        let cancel = CancellationToken::new();
        let task = tokio::spawn(delivery.run(cancel.clone()));
        *self.lock() = Some(RunningDelivery { handlers, cancel, task });
        Ok(())
    }

    /// Returns the reason why delivery fails, or `None` while it works and in a process that does
    /// not deliver.
    pub(crate) fn delivery_problem(&self) -> Option<CallError> {
        let serving = self.lock().is_some();
        serving.then(|| self.state().problem.clone()).flatten()
    }

    /// Returns whether this process holds the lock for delivery.
    pub(crate) fn is_prepared(&self) -> bool {
        self.state().prepared
    }

    /// Rejects a message whose delivery may never happen: until the journal has every subscriber,
    /// an event would be stored for none.
    pub(crate) fn check_ready(&self) -> Result<(), CallError> {
        if self.lock().is_none() {
            return Ok(());
        }
        let state = self.state();
        match &state.problem {
            Some(error) if !state.prepared => {
                let message = format!("kernel does not accept messages yet: {}", error.message);
                Err(CallError::new(error.kind, message).with_hint(error.hint.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Updates the subscribers to those of the loaded extensions.
    async fn update_handlers(&self, state: &KernelState) {
        let table = HandlerTable::from_state(state, &self.builtin);
        let subscribers = table.subscribers();
        match &*self.lock() {
            // Handlers first: a delivery claimed for a new subscriber must find its handler.
            Some(service) => service.handlers.store(Arc::new(table)),
            None => return,
        }
        if let Err(error) =
            self.agents.extensions().events().journal().set_subscribers(subscribers).await
        {
            tracing::error!(%error, "new subscriptions could not be stored; retrying");
            // The delivery loop tries again.
            self.state().current = false;
        }
    }

    /// Stops delivery. Active deliveries have the time of a call, and are repeated after the next
    /// start.
    pub(crate) async fn stop_delivery(&self) {
        let service = self.lock().take();
        if let Some(service) = service {
            service.cancel.cancel();
            let _ = service.task.await;
        }
    }

    /// Returns the pauses after failed attempts; none follows the last attempt.
    fn event_retries(&self) -> Vec<Duration> {
        match &self.agents.extensions().settings().events.retry_ms {
            // Ten retries at most, so that a misconfigured list cannot hold an ordering key
            // forever.
            Some(retries) => retries.iter().take(10).map(|ms| Duration::from_millis(*ms)).collect(),
            None => self.agents.extensions().limits().event_retries.clone(),
        }
    }

    fn lock_event_delivery(&self) -> Result<File, CallError> {
        let directory = self.agents.extensions().home().data_dir("kernel");
        let path = directory.join("serving.lock");
        let failed = |error: std::io::Error| {
            CallError::new(ErrorKind::Io, format!("{}: {error}", path.display()))
        };
        create_private_dir(&directory).map_err(failed)?;
        let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            // The lock ends with the process, so a crash leaves no stale lock.
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(CallError::new(
                ErrorKind::Conflict,
                "another kernel delivers the events of this home",
            )
            .with_hint("stop the other one, or use another --home")),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Publishes an event about a dead letter, once. None is published for a dead letter of that
    /// very topic, as it would repeat forever.
    async fn publish_dead_letter(&self, letter: &DeadLetter) {
        let DeadLetter { id, subscriber, attempts, error, at_ms, event } = letter;
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
        let dead = Event {
            // A retried delivery may become a dead letter again.
            key: Some(format!("{id}-{at_ms}")),
            correlation_id: Some(event.correlation_id.clone()),
            ..Event::new(topic::EVENT_DEAD, KERNEL_OWNER, payload)
        };
        if let Err(error) = self.agents.extensions().events().publish(dead).await {
            tracing::error!(%error, "event could not be stored");
        }
    }
}

#[async_trait]
impl StateObserver for EventDelivery {
    async fn state_changed(&self, state: &KernelState) {
        self.update_handlers(state).await;
    }
}
