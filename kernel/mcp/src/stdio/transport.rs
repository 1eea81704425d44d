//! A transport that delays the end of the input until all responses are sent.
//!
//! After the end of the input, the library delivers only responses. A request that has to notify
//! its client first would then wait for five seconds in vain. Therefore the end of the input is
//! delayed until every request has its response or the farewell time has passed.

use std::collections::HashSet;
use std::time::Duration;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The time after the farewell in which the last responses reach the transport.
const GRACE: Duration = Duration::from_millis(50);

/// A transport that delays its end while requests are open.
pub(super) struct OrderlyTransport<T> {
    inner: T,
    /// Requests without a response.
    open: HashSet<RequestId>,
    /// The deadline of the delayed end; `None` before the end of the input.
    deadline: Option<Instant>,
    farewell: Duration,
    /// Cancelled at the end of the client's input.
    disconnected: CancellationToken,
}

impl<T> OrderlyTransport<T> {
    pub(super) fn new(inner: T, farewell: Duration, disconnected: CancellationToken) -> Self {
        Self { inner, open: HashSet::new(), deadline: None, farewell, disconnected }
    }

    fn track_message(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                self.open.insert(request.id.clone());
            }
            JsonRpcMessage::Notification(notification) => {
                // A cancelled request gets no response, so it must not delay the end.
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

    // The library drops this future and calls it again after every sent response, so the check of
    // `open` needs no wake-up of its own.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let deadline = match self.deadline {
            Some(deadline) => deadline,
            None => match self.inner.receive().await {
                Some(message) => {
                    self.track_message(&message);
                    return Some(message);
                }
                None => {
                    self.disconnected.cancel();
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
