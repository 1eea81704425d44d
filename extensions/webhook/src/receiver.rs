//! The verification of received messages.

use skillhost_sdk::prelude::*;
use skillhost_sdk::{ChannelConversation, ChannelPeer, InboundOutcome, IncomingMessage};
use tokio::sync::Mutex;

use crate::hook::HookTable;
use crate::hook_clock::{HookClock, TOLERANCE};
use crate::hook_kernel::HookKernel;
use crate::seen_ids::{IdStatus, SeenIds};
use crate::signature::SignedMessage;

/// The longest id of a message, in bytes.
const ID_LIMIT: usize = 256;

/// The reply to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookReply {
    /// The message is durable.
    Accepted,
    /// It was before, and the sender sends it again.
    Repeated,
    /// It is a copy of a request that came before.
    Replayed,
    /// The kernel does not process it.
    Refused,
    /// The sender sends too many messages, and may send the next one after this number of seconds.
    Throttled(u64),
    /// The name, the signature or the timestamp is not valid.
    Unauthorized,
    /// The body is not a text.
    Unreadable,
    /// It can be sent again later.
    Unavailable,
}

/// The receiver of messages.
pub(crate) struct HookReceiver {
    kernel: Arc<dyn HookKernel>,
    hooks: Arc<HookTable>,
    clock: Arc<dyn HookClock>,
    /// Held while a message is passed on, so that two copies cannot pass together.
    seen: Mutex<SeenIds>,
}

impl HookReceiver {
    pub(crate) fn new(
        kernel: Arc<dyn HookKernel>,
        hooks: Arc<HookTable>,
        clock: Arc<dyn HookClock>,
        seen: SeenIds,
    ) -> Self {
        Self { kernel, hooks, clock, seen: Mutex::new(seen) }
    }

    /// Verifies a message for a hook, and passes it to the kernel.
    ///
    /// The work before the first refusal is the same for each name: all secrets are loaded, and as many
    /// signatures computed as the hook with the most secrets has.
    pub(crate) async fn receive(&self, name: &str, message: &SignedMessage<'_>) -> HookReply {
        let loaded = match self.hooks.load_secrets(&*self.kernel).await {
            Ok(loaded) => loaded,
            Err(error) => {
                tracing::warn!(%error, "secrets of hooks not available");
                return HookReply::Unavailable;
            }
        };
        let count = |secrets: &Result<Vec<_>, String>| secrets.as_ref().map_or(1, Vec::len);
        let width = loaded.iter().map(|(_, secrets)| count(secrets)).max().unwrap_or(1);
        let found = loaded.iter().find(|(known, _)| *known == name);
        let secrets = match found {
            Some((_, Ok(secrets))) => secrets.as_slice(),
            // The health check reports the reason; here, everyone could fill the log with it.
            Some((_, Err(_))) | None => &[],
        };
        let is_signed = message.is_signed_by(secrets, width);
        let timestamp = parse_timestamp(message.timestamp);
        let now = self.clock.unix_time();
        let Some(timestamp) = timestamp.filter(|time| time.abs_diff(now) <= TOLERANCE) else {
            return HookReply::Unauthorized;
        };
        if !is_signed || !is_valid_id(message.id) {
            return HookReply::Unauthorized;
        }
        // From here on, the sender has the secret.
        let text = std::str::from_utf8(message.body).ok().filter(|text| !text.trim().is_empty());
        let Some(text) = text else { return HookReply::Unreadable };
        self.pass_message(name, message.id, timestamp, text).await
    }

    /// Passes a verified message to the kernel, once.
    async fn pass_message(&self, name: &str, id: &str, timestamp: u64, text: &str) -> HookReply {
        let mut seen = self.seen.lock().await;
        let now = self.clock.unix_time();
        seen.forget_old(now);
        let reply = match seen.check(name, id, timestamp) {
            IdStatus::Replayed => return HookReply::Replayed,
            IdStatus::Full => return HookReply::Unavailable,
            IdStatus::Repeated => HookReply::Repeated,
            IdStatus::New => match self.kernel.receive_message(&to_message(name, id, text)).await {
                Ok(InboundOutcome::Accepted) => HookReply::Accepted,
                Ok(InboundOutcome::Duplicate) => HookReply::Repeated,
                // Not remembered: the operator may pair the hook while the sender tries again.
                Ok(InboundOutcome::Refused) => return HookReply::Refused,
                Ok(InboundOutcome::Throttled { retry_after_ms }) => {
                    return HookReply::Throttled(retry_after_ms.div_ceil(1_000).max(1));
                }
                Err(error) => {
                    tracing::warn!(%error, "webhook not stored");
                    return HookReply::Unavailable;
                }
            },
        };
        match seen.remember(name, id, timestamp, now).await {
            Ok(()) => reply,
            Err(error) => {
                tracing::warn!(%error, "id of a webhook not stored");
                HookReply::Unavailable
            }
        }
    }
}

/// Parses a timestamp: only digits, without a sign or spaces.
fn parse_timestamp(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn is_valid_id(id: &str) -> bool {
    (1..=ID_LIMIT).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

fn to_message(name: &str, id: &str, text: &str) -> IncomingMessage {
    IncomingMessage {
        external_id: id.to_owned(),
        conversation: ChannelConversation { id: name.to_owned(), topic: None, is_group: false },
        peer: ChannelPeer { id: name.to_owned(), name: format!("webhook {name}") },
        text: text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
