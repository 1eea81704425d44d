//! Lines of JSON, one value each.

use std::io;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::sync::mpsc;

/// The length limit of a request or response line, in bytes: a skill's text, escaped, fits.
pub const LINE_LIMIT: u64 = 32 * 1024 * 1024;

/// The number of lines that are read ahead of their handling.
const READ_AHEAD_LINES: usize = 16;

/// Limits the time that a peer has for reading or writing.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`], and the error of the work.
pub async fn with_timeout<T>(
    limit: Duration,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Spawns a task that reads lines, one value each; a dropped read would otherwise lose half a line.
pub fn spawn_line_reader<T: DeserializeOwned + Send + 'static>(
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

/// Writes a value as one line.
///
/// # Errors
/// The error of the connection.
pub async fn write_line<T: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    value: &T,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line).await
}
