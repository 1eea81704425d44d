//! Blocking work.

use futures::future::BoxFuture;
use skillhost_payload::{CallError, ErrorKind};

/// Runs blocking work outside the async workers; a panic becomes an error.
pub fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> BoxFuture<'static, Result<T, CallError>> {
    Box::pin(async move {
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|error| CallError::new(ErrorKind::Panicked, error.to_string()))
    })
}
