//! The threads that execute operations, several in one transaction.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use skillhost_events::Clock;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::change_notifier::ChangeNotifier;
use super::connection::acquire;
use super::failure::{FailureClass, StatementFailure};
use super::prefetch::begin_transaction;
use super::transaction::PostgresTransaction;
use crate::error::{QueueError, QueueErrorKind};
use crate::operation::{Operation, OperationResult};
use crate::transition::execute_operation;

/// The number of operations that share a transaction.
const MAX_BATCH: usize = 256;
/// The number of repetitions of a transaction of one operation, and of one of several.
const MAX_CONFLICTS: (usize, usize) = (20, 2);
/// The number of connections that are tried for a transaction.
const MAX_CONNECTIONS: usize = 4;
/// The pause after a failed connection.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// The pause after a conflict; each further one is longer.
const CONFLICT_PAUSE: Duration = Duration::from_millis(2);

/// An operation with the channel of its outcome.
pub(super) struct QueuedOperation {
    pub(super) operation: Operation,
    pub(super) reply: oneshot::Sender<OperationResult>,
}

/// The operations that no thread executes yet.
#[derive(Default)]
pub(super) struct OperationBacklog {
    state: Mutex<BacklogState>,
    arrived: Condvar,
}

#[derive(Default)]
struct BacklogState {
    pending: VecDeque<QueuedOperation>,
    is_closed: bool,
}

impl OperationBacklog {
    /// Adds an operation.
    pub(super) fn push(&self, pending: QueuedOperation) {
        self.lock().pending.push_back(pending);
        self.arrived.notify_one();
    }

    /// Lets the threads end after the operations that are left.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_all();
    }

    /// Waits for operations; `None` once the backlog is closed and empty.
    fn take(&self) -> Option<Vec<QueuedOperation>> {
        let mut state = self.lock();
        while state.pending.is_empty() {
            if state.is_closed {
                return None;
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // The other threads get the rest, and those that arrive during the commit.
        let count = state.pending.len().min(MAX_BATCH);
        let mut batch: Vec<_> = state.pending.drain(..count).collect();
        // Those that search tables require that changes are written; so they come last.
        batch.sort_by_key(|pending| searches_tables(&pending.operation));
        Some(batch)
    }

    fn lock(&self) -> MutexGuard<'_, BacklogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn searches_tables(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Claim { .. } | Operation::Sweep { .. } | Operation::AcknowledgeOutbox { .. }
    )
}

/// A thread that executes operations.
pub(super) struct OperationWriter {
    pub(super) backlog: Arc<OperationBacklog>,
    pub(super) handle: Handle,
    pub(super) pool: Pool,
    pub(super) home: String,
    /// The clock of a test; `None` is the server's.
    pub(super) clock: Option<Clock>,
    pub(super) notifier: Arc<ChangeNotifier>,
}

impl OperationWriter {
    /// Spawns the thread.
    pub(super) fn spawn(self, number: usize) -> Result<(), QueueError> {
        let thread = thread::Builder::new().name(format!("tasks-postgres-{number}"));
        let spawned = thread.spawn(move || {
            while let Some(batch) = self.backlog.take() {
                // The callers of a batch that panics get an error, as their channels close.
                let _ = catch_unwind(AssertUnwindSafe(|| self.execute_batch(batch)));
            }
        });
        spawned.map(drop).map_err(|error| {
            QueueError::new(QueueErrorKind::Io, format!("no thread: {error}"), "free memory")
        })
    }

    fn execute_batch(&self, batch: Vec<QueuedOperation>) {
        let (operations, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|pending| (pending.operation, pending.reply)).unzip();
        let outcomes = match self.execute_repeatedly(&operations) {
            Ok(outcomes) => outcomes,
            // One operation must not fail the others.
            Err(failure) if operations.len() > 1 && failure.class != FailureClass::Disconnected => {
                operations.chunks(1).map(|one| self.execute_alone(one)).collect()
            }
            Err(failure) => operations.iter().map(|_| Err(failure.error.clone())).collect(),
        };
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            // A caller that no longer waits does not need it.
            let _ = reply.send(outcome);
        }
    }

    fn execute_alone(&self, operation: &[Operation]) -> OperationResult {
        match self.execute_repeatedly(operation) {
            Ok(mut outcomes) => outcomes.pop().unwrap_or_else(|| Err(no_outcome())),
            Err(failure) => Err(failure.error),
        }
    }

    fn execute_repeatedly(
        &self,
        operations: &[Operation],
    ) -> Result<Vec<OperationResult>, StatementFailure> {
        let max_conflicts = if operations.len() == 1 { MAX_CONFLICTS.0 } else { MAX_CONFLICTS.1 };
        let (mut conflicts, mut losses) = (0, 0);
        loop {
            let failure = match self.execute_once(operations) {
                Ok(outcomes) => return Ok(outcomes),
                Err(failure) => failure,
            };
            match failure.class {
                // The server has chosen this transaction to give way in a circle of locks.
                FailureClass::Conflict if conflicts < max_conflicts => {
                    conflicts += 1;
                    thread::sleep(CONFLICT_PAUSE * u32::try_from(conflicts).unwrap_or(1));
                }
                FailureClass::Disconnected if losses + 1 < MAX_CONNECTIONS => {
                    losses += 1;
                    // Connections of the pool end together with the server.
                    self.pool.retain(|_, _| false);
                    thread::sleep(RECONNECT_PAUSE * u32::try_from(losses - 1).unwrap_or(1));
                }
                _ => return Err(failure),
            }
        }
    }

    fn execute_once(
        &self,
        operations: &[Operation],
    ) -> Result<Vec<OperationResult>, StatementFailure> {
        let mut connection = OpenConnection(Some(self.handle.block_on(acquire(&self.pool))?));
        let Some(client) = connection.0.as_ref() else { return Err(no_connection()) };
        let mut transaction = PostgresTransaction::new(&self.handle, client, &self.home);
        // Any return from here on closes the connection, which rolls the transaction back.
        let begin = begin_transaction(client, operations, &mut transaction.rows);
        let server_ms = self.handle.block_on(begin)?;
        let now_ms = self.clock.as_ref().map_or(server_ms, Clock::steady_ms);
        let mut outcomes = Vec::with_capacity(operations.len());
        for operation in operations {
            let outcome = execute_operation(&mut transaction, operation.clone(), now_ms);
            // A refusal has written nothing, so the others go on; a failure ends the batch.
            if let Some(failure) = transaction.take_failure() {
                return Err(failure);
            }
            outcomes.push(outcome);
        }
        if let Err(error) = transaction.flush() {
            let permanent = StatementFailure { class: FailureClass::Permanent, error };
            return Err(transaction.take_failure().unwrap_or(permanent));
        }
        let (has_written, concerns_others) =
            (transaction.has_written(), transaction.concerns_others());
        drop(transaction);
        if let Err(error) = self.handle.block_on(client.batch_execute("COMMIT")) {
            let failure = StatementFailure::from(error);
            return Err(match has_written && failure.class == FailureClass::Disconnected {
                true => unknown_commit(),
                false => failure,
            });
        }
        connection.release();
        // After the commit: a worker that wakes earlier would find the old rows.
        if concerns_others {
            self.notifier.announce();
        }
        Ok(outcomes)
    }
}

/// A connection with an open transaction. Dropped without a commit, it is closed, and the server
/// rolls the transaction back.
struct OpenConnection(Option<Object>);

impl OpenConnection {
    /// Returns the connection to its pool.
    fn release(&mut self) {
        self.0 = None;
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

fn no_connection() -> StatementFailure {
    StatementFailure::disconnected("no connection to PostgreSQL")
}

/// Returns the error of a commit whose confirmation did not arrive. Such a transaction is not
/// repeated: it may be complete.
fn unknown_commit() -> StatementFailure {
    let message = "connection to PostgreSQL was lost during a commit";
    let hint = "the operation happened completely or not at all: look at its task, or repeat a \
                submission with its key";
    let error = QueueError::new(QueueErrorKind::Io, message, hint);
    StatementFailure { class: FailureClass::Permanent, error }
}

/// Returns the error of an operation whose thread failed.
pub(super) fn no_outcome() -> QueueError {
    QueueError::new(QueueErrorKind::Database, "the store returned no outcome", "report this error")
}
