//! A minimal server that answers every request with the same error.

use futures::future::BoxFuture;
use rmcp::transport::io::stdio_pipes;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, BufReader};
use tokio_util::sync::CancellationToken;

use crate::limits::ClientLimits;

/// The error code of an unavailable server; from the range that JSON-RPC leaves to servers.
const UNAVAILABLE: i64 = -32000;

/// The JSON-RPC error code of a message that is not valid JSON.
const PARSE_ERROR: i64 = -32700;

/// The reason for which the server is unavailable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The description of the error.
    pub message: String,
    /// The suggested remedy; may be empty.
    pub hint: String,
}

/// Answers every request on standard input with an error until the client disconnects or `stop` is
/// cancelled.
///
/// If the server exited instead, the client would report a closed connection without the reason.
pub fn refuse_stdio(refusal: &Refusal, stop: CancellationToken) -> BoxFuture<'_, ()> {
    Box::pin(async move {
        let (read, write) = stdio_pipes();
        refuse_streams(refusal, read, write, stop).await;
    })
}

/// Answers every request on two streams with an error, one message per line, like [`refuse_stdio`].
async fn refuse_streams(
    refusal: &Refusal,
    read: impl AsyncRead + Unpin,
    write: impl AsyncWrite + Unpin,
    stop: CancellationToken,
) {
    tokio::select! {
        () = stop.cancelled() => {}
        outcome = answer_requests(refusal, read, write) => if let Err(error) = outcome {
            tracing::debug!(%error, "response to the client failed");
        },
    }
}

async fn answer_requests(
    refusal: &Refusal,
    read: impl AsyncRead + Unpin,
    mut write: impl AsyncWrite + Unpin,
) -> std::io::Result<()> {
    let limit = ClientLimits::default().message;
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    loop {
        line.clear();
        // Without the limit, an endless line would fill the memory.
        let max_length = u64::try_from(limit).unwrap_or(u64::MAX);
        let length = (&mut read).take(max_length).read_until(b'\n', &mut line).await?;
        let Some(response) = refusal_response(refusal, &line) else {
            // The input has ended, or the line has no end within the limit.
            if length == 0 || length == limit {
                return Ok(());
            }
            continue;
        };
        write.write_all(format!("{response}\n").as_bytes()).await?;
        write.flush().await?;
    }
}

/// Returns the response to a line, or `None` if it is not a request.
fn refusal_response(refusal: &Refusal, line: &[u8]) -> Option<Value> {
    if line.trim_ascii().is_empty() {
        return None;
    }
    let message: Value = match serde_json::from_slice(line) {
        Ok(message) => message,
        Err(_) => {
            let error = json!({ "code": PARSE_ERROR, "message": "message is not valid JSON" });
            return Some(json!({ "jsonrpc": "2.0", "id": null, "error": error }));
        }
    };
    // Notifications have no id and get no response.
    let id = message.get("id").filter(|id| id.is_string() || id.is_number())?;
    message.get("method")?;
    let Refusal { message, hint } = refusal;
    // Most clients display only the message, so the hint is repeated in it.
    let text = match hint.is_empty() {
        true => message.clone(),
        false => format!("{message}; {hint}"),
    };
    let error = json!({ "code": UNAVAILABLE, "message": text, "data": { "hint": hint } });
    Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answers(input: &[u8]) -> Vec<Value> {
        let refusal =
            Refusal { message: "not trusted".to_owned(), hint: "skillhost trust".to_owned() };
        let mut output = Vec::new();
        refuse_streams(&refusal, input, &mut output, CancellationToken::new()).await;
        let lines = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    #[tokio::test]
    async fn every_request_gets_error() {
        let input = b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{}}\n\
            {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n\n\
            nonsense\n[1]\n{\"id\":\"a\",\"method\":\"ping\"}";
        let error = json!({
            "code": -32000, "message": "not trusted; skillhost trust",
            "data": { "hint": "skillhost trust" },
        });
        let parse = json!({ "code": -32700, "message": "message is not valid JSON" });
        assert_eq!(
            answers(input).await,
            [
                json!({ "jsonrpc": "2.0", "id": 0, "error": error }),
                json!({ "jsonrpc": "2.0", "id": null, "error": parse }),
                json!({ "jsonrpc": "2.0", "id": "a", "error": error }),
            ]
        );
    }

    #[tokio::test]
    async fn endless_line_is_cut() {
        let input = vec![b'x'; ClientLimits::default().message + 10];
        assert_eq!(answers(&input).await.len(), 2);
        assert_eq!(answers(&b"[".repeat(100_000)).await.len(), 1);
    }

    #[tokio::test]
    async fn stop_ends_the_refusal() {
        let (_client, server) = tokio::io::duplex(64);
        let (read, write) = tokio::io::split(server);
        let stop = CancellationToken::new();
        stop.cancel();
        let refusal = Refusal { message: String::new(), hint: String::new() };
        refuse_streams(&refusal, read, write, stop).await;
    }
}
