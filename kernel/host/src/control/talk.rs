//! Message connections through the control socket: JSON lines both ways, until the reply is
//! complete.

use std::io;
use std::path::Path;

use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use skillhost_conversation::{
    ApprovalDecision, ApprovalRequest, RunEvent, RunOutcome, SecretPrompt, SecretReply,
};
use skillhost_payload::CallError;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::{ControlRequest, LINE_LIMIT, endpoint, with_timeout, write_line};
use crate::kernel::Kernel;
use crate::runtime::RunError;

/// The number of lines that are read ahead of their handling.
const READ_AHEAD_LINES: usize = 16;

/// A user message for a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMessage {
    /// The id of the message. A client that sends it again after a broken connection keeps the id,
    /// and the message is processed once.
    pub message_id: String,
    /// The thread's id; the thread must exist.
    pub thread: String,
    /// The agent of the thread.
    pub agent: String,
    /// The message text.
    pub text: String,
    /// The model, `provider/model`; overrides settings and manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A message from the kernel to a client. [`ServerMessage::Done`], [`ServerMessage::Failed`] and
/// [`ServerMessage::ShuttingDown`] end the connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerMessage {
    /// The user message of this connection; always the first line.
    #[serde(rename = "hears")]
    Accepted(UserMessage),
    /// An event of the run.
    RunEvent(RunEvent),
    /// A tool call requires approval.
    #[serde(rename = "ask")]
    ApprovalRequested {
        /// The id of the request.
        id: u64,
        /// The request.
        request: ApprovalRequest,
    },
    /// A secret is requested.
    #[serde(rename = "ask_secret")]
    SecretRequested {
        /// The id of the request.
        id: u64,
        /// The request.
        request: SecretPrompt,
    },
    /// A request no longer needs an answer.
    #[serde(rename = "given_up")]
    QuestionWithdrawn {
        /// The id of the request.
        id: u64,
    },
    /// The kernel shuts down. The message is stored, and the next kernel resumes its run.
    #[serde(rename = "ending")]
    ShuttingDown {
        /// True if the next kernel starts at once.
        again: bool,
    },
    /// The message was answered.
    Done(RunOutcome),
    /// The message will not be answered.
    Failed(MessageError),
}

/// An error that ended the processing of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageError {
    /// The part that failed, in one word: `model`, `agent`, `thread`, `cancelled` and so on.
    pub what: String,
    /// The error.
    #[serde(flatten)]
    pub error: CallError,
}

impl From<RunError> for MessageError {
    fn from(error: RunError) -> Self {
        Self { what: error.code().to_owned(), error: error.into() }
    }
}

/// A message from a client to the kernel.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientMessage {
    /// The answer to [`ServerMessage::ApprovalRequested`].
    Answer {
        /// The id of the request.
        id: u64,
        /// The decision.
        decision: ApprovalDecision,
    },
    /// The answer to [`ServerMessage::SecretRequested`].
    Secret {
        /// The id of the request.
        id: u64,
        /// The secret.
        value: String,
    },
    /// The rejection of [`ServerMessage::SecretRequested`].
    #[serde(rename = "no_secret")]
    SecretDeclined {
        /// The id of the request.
        id: u64,
        /// The reason.
        reason: String,
    },
    /// A request to cancel the run.
    Cancel,
}

impl ClientMessage {
    /// Converts the reply to a [`ServerMessage::SecretRequested`].
    #[must_use]
    pub fn from_secret_reply(id: u64, reply: SecretReply) -> Self {
        match reply {
            SecretReply::Given(value) => {
                Self::Secret { id, value: value.expose_secret().to_owned() }
            }
            SecretReply::Refused { reason } => Self::SecretDeclined { id, reason },
        }
    }
}

/// A client's connection to the kernel that runs for a home, for one message.
pub struct MessageConnection {
    lines: mpsc::Receiver<io::Result<ServerMessage>>,
    write: OwnedWriteHalf,
}

impl MessageConnection {
    /// Connects and sends a [`ControlRequest::Talk`] or [`ControlRequest::Attach`].
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] or [`io::ErrorKind::ConnectionRefused`] when no kernel runs.
    pub async fn open(path: &Path, request: &ControlRequest) -> io::Result<Self> {
        let (read, mut write) = endpoint::connect_socket(path).await?.into_split();
        write_line(&mut write, request).await?;
        Ok(Self { lines: spawn_line_reader(read), write })
    }

    /// Returns the kernel's next message, or `None` after the end of the connection. Cancel safe.
    ///
    /// # Errors
    /// The error of the connection.
    pub async fn next(&mut self) -> io::Result<Option<ServerMessage>> {
        self.lines.recv().await.transpose()
    }

    /// Sends a message to the kernel.
    ///
    /// # Errors
    /// The error of the connection.
    pub async fn send(&mut self, message: &ClientMessage) -> io::Result<()> {
        write_line(&mut self.write, message).await
    }
}

/// Serves one message connection until it ends or the client disconnects.
pub(super) async fn serve_messages(
    kernel: &Kernel,
    request: MessageRequest,
    read: BufReader<OwnedReadHalf>,
    mut write: OwnedWriteHalf,
) -> io::Result<()> {
    let channel = match request {
        MessageRequest::Talk(request) => kernel.messages().accept_message(request).await,
        MessageRequest::Attach { thread } => kernel.messages().open_channel(&thread),
    };
    let channel = match channel {
        Ok(channel) => channel,
        Err(error) => {
            let failure = MessageError { what: "request".to_owned(), error };
            return write_line(&mut write, &ServerMessage::Failed(failure)).await;
        }
    };
    let mut server_lines = channel.attach();
    let mut client_lines = spawn_line_reader::<ClientMessage>(read);
    let limit = kernel.extensions().limits.control;
    loop {
        tokio::select! {
            // Messages of the kernel first: a client that floods its side must not delay them.
            biased;
            line = server_lines.recv() => match line {
                // A client that does not read is disconnected; it can attach again and receive the
                // full reply.
                Some(line) => with_timeout(limit, write_line(&mut write, &line)).await?,
                None => return Ok(()),
            },
            message = client_lines.recv() => match message.transpose()? {
                Some(message) => channel.handle_client_message(message),
                // The client has disconnected; the run continues without it.
                None => return Ok(()),
            },
        }
    }
}

/// The requests that open a message connection.
pub(super) enum MessageRequest {
    Talk(UserMessage),
    Attach { thread: String },
}

/// Spawns a task that reads lines, one value each; a dropped read would otherwise lose half a line.
fn spawn_line_reader<T: DeserializeOwned + Send + 'static>(
    read: impl AsyncRead + Unpin + Send + 'static,
) -> mpsc::Receiver<io::Result<T>> {
    let (sender, lines) = mpsc::channel(READ_AHEAD_LINES);
    let mut read = BufReader::new(read);
    tokio::spawn(async move {
        loop {
            let mut line = String::new();
            let read = (&mut read).take(LINE_LIMIT).read_line(&mut line).await;
            let value = match read {
                // A line without its line break was cut off.
                Ok(_) if !line.ends_with('\n') => return,
                Ok(_) => serde_json::from_str(&line).map_err(io::Error::from),
                Err(error) => Err(error),
            };
            let over = value.is_err();
            if sender.send(value).await.is_err() || over {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use super::*;

    /// Reads lines as another version of the program writes them, and writes them again.
    fn assert_stable<T: Serialize + DeserializeOwned>(lines: &[&str]) {
        for line in lines {
            let expected: Value = serde_json::from_str(line).unwrap();
            let message: T = serde_json::from_value(expected.clone()).unwrap();
            assert_eq!(serde_json::to_value(&message).unwrap(), expected);
        }
    }

    #[test]
    fn message_names_are_stable() {
        assert_stable::<ServerMessage>(&[
            r#"{"hears": {"message_id": "i", "thread": "t", "agent": "a", "text": "Hi"}}"#,
            r#"{"given_up": {"id": 1}}"#,
            r#"{"ending": {"again": true}}"#,
            r#"{"ask": {"id": 1, "request": {"agent_id": "a", "tool": "t", "extension": "e",
                "arguments": "{}", "destructive": false, "always": false}}}"#,
            r#"{"ask_secret": {"id": 1, "request": {"agent_id": "a", "name": "N",
                "extensions": ["e"], "reason": "r"}}}"#,
            r#"{"run_event": {"event": "restart", "agent_id": "a", "reason": "r"}}"#,
            r#"{"run_event": {"event": "tool_begun", "agent_id": "a", "tool": "t",
                "arguments": "{}"}}"#,
            r#"{"run_event": {"event": "tool_ended", "agent_id": "a", "tool": "t",
                "is_error": false, "summary": "s"}}"#,
            r#"{"run_event": {"event": "used", "agent_id": "a", "model": "m",
                "usage": {"input": 1, "output": 2, "cached": 0, "estimated": false}}}"#,
        ]);
        assert_stable::<ClientMessage>(&[
            r#"{"no_secret": {"id": 1, "reason": "r"}}"#,
            r#"{"secret": {"id": 1, "value": "v"}}"#,
        ]);
    }
}
