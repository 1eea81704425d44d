//! A transport that ends after its answers.
//!
//! Once it is told that a client says nothing more, the library delivers nothing but answers, so a
//! request that has to notify its client first would wait for five seconds in vain. So the end of the
//! input is held back until every request has its answer, or nobody waits for one any more.

use std::collections::HashSet;
use std::time::Duration;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long after the farewell the last answers may take to be handed over.
const GRACE: Duration = Duration::from_millis(50);

/// A transport that holds its end back while requests are open.
pub(super) struct OrderlyTransport<T> {
    inner: T,
    /// Requests without an answer.
    open: HashSet<RequestId>,
    /// When the end is passed on at the latest; none before the client has said its last.
    deadline: Option<Instant>,
    farewell: Duration,
    /// Cancelled once the client says nothing more.
    left: CancellationToken,
}

impl<T> OrderlyTransport<T> {
    pub(super) fn new(inner: T, farewell: Duration, left: CancellationToken) -> Self {
        Self { inner, open: HashSet::new(), deadline: None, farewell, left }
    }

    fn note(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                self.open.insert(request.id.clone());
            }
            JsonRpcMessage::Notification(notification) => {
                // A cancelled request has no answer.
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for OrderlyTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = answered {
            self.open.remove(id);
        }
        self.inner.send(message)
    }

    // Dropped and called again for every answer, so that it need not be woken.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let deadline = match self.deadline {
            Some(deadline) => deadline,
            None => match self.inner.receive().await {
                Some(message) => {
                    self.note(&message);
                    return Some(message);
                }
                None => {
                    self.left.cancel();
                    let farewell = self.farewell.saturating_add(GRACE);
                    *self.deadline.insert(Instant::now() + farewell)
                }
            },
        };
        if !self.open.is_empty() {
            tokio::time::sleep_until(deadline).await;
        }
        None
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}
