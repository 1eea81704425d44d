//! The thread that writes: all operations that wait are one transaction.

use std::path::PathBuf;
use std::sync::mpsc;

use rusqlite::Connection;
use skillhost_events::Clock;
use tokio::sync::oneshot;

use super::connection::LazyConnection;
use super::failure::{is_store_error, thread_error};
use super::file;
use super::transaction::SqliteTransaction;
use crate::error::{QueueError, QueueErrorKind};
use crate::operation::{Operation, OperationResult};
use crate::store::StoreResult;
use crate::transition::execute_operation;

/// The number of operations in a transaction; more would let the first one wait for long.
const MAX_GROUP: usize = 1024;

/// A request to the thread.
pub(super) enum WriteRequest {
    /// Executes an operation.
    Execute(Operation, oneshot::Sender<OperationResult>),
    /// Checks every page.
    Check(oneshot::Sender<StoreResult<()>>),
    /// Closes the file.
    Close(oneshot::Sender<()>),
}

/// An operation with the sender of its result.
type PendingOperation = (Operation, oneshot::Sender<OperationResult>);

/// The state of the thread.
struct QueueWriter {
    connection: LazyConnection,
    clock: Clock,
    on_change: Box<dyn Fn() + Send>,
}

/// The results of a transaction that is committed.
struct CommittedGroup {
    results: Vec<OperationResult>,
    has_changes: bool,
}

/// Executes requests until the last sender is dropped.
pub(super) fn run_writer(
    path: PathBuf,
    clock: Clock,
    requests: &mpsc::Receiver<WriteRequest>,
    on_change: Box<dyn Fn() + Send>,
) {
    let opener = |path: &std::path::Path| file::open_writable(path).map(Some);
    let connection = LazyConnection::new(path, opener);
    let mut writer = QueueWriter { connection, clock, on_change };
    let mut next = requests.recv().ok();
    while let Some(request) = next {
        let mut group = Vec::new();
        let mut other = None;
        match request {
            WriteRequest::Execute(operation, sender) => group.push((operation, sender)),
            request => other = Some(request),
        }
        while other.is_none() && group.len() < MAX_GROUP {
            match requests.try_recv() {
                Ok(WriteRequest::Execute(operation, sender)) => group.push((operation, sender)),
                Ok(request) => other = Some(request),
                Err(_) => break,
            }
        }
        if !group.is_empty() {
            writer.execute_group(group);
        }
        // The receivers may be gone; the requests are done nevertheless.
        match other {
            Some(WriteRequest::Check(sender)) => drop(sender.send(writer.check_pages())),
            Some(WriteRequest::Close(sender)) => {
                writer.connection.close();
                let _ = sender.send(());
            }
            Some(WriteRequest::Execute(..)) | None => {}
        }
        next = requests.recv().ok();
    }
}

impl QueueWriter {
    /// Executes operations in one transaction; results are sent after the commit.
    fn execute_group(&mut self, group: Vec<PendingOperation>) {
        let (operations, senders): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        let results = match self.commit(operations.clone()) {
            Ok(committed) => committed,
            Err(error) if operations.len() == 1 || !can_repeat_alone(&error) => {
                vec![Err(error); operations.len()]
            }
            // One of them may be the cause: alone it fails, and the others succeed.
            Err(_) => {
                operations.into_iter().map(|operation| self.commit_alone(operation)).collect()
            }
        };
        for (sender, result) in senders.into_iter().zip(results) {
            // The caller may have been cancelled; the operation is executed nevertheless.
            let _ = sender.send(result);
        }
    }

    fn commit_alone(&mut self, operation: Operation) -> OperationResult {
        self.commit(vec![operation])?.pop().unwrap_or_else(|| Err(thread_error()))
    }

    fn commit(&mut self, operations: Vec<Operation>) -> StoreResult<Vec<OperationResult>> {
        let conn = self.connection.acquire()?.ok_or_else(thread_error)?;
        match commit_operations(conn, &self.clock, operations) {
            Ok(CommittedGroup { results, has_changes }) => {
                if has_changes {
                    (self.on_change)();
                }
                Ok(results)
            }
            Err(error) => {
                self.connection.note(&error);
                Err(error)
            }
        }
    }

    fn check_pages(&mut self) -> StoreResult<()> {
        let found = self.connection.acquire()?.map_or(Ok(()), file::check_pages);
        found.inspect_err(|error| self.connection.note(error))
    }
}

/// Returns whether operations may succeed alone after this error of their group.
fn can_repeat_alone(error: &QueueError) -> bool {
    // Waiting for the lock again would take the time of the lock's timeout for each of them.
    !matches!(
        error.kind(),
        QueueErrorKind::Locked | QueueErrorKind::Corrupt | QueueErrorKind::Newer
    )
}

fn commit_operations(
    conn: &Connection,
    clock: &Clock,
    operations: Vec<Operation>,
) -> StoreResult<CommittedGroup> {
    // Immediate: a transaction that starts with a read could not get the write lock later.
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let executed = execute_operations(conn, clock, operations).and_then(|group| {
        conn.execute_batch("COMMIT")?;
        Ok(group)
    });
    if executed.is_err() && !conn.is_autocommit() {
        // SQLite has rolled back already after some errors.
        conn.execute_batch("ROLLBACK")?;
    }
    executed
}

fn execute_operations(
    conn: &Connection,
    clock: &Clock,
    operations: Vec<Operation>,
) -> StoreResult<CommittedGroup> {
    let mut rows = SqliteTransaction { conn };
    let before = rows.change_count();
    let mut results = Vec::with_capacity(operations.len());
    for operation in operations {
        let unchanged = rows.change_count();
        let result = execute_operation(&mut rows, operation, clock.steady_ms());
        match &result {
            Err(error) if is_store_error(error) => return Err(error.clone()),
            Err(error) if rows.change_count() != unchanged => {
                let message = format!("an operation was refused after a write: {error}");
                let hint = "report this error";
                return Err(QueueError::new(QueueErrorKind::Database, message, hint));
            }
            _ => results.push(result),
        }
    }
    Ok(CommittedGroup { results, has_changes: rows.change_count() != before })
}
