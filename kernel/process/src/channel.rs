//! A process as a channel: it sends on request, and is asked for the messages of people.
//!
//! The kernel asks with the position that it has stored. The next position is stored only after each
//! message before it was received, so a message behind a crash is asked for again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use skillhost_core::ExtensionCalls;
use skillhost_payload::{
    ButtonOutcome, CallError, ChannelCursor, ErrorKind, IncomingMessage, PressedButton,
    channel_interface, host_method,
};
use tokio_util::sync::CancellationToken;

use crate::error::call_error;
use crate::supervised::SupervisedProcess;

/// The prefix of the methods of channels.
const METHOD_PREFIX: &str = "skillhost/channel/";
/// The time for which a process may wait for messages, in milliseconds.
const WAIT_MS: u64 = 20_000;
/// The time beyond it after which the request has failed.
const GRACE: Duration = Duration::from_secs(10);
/// The time limit of an answer to a pressed button.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The pauses after a failed request: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The least time between two requests without messages.
const MIN_INTERVAL: Duration = Duration::from_millis(200);

/// The receipt of the messages of a process.
pub(crate) struct ProcessChannel {
    pub(crate) process: Arc<SupervisedProcess>,
    pub(crate) calls: ExtensionCalls,
    pub(crate) cancel: CancellationToken,
}

/// The messages and buttons since a position.
#[derive(Deserialize)]
struct ReceivedBatch {
    #[serde(default)]
    messages: Vec<IncomingMessage>,
    #[serde(default)]
    buttons: Vec<ReceivedButton>,
    /// The position behind them; `None` if it has not changed.
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct ReceivedButton {
    #[serde(flatten)]
    button: PressedButton,
    /// The process's name of the press, for the answer.
    #[serde(default)]
    callback: Option<String>,
}

impl ProcessChannel {
    /// Receives until it is cancelled. A request that fails is made again after a pause.
    pub(crate) async fn run(self) -> Result<(), CallError> {
        let cancel = self.cancel.clone();
        let mut pause = FIRST_PAUSE;
        loop {
            let started = Instant::now();
            let received = tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(()),
                received = self.receive() => received,
            };
            let wait = match received {
                Ok(0) => {
                    pause = FIRST_PAUSE;
                    MIN_INTERVAL.saturating_sub(started.elapsed())
                }
                Ok(_) => {
                    pause = FIRST_PAUSE;
                    // More may wait behind a full batch.
                    continue;
                }
                Err(error) => {
                    // Usually, another kernel of the home receives the messages.
                    if error.kind != ErrorKind::Unavailable {
                        tracing::warn!(%error, "messages of a process not received; retrying");
                    }
                    let wait = pause;
                    pause = (pause * 2).min(MAX_PAUSE);
                    wait
                }
            };
            tokio::select! {
                () = cancel.cancelled() => return Ok(()),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Receives a batch; returns the number of messages and buttons.
    async fn receive(&self) -> Result<usize, CallError> {
        let stored = self.calls.call(host_method::LOAD_CHANNEL_CURSOR, b"null").await?;
        let stored: ChannelCursor = decode(&stored)?;
        let params = json!({ "cursor": stored.value, "waitMs": WAIT_MS });
        let limit = Duration::from_millis(WAIT_MS) + GRACE;
        let batch = request(&self.process, "receive", params, "received", limit).await?;
        let batch: ReceivedBatch =
            serde_json::from_value(batch).map_err(|error| CallError::protocol_error(&error))?;
        let count = batch.messages.len() + batch.buttons.len();
        for message in &batch.messages {
            match self.calls.call(host_method::RECEIVE_MESSAGE, &encode(message)?).await {
                Ok(_) => {}
                // It can never be received; the messages behind it must not wait for it.
                Err(error) if error.kind == ErrorKind::InvalidArgument => {
                    tracing::warn!(%error, "a message of a process is not valid");
                }
                Err(error) => return Err(error),
            }
        }
        for ReceivedButton { button, callback } in &batch.buttons {
            let outcome = self.calls.call(host_method::PRESS_BUTTON, &encode(button)?).await?;
            let ButtonOutcome { text } = decode(&outcome)?;
            let params = json!({ "callback": callback, "text": text });
            // The decision counts, whether or not the person reads the line.
            let _ = request(&self.process, "answer", params, "answered", ANSWER_LIMIT).await;
        }
        if let Some(value) = batch.cursor {
            let cursor = ChannelCursor { value: Some(value) };
            self.calls.call(host_method::STORE_CHANNEL_CURSOR, &encode(&cursor)?).await?;
        }
        Ok(count)
    }
}

/// Calls a method of the interface `channel`.
pub(crate) async fn call_channel(
    process: &SupervisedProcess,
    method: &str,
    payload: &[u8],
) -> Result<Vec<u8>, CallError> {
    let field = match method {
        channel_interface::INFO => "info",
        channel_interface::SEND => "sent",
        channel_interface::HINT => "hint",
        other => {
            return Err(call_error(ErrorKind::Protocol, format!("unknown method `{other}`")));
        }
    };
    let value: Value = decode(payload)?;
    // The kernel's own limit of the call ends it earlier.
    let params = if value.is_null() { json!({}) } else { value };
    let reply = request(process, method, params, field, Duration::from_secs(600)).await?;
    encode(&reply)
}

/// Sends a request, and returns a field of its result. The result is an object with a single field of
/// its own, as one with the fields of another method would be taken for that method's.
async fn request(
    process: &SupervisedProcess,
    method: &str,
    params: Value,
    field: &str,
    limit: Duration,
) -> Result<Value, CallError> {
    let method = format!("{METHOD_PREFIX}{method}");
    let requested = process.request(&method, params);
    let reply = tokio::time::timeout(limit, requested).await.map_err(|_| {
        call_error(ErrorKind::Timeout, format!("`{method}` timed out after {limit:?}"))
    })??;
    match reply {
        Value::Object(mut fields) => match fields.remove(field) {
            Some(value) => Ok(value),
            None => {
                let message = format!("the result of `{method}` has no field `{field}`");
                Err(call_error(ErrorKind::Protocol, message))
            }
        },
        _ => Err(call_error(ErrorKind::Protocol, format!("the result of `{method}` is no object"))),
    }
}

fn decode<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(bytes).map_err(|error| CallError::protocol_error(&error))
}

fn encode(value: &impl serde::Serialize) -> Result<Vec<u8>, CallError> {
    serde_json::to_vec(value).map_err(|error| CallError::protocol_error(&error))
}
