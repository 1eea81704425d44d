//! The event handlers: the kernel's own, and the subscriptions of loaded manifests.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use skillhost_agents::AgentRuntime;
use skillhost_core::KernelState;
use skillhost_engine::{AgentTaskRequest, AgentTaskSubmitter, TaskStarter};
use skillhost_events::{Delivery, Subscriber, to_event, topic};
use skillhost_manifest::{EventHandler, EventSubscription, ExtensionId, Manifest};
use skillhost_payload::{
    CallContext, CallError, CallOrigin, ErrorKind, Event, HandleEventRequest, UserNotice,
    event_interface,
};
use skillhost_tasks::TaskId;

use super::templates::{render_event_template, summary_line};
use crate::bus::{BuiltinHandler, HandlerOutcome};

/// The table of handlers, by subscriber id.
pub(super) struct HandlerTable(BTreeMap<String, HandlerTarget>);

enum HandlerTarget {
    Builtin(Arc<dyn BuiltinHandler>),
    Manifest(Box<SubscriptionHandler>),
}

/// A subscription with a handler, and its owner.
struct SubscriptionHandler {
    owner: ExtensionId,
    topic: String,
    handler: EventHandler,
    timeout_ms: Option<u64>,
}

impl HandlerTable {
    /// Builds the table from the kernel's handlers and the loaded manifests.
    pub(super) fn from_state(state: &KernelState, builtin: &[Arc<dyn BuiltinHandler>]) -> Self {
        let mut all = BTreeMap::new();
        for handler in builtin.iter().filter(|handler| handler.is_active(state)) {
            let target = HandlerTarget::Builtin(Arc::clone(handler));
            all.insert(format!("{}:{}", handler.owner(), handler.topic()), target);
        }
        let libraries = state.instances.values().map(|instance| &instance.manifest);
        let agents = state.agents.values().map(|agent| &agent.manifest);
        for manifest in libraries.chain(agents) {
            for (id, subscribed) in subscription_handlers(manifest) {
                all.insert(id, HandlerTarget::Manifest(Box::new(subscribed)));
            }
        }
        Self(all)
    }

    /// Returns the subscribers of all handlers, for the journal.
    pub(super) fn subscribers(&self) -> Vec<Subscriber> {
        let all = self.0.iter().map(|(id, target)| match target {
            HandlerTarget::Builtin(handler) => {
                let builtin = Arc::clone(handler);
                Subscriber::new(id, handler.topic())
                    .with_ordering_key(move |event| builtin.ordering_key(event))
            }
            HandlerTarget::Manifest(subscribed) => Subscriber::new(id, &subscribed.topic),
        });
        all.collect()
    }

    /// Returns the subscribers whose attempts do not count if the process ends during them.
    pub(super) fn crash_tolerant(&self) -> impl Iterator<Item = &str> {
        let is_tolerant = |target: &HandlerTarget| match target {
            HandlerTarget::Builtin(handler) => !handler.counts_crashes(),
            HandlerTarget::Manifest(_) => false,
        };
        self.0.iter().filter(move |(_, target)| is_tolerant(target)).map(|(id, _)| id.as_str())
    }

    /// Makes one attempt; a panic counts as a failed one.
    pub(super) async fn handle(
        &self,
        agents: &AgentRuntime,
        tasks: &AgentTaskSubmitter,
        delivery: &Delivery,
    ) -> HandlerOutcome {
        let handled = async {
            match self.0.get(&delivery.subscriber) {
                Some(HandlerTarget::Builtin(handler)) => handler.handle(delivery).await,
                Some(HandlerTarget::Manifest(subscribed)) => {
                    match subscribed.handle(agents, tasks, delivery).await {
                        Ok(()) => HandlerOutcome::Done,
                        Err(error) => HandlerOutcome::Failed(error),
                    }
                }
                // A reload has removed the handler since the claim; a later one may restore it.
                None => HandlerOutcome::Released,
            }
        };
        let panicked = |_| {
            HandlerOutcome::Failed(CallError::new(ErrorKind::Panicked, "event handler panicked"))
        };
        AssertUnwindSafe(handled).catch_unwind().await.unwrap_or_else(panicked)
    }
}

/// Returns the subscriptions of a manifest that have a handler. An id depends on topic and kind of
/// handler alone, so that pending events are delivered after other changes of the manifest.
fn subscription_handlers(manifest: &Manifest) -> Vec<(String, SubscriptionHandler)> {
    let mut found: Vec<(String, SubscriptionHandler)> = Vec::new();
    for EventSubscription { topic, handler, timeout_ms, .. } in &manifest.events.subscribes {
        let Some(handler) = handler.clone() else { continue };
        let kind = match handler {
            EventHandler::NotifyUser { .. } => "notify_user",
            EventHandler::InvokeAgent { .. } => "invoke_agent",
            EventHandler::Custom => "custom",
        };
        let plain = format!("{}:{topic}:{kind}", manifest.id);
        // Two subscriptions of one kind would otherwise share an id.
        let is_same = |id: &str| id == plain || id.starts_with(&format!("{plain}#"));
        let id = match found.iter().filter(|(id, _)| is_same(id)).count() {
            0 => plain,
            before => format!("{plain}#{}", before + 1),
        };
        let (owner, topic) = (manifest.id.clone(), topic.clone());
        found.push((id, SubscriptionHandler { owner, topic, handler, timeout_ms: *timeout_ms }));
    }
    found
}

impl SubscriptionHandler {
    async fn handle(
        &self,
        agents: &AgentRuntime,
        tasks: &AgentTaskSubmitter,
        delivery: &Delivery,
    ) -> Result<(), CallError> {
        let limits = agents.extensions().limits();
        let own_limit = self.timeout_ms.map(Duration::from_millis);
        let limit = match self.handler {
            // The limit of the manifest is that of the task, not of its submission.
            EventHandler::InvokeAgent { .. } => limits.event,
            EventHandler::NotifyUser { .. } | EventHandler::Custom => {
                own_limit.unwrap_or(limits.event)
            }
        };
        let handled = async {
            match &self.handler {
                EventHandler::NotifyUser { text } => {
                    self.notify(agents, delivery, text.as_deref()).await
                }
                EventHandler::InvokeAgent { agent, prompt } => {
                    let agent = agent.as_ref().unwrap_or(&self.owner);
                    let time_limit = own_limit.unwrap_or(limits.event_agent);
                    submit_agent_task(tasks, delivery, agent, prompt, time_limit).await
                }
                EventHandler::Custom => self.call(agents, delivery, limit).await,
            }
        };
        tokio::time::timeout(limit, handled).await.unwrap_or_else(|_| {
            let message = format!("event handler timed out after {} ms", limit.as_millis());
            Err(CallError::new(ErrorKind::Timeout, message)
                .with_hint("raise timeout_ms of the subscription in the manifest"))
        })
    }

    async fn notify(
        &self,
        agents: &AgentRuntime,
        delivery: &Delivery,
        text: Option<&str>,
    ) -> Result<(), CallError> {
        let text = match text {
            Some(template) => render_event_template(template, &delivery.event).await?,
            None => summary_line(&delivery.event),
        };
        let payload = serde_json::value::to_raw_value(&UserNotice { text })
            .map_err(|error| CallError::protocol_error(&error))?;
        agents.extensions().events().notify_listeners(Event::new(
            topic::NOTICE,
            self.owner.as_str(),
            payload,
        ));
        Ok(())
    }

    async fn call(
        &self,
        agents: &AgentRuntime,
        delivery: &Delivery,
        limit: Duration,
    ) -> Result<(), CallError> {
        let request = HandleEventRequest {
            context: call_context(agents, delivery, limit),
            event: to_event(delivery.event.clone()),
            attempt: delivery.attempt,
        };
        let request =
            serde_json::to_vec(&request).map_err(|error| CallError::protocol_error(&error))?;
        let owner = self.owner.as_str();
        let found = agents.extensions().pin_instance(owner);
        let not_loaded =
            || CallError::new(ErrorKind::Unavailable, format!("`{owner}` is not loaded"));
        let instance = found.ok_or_else(not_loaded)?;
        let (name, method) = (event_interface::NAME, event_interface::HANDLE);
        // The limit of the attempt must end first, so that its error is always the same.
        let outer_limit = limit.saturating_add(Duration::from_secs(1));
        instance.call(name, method, request, outer_limit).await.map(drop)
    }
}

/// Submits the task of an event, once for all attempts of its delivery. Events about tasks that a
/// subscription has started start none: they would follow each other forever.
async fn submit_agent_task(
    tasks: &AgentTaskSubmitter,
    delivery: &Delivery,
    agent: &ExtensionId,
    prompt: &str,
    time_limit: Duration,
) -> Result<(), CallError> {
    let Delivery { subscriber, event, .. } = delivery;
    let is_of_queue = ["task.", "question."].iter().any(|topic| event.topic.starts_with(topic));
    if is_of_queue && tasks.is_about_started_task(event.payload.get()).await? {
        return Ok(());
    }
    let request = AgentTaskRequest {
        starter: TaskStarter::Subscriber(subscriber),
        agent: agent.as_str(),
        text: render_event_template(prompt, event).await?,
        // The ids of events begin again in a journal that replaces a damaged one.
        key: &format!("{subscriber}:{}@{}", event.id, event.at_ms),
        correlation_id: &event.correlation_id,
        time_limit,
    };
    tasks.submit(TaskId::generate(), request).await
}

fn call_context(agents: &AgentRuntime, delivery: &Delivery, limit: Duration) -> CallContext {
    CallContext {
        session_id: format!("event-{}", delivery.event.id),
        turn_id: format!("delivery-{}-{}", delivery.id, delivery.attempt),
        call_id: agents.extensions().next_call_id(),
        deadline_ms: u64::try_from(limit.as_millis()).ok(),
        origin: CallOrigin::Operator,
        correlation_id: Some(delivery.event.correlation_id.clone()),
        ..CallContext::default()
    }
}
