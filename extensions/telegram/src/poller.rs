//! The service that receives what people send.
//!
//! A batch of updates is fetched again until the kernel has stored each message of it: only then the
//! offset moves, here and on the platform. Every failure ends the round, and the next one begins with
//! the stored offset.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use skillhost_sdk::prelude::*;
use skillhost_sdk::{ChannelConversation, InboundOutcome, IncomingMessage, PressedButton};

use crate::bot_client::{BotApiError, BotClient};
use crate::bot_kernel::{BotKernel, find_token};
use crate::bot_state::{BotState, ConnectionState};
use crate::bot_token::{BotToken, TOKEN_SECRET};
use crate::delivery::conversation_parameters;
use crate::message::BotApiUser;
use crate::poll_timer::{GrowingPause, PollTimer};
use crate::update::{BotIdentity, ParsedUpdate, parse_update, update_number};

/// The time between two looks at a token that is missing or not valid.
const TOKEN_INTERVAL: Duration = Duration::from_secs(15);
/// The first pause and the longest one after a failure that may pass.
const FAILURE_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The first pause and the longest one after a failure that an operator has to end.
const REFUSAL_PAUSE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));
/// The first pause and the longest one in a kernel that receives no messages.
const IDLE_PAUSE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));
/// The time that a poll may take longer than the server holds it.
const POLL_MARGIN: Duration = Duration::from_secs(15);
/// The updates of a batch.
const BATCH: usize = 100;
/// The age from which a position is not used, in seconds: after a week without updates, the platform
/// continues with another number.
const CURSOR_LIFETIME: u64 = 6 * 24 * 60 * 60;
/// The conversations that show typing after one batch.
const MAX_TYPING: usize = 5;
/// The longest text of an acknowledgment, in characters.
const ANSWER_LIMIT: usize = 200;
/// The kinds of updates that are requested.
const UPDATE_KINDS: [&str; 3] = ["message", "edited_message", "callback_query"];

/// The service.
pub(crate) struct UpdatePoller {
    pub(crate) kernel: Arc<dyn BotKernel>,
    pub(crate) client: Arc<BotClient>,
    pub(crate) state: Arc<BotState>,
    pub(crate) timer: Arc<dyn PollTimer>,
    /// The time that the server holds a request.
    pub(crate) poll: Duration,
    pub(crate) shows_typing: bool,
}

/// The end of a round of requests.
enum RoundEnd {
    /// The token was replaced or removed.
    TokenChanged,
    Platform(BotApiError),
    Kernel(ExtensionError),
}

impl From<BotApiError> for RoundEnd {
    fn from(error: BotApiError) -> Self {
        Self::Platform(error)
    }
}

impl From<ExtensionError> for RoundEnd {
    fn from(error: ExtensionError) -> Self {
        Self::Kernel(error)
    }
}

/// The state of a service between its rounds.
#[derive(Default)]
struct RoundHistory {
    pause: GrowingPause,
    /// A webhook of the bot was deleted once; another program sets it again.
    has_deleted_webhook: bool,
}

/// The position in the sequence of updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UpdateCursor {
    offset: i64,
    /// The time of the last update, in seconds since 1970.
    time: u64,
}

impl UpdateCursor {
    /// Parses a stored position; returns `None` for one of another bot.
    fn parse(text: &str, bot: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (owner, offset, time) = (parts.next()?, parts.next()?, parts.next()?);
        let cursor = Self { offset: offset.parse().ok()?, time: time.parse().ok()? };
        (owner == bot && parts.next().is_none()).then_some(cursor)
    }

    /// Returns the text to store.
    fn to_text(self, bot: &str) -> String {
        format!("{bot}:{}:{}", self.offset, self.time)
    }

    /// Returns whether the platform still continues at this position.
    fn is_valid_at(self, now: u64) -> bool {
        now.saturating_sub(self.time) < CURSOR_LIFETIME
    }
}

/// The user that `getMe` returns.
fn to_identity(user: BotApiUser) -> BotIdentity {
    BotIdentity { id: user.id, username: user.username.unwrap_or_default() }
}

/// The updates of a response, each with its text, so that one that cannot be read costs no other.
#[derive(Deserialize)]
#[serde(transparent)]
struct UpdateBatch(Vec<Box<RawValue>>);

impl UpdatePoller {
    /// Receives messages until `cancel` is cancelled.
    pub(crate) async fn run(&self, cancel: &CancellationToken) {
        tokio::select! {
            () = cancel.cancelled() => {}
            // Dropped at any point: what was not stored is fetched again.
            () = self.poll_forever() => {}
        }
        self.state.set_connection(ConnectionState::Off);
    }

    async fn poll_forever(&self) {
        let mut history = RoundHistory::default();
        loop {
            let token = match find_token(&*self.kernel, &self.state).await {
                Ok(Some(token)) => token,
                Ok(None) => {
                    self.state.set_connection(ConnectionState::Off);
                    self.timer.pause(TOKEN_INTERVAL).await;
                    continue;
                }
                Err(error) => {
                    self.set_failing(error.message(), error.hint());
                    self.timer.pause(TOKEN_INTERVAL).await;
                    continue;
                }
            };
            match self.run_round(&token, &mut history).await {
                RoundEnd::TokenChanged => history = RoundHistory::default(),
                RoundEnd::Platform(error) => {
                    self.handle_platform_error(&token, error, &mut history).await;
                }
                RoundEnd::Kernel(error) => self.handle_kernel_error(&error, &mut history).await,
            }
        }
    }

    /// Receives updates until a request fails or the token changes.
    async fn run_round(&self, token: &BotToken, history: &mut RoundHistory) -> RoundEnd {
        let Err(end) = self.receive_updates(token, history).await;
        end
    }

    async fn receive_updates(
        &self,
        token: &BotToken,
        history: &mut RoundHistory,
    ) -> Result<std::convert::Infallible, RoundEnd> {
        // First, so that a kernel that receives no messages does not disturb another one that does.
        let stored = self.kernel.load_cursor().await?;
        let mut cursor = stored.and_then(|text| UpdateCursor::parse(&text, token.bot_id()));
        let user: BotApiUser = self.client.call(token, "getMe", &json!({})).await?;
        let bot = to_identity(user);
        loop {
            cursor = cursor.filter(|cursor| cursor.is_valid_at(self.timer.unix_time()));
            let batch = self.fetch_updates(token, cursor).await?;
            self.state.set_connection(ConnectionState::Online);
            if let Some(next) = self.process_batch(token, &bot, &batch).await? {
                let next = UpdateCursor { offset: next, time: self.timer.unix_time() };
                self.kernel.store_cursor(&next.to_text(token.bot_id())).await?;
                cursor = Some(next);
            } else if !batch.0.is_empty() {
                // Without a number no update can be confirmed, and the same batch would come at once.
                let reason = "updates without a valid number".to_owned();
                return Err(BotApiError::Transient { reason }.into());
            }
            // Only now: a kernel that cannot store messages is asked less and less often.
            history.pause.reset();
            if find_token(&*self.kernel, &self.state).await.ok().flatten().as_ref() != Some(token) {
                return Err(RoundEnd::TokenChanged);
            }
        }
    }

    async fn fetch_updates(
        &self,
        token: &BotToken,
        cursor: Option<UpdateCursor>,
    ) -> Result<UpdateBatch, BotApiError> {
        let mut parameters = json!({
            "limit": BATCH,
            "timeout": self.poll.as_secs(),
            "allowed_updates": UPDATE_KINDS,
        });
        if let Some(cursor) = cursor {
            parameters["offset"] = cursor.offset.into();
        }
        self.client.call_within(token, "getUpdates", &parameters, self.poll + POLL_MARGIN).await
    }

    /// Passes each update to the kernel; returns the offset behind them.
    ///
    /// # Errors
    /// The first failure of the kernel: then no update of the batch is confirmed.
    async fn process_batch(
        &self,
        token: &BotToken,
        bot: &BotIdentity,
        batch: &UpdateBatch,
    ) -> Result<Option<i64>, ExtensionError> {
        let mut next = None;
        let mut accepted = BTreeSet::new();
        for update in &batch.0 {
            let Some(number) = update_number(update) else {
                tracing::warn!("update without a valid number skipped");
                continue;
            };
            next = next.max(Some(number + 1));
            match parse_update(update, bot) {
                Ok(ParsedUpdate::Message(message)) => {
                    if self.pass_message(number, &message).await? {
                        accepted.insert(message.conversation);
                    }
                }
                Ok(ParsedUpdate::Press { query, button }) => {
                    self.handle_press(token, &query, button).await;
                }
                Ok(ParsedUpdate::Ignored(reason)) => {
                    tracing::debug!(update = number, "update not for the bot: {reason}");
                }
                Err(reason) => tracing::warn!(update = number, "update skipped: it {reason}"),
            }
        }
        if self.shows_typing {
            self.show_typing(token, accepted).await;
        }
        Ok(next)
    }

    /// Passes a message to the kernel; returns whether it will be answered.
    ///
    /// # Errors
    /// The failure of the kernel, if the message has to be passed again.
    async fn pass_message(&self, number: i64, message: &IncomingMessage) -> Result<bool> {
        match self.kernel.receive_message(message).await {
            Ok(outcome) => Ok(outcome == InboundOutcome::Accepted),
            // It would be refused again for ever, and keep everything behind it.
            Err(error)
                if matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::TooLarge) =>
            {
                tracing::warn!(update = number, %error, "message skipped");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Passes a pressed button to the kernel, and shows its outcome to the person.
    async fn handle_press(&self, token: &BotToken, query: &str, button: Option<PressedButton>) {
        let text = match button {
            None => "This button is not supported.".to_owned(),
            Some(button) => match self.kernel.press_button(&button).await {
                Ok(outcome) => outcome.text.chars().take(ANSWER_LIMIT).collect(),
                Err(error) => {
                    tracing::warn!(%error, "pressed button not processed");
                    "Nothing was decided: press the button again later.".to_owned()
                }
            },
        };
        let parameters = json!({"callback_query_id": query, "text": text});
        let answered = self.client.call::<Value>(token, "answerCallbackQuery", &parameters).await;
        if let Err(error) = answered {
            // The decision is stored; only its line is missing, as after a few minutes.
            tracing::debug!(?error, "pressed button not acknowledged");
        }
    }

    /// Shows in conversations that the bot is typing; failures are harmless.
    async fn show_typing(&self, token: &BotToken, accepted: BTreeSet<ChannelConversation>) {
        for conversation in accepted.into_iter().take(MAX_TYPING) {
            let Some(mut parameters) = conversation_parameters(&conversation) else { continue };
            parameters["action"] = "typing".into();
            if let Err(error) =
                self.client.call::<Value>(token, "sendChatAction", &parameters).await
            {
                tracing::debug!(?error, "typing not shown");
                break;
            }
        }
    }

    async fn handle_platform_error(
        &self,
        token: &BotToken,
        error: BotApiError,
        history: &mut RoundHistory,
    ) {
        let (first, most) = REFUSAL_PAUSE;
        match error {
            BotApiError::Throttled { wait } => self.timer.pause(wait).await,
            BotApiError::Unauthorized { code } => {
                self.set_failing(
                    &format!("Telegram refuses the token of the bot (status {code})"),
                    &format!("set {TOKEN_SECRET} to a valid token of @BotFather"),
                );
                let pause = history.pause.next(first, most);
                if self.pause_until_changed(token, pause).await {
                    history.pause.reset();
                }
            }
            BotApiError::Conflict { description }
                if description.contains("webhook") && !history.has_deleted_webhook =>
            {
                history.has_deleted_webhook = true;
                tracing::warn!("the bot had a webhook, which is deleted: messages are polled here");
                let deleted = self.client.call::<Value>(token, "deleteWebhook", &json!({})).await;
                if let Err(error) = deleted {
                    self.set_failing(
                        &format!("the webhook of the bot could not be deleted: {error:?}"),
                        "delete it with the method deleteWebhook of the Bot API",
                    );
                    self.timer.pause(history.pause.next(first, most)).await;
                }
            }
            BotApiError::Conflict { description } => {
                self.set_failing(
                    &format!("another program receives the messages of the bot: {description}"),
                    "stop the other program, or create another bot for this home",
                );
                self.timer.pause(history.pause.next(first, most)).await;
            }
            BotApiError::Refused { code, description } => {
                self.set_failing(
                    &format!("Telegram refuses requests with status {code}: {description}"),
                    "check `base_url` of the extension",
                );
                self.timer.pause(history.pause.next(first, most)).await;
            }
            BotApiError::Transient { reason } => {
                self.set_failing(
                    &format!("messages of Telegram cannot be received: {reason}"),
                    "check the network; the extension tries again by itself",
                );
                let (first, most) = FAILURE_PAUSE;
                self.timer.pause(history.pause.next(first, most)).await;
            }
        }
    }

    async fn handle_kernel_error(&self, error: &ExtensionError, history: &mut RoundHistory) {
        if error.kind() == ErrorKind::Unavailable {
            // Another process of this home receives the messages, or the kernel is shutting down.
            self.state.set_connection(ConnectionState::Off);
            let (first, most) = IDLE_PAUSE;
            self.timer.pause(history.pause.next(first, most)).await;
            return;
        }
        self.set_failing(
            &format!("the kernel cannot store messages: {}", error.message()),
            error.hint(),
        );
        let (first, most) = FAILURE_PAUSE;
        self.timer.pause(history.pause.next(first, most)).await;
    }

    /// Waits, or until the token is replaced; returns whether it was.
    async fn pause_until_changed(&self, token: &BotToken, time: Duration) -> bool {
        let mut left = time;
        while !left.is_zero() {
            let part = left.min(TOKEN_INTERVAL);
            self.timer.pause(part).await;
            left -= part;
            let current = find_token(&*self.kernel, &self.state).await;
            if current.ok().flatten().as_ref() != Some(token) {
                return true;
            }
        }
        false
    }

    fn set_failing(&self, message: &str, hint: &str) {
        let (message, hint) = (message.to_owned(), hint.to_owned());
        self.state.set_connection(ConnectionState::Failing { message, hint });
    }
}

#[cfg(test)]
mod tests;
