//! Lines on a process's standard output, one message of the protocol each, and the way back.
//!
//! Whatever else stands there ends the connection: a program that prints what it should not has lost
//! its place, and the line says where to look. An answer that is too long fails its call alone.

use std::sync::{Arc, OnceLock};

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::printable;
use crate::skim::{MessageSkim, Skimmed};

/// The longest line that is read, in bytes.
pub(crate) const LONGEST_LINE: usize = 4 * 1024 * 1024;

/// The longest line that is passed over, in bytes; one without an end is none.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// The error code of an answer that was passed over; no other code of the protocol.
pub(crate) const OVERSIZED: i32 = -32_099;

/// As much of a bad line as is shown, in characters.
const SHOWN: usize = 160;

/// Messages that wait to be written.
const QUEUE: usize = 64;

/// Whether a connection is over, and what was wrong if something was.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionStatus {
    /// Nothing more is read: the process closed its output, or wrote what it must not.
    pub(crate) over: CancellationToken,
    /// The process's standard input is to be closed.
    pub(crate) end: CancellationToken,
    fault: Arc<OnceLock<String>>,
}

impl ConnectionStatus {
    /// What the process wrote that it must not.
    pub(crate) fn protocol_error(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }
}

/// The transport of one connection.
pub(crate) struct LineTransport<R> {
    read: BufReader<R>,
    line: ConnectionStatus,
    /// What was read of the line so far; a read that is given up goes on here.
    buffer: Vec<u8>,
    /// The line is longer than that: what is known of it, and its bytes.
    long: Option<(MessageSkim, usize)>,
    lines: u64,
    sender: mpsc::Sender<Vec<u8>>,
}

/// Nothing can be written any more.
#[derive(Debug, thiserror::Error)]
#[error("its standard input is closed")]
pub(crate) struct ClosedInputError;

impl<R: AsyncRead + Send + Unpin> LineTransport<R> {
    /// Connects the two ends. The task that writes holds the only handle to the input: it is closed
    /// when [`ConnectionStatus::end`] says so, or the connection is dropped.
    pub(crate) fn new<W>(read: R, mut write: W, line: ConnectionStatus) -> Self
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, mut queue) = mpsc::channel::<Vec<u8>>(QUEUE);
        let end = line.end.clone();
        tokio::spawn(async move {
            let writing = async {
                while let Some(message) = queue.recv().await {
                    if write.write_all(&message).await.is_err() || write.flush().await.is_err() {
                        return;
                    }
                }
            };
            // A process that reads nothing would hold a write for ever.
            tokio::select! {
                () = writing => {}
                () = end.cancelled() => {}
            }
        });
        Self { read: BufReader::new(read), line, buffer: Vec::new(), long: None, lines: 0, sender }
    }

    /// Reads one line without its end; nothing at the end of the output. May be given up and called
    /// again.
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
                    return Err(self.too_long(MAX_LINE));
                }
            } else if self.buffer.len() + part > LONGEST_LINE {
                if self.buffer.trim_ascii_start().first() != Some(&b'{') {
                    return Err(self.too_long(LONGEST_LINE));
                }
                let mut skim = MessageSkim::default();
                skim.push(&self.buffer);
                skim.push(&available[..part]);
                self.long = Some((skim, self.buffer.len() + part));
                self.buffer.truncate(4 * SHOWN);
                self.buffer.shrink_to_fit();
            } else {
                self.buffer.extend_from_slice(&available[..part]);
            }
            let consumed = part + usize::from(newline.is_some());
            self.read.consume(consumed);
            if newline.is_some() {
                self.lines += 1;
                let text = std::mem::take(&mut self.buffer);
                return Ok(Some(match self.long.take() {
                    Some((skim, bytes)) => WireLine::Long { start: text, skim, bytes },
                    None => WireLine::Whole(text),
                }));
            }
        }
    }

    fn too_long(&self, limit: usize) -> String {
        format!(
            "wrote more than {} MiB as line {} of its standard output: `{}`",
            limit / (1024 * 1024),
            self.lines + 1,
            shown(&self.buffer)
        )
    }

    async fn next(&mut self) -> Result<Option<RxJsonRpcMessage<RoleClient>>, String> {
        loop {
            let garbage = |lines: u64, line: &[u8]| {
                format!(
                    "wrote what is no message of the protocol as line {lines} of its standard \
                     output: `{}`",
                    shown(line)
                )
            };
            let line = match self.read_line().await? {
                None => return Ok(None),
                Some(WireLine::Whole(line)) => line,
                Some(WireLine::Long { start, skim, bytes }) => match skim.finish() {
                    Skimmed::Answer(id) => {
                        let message = format!(
                            "its answer has {bytes} bytes, more than the {LONGEST_LINE} that are read"
                        );
                        let error = json!({ "code": OVERSIZED, "message": message });
                        let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
                        match serde_json::from_value(answer) {
                            Ok(message) => return Ok(Some(message)),
                            Err(_) => return Err(garbage(self.lines, &start)),
                        }
                    }
                    Skimmed::Other => {
                        tracing::warn!(bytes, "a message of a process is too long and is left out");
                        continue;
                    }
                    Skimmed::Garbage => return Err(garbage(self.lines, &start)),
                },
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice(&line) {
                Ok(message) => return Ok(Some(message)),
                Err(_) if is_unknown_notification(&line) => {}
                Err(_) => return Err(garbage(self.lines, &line)),
            }
        }
    }
}

/// One line as it was read.
enum WireLine {
    Whole(Vec<u8>),
    /// Longer than what is kept of it.
    Long {
        start: Vec<u8>,
        skim: MessageSkim,
        bytes: usize,
    },
}

/// The start of a line, for people.
fn shown(line: &[u8]) -> String {
    printable(&String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN)]), SHOWN)
}

/// Whether a line tells something that this build does not know, and expects no answer.
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
            // A message is made of JSON values, so it can always be written.
            let mut line = serde_json::to_vec(&message).map_err(|_| ClosedInputError)?;
            line.push(b'\n');
            sender.send(line).await.map_err(|_| ClosedInputError)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let next = match self.line.over.is_cancelled() {
            true => Ok(None),
            false => self.next().await,
        };
        if let Ok(Some(message)) = next {
            return Some(message);
        }
        if let Err(fault) = next {
            // Only the first one matters, and only one is read.
            let _ = self.line.fault.set(fault);
        }
        self.line.over.cancel();
        None
    }

    async fn close(&mut self) -> Result<(), ClosedInputError> {
        self.line.end.cancel();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many messages a process's output has, and what ends it.
    async fn read(output: &[u8]) -> (usize, Option<String>) {
        let line = ConnectionStatus::default();
        let mut wire = LineTransport::new(output, tokio::io::sink(), line.clone());
        let mut messages = 0;
        while wire.receive().await.is_some() {
            messages += 1;
        }
        assert!(line.over.is_cancelled());
        (messages, line.protocol_error().map(str::to_owned))
    }

    const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

    #[tokio::test]
    async fn messages_are_lines_and_an_unknown_notification_is_none_of_ours() {
        let news = r#"{"jsonrpc":"2.0","method":"notifications/of_tomorrow","params":{"a":1}}"#;
        let output = format!("{ANSWER}\r\n\n{news}\n{ANSWER}\n{{\"half\":");
        let (messages, fault) = read(output.as_bytes()).await;
        assert!((2..=3).contains(&messages), "{messages}");
        assert_eq!(fault, None);
    }

    #[tokio::test]
    async fn what_is_no_message_ends_the_connection_and_is_shown() {
        let output = format!("{ANSWER}\n\u{1b}[31mdebug\n{ANSWER}\n");
        let expected = "wrote what is no message of the protocol as line 2 of its standard \
                        output: `\\u{1b}[31mdebug`";
        assert_eq!(read(output.as_bytes()).await, (1, Some(expected.to_owned())));
        for garbage in ["{\"id\":1}", "[1]", "null", "\u{0}\u{ff}"] {
            let (messages, fault) = read(format!("{garbage}\n").as_bytes()).await;
            assert_eq!(messages, 0, "{garbage}");
            assert!(fault.is_some_and(|fault| fault.contains(" as line 1 of ")), "{garbage}");
        }
    }

    #[tokio::test]
    async fn a_line_without_end_is_read_up_to_the_limit() {
        let mut output = vec![b'x'; LONGEST_LINE + 1];
        let (messages, fault) = read(&output).await;
        let fault = fault.unwrap();
        assert!(fault.starts_with("wrote more than 4 MiB as line 1 of its standard output: `xxx"));
        assert!(fault.len() < 300 && messages == 0, "{fault}");
        output.truncate(LONGEST_LINE);
        assert_eq!(read(&output).await, (0, None), "half a line is no message and no fault");
        let mut endless = vec![b' '; MAX_LINE + 2];
        endless[0] = b'{';
        let (_, fault) = read(&endless).await;
        assert!(fault.unwrap().starts_with("wrote more than 64 MiB as line 1 of its "));
    }

    #[tokio::test]
    async fn oversized_answer_is_an_error_reply() {
        let text = "x".repeat(LONGEST_LINE);
        let news = format!(r#"{{"jsonrpc":"2.0","method":"notifications/m","params":"{text}"}}"#);
        let answer = format!(r#"{{"result":{{"a":"{text}"}},"jsonrpc":"2.0","id":9}}"#);
        let output = format!("{news}\n{answer}\n{ANSWER}\n");
        let mut wire =
            LineTransport::new(output.as_bytes(), tokio::io::sink(), ConnectionStatus::default());
        let refused = serde_json::to_value(wire.receive().await.unwrap()).unwrap();
        let message =
            format!("its answer has {} bytes, more than the 4194304 that are read", answer.len());
        let error = json!({ "code": OVERSIZED, "message": message });
        assert_eq!(refused, json!({ "jsonrpc": "2.0", "id": 9, "error": error }));
        assert!(wire.receive().await.is_some(), "the connection goes on");
        for garbage in [format!("{{\"id\":1,\"result\":\"{text}\"}}}}"), format!("{{{text}")] {
            let (messages, fault) = read(format!("{garbage}\n").as_bytes()).await;
            assert_eq!(messages, 0);
            assert!(fault.unwrap().starts_with("wrote what is no message of the protocol"));
        }
    }

    #[tokio::test]
    async fn closing_gives_the_input_back_though_nobody_reads_it() {
        use tokio::io::AsyncReadExt as _;
        let (ours, mut theirs) = tokio::io::duplex(16);
        let line = ConnectionStatus::default();
        let mut wire = LineTransport::new(tokio::io::empty(), ours, line.clone());
        let message: TxJsonRpcMessage<RoleClient> =
            serde_json::from_str(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#).unwrap();
        wire.send(message).await.unwrap();
        wire.close().await.unwrap();
        let mut written = Vec::new();
        theirs.read_to_end(&mut written).await.unwrap();
        assert!(written.len() <= 16, "{written:?}");
    }
}
