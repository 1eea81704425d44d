//! The kernel's side of the channel.

use skillhost_sdk::prelude::*;
use skillhost_sdk::{ButtonOutcome, InboundOutcome, IncomingMessage, PressedButton};

use crate::bot_state::BotState;
use crate::bot_token::{BotToken, TOKEN_SECRET};

/// The services of the kernel that the channel uses; tests substitute a kernel of their own.
#[async_trait]
pub(crate) trait BotKernel: Send + Sync + 'static {
    /// Passes a message on; without an error, the platform may forget it.
    async fn receive_message(&self, message: &IncomingMessage) -> Result<InboundOutcome>;

    /// Passes a pressed button on.
    async fn press_button(&self, button: &PressedButton) -> Result<ButtonOutcome>;

    /// Loads the stored position; unavailable in a kernel that receives no messages.
    async fn load_cursor(&self) -> Result<Option<String>>;

    /// Stores the position.
    async fn store_cursor(&self, value: &str) -> Result<()>;

    /// Reads the text of the token; `None` if it is not set.
    async fn read_token(&self) -> Result<Option<String>>;
}

#[async_trait]
impl BotKernel for ExtensionContext {
    async fn receive_message(&self, message: &IncomingMessage) -> Result<InboundOutcome> {
        Self::receive_message(self, message).await
    }

    async fn press_button(&self, button: &PressedButton) -> Result<ButtonOutcome> {
        Self::press_button(self, button).await
    }

    async fn load_cursor(&self) -> Result<Option<String>> {
        self.load_channel_cursor().await
    }

    async fn store_cursor(&self, value: &str) -> Result<()> {
        self.store_channel_cursor(value).await
    }

    async fn read_token(&self) -> Result<Option<String>> {
        Ok(self.secret(TOKEN_SECRET).await?.map(|secret| secret.expose().to_owned()))
    }
}

/// Returns the bot's token; `None` if it is not set. It is read again for every use, since it can
/// change while the kernel runs.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] if the secret is not a token, which does not quote it.
pub(crate) async fn find_token(
    kernel: &dyn BotKernel,
    state: &BotState,
) -> Result<Option<BotToken>> {
    let Some(text) = kernel.read_token().await?.filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    let token = BotToken::parse(&text).ok_or_else(|| {
        ExtensionError::invalid_argument(format!("`{TOKEN_SECRET}` is not a token of a bot"))
            .with_hint(format!(
                "copy the token of the bot from @BotFather, such as 123456:ABC-DEF, to {TOKEN_SECRET}"
            ))
    })?;
    state.set_account(token.bot_id());
    Ok(Some(token))
}
