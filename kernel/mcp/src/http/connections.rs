//! The connections of a server: how many there are, how long each may be silent, which one gives way.
//!
//! A connection is a stranger's until the head of one of its requests has passed the checks; from
//! then on it is a client's. Strangers and clients have places of their own, so that half-open
//! connections take none from a client. Where strangers' places run out, the one that has waited
//! longest for its head gives way to the new one.

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

/// Upper bounds of what connections take.
#[derive(Debug, Clone)]
pub(super) struct ConnectionLimits {
    /// Connections without an accepted request.
    pub(super) strangers: usize,
    /// Connections of clients.
    pub(super) clients: usize,
    /// How long a request's head may take, from its first byte on; the first one, from the
    /// connection on.
    pub(super) head: Duration,
    /// How long a client's connection may be silent between two requests.
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

/// Every open connection.
#[derive(Debug)]
pub(super) struct Connections {
    limits: ConnectionLimits,
    open: Mutex<OpenConnections>,
}

/// The open connections by number, the oldest first.
#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    by_number: BTreeMap<u64, Entry>,
    /// Counts what happened, so that what is longest ago is found without a clock.
    events: u64,
}

#[derive(Debug)]
struct Entry {
    is_client: bool,
    phase: Phase,
    /// When the phase began, as a count of events.
    since: u64,
    close: CancellationToken,
    changed: Arc<Notify>,
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing, between two requests.
    Idle(Instant),
    /// Sending the head of a request, since then.
    Head(Instant),
    /// A request is worked on or answered.
    Serving,
}

impl Connections {
    pub(super) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, open: Mutex::default() })
    }

    /// Takes up a new connection; where there are too many strangers, one of them is closed.
    pub(super) fn open(self: &Arc<Self>) -> Connection {
        let mut open = self.lock();
        let strangers = open.by_number.values().filter(|entry| !entry.is_client).count();
        if strangers >= self.limits.strangers {
            open.close_longest(|entry| !entry.is_client);
        }
        let number = open.next;
        open.next += 1;
        let since = open.count();
        let (close, changed) = (CancellationToken::new(), Arc::<Notify>::default());
        let entry = Entry {
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
    fn count(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Closes the one that has waited longest among those that are not being answered; tells whether
    /// there was one.
    fn close_longest(&mut self, among: impl Fn(&Entry) -> bool) -> bool {
        let waiting = self.by_number.iter().filter(|(_, entry)| entry.phase != Phase::Serving);
        let longest =
            waiting.filter(|(_, entry)| among(entry)).min_by_key(|(_, entry)| entry.since);
        let Some(number) = longest.map(|(number, _)| *number) else { return false };
        // Its place is free at once, its task ends as soon as it can.
        let Some(entry) = self.by_number.remove(&number) else { return false };
        entry.close.cancel();
        true
    }
}

/// One connection; clones stand for the same.
#[derive(Debug, Clone)]
pub(super) struct Connection(Arc<Registration>);

/// A place among the connections, given back when dropped.
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
    /// Makes the connection a client's; tells whether there was a place for one. Where there is
    /// none, the client that has been silent longest gives way.
    pub(super) fn admit(&self) -> bool {
        let mut open = self.0.all.lock();
        match open.by_number.get(&self.0.number) {
            None => return false,
            Some(entry) if entry.is_client => return true,
            Some(_) => {}
        }
        let clients = open.by_number.values().filter(|entry| entry.is_client).count();
        if clients >= self.0.all.limits.clients && !open.close_longest(|entry| entry.is_client) {
            return false;
        }
        if let Some(entry) = open.by_number.get_mut(&self.0.number) {
            entry.is_client = true;
        }
        true
    }

    /// Notes that a request's head is complete; the guard is dropped with the answer's last byte.
    pub(super) fn serve(&self) -> ServingGuard {
        self.enter(|_| Phase::Serving);
        ServingGuard(self.clone())
    }

    /// Returns once the connection is to be closed: its time is up, or it has to give way.
    pub(super) async fn expired(&self) {
        loop {
            let changed = self.0.changed.notified();
            let deadline = self.deadline();
            let up = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.0.close.cancelled() => return,
                () = up => return,
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
            Phase::Idle(since) => Some(since + limits.head),
        }
    }

    /// Notes that bytes have come in.
    fn heard(&self) {
        self.enter(|phase| match phase {
            Phase::Idle(_) => Phase::Head(Instant::now()),
            other => other,
        });
    }

    fn enter(&self, next: impl FnOnce(Phase) -> Phase) {
        let mut open = self.0.all.lock();
        let since = open.count();
        let Some(entry) = open.by_number.get_mut(&self.0.number) else { return };
        let phase = next(entry.phase);
        if phase != entry.phase {
            (entry.phase, entry.since) = (phase, since);
            // One waits; a notice that comes before it does is kept for it.
            entry.changed.notify_one();
        }
    }
}

/// A request that is being answered, until dropped.
#[derive(Debug)]
pub(super) struct ServingGuard(Connection);

impl Drop for ServingGuard {
    fn drop(&mut self) {
        self.0.enter(|_| Phase::Idle(Instant::now()));
    }
}

/// A stream that notes when bytes come in.
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
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.connection.heard();
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

/// The body of an answer, with the guard that is dropped after its last byte.
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
