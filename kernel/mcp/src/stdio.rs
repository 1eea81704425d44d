//! One client on standard input and output.

mod refusal;
mod transport;

use futures::future::BoxFuture;
use rmcp::service::{QuitReason, ServerInitializeError, ServiceExt as _};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::backend::ClientPrincipal;
use crate::server::McpServer;

use transport::OrderlyTransport;

pub use refusal::{Refusal, refuse_stdio};

/// An error that ended a session of a client on streams.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ServeError(pub(crate) String);

/// Serves the client on standard input and output until it disconnects or `stop` is cancelled.
///
/// No other part of the process may write to standard output during this time.
///
/// # Errors
/// [`ServeError`] if the client violates the protocol's initialization or the session fails.
// Boxed, as every public future of this crate: callers would compile its coroutines, and those of
// the protocol's library, once more.
pub fn serve_stdio(
    server: &McpServer,
    stop: CancellationToken,
) -> BoxFuture<'_, Result<(), ServeError>> {
    Box::pin(async move {
        let (read, write) = stdio_pipes();
        serve_client(server, read, write, stop).await
    })
}

/// Serves the client on two streams, one message per line, like [`serve_stdio`].
///
/// After the end of `read`, active requests have the time of [`ClientLimits::farewell`] to
/// complete: a client may write its requests, close its output, and read the responses.
///
/// [`ClientLimits::farewell`]: crate::ClientLimits::farewell
///
/// # Errors
/// [`ServeError`] if the client violates the protocol's initialization or the session fails.
pub fn serve_streams(
    server: &McpServer,
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> BoxFuture<'_, Result<(), ServeError>> {
    Box::pin(serve_client(server, read, write, stop))
}

async fn serve_client(
    server: &McpServer,
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let session = server.session(ClientPrincipal::stdio());
    let limits = server.limits();
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(limits.message);
    let transport = OrderlyTransport::new(transport, limits.farewell, session.disconnect_token());
    let running = match session.serve_with_ct(transport, stop).await {
        Ok(running) => running,
        // A client that disconnects before `initialize` is a normal end, not an error.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Ok(());
        }
        Err(error) => return Err(ServeError(format!("client failed to initialize: {error}"))),
    };
    match running.waiting().await {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(ServeError(error.to_string())),
        Ok(_) => Ok(()),
    }
}
