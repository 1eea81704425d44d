//! Conversations through the control socket: JSON lines both ways, until it is answered.

use std::io;
use std::path::Path;

use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::{ControlRequest, LINE_LIMIT, endpoint, within, write_line};
use crate::channel::{ApprovalDecision, ApprovalRequest, RunEvent, SecretPrompt, SecretReply};
use crate::error::CallError;
use crate::kernel::Kernel;
use crate::runtime::{RunError, RunOutcome};

/// Lines that were read and not looked at yet.
const READ_AHEAD_LINES: usize = 16;

/// What a person says in a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMessage {
    /// Names the message: who sends it again, because the connection broke, sends it with the same
    /// id, and it is heard and answered once.
    pub message_id: String,
    /// The thread, which is there.
    pub thread: String,
    /// The agent of the thread.
    pub agent: String,
    /// What is said.
    pub text: String,
    /// The model, `provider/model`, whatever settings and manifest say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// What a kernel says in a conversation. After [`ServerMessage::Done`], [`ServerMessage::Failed`] and
/// [`ServerMessage::ShuttingDown`] nothing more comes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerMessage {
    /// What the conversation is about; comes first.
    #[serde(rename = "hears")]
    Accepted(UserMessage),
    /// Something happens in the run.
    RunEvent(RunEvent),
    /// Somebody's consent is wanted.
    #[serde(rename = "ask")]
    ApprovalRequested {
        /// Names the question.
        id: u64,
        /// What it is about.
        request: ApprovalRequest,
    },
    /// A secret is wanted.
    #[serde(rename = "ask_secret")]
    SecretRequested {
        /// Names the question.
        id: u64,
        /// What it is about.
        request: SecretPrompt,
    },
    /// A question needs no answer any more.
    #[serde(rename = "given_up")]
    QuestionWithdrawn {
        /// Which.
        id: u64,
    },
    /// The kernel ends. The message is kept, and the next kernel goes on with it.
    #[serde(rename = "ending")]
    ShuttingDown {
        /// That one comes at once.
        again: bool,
    },
    /// It is answered.
    Done(RunOutcome),
    /// It will not be answered.
    Failed(MessageError),
}

/// Why a message was not answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageError {
    /// Which part failed, in one word: `model`, `agent`, `thread`, `cancelled` and so on.
    pub what: String,
    /// How.
    #[serde(flatten)]
    pub error: CallError,
}

impl From<RunError> for MessageError {
    fn from(error: RunError) -> Self {
        Self { what: error.code().to_owned(), error: error.into() }
    }
}

/// What a person's end says in a conversation.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientMessage {
    /// To [`ServerMessage::ApprovalRequested`].
    Answer {
        /// The question.
        id: u64,
        /// What was decided.
        decision: ApprovalDecision,
    },
    /// To [`ServerMessage::SecretRequested`].
    Secret {
        /// The question.
        id: u64,
        /// The secret.
        value: String,
    },
    /// To [`ServerMessage::SecretRequested`]: no.
    #[serde(rename = "no_secret")]
    SecretDeclined {
        /// The question.
        id: u64,
        /// Why.
        reason: String,
    },
    /// The run is to be given up.
    Cancel,
}

impl ClientMessage {
    /// What somebody said to [`ServerMessage::SecretRequested`].
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

/// A conversation with the kernel that runs for a home, as whoever talks to it holds it.
pub struct MessageConnection {
    lines: mpsc::Receiver<io::Result<ServerMessage>>,
    write: OwnedWriteHalf,
}

impl MessageConnection {
    /// Sends a [`SearchRequest::Talk`] or [`SearchRequest::Attach`].
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] or [`io::ErrorKind::ConnectionRefused`] when no kernel runs.
    pub async fn open(path: &Path, request: &ControlRequest) -> io::Result<Self> {
        let (read, mut write) = endpoint::connect(path).await?.into_split();
        write_line(&mut write, request).await?;
        Ok(Self { lines: spawn_line_reader(read), write })
    }

    /// Waits for what the kernel says next; nothing when the connection is over. May be dropped and
    /// called again.
    ///
    /// # Errors
    /// The connection's.
    pub async fn next(&mut self) -> io::Result<Option<ServerMessage>> {
        self.lines.recv().await.transpose()
    }

    /// Says something.
    ///
    /// # Errors
    /// The connection's.
    pub async fn send(&mut self, said: &ClientMessage) -> io::Result<()> {
        write_line(&mut self.write, said).await
    }
}

/// Serves one conversation until it is over or whoever talks has gone.
pub(super) async fn serve_messages(
    kernel: &Kernel,
    request: MessageRequest,
    read: BufReader<OwnedReadHalf>,
    mut write: OwnedWriteHalf,
) -> io::Result<()> {
    let conversation = match request {
        MessageRequest::Talk(request) => kernel.accept_message(request).await,
        MessageRequest::Attach { thread } => kernel.open_message_channel(&thread),
    };
    let conversation = match conversation {
        Ok(conversation) => conversation,
        Err(error) => {
            let failure = MessageError { what: "request".to_owned(), error };
            return write_line(&mut write, &ServerMessage::Failed(failure)).await;
        }
    };
    let (mut news, mut said) = (conversation.attach(), spawn_line_reader::<ClientMessage>(read));
    let limit = kernel.shared.limits.control;
    loop {
        tokio::select! {
            biased;
            line = news.recv() => match line {
                // Who does not read comes back, and hears the reply from its beginning.
                Some(line) => within(limit, write_line(&mut write, &line)).await?,
                None => return Ok(()),
            },
            said = said.recv() => match said.transpose()? {
                Some(said) => conversation.handle_client_message(said),
                // Whoever talked has gone; the run goes on without.
                None => return Ok(()),
            },
        }
    }
}

/// The requests that begin a conversation.
pub(super) enum MessageRequest {
    Talk(UserMessage),
    Attach { thread: String },
}

/// Reads lines, one value each, apart from whoever waits for them.
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
                // What ends in the middle of a line was cut off.
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
