//! The event handlers: the kernel's own, and the subscriptions of loaded manifests.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use skillhost_agents::AgentRuntime;
use skillhost_core::KernelState;
use skillhost_events::{Delivery, Subscriber, to_event, topic};
use skillhost_manifest::{EventHandler, EventSubscription, ExtensionId, Manifest};
use skillhost_payload::{
    AgentTask, CallContext, CallError, CallOrigin, ErrorKind, Event, HandleEventRequest,
    UserNotice, event_interface,
};

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
        for handler in builtin {
            let target = HandlerTarget::Builtin(Arc::clone(handler));
            all.insert(format!("kernel:{}", handler.topic()), target);
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

    /// Makes one attempt; a panic counts as a failed one.
    pub(super) async fn handle(
        &self,
        agents: &AgentRuntime,
        delivery: &Delivery,
    ) -> HandlerOutcome {
        let handled = async {
            match self.0.get(&delivery.subscriber) {
                Some(HandlerTarget::Builtin(handler)) => handler.handle(delivery).await,
                Some(HandlerTarget::Manifest(subscribed)) => {
                    match subscribed.handle(agents, delivery).await {
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
    async fn handle(&self, agents: &AgentRuntime, delivery: &Delivery) -> Result<(), CallError> {
        let limits = agents.extensions().limits();
        let default_limit = match self.handler {
            EventHandler::InvokeAgent { .. } => limits.event_agent,
            EventHandler::NotifyUser { .. } | EventHandler::Custom => limits.event,
        };
        let limit = self.timeout_ms.map_or(default_limit, Duration::from_millis);
        let handled = async {
            match &self.handler {
                EventHandler::NotifyUser { text } => {
                    self.notify(agents, delivery, text.as_deref()).await
                }
                EventHandler::InvokeAgent { agent, prompt } => {
                    let agent = agent.as_ref().unwrap_or(&self.owner);
                    self.invoke(agents, delivery, agent, prompt, limit).await
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

    async fn invoke(
        &self,
        agents: &AgentRuntime,
        delivery: &Delivery,
        agent: &ExtensionId,
        prompt: &str,
        limit: Duration,
    ) -> Result<(), CallError> {
        let task = render_event_template(prompt, &delivery.event).await?;
        // Not the operator's origin: an event wrote the task, so its calls have no approval.
        let context =
            CallContext { origin: CallOrigin::Agent, ..call_context(agents, delivery, limit) };
        let task = AgentTask { context, agent_id: agent.to_string(), task };
        agents.run_task(task).await.map(drop)
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
