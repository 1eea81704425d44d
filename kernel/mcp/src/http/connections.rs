//! The connections of a server: their limits, their timeouts and the choice of the one to close.
//!
//! A connection is a stranger until the head of one of its requests has passed the checks; from
//! then on it belongs to a client. Strangers and clients have separate limits, so that half-open
//! connections displace no client. At the limit of strangers, the one that has waited longest for
//! its head is closed in favor of the new one.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The limits of the number and the idle times of connections.
#[derive(Debug, Clone)]
pub(super) struct ConnectionLimits {
    /// Connections without an accepted request.
    pub(super) strangers: usize,
    /// Connections of clients.
    pub(super) clients: usize,
    /// The timeout of a request head from its first byte; of the first head, from the connection.
    pub(super) head: Duration,
    /// The idle timeout of a client's connection between two requests.
    pub(super) idle: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            strangers: 256,
            clients: 256,
            head: Duration::from_secs(5),
            idle: Duration::from_secs(60),
        }
    }
}

/// The open connections with their limits.
#[derive(Debug)]
pub(super) struct Connections {
    limits: ConnectionLimits,
    open: Mutex<OpenConnections>,
}

/// The open connections by number, the oldest first.
#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    by_number: BTreeMap<u64, ConnectionEntry>,
    /// A counter of events, which orders phases without a clock.
    events: u64,
}

/// The state of one open connection.
#[derive(Debug)]
struct ConnectionEntry {
    is_client: bool,
    phase: Phase,
    /// The start of the phase, as a count of events.
    since: u64,
    close: CancellationToken,
    changed: Arc<Notify>,
}

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Idle between two requests, since the given time.
    Idle(Instant),
    /// Receiving the head of a request, since the given time.
    Head(Instant),
    /// Handling a request or sending its response.
    Serving,
}

impl Connections {
    pub(super) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, open: Mutex::default() })
    }

    /// Registers a new connection; at the limit of strangers, one of them is closed.
    pub(super) fn open(self: &Arc<Self>) -> Connection {
        let mut open = self.lock();
        let strangers = open.by_number.values().filter(|entry| !entry.is_client).count();
        if strangers >= self.limits.strangers {
            open.close_oldest(|entry| !entry.is_client);
        }
        let number = open.next;
        open.next += 1;
        let since = open.next_event();
        let (close, changed) = (CancellationToken::new(), Arc::<Notify>::default());
        let entry = ConnectionEntry {
            is_client: false,
            phase: Phase::Head(Instant::now()),
            since,
            close: close.clone(),
            changed: Arc::clone(&changed),
        };
        open.by_number.insert(number, entry);
        drop(open);
        Connection(Arc::new(Registration { all: Arc::clone(self), number, close, changed }))
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    fn next_event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Closes the connection that has waited longest, except those that are served.
    ///
    /// Returns `false` if every connection is served.
    fn close_oldest(&mut self, among: impl Fn(&ConnectionEntry) -> bool) -> bool {
        let waiting = self.by_number.iter().filter(|(_, entry)| entry.phase != Phase::Serving);
        let oldest = waiting.filter(|(_, entry)| among(entry)).min_by_key(|(_, entry)| entry.since);
        let Some(number) = oldest.map(|(number, _)| *number) else { return false };
        // Removed here and not by the drop of the registration, because its task ends later.
        let Some(entry) = self.by_number.remove(&number) else { return false };
        entry.close.cancel();
        true
    }
}

/// A handle of one connection; clones refer to the same connection.
#[derive(Debug, Clone)]
pub(super) struct Connection(Arc<Registration>);

/// The registration of a connection; removed on drop.
#[derive(Debug)]
struct Registration {
    all: Arc<Connections>,
    number: u64,
    close: CancellationToken,
    changed: Arc<Notify>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.all.lock().by_number.remove(&self.number);
    }
}

impl Connection {
    /// Marks the connection as a client's; at the limit, the client idle for longest is closed.
    ///
    /// Returns `false` if no place is free or this connection has been closed.
    pub(super) fn admit(&self) -> bool {
        let mut open = self.0.all.lock();
        match open.by_number.get(&self.0.number) {
            // It has been closed in favor of another one while its head arrived.
            None => return false,
            Some(entry) if entry.is_client => return true,
            Some(_) => {}
        }
        let clients = open.by_number.values().filter(|entry| entry.is_client).count();
        if clients >= self.0.all.limits.clients && !open.close_oldest(|entry| entry.is_client) {
            return false;
        }
        if let Some(entry) = open.by_number.get_mut(&self.0.number) {
            entry.is_client = true;
        }
        true
    }

    /// Marks the head of a request as complete; the guard is dropped with the response's last byte.
    pub(super) fn serve(&self) -> ServingGuard {
        self.update_phase(|_| Phase::Serving);
        ServingGuard(self.clone())
    }

    /// Waits until the connection has timed out or is closed in favor of another one.
    pub(super) async fn expired(&self) {
        loop {
            // Created before the deadline is read, so that a change in between is not missed.
            let changed = self.0.changed.notified();
            let deadline = self.deadline();
            let timeout = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.0.close.cancelled() => return,
                () = timeout => return,
                () = changed => {}
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let limits = &self.0.all.limits;
        let open = self.0.all.lock();
        let entry = open.by_number.get(&self.0.number)?;
        match entry.phase {
            Phase::Serving => None,
            Phase::Head(since) => Some(since + limits.head),
            Phase::Idle(since) if entry.is_client => Some(since + limits.idle),
            // A stranger may not idle longer than it may take for a head.
            Phase::Idle(since) => Some(since + limits.head),
        }
    }

    /// Starts the head phase of an idle connection on its first bytes.
    fn mark_received(&self) {
        self.update_phase(|phase| match phase {
            Phase::Idle(_) => Phase::Head(Instant::now()),
            other => other,
        });
    }

    fn update_phase(&self, next: impl FnOnce(Phase) -> Phase) {
        let mut open = self.0.all.lock();
        let since = open.next_event();
        let Some(entry) = open.by_number.get_mut(&self.0.number) else { return };
        let phase = next(entry.phase);
        if phase != entry.phase {
            (entry.phase, entry.since) = (phase, since);
            // Only `expired` waits, and `notify_one` stores a permit if it does not wait yet.
            entry.changed.notify_one();
        }
    }
}

/// A guard for a request in progress; the connection becomes idle on drop.
#[derive(Debug)]
pub(super) struct ServingGuard(Connection);

impl Drop for ServingGuard {
    fn drop(&mut self) {
        self.0.update_phase(|_| Phase::Idle(Instant::now()));
    }
}

/// A stream that reports incoming bytes to its connection.
pub(super) struct WatchedStream<S> {
    pub(super) stream: S,
    pub(super) connection: Connection,
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        // The buffer may hold bytes of an earlier read, so only an increase counts.
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.connection.mark_received();
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}

/// The body of a response with the guard that is dropped after its last byte.
pub(super) struct WatchedBody<B> {
    pub(super) body: B,
    pub(super) _guard: ServingGuard,
}

impl<B: Body + Unpin> Body for WatchedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
