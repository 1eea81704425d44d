//! Hints that rows have changed, within the process and between machines.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, Connection, Socket};

use super::connection::PostgresAddress;
use super::tls::{EncryptedStream, TlsConnector};

/// The pause before the listener connects again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// A notifier of changes. Announcements are hints: one that is lost delays a worker until its next
/// poll.
#[derive(Debug, Default)]
pub(super) struct ChangeNotifier {
    changed: Notify,
    outgoing: Notify,
    is_closed: AtomicBool,
}

impl ChangeNotifier {
    /// Announces a change of this process to itself and to the other machines.
    pub(super) fn announce(&self) {
        self.wake();
        // Announcements that follow before it is sent are sent as one.
        self.outgoing.notify_one();
    }

    /// Waits for a change.
    pub(super) async fn wait(&self) {
        self.changed.notified().await;
    }

    /// Lets the listener end.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.outgoing.notify_one();
    }

    fn wake(&self) {
        self.changed.notify_waiters();
        // A worker between its claim and its wait gets it as well.
        self.changed.notify_one();
    }
}

/// Listens for announcements and sends those of this process, until the notifier is closed.
pub(super) async fn listen(
    address: PostgresAddress,
    tls: TlsConnector,
    notifier: Arc<ChangeNotifier>,
) {
    while !notifier.is_closed.load(Ordering::Acquire) {
        if let Ok((client, connection)) = address.config().connect(tls.clone()).await {
            let receiver = tokio::spawn(receive(connection, Arc::clone(&notifier)));
            let channel = format!("{}_changed", address.schema());
            if client.batch_execute(&format!("LISTEN \"{channel}\"")).await.is_ok() {
                // A change may have been missed.
                notifier.wake();
                send(&client, &channel, &notifier, &receiver).await;
            }
            receiver.abort();
        }
        if !notifier.is_closed.load(Ordering::Acquire) {
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }
}

/// Sends announcements until the connection or the notifier ends.
async fn send(
    client: &tokio_postgres::Client,
    channel: &str,
    notifier: &ChangeNotifier,
    receiver: &tokio::task::JoinHandle<()>,
) {
    // This process gets its own announcement as well, which wakes a worker once too often and
    // costs an empty claim.
    let statement = format!("NOTIFY \"{channel}\"");
    while !receiver.is_finished() && !notifier.is_closed.load(Ordering::Acquire) {
        // A lost connection is noticed at the next turn, also without announcements.
        let outgoing = notifier.outgoing.notified();
        if tokio::time::timeout(RECONNECT_PAUSE, outgoing).await.is_err() {
            continue;
        }
        if notifier.is_closed.load(Ordering::Acquire)
            || client.batch_execute(&statement).await.is_err()
        {
            return;
        }
    }
}

/// Drives the connection and wakes waiting workers at each announcement of another process.
async fn receive(
    mut connection: Connection<Socket, EncryptedStream<Socket>>,
    notifier: Arc<ChangeNotifier>,
) {
    loop {
        match poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notification(_))) => notifier.wake(),
            // Notices of the server concern no row.
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return,
        }
    }
}
