//! The kernel's side of all channels.

use std::sync::{Arc, Mutex};

use skillhost_control::ChannelOrigin;
use skillhost_events::Clock;
use skillhost_payload::{CallError, ChannelConversation, ChannelCursor, ErrorKind};
use skillhost_questions::QuestionTable;
use skillhost_tasks::{NewTask, QueueErrorKind, TaskQueue};
use tokio::sync::OnceCell;

use crate::channel_block::format_block;
use crate::environment::ChannelEnvironment;
use crate::outgoing::{DeliveryInput, new_delivery, new_text_delivery};
use crate::rate_limit::RateLimiter;
use crate::secret_detector::mask_secrets;
use crate::store::ChannelStore;

/// The kernel's side of all channels of a home.
pub struct ChannelHub {
    pub(crate) store: ChannelStore,
    pub(crate) queue: TaskQueue,
    pub(crate) questions: Arc<QuestionTable>,
    pub(crate) environment: Arc<dyn ChannelEnvironment>,
    pub(crate) clock: Clock,
    pub(crate) limiter: Mutex<RateLimiter>,
    /// Serializes the receipt of messages, so that a conversation gets one thread.
    pub(crate) receiving: tokio::sync::Mutex<()>,
    /// The name of the home among those that share the queue; empty in a queue of one home.
    home: OnceCell<String>,
}

impl ChannelHub {
    /// Creates the hub of a home.
    #[must_use]
    pub fn new(
        store: ChannelStore,
        queue: TaskQueue,
        questions: Arc<QuestionTable>,
        environment: Arc<dyn ChannelEnvironment>,
        clock: Clock,
    ) -> Self {
        Self {
            store,
            queue,
            questions,
            environment,
            clock,
            limiter: Mutex::default(),
            receiving: tokio::sync::Mutex::default(),
            home: OnceCell::new(),
        }
    }

    /// Returns whether any channel is loaded, or was used before.
    #[must_use]
    pub fn is_used(&self) -> bool {
        !self.environment.list_channels().is_empty() || self.store.exists()
    }

    /// Returns the people and conversations.
    #[must_use]
    pub fn store(&self) -> &ChannelStore {
        &self.store
    }

    /// Loads the position of a channel.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn load_cursor(&self, channel: &str) -> Result<ChannelCursor, CallError> {
        Ok(self.store.load_cursor(channel).await?)
    }

    /// Stores the position of a channel.
    ///
    /// # Errors
    /// The error of the store; [`ErrorKind::TooLarge`] above 4 KiB.
    pub async fn store_cursor(
        &self,
        channel: &str,
        cursor: ChannelCursor,
    ) -> Result<(), CallError> {
        Ok(self.store.store_cursor(channel, cursor).await?)
    }

    /// Returns the block of the turns that answer a message. A channel that does not respond leaves
    /// its parts out.
    pub async fn compose_block(&self, origin: &ChannelOrigin) -> String {
        let info = self.environment.fetch_info(&origin.channel).await.ok();
        let hint = match self.environment.fetch_hint(&origin.channel, &origin.peer).await {
            Ok(hint) => hint,
            Err(error) => {
                tracing::debug!(channel = origin.channel, %error, "channel has no hint");
                None
            }
        };
        format_block(origin, info.as_ref(), hint.as_deref())
    }

    /// Returns the targets of this home's loaded channels; none before the first delivery.
    #[must_use]
    pub fn local_targets(&self) -> Vec<String> {
        let Some(home) = self.home.get() else { return Vec::new() };
        let channels = self.environment.list_channels();
        channels.into_iter().map(|channel| to_target(&channel, home)).collect()
    }

    /// Loads the name of the home from the queue, so that the deliveries that an earlier kernel left
    /// are claimed.
    ///
    /// # Errors
    /// The error of the queue.
    pub async fn load_home_name(&self) -> Result<(), CallError> {
        self.home_name().await.map(drop)
    }

    /// Returns the target of a channel's deliveries.
    pub(crate) async fn target(&self, channel: &str) -> Result<String, CallError> {
        Ok(to_target(channel, self.home_name().await?))
    }

    async fn home_name(&self) -> Result<&str, CallError> {
        let load = || async { self.queue.store().home_identity().await };
        Ok(self.home.get_or_try_init(load).await.map(String::as_str)?)
    }

    /// Submits the delivery of a text, once per key. Secrets of the home are masked.
    pub(crate) async fn submit_text(
        &self,
        channel: &str,
        conversation: &ChannelConversation,
        text: &str,
        key: String,
    ) -> Result<(), CallError> {
        let target = self.target(channel).await?;
        // Before it is stored: the queue may be shared with other machines.
        let text = mask_secrets(text, &self.environment.secrets()).into_owned();
        self.submit_once(new_text_delivery(&target, conversation, &text, Some(key))).await
    }

    /// Submits a delivery, once per key.
    pub(crate) async fn submit_delivery(
        &self,
        channel: &str,
        input: &DeliveryInput,
        key: String,
    ) -> Result<(), CallError> {
        let target = self.target(channel).await?;
        self.submit_once(new_delivery(&target, input, Some(key))).await
    }

    async fn submit_once(&self, task: NewTask) -> Result<(), CallError> {
        match self.queue.submit(task).await {
            Ok(_) => Ok(()),
            // The same delivery, which was composed at another time.
            Err(error) if error.kind() == QueueErrorKind::Conflict => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the error for a value of the platform that is not valid.
    pub(crate) fn invalid_error(message: impl Into<String>) -> CallError {
        CallError::new(ErrorKind::InvalidArgument, message)
    }
}

/// Returns the target of a channel's deliveries in a queue, which several homes may share.
pub(crate) async fn delivery_target(queue: &TaskQueue, channel: &str) -> Result<String, CallError> {
    Ok(to_target(channel, &queue.store().home_identity().await?))
}

fn to_target(channel: &str, home: &str) -> String {
    match home {
        "" => channel.to_owned(),
        // Another home may have a channel of that name, with other people.
        home => format!("{channel}@{home}"),
    }
}

#[cfg(test)]
pub(crate) mod tests;
