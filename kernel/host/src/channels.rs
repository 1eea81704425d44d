//! The kernel around its channels: calls into their extensions, threads, messages, settings.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use skillhost_agents::AgentRuntime;
use skillhost_channels::{ChannelEnvironment, ChannelHub, ChannelStore, FoundMessage};
use skillhost_control::UserMessage;
use skillhost_conversation::ThreadStore;
use skillhost_core::spawn_blocking;
use skillhost_events::{Clock, topic};
use skillhost_home::{ChannelSettings, KERNEL_OWNER};
use skillhost_payload::{
    CallError, ChannelInfo, ChannelPeer, ErrorKind, Event, OperatorCommand, OutgoingMessage,
    SendOutcome, channel_interface,
};
use skillhost_questions::{QuestionTable, ReviewLedger};
use skillhost_tasks::TaskQueue;

use crate::review_handler::ProviderReviewLedger;
use crate::serving::EventDelivery;
use crate::user_message::{CHANNEL_SOURCE, parse_message};

/// The time limit of a hint, which a turn waits for.
const HINT_LIMIT: Duration = Duration::from_secs(2);

/// The kernel, as its channels see it.
pub(crate) struct KernelChannels {
    agents: AgentRuntime,
    reviews: Arc<ProviderReviewLedger>,
    /// Set while the kernel is assembled, after the handlers that the delivery has.
    delivery: OnceLock<Weak<EventDelivery>>,
}

impl KernelChannels {
    /// Creates the hub of a kernel, and its environment.
    pub(crate) fn create_hub(
        agents: &AgentRuntime,
        queue: TaskQueue,
        questions: Arc<QuestionTable>,
        reviews: Arc<ProviderReviewLedger>,
    ) -> (Arc<ChannelHub>, Arc<Self>) {
        let directory = agents.extensions().home().data_dir("kernel");
        let environment =
            Arc::new(Self { agents: agents.clone(), reviews, delivery: OnceLock::new() });
        let shared = Arc::clone(&environment) as Arc<dyn ChannelEnvironment>;
        let store = ChannelStore::in_directory(&directory);
        let hub = ChannelHub::new(store, queue, questions, shared, Clock::system());
        (Arc::new(hub), environment)
    }

    pub(crate) fn set_delivery(&self, delivery: &Arc<EventDelivery>) {
        let _ = self.delivery.set(Arc::downgrade(delivery));
    }

    /// Calls a method of a channel.
    async fn call<T: DeserializeOwned>(
        &self,
        channel: &str,
        method: &str,
        request: &(impl Serialize + Sync),
        limit: Duration,
    ) -> Result<T, CallError> {
        let instance = self.agents.extensions().pin_instance(channel).filter(|instance| {
            // A reload may have replaced the channel by something else.
            instance.provides(channel_interface::NAME)
        });
        let instance = instance.ok_or_else(|| {
            let message = format!("channel `{channel}` is not loaded");
            CallError::new(ErrorKind::Unavailable, message)
                .with_hint(format!("see: {}", OperatorCommand::CheckExtensions))
        })?;
        let request =
            serde_json::to_vec(request).map_err(|error| CallError::protocol_error(&error))?;
        let reply = instance.call(channel_interface::NAME, method, request, limit).await?;
        serde_json::from_slice(&reply).map_err(|error| CallError::protocol_error(&error))
    }

    fn threads(&self) -> ThreadStore {
        ThreadStore::new(self.agents.extensions().home())
    }
}

#[async_trait]
impl ChannelEnvironment for KernelChannels {
    fn list_channels(&self) -> Vec<String> {
        let state = self.agents.extensions().state();
        let loaded = state.instances.iter();
        let channels = loaded.filter(|(_, instance)| instance.provides(channel_interface::NAME));
        channels.map(|(id, _)| id.to_string()).collect()
    }

    fn settings(&self, channel: &str) -> ChannelSettings {
        let settings = self.agents.extensions().settings();
        settings.channels.get(channel).cloned().unwrap_or_default()
    }

    fn secrets(&self) -> Vec<SecretString> {
        self.agents.extensions().secrets().known_values()
    }

    fn reviews(&self) -> &dyn ReviewLedger {
        &*self.reviews
    }

    async fn fetch_info(&self, channel: &str) -> Result<ChannelInfo, CallError> {
        let limit = self.agents.extensions().limits().context;
        self.call(channel, channel_interface::INFO, &(), limit).await
    }

    async fn send_message(
        &self,
        channel: &str,
        message: &OutgoingMessage,
    ) -> Result<SendOutcome, CallError> {
        let limit = self.agents.extensions().limits().tool;
        self.call(channel, channel_interface::SEND, message, limit).await
    }

    async fn fetch_hint(
        &self,
        channel: &str,
        peer: &ChannelPeer,
    ) -> Result<Option<String>, CallError> {
        self.call(channel, channel_interface::HINT, peer, HINT_LIMIT).await
    }

    async fn create_thread(&self, agent: &str) -> Result<String, CallError> {
        // A thread must not be created for an unknown agent.
        let agent = self.agents.refresh_agent(agent).await?;
        let (threads, agent) = (self.threads(), agent.manifest.id.to_string());
        // Closed at once: its messages open it one after the other.
        let created = spawn_blocking(move || threads.create(&agent).map(|it| it.id().to_owned()));
        created.await?.map_err(|error| {
            CallError::new(ErrorKind::Io, error.to_string()).with_hint(error.hint())
        })
    }

    async fn has_thread(&self, thread: &str) -> bool {
        let (threads, thread) = (self.threads(), thread.to_owned());
        let found = spawn_blocking(move || threads.exists(&thread)).await;
        found.unwrap_or_default()
    }

    async fn store_message(&self, message: UserMessage) -> Result<(), CallError> {
        if let Some(delivery) = self.delivery.get().and_then(Weak::upgrade) {
            // Until the journal has every subscriber, the event would be stored for none.
            delivery.check_ready()?;
        }
        self.agents.refresh_agent(&message.agent).await?.require_ready()?;
        let channel = message.channel.as_ref().map(|origin| origin.channel.clone());
        let source = format!("{CHANNEL_SOURCE}{}", channel.unwrap_or_default());
        let id = message.message_id.clone();
        let payload = serde_json::value::to_raw_value(&message)
            .map_err(|error| CallError::protocol_error(&error))?;
        // The key is the message id, so a second event for it is ignored.
        let event = Event {
            key: Some(id.clone()),
            correlation_id: Some(id),
            ..Event::new(topic::USER_MESSAGE, source, payload)
        };
        self.agents.extensions().events().publish(event).await.map(drop)
    }

    async fn find_message(&self, id: &str) -> Result<Option<FoundMessage>, CallError> {
        let journal = self.agents.extensions().events().journal();
        let Some(event) = journal.find(topic::USER_MESSAGE, id).await? else { return Ok(None) };
        let message = parse_message(&event)?;
        Ok(Some(FoundMessage { message, is_wake: event.source == KERNEL_OWNER }))
    }
}
