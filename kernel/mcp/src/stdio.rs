//! One client on standard input and output.

mod refusal;
mod transport;

use rmcp::service::{QuitReason, ServerInitializeError, ServiceExt as _};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::server::McpServer;

use transport::OrderlyTransport;

pub use refusal::{Refusal, refuse, refuse_stdio};

/// Why serving ended other than by the client's or the operator's will.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ServeError(pub(crate) String);

/// Serves the client at the other end of standard input and output until it goes away or `stop` is
/// cancelled. Nothing else may write to standard output meanwhile.
///
/// # Errors
/// [`ServeError`] if the client does not begin as the protocol wants it.
pub async fn serve_stdio(server: &McpServer, stop: CancellationToken) -> Result<(), ServeError> {
    let (read, write) = stdio_pipes();
    serve_streams(server, read, write, stop).await
}

/// Serves the client at the other end of two streams, one message a line, as [`serve_stdio`] does.
///
/// Once `read` has ended, what is still worked on has the time of [`ClientLimits::farewell`] to be answered:
/// a client may write its questions, close that side, and read.
///
/// [`ClientLimits::farewell`]: crate::ClientLimits::farewell
///
/// # Errors
/// [`ServeError`] if the client does not begin as the protocol wants it.
pub async fn serve_streams(
    server: &McpServer,
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let session = server.session();
    let limits = server.limits();
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(limits.message);
    let transport = OrderlyTransport::new(transport, limits.farewell, session.disconnect_token());
    let running = match session.serve_with_ct(transport, stop).await {
        Ok(running) => running,
        // It went away before it said anything.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Ok(());
        }
        Err(error) => return Err(ServeError(format!("the client did not begin: {error}"))),
    };
    match running.waiting().await {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(ServeError(error.to_string())),
        Ok(_) => Ok(()),
    }
}
