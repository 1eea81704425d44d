//! Deliveries to the addresses of hooks.

use std::error::Error as _;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde_json::json;
use skillhost_policy::AddressPolicy;
use skillhost_sdk::prelude::*;
use skillhost_sdk::{OutgoingMessage, SendOutcome};
use url::Url;

use crate::guarded_client::{GuardedClient, NameLookup, SystemLookup, find_refused_address};
use crate::hook::HookTable;
use crate::hook_clock::HookClock;
use crate::hook_kernel::HookKernel;
use crate::signature::SigningSecret;
use crate::utc_time::format_utc;

/// The wait after too many requests, if the receiver names none in seconds.
const DEFAULT_WAIT: Duration = Duration::from_secs(60);
/// The longest wait that a receiver can ask for.
const MAX_WAIT: Duration = Duration::from_secs(60 * 60);

/// The sender of messages.
pub(crate) struct HookSender {
    client: GuardedClient,
    clock: Arc<dyn HookClock>,
}

impl HookSender {
    /// Creates a sender.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`] if the machine has no trusted certificates.
    pub(crate) fn new(
        policy: &AddressPolicy,
        timeout: Duration,
        clock: Arc<dyn HookClock>,
    ) -> Result<Self> {
        Self::with_lookup(policy, timeout, clock, &(Arc::new(SystemLookup) as Arc<dyn NameLookup>))
    }

    fn with_lookup(
        policy: &AddressPolicy,
        timeout: Duration,
        clock: Arc<dyn HookClock>,
        lookup: &Arc<dyn NameLookup>,
    ) -> Result<Self> {
        let client = GuardedClient::new(policy, timeout, lookup).map_err(ExtensionError::failed)?;
        Ok(Self { client, clock })
    }

    /// Sends a message to the address of its hook.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] and [`ErrorKind::Denied`] if it has to be sent again.
    pub(crate) async fn deliver(
        &self,
        hooks: &HookTable,
        kernel: &dyn HookKernel,
        message: &OutgoingMessage,
    ) -> Result<SendOutcome> {
        let name = &message.conversation.id;
        let Some(hook) = hooks.get(name) else {
            return Ok(rejected(format!("the hook `{name}` is not in the settings")));
        };
        if message.edits.is_some() {
            return Ok(rejected("webhooks cannot be edited".to_owned()));
        }
        let Some(url) = &hook.url else {
            // The hook only receives; the reply stays in its thread.
            tracing::debug!("hook `{name}` has no url: reply not sent");
            return Ok(SendOutcome::Sent { message_id: None });
        };
        let Ok(id) = HeaderValue::from_str(&message.key) else {
            return Ok(rejected("the key is not valid in a header".to_owned()));
        };
        let loaded = hooks.load_secrets(kernel).await?;
        let secrets = loaded.into_iter().find(|(known, _)| known == name).map(|(_, one)| one);
        let secrets = secrets.unwrap_or_else(|| Ok(Vec::new())).map_err(|reason| {
            ExtensionError::new(ErrorKind::Unavailable, format!("hook `{name}`: {reason}"))
        })?;
        self.post(name, url, id, &secrets, message).await
    }

    async fn post(
        &self,
        name: &str,
        url: &Url,
        id: HeaderValue,
        secrets: &[SigningSecret],
        message: &OutgoingMessage,
    ) -> Result<SendOutcome> {
        let now = self.clock.unix_time();
        let body = json!({
            "type": "message",
            "timestamp": format_utc(now),
            "data": {"hook": name, "text": message.text},
        });
        let (body, timestamp) = (body.to_string(), now.to_string());
        // During a change of the secret, the receiver may know either one.
        let signatures =
            secrets.iter().map(|secret| secret.sign(&message.key, &timestamp, body.as_bytes()));
        let signatures = signatures.collect::<Vec<_>>().join(" ");
        let client = self.client.client_for(url).map_err(|refused| denied(name, &refused))?;
        let request = client
            .post(url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signatures)
            .body(body);
        match request.send().await {
            Ok(response) => to_outcome(name, &response),
            Err(error) => Err(to_error(name, error)),
        }
    }
}

fn rejected(reason: String) -> SendOutcome {
    SendOutcome::Rejected { reason }
}

fn denied(name: &str, refused: &crate::guarded_client::RefusedAddressError) -> ExtensionError {
    ExtensionError::new(ErrorKind::Denied, format!("hook `{name}`: {refused}"))
        .with_hint("list the address in `allow_addresses` of the extension webhook")
}

/// Converts a response; its body is not read.
fn to_outcome(name: &str, response: &Response) -> Result<SendOutcome> {
    let status = response.status();
    let unavailable = |reason: &str| {
        let message = format!("hook `{name}`: {reason} (status {})", status.as_u16());
        Err(ExtensionError::new(ErrorKind::Unavailable, message))
    };
    match status {
        status if status.is_success() => Ok(SendOutcome::Sent { message_id: None }),
        StatusCode::GONE => {
            Ok(rejected(format!("hook `{name}`: the receiver is gone (status 410)")))
        }
        StatusCode::TOO_MANY_REQUESTS => Ok(to_throttled(response.headers())),
        StatusCode::SERVICE_UNAVAILABLE if response.headers().contains_key(RETRY_AFTER) => {
            Ok(to_throttled(response.headers()))
        }
        status if status.is_redirection() => unavailable("redirects are not followed"),
        _ => unavailable("the receiver refused the message"),
    }
}

/// Returns the wait that a receiver asks for; dates are not read.
fn to_throttled(headers: &HeaderMap) -> SendOutcome {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    // A wait of zero would be a busy loop.
    let wait = seconds.map_or(DEFAULT_WAIT, Duration::from_secs);
    let wait = wait.clamp(Duration::from_secs(1), MAX_WAIT);
    SendOutcome::Throttled { retry_after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX) }
}

fn to_error(name: &str, error: reqwest::Error) -> ExtensionError {
    if let Some(refused) = find_refused_address(&error) {
        return denied(name, refused);
    }
    let reason = if error.is_timeout() {
        "the request timed out".to_owned()
    } else {
        // The URL may contain a key.
        let error = error.without_url();
        let mut cause = error.to_string();
        let mut source = error.source();
        while let Some(deeper) = source {
            cause = deeper.to_string();
            source = deeper.source();
        }
        cause
    };
    ExtensionError::new(ErrorKind::Unavailable, format!("hook `{name}`: {reason}"))
}

#[cfg(test)]
mod tests;
