//! The client of a kernel that another process runs.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use skillhost_files::to_hex;
use skillhost_home::{Environment, Home};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;

use crate::endpoint;
use crate::lines::{LINE_LIMIT, spawn_line_reader, write_line};
use crate::message::{ClientMessage, ServerMessage};
use crate::request::{ControlRequest, ControlResponse};

/// Returns the path of a home's socket, or `None` without a directory for it.
#[must_use]
pub fn socket_path(home: &Home, environment: &Environment) -> Option<PathBuf> {
    // A hash: the path of a socket is limited to about 100 bytes.
    let name = to_hex(&Sha256::digest(home.root().as_os_str().as_encoded_bytes())[..8]);
    environment.socket_dir().map(|directory| directory.join(format!("{name}.sock")))
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

/// An error of a request without a response.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No kernel was reached, or the request was sent in part: it was not executed.
    #[error("{0}")]
    NotSent(io::Error),
    /// The connection broke after the request was sent: it may have been executed.
    #[error("kernel ended before it replied: {0}")]
    NoAnswer(io::Error),
    /// The response is not valid.
    #[error("{0}")]
    Unreadable(serde_json::Error),
}

impl RequestError {
    /// Returns whether no kernel listens, or none can be reached at present.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::NotSent(error) if is_gone(error))
    }
}

/// Returns whether an error of a connection means that no kernel is at its other end.
#[must_use]
pub fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::NotFound
            | Kind::ConnectionRefused
            | Kind::ConnectionReset
            | Kind::ConnectionAborted
            | Kind::NotConnected
            | Kind::BrokenPipe
            | Kind::UnexpectedEof
    )
}

/// Sends a request to the kernel that runs for a home.
///
/// # Errors
/// [`RequestError`]; [`RequestError::is_gone`] when no kernel runs. Another user receives no byte.
pub async fn send_request(
    path: &Path,
    request: &ControlRequest,
) -> Result<ControlResponse, RequestError> {
    let mut stream = endpoint::connect_socket(path).await.map_err(RequestError::NotSent)?;
    // A kernel ignores an incomplete line, so a failed write has no effect.
    write_line(&mut stream, request).await.map_err(RequestError::NotSent)?;
    let mut line = String::new();
    let read = BufReader::new(stream.take(LINE_LIMIT)).read_line(&mut line).await;
    match read {
        Ok(_) if line.ends_with('\n') => {
            serde_json::from_str(&line).map_err(RequestError::Unreadable)
        }
        Ok(_) => Err(RequestError::NoAnswer(io::ErrorKind::UnexpectedEof.into())),
        Err(error) => Err(RequestError::NoAnswer(error)),
    }
}
