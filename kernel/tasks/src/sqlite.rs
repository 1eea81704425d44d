//! The store in a file of SQLite.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use skillhost_events::Clock;
use tokio::sync::oneshot;

use crate::error::QueueError;
use crate::operation::{Operation, OperationResult};
use crate::queue::{QueryResult, Queue, TaskQuery};

mod change_signal;
mod connection;
mod failure;
mod file;
mod queries;
mod reader;
mod rows;
mod schema;
mod statements;
mod transaction;
mod writer;

use change_signal::ChangeSignal;
use failure::{io_error, thread_error};
use reader::ReadRequest;
use writer::WriteRequest;

/// The interval at which a wait looks for changes of other processes.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The queue of one home in a file; cheap to clone.
///
/// One thread writes: it executes all operations that wait in one transaction and replies after the
/// commit. Another one reads and never waits for it. Several processes may use the file at once.
///
/// The first operation creates a missing file; a read never does. A damaged file is neither
/// replaced nor renamed: every operation fails until it is restored or moved away.
#[derive(Debug, Clone)]
pub struct SqliteQueue {
    shared: Arc<QueueShared>,
}

/// The state shared by all clones of a queue.
#[derive(Debug)]
struct QueueShared {
    path: PathBuf,
    clock: Clock,
    signal: Arc<ChangeSignal>,
    writer: Mutex<Option<mpsc::Sender<WriteRequest>>>,
    reader: Mutex<Option<mpsc::Sender<ReadRequest>>>,
}

impl SqliteQueue {
    /// Returns the queue in the kernel's data directory; no file is opened before its first use.
    #[must_use]
    pub fn in_directory(directory: &Path) -> Self {
        Self::new(directory.join("work.db"), Clock::system())
    }

    /// Creates a queue for a file that may not exist yet.
    #[must_use]
    pub fn new(path: PathBuf, clock: Clock) -> Self {
        let signal = Arc::default();
        let (writer, reader) = (Mutex::default(), Mutex::default());
        Self { shared: Arc::new(QueueShared { path, clock, signal, writer, reader }) }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Checks every page of the file; a missing one is in order.
    ///
    /// # Errors
    /// [`QueueErrorKind::Corrupt`](crate::QueueErrorKind::Corrupt) with the first damage.
    pub async fn check_integrity(&self) -> Result<(), QueueError> {
        if !self.shared.path.exists() {
            return Ok(());
        }
        let (sender, result) = oneshot::channel();
        self.send_write(WriteRequest::Check(sender))?;
        result.await.unwrap_or_else(|_| Err(thread_error()))
    }

    /// Closes the file; the next use opens it again.
    pub async fn close(&self) {
        let reader = lock(&self.shared.reader).take();
        if let Some(reader) = reader {
            let (sender, closed) = oneshot::channel();
            if reader.send(ReadRequest::Close(sender)).is_ok() {
                let _ = closed.await;
            }
        }
        // Last: the last connection that closes a file and can write removes its log.
        let writer = lock(&self.shared.writer).take();
        if let Some(writer) = writer {
            let (sender, closed) = oneshot::channel();
            if writer.send(WriteRequest::Close(sender)).is_ok() {
                let _ = closed.await;
            }
        }
    }

    /// Notes a change of another process; returns whether there was one.
    async fn look_for_change(&self) -> bool {
        let (sender, version) = oneshot::channel();
        // A file that cannot be read has no changes to wait for.
        match self.send_read(ReadRequest::Version(sender)) {
            Ok(()) => self.shared.signal.observe_version(version.await.ok().flatten()),
            Err(_) => false,
        }
    }

    fn send_write(&self, request: WriteRequest) -> Result<(), QueueError> {
        let mut slot = lock(&self.shared.writer);
        let sender = match &*slot {
            Some(sender) => sender,
            None => {
                let (sender, requests) = mpsc::channel();
                let (path, clock) = (self.shared.path.clone(), self.shared.clock.clone());
                let signal = Arc::clone(&self.shared.signal);
                // The thread owns no sender, so it ends with the last clone of the queue.
                let on_change = Box::new(move || signal.notify());
                spawn_thread("tasks", move || {
                    writer::run_writer(path, clock, &requests, on_change);
                })?;
                slot.insert(sender)
            }
        };
        sender.send(request).map_err(|_| thread_error())
    }

    fn send_read(&self, request: ReadRequest) -> Result<(), QueueError> {
        let mut slot = lock(&self.shared.reader);
        let sender = match &*slot {
            Some(sender) => sender,
            None => {
                let (sender, requests) = mpsc::channel();
                let path = self.shared.path.clone();
                spawn_thread("tasks-read", move || reader::run_reader(path, &requests))?;
                slot.insert(sender)
            }
        };
        sender.send(request).map_err(|_| thread_error())
    }
}

#[async_trait]
impl Queue for SqliteQueue {
    async fn execute(&self, operation: Operation) -> OperationResult {
        let (sender, result) = oneshot::channel();
        self.send_write(WriteRequest::Execute(operation, sender))?;
        result.await.unwrap_or_else(|_| Err(thread_error()))
    }

    async fn read(&self, query: TaskQuery) -> Result<QueryResult, QueueError> {
        let (sender, result) = oneshot::channel();
        self.send_read(ReadRequest::Query(query, sender))?;
        result.await.unwrap_or_else(|_| Err(thread_error()))
    }

    async fn wait_for_change(&self, at_most: Duration) {
        let wait = async {
            while !self.shared.signal.wait(POLL_INTERVAL).await && !self.look_for_change().await {}
        };
        // Both ends of the wait mean the same to the caller.
        let _ = tokio::time::timeout(at_most, wait).await;
    }

    async fn now_ms(&self) -> Result<u64, QueueError> {
        Ok(self.shared.clock.steady_ms())
    }
}

fn lock<T>(slot: &Mutex<T>) -> MutexGuard<'_, T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), QueueError> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(|error| io_error("cannot start its thread", &error))
}
