//! The channel `telegram`: people write to agents through a bot, and get replies, notices and questions.
//!
//! `bot_client` calls the methods of the Bot API, `update` reads what people send, `poller` passes it to
//! the kernel and moves the offset only behind it, `delivery` sends messages. The kernel decides who is
//! answered. Everything that the platform returns is untrusted.

mod bot_client;
mod bot_kernel;
mod bot_state;
mod bot_token;
mod delivery;
mod message;
mod poll_timer;
mod poller;
#[cfg(test)]
mod test_kernel;
mod update;

use std::time::Duration;

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{ChannelInfo, ChannelPeer, OutgoingMessage, SendOutcome};

use crate::bot_client::BotClient;
use crate::bot_kernel::{BotKernel, find_token};
use crate::bot_state::BotState;
use crate::bot_token::TOKEN_SECRET;
use crate::delivery::{TEXT_LIMIT, deliver_message};
use crate::poll_timer::SystemTimer;
use crate::poller::UpdatePoller;

/// The `config` of the manifest.
#[derive(Debug, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct TelegramConfig {
    base_url: String,
    poll_seconds: u64,
    typing: bool,
}

/// The extension.
struct TelegramExtension {
    kernel: Arc<dyn BotKernel>,
    client: Arc<BotClient>,
    state: Arc<BotState>,
    poll: Duration,
    shows_typing: bool,
}

#[async_trait]
impl Extension for TelegramExtension {
    fn new(cx: ExtensionContext) -> Result<Self> {
        let config: TelegramConfig = cx.config()?;
        if !(1..=50).contains(&config.poll_seconds) {
            let seconds = config.poll_seconds;
            return Err(config_error(&format!("poll_seconds: {seconds} is not from 1 to 50")));
        }
        let client = BotClient::new(&config.base_url)
            .map_err(|reason| config_error(&format!("base_url: {reason}")))?;
        Ok(Self {
            kernel: Arc::new(cx),
            client: Arc::new(client),
            state: Arc::default(),
            poll: Duration::from_secs(config.poll_seconds),
            shows_typing: config.typing,
        })
    }

    async fn start(&self) -> Result<()> {
        // The account is a part of each message's identity, so it is known before the first one. A
        // token that is not valid is reported by the service, not as a failed start.
        let _ = find_token(&*self.kernel, &self.state).await;
        Ok(())
    }

    async fn health_check(&self) -> Result<()> {
        // Who enables the channel wants it: without a token it is not complete.
        match find_token(&*self.kernel, &self.state).await? {
            Some(_) => self.state.check_health(),
            None => Err(unset_error()),
        }
    }
}

#[async_trait]
impl ServiceProvider for TelegramExtension {
    async fn run_background(&self, cancel: CancellationToken) -> Result<()> {
        let poller = UpdatePoller {
            kernel: Arc::clone(&self.kernel),
            client: Arc::clone(&self.client),
            state: Arc::clone(&self.state),
            timer: Arc::new(SystemTimer),
            poll: self.poll,
            shows_typing: self.shows_typing,
        };
        poller.run(&cancel).await;
        Ok(())
    }
}

#[async_trait]
impl ChannelProvider for TelegramExtension {
    fn info(&self) -> ChannelInfo {
        ChannelInfo {
            account: self.state.account(),
            text_limit: TEXT_LIMIT,
            format: "plain text without markup".to_owned(),
            has_buttons: true,
            can_edit: true,
        }
    }

    async fn send(&self, message: &OutgoingMessage) -> Result<SendOutcome> {
        let Some(token) = find_token(&*self.kernel, &self.state).await? else {
            return Err(unset_error());
        };
        deliver_message(&self.client, &token, message).await
    }

    async fn hint(&self, _peer: &ChannelPeer) -> Result<Option<String>> {
        Ok(Some(
            "Messages are shown in a chat on a phone. Write short paragraphs of plain text: Markdown, \
             HTML and tables are shown as they are written."
                .to_owned(),
        ))
    }
}

/// Returns the error of a channel without a token.
fn unset_error() -> ExtensionError {
    ExtensionError::new(ErrorKind::Unavailable, format!("the secret `{TOKEN_SECRET}` is not set"))
        .with_hint(format!("set {TOKEN_SECRET} in the environment or in the home's .env"))
}

fn config_error(message: &str) -> ExtensionError {
    ExtensionError::invalid_argument(format!("config.{message}"))
        .with_hint("see `config` in manifests/telegram/manifest.yaml")
}

export_extension!(TelegramExtension: service, channel);
