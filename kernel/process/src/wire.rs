//! The transport over standard input and output, with one protocol message per line.
//!
//! Any other output closes the connection, because its position in the message stream is lost; the
//! error quotes the line. A response that is too long fails only its own call.

use std::sync::{Arc, OnceLock};

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use skillhost_sandbox::to_printable;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::message_skim::{MessageSkim, SkimmedLine};

/// The maximum length of a message, in bytes.
pub(crate) const MAX_MESSAGE: usize = 4 * 1024 * 1024;

/// The maximum length of a skipped line, in bytes; a longer one closes the connection.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// The error code of a skipped response; the protocol does not use it.
pub(crate) const OVERSIZED_CODE: i32 = -32_099;

/// The maximum length of the excerpt of an invalid line, in characters.
const MAX_EXCERPT: usize = 160;

/// The limit of messages that wait to be written.
const QUEUE_LIMIT: usize = 64;

/// The shared status of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionStatus {
    /// Cancelled when reading ends: the process has closed its output or violated the protocol.
    pub(crate) closed: CancellationToken,
    /// Cancelled to close the standard input of the process.
    pub(crate) close_input: CancellationToken,
    protocol_error: Arc<OnceLock<String>>,
}

impl ConnectionStatus {
    /// Returns the violation of the protocol that closed the connection.
    pub(crate) fn protocol_error(&self) -> Option<&str> {
        self.protocol_error.get().map(String::as_str)
    }
}

/// The transport of one connection.
pub(crate) struct LineTransport<R> {
    read: BufReader<R>,
    status: ConnectionStatus,
    /// The start of the current line; a cancelled read continues here.
    buffer: Vec<u8>,
    /// The skimmed structure and the length of a line that exceeds the buffer.
    long: Option<(MessageSkim, usize)>,
    lines: u64,
    sender: mpsc::Sender<Vec<u8>>,
}

/// An error of a write after the standard input of the process was closed.
#[derive(Debug, thiserror::Error)]
#[error("standard input is closed")]
pub(crate) struct ClosedInputError;

impl<R: AsyncRead + Send + Unpin> LineTransport<R> {
    /// Creates a transport and spawns its writing task.
    ///
    /// The task owns the only handle of the input, which is closed when
    /// [`ConnectionStatus::close_input`] is cancelled or the connection is dropped.
    pub(crate) fn new<W>(read: R, mut write: W, status: ConnectionStatus) -> Self
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, mut queue) = mpsc::channel::<Vec<u8>>(QUEUE_LIMIT);
        let close = status.close_input.clone();
        tokio::spawn(async move {
            let writing = async {
                while let Some(message) = queue.recv().await {
                    if write.write_all(&message).await.is_err() || write.flush().await.is_err() {
                        return;
                    }
                }
            };
            // A write to a process that does not read would block forever.
            tokio::select! {
                () = writing => {}
                () = close.cancelled() => {}
            }
        });
        let read = BufReader::new(read);
        Self { read, status, buffer: Vec::new(), long: None, lines: 0, sender }
    }

    /// Reads one line without its line break, or `None` at the end of the output. Cancel-safe.
    async fn read_line(&mut self) -> Result<Option<WireLine>, String> {
        loop {
            let available = match self.read.fill_buf().await {
                Ok(available) => available,
                Err(error) => return Err(format!("cannot be read: {error}")),
            };
            if available.is_empty() {
                return Ok(None);
            }
            let newline = available.iter().position(|byte| *byte == b'\n');
            let part = newline.unwrap_or(available.len());
            if let Some((skim, bytes)) = &mut self.long {
                skim.push(&available[..part]);
                *bytes += part;
                if *bytes > MAX_LINE {
                    return Err(self.length_error(MAX_LINE));
                }
            } else if self.buffer.len() + part > MAX_MESSAGE {
                // Only an object can be a response that is worth skipping to its end.
                if self.buffer.trim_ascii_start().first() != Some(&b'{') {
                    return Err(self.length_error(MAX_MESSAGE));
                }
                let mut skim = MessageSkim::default();
                skim.push(&self.buffer);
                skim.push(&available[..part]);
                self.long = Some((skim, self.buffer.len() + part));
                // Four bytes per character are enough for the excerpt in an error.
                self.buffer.truncate(4 * MAX_EXCERPT);
                self.buffer.shrink_to_fit();
            } else {
                self.buffer.extend_from_slice(&available[..part]);
            }
            // Consumed only after the bytes are stored, so that a cancelled read loses none.
            let consumed = part + usize::from(newline.is_some());
            self.read.consume(consumed);
            if newline.is_some() {
                self.lines += 1;
                let text = std::mem::take(&mut self.buffer);
                return Ok(Some(match self.long.take() {
                    Some((skim, bytes)) => WireLine::Long { start: text, skim, bytes },
                    None => WireLine::Complete(text),
                }));
            }
        }
    }

    fn length_error(&self, limit: usize) -> String {
        format!(
            "wrote more than {} MiB as line {} of its standard output: `{}`",
            limit / (1024 * 1024),
            self.lines + 1,
            excerpt(&self.buffer)
        )
    }

    async fn next_message(&mut self) -> Result<Option<RxJsonRpcMessage<RoleClient>>, String> {
        loop {
            let invalid = |lines: u64, line: &[u8]| {
                format!(
                    "wrote an invalid protocol message as line {lines} of its standard output: \
                     `{}`",
                    excerpt(line)
                )
            };
            let line = match self.read_line().await? {
                None => return Ok(None),
                Some(WireLine::Complete(line)) => line,
                Some(WireLine::Long { start, skim, bytes }) => match skim.finish() {
                    SkimmedLine::Response(id) => {
                        // An error response in its place fails only the call that it answers.
                        let message = format!(
                            "response has {bytes} bytes, more than the limit of {MAX_MESSAGE}"
                        );
                        let error = json!({ "code": OVERSIZED_CODE, "message": message });
                        let response = json!({ "jsonrpc": "2.0", "id": id, "error": error });
                        match serde_json::from_value(response) {
                            Ok(message) => return Ok(Some(message)),
                            Err(_) => return Err(invalid(self.lines, &start)),
                        }
                    }
                    SkimmedLine::Other => {
                        tracing::warn!(bytes, "message of a process is too long; skipped");
                        continue;
                    }
                    SkimmedLine::Invalid => return Err(invalid(self.lines, &start)),
                },
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice(&line) {
                Ok(message) => return Ok(Some(message)),
                // Later versions of the protocol may add notifications, which may be ignored.
                Err(_) if is_unknown_notification(&line) => {}
                Err(_) => return Err(invalid(self.lines, &line)),
            }
        }
    }
}

/// A line of output.
enum WireLine {
    /// A complete line within the limit.
    Complete(Vec<u8>),
    /// The start and the structure of a line beyond the limit.
    Long { start: Vec<u8>, skim: MessageSkim, bytes: usize },
}

/// Returns the start of a line in printable form.
fn excerpt(line: &[u8]) -> String {
    to_printable(&String::from_utf8_lossy(&line[..line.len().min(4 * MAX_EXCERPT)]), MAX_EXCERPT)
}

/// Returns `true` if a line is a notification that this build does not know.
fn is_unknown_notification(line: &[u8]) -> bool {
    let Ok(Value::Object(message)) = serde_json::from_slice(line) else { return false };
    message.get("jsonrpc").is_some_and(|version| version == "2.0")
        && message.get("method").is_some_and(Value::is_string)
        && !message.contains_key("id")
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleClient> for LineTransport<R> {
    type Error = ClosedInputError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), ClosedInputError>> + Send + 'static {
        let sender = self.sender.clone();
        async move {
            // A message consists of JSON values, so its serialization cannot fail.
            let mut line = serde_json::to_vec(&message).map_err(|_| ClosedInputError)?;
            line.push(b'\n');
            sender.send(line).await.map_err(|_| ClosedInputError)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        // The library may call again after the end, and output after an error is not trusted.
        let next = match self.status.closed.is_cancelled() {
            true => Ok(None),
            false => self.next_message().await,
        };
        if let Ok(Some(message)) = next {
            return Some(message);
        }
        if let Err(error) = next {
            // Reading ends with the first error, so the cell is still empty.
            let _ = self.status.protocol_error.set(error);
        }
        self.status.closed.cancel();
        None
    }

    async fn close(&mut self) -> Result<(), ClosedInputError> {
        self.status.close_input.cancel();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of messages in a process's output and the protocol error.
    async fn read(output: &[u8]) -> (usize, Option<String>) {
        let status = ConnectionStatus::default();
        let mut wire = LineTransport::new(output, tokio::io::sink(), status.clone());
        let mut messages = 0;
        while wire.receive().await.is_some() {
            messages += 1;
        }
        assert!(status.closed.is_cancelled());
        (messages, status.protocol_error().map(str::to_owned))
    }

    const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

    #[tokio::test]
    async fn unknown_notification_is_ignored() {
        let notification =
            r#"{"jsonrpc":"2.0","method":"notifications/of_tomorrow","params":{"a":1}}"#;
        let output = format!("{ANSWER}\r\n\n{notification}\n{ANSWER}\n{{\"half\":");
        let (messages, protocol_error) = read(output.as_bytes()).await;
        assert!((2..=3).contains(&messages), "{messages}");
        assert_eq!(protocol_error, None);
    }

    #[tokio::test]
    async fn invalid_line_closes_connection() {
        let output = format!("{ANSWER}\n\u{1b}[31mdebug\n{ANSWER}\n");
        let expected = "wrote an invalid protocol message as line 2 of its standard output: \
                        `\\u{1b}[31mdebug`";
        assert_eq!(read(output.as_bytes()).await, (1, Some(expected.to_owned())));
        for garbage in ["{\"id\":1}", "[1]", "null", "\u{0}\u{ff}"] {
            let (messages, protocol_error) = read(format!("{garbage}\n").as_bytes()).await;
            assert_eq!(messages, 0, "{garbage}");
            assert!(
                protocol_error
                    .is_some_and(|protocol_error| protocol_error.contains(" as line 1 of ")),
                "{garbage}"
            );
        }
    }

    #[tokio::test]
    async fn endless_line_is_limited() {
        let mut output = vec![b'x'; MAX_MESSAGE + 1];
        let (messages, protocol_error) = read(&output).await;
        let protocol_error = protocol_error.unwrap();
        assert!(
            protocol_error
                .starts_with("wrote more than 4 MiB as line 1 of its standard output: `xxx")
        );
        assert!(protocol_error.len() < 300 && messages == 0, "{protocol_error}");
        output.truncate(MAX_MESSAGE);
        assert_eq!(
            read(&output).await,
            (0, None),
            "a partial line is neither a message nor an error"
        );
        let mut endless = vec![b' '; MAX_LINE + 2];
        endless[0] = b'{';
        let (_, protocol_error) = read(&endless).await;
        assert!(protocol_error.unwrap().starts_with("wrote more than 64 MiB as line 1 of its "));
    }

    #[tokio::test]
    async fn oversized_response_becomes_error() {
        let text = "x".repeat(MAX_MESSAGE);
        let notification =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/m","params":"{text}"}}"#);
        let answer = format!(r#"{{"result":{{"a":"{text}"}},"jsonrpc":"2.0","id":9}}"#);
        let output = format!("{notification}\n{answer}\n{ANSWER}\n");
        let mut wire =
            LineTransport::new(output.as_bytes(), tokio::io::sink(), ConnectionStatus::default());
        let response = serde_json::to_value(wire.receive().await.unwrap()).unwrap();
        let message =
            format!("response has {} bytes, more than the limit of 4194304", answer.len());
        let error = json!({ "code": OVERSIZED_CODE, "message": message });
        assert_eq!(response, json!({ "jsonrpc": "2.0", "id": 9, "error": error }));
        assert!(wire.receive().await.is_some(), "the connection goes on");
        for garbage in [format!("{{\"id\":1,\"result\":\"{text}\"}}}}"), format!("{{{text}")] {
            let (messages, protocol_error) = read(format!("{garbage}\n").as_bytes()).await;
            assert_eq!(messages, 0);
            assert!(protocol_error.unwrap().starts_with("wrote an invalid protocol message"));
        }
    }

    #[tokio::test]
    async fn close_aborts_blocked_write() {
        use tokio::io::AsyncReadExt as _;
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut wire = LineTransport::new(tokio::io::empty(), ours, ConnectionStatus::default());
        let message: TxJsonRpcMessage<RoleClient> =
            serde_json::from_str(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#).unwrap();
        wire.send(message).await.unwrap();
        wire.close().await.unwrap();
        let mut written = Vec::new();
        theirs.read_to_end(&mut written).await.unwrap();
        assert!(written.len() <= 16, "{written:?}");
    }
}
