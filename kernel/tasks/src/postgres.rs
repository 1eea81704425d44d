//! A queue in a PostgreSQL database, which several machines share.
//!
//! Every operation is a transaction of the server; operations that arrive together share one. A
//! transaction locks the rows that it reads, so the operations of all machines have one order. Time
//! is the server's. Claims skip rows that another machine has locked, and lock their lane. `NOTIFY`
//! is a hint; callers poll as well. An event of the outbox belongs to the home that has submitted its
//! task or asked its question, so it is published in one journal: that with the thread.
//!
//! A connection that is lost before the commit is replaced and the transaction repeated. One that
//! is lost during the commit is an error of the kind [`QueueErrorKind::Io`], as the server may have
//! committed; the operation then happened completely or not at all.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Pool;
use skillhost_events::Clock;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::error::{QueueError, QueueErrorKind};
use crate::operation::{Operation, OperationResult};
use crate::queue::{QueryResult, Queue, TaskQuery};

mod change_notifier;
mod connection;
mod failure;
mod prefetch;
mod query;
mod row_cache;
mod schema;
mod statement;
mod stored_text;
mod tls;
mod transaction;
mod write_buffer;
mod writer;

pub use connection::PostgresAddress;

use change_notifier::{ChangeNotifier, listen};
use connection::acquire;
use failure::{FailureClass, StatementFailure};
use tls::TlsConnector;
use writer::{OperationBacklog, OperationWriter, QueuedOperation, no_outcome};

/// The number of threads that execute operations, each with a connection.
const WRITERS: usize = 2;
/// The number of further connections, for reads.
const READERS: usize = 2;

/// A queue in a schema of a PostgreSQL database.
pub struct PostgresQueue {
    pool: Pool,
    backlog: Arc<OperationBacklog>,
    notifier: Arc<ChangeNotifier>,
    clock: Option<Clock>,
    home: String,
    /// Drives the connections, so that callers may have any runtime.
    runtime: Option<Runtime>,
}

impl fmt::Debug for PostgresQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresQueue").field("pool", &self.pool.status()).finish_non_exhaustive()
    }
}

impl PostgresQueue {
    /// Connects to a database, and creates or migrates the schema.
    ///
    /// # Errors
    /// [`QueueErrorKind::Io`] if the server cannot be reached or refuses the user,
    /// [`QueueErrorKind::Newer`] if a newer program has migrated the schema.
    pub async fn connect(address: PostgresAddress) -> Result<Self, QueueError> {
        Self::open(address, None).await
    }

    /// Connects as [`PostgresQueue::connect`] does, with another clock than the server's.
    ///
    /// # Errors
    /// As for [`PostgresQueue::connect`].
    pub async fn connect_with_clock(
        address: PostgresAddress,
        clock: Clock,
    ) -> Result<Self, QueueError> {
        Self::open(address, Some(clock)).await
    }

    async fn open(address: PostgresAddress, clock: Option<Clock>) -> Result<Self, QueueError> {
        let tls = TlsConnector::load()?;
        let pool = address.create_pool(tls.clone(), WRITERS + READERS)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tasks-postgres")
            .enable_all()
            .build()
            .map_err(|error| {
                QueueError::new(QueueErrorKind::Io, format!("no thread: {error}"), "free memory")
            })?;
        let queue = Self {
            pool,
            backlog: Arc::default(),
            notifier: Arc::default(),
            clock,
            home: address.home().to_owned(),
            runtime: Some(runtime),
        };
        // Connections belong to the runtime on which they are made.
        let (pool, schema) = (queue.pool.clone(), address.schema().to_owned());
        queue
            .spawn(async move {
                let mut client = acquire(&pool).await.map_err(|failure| failure.error)?;
                schema::migrate(&mut client, &schema).await
            })
            .await?;
        let Some(runtime) = &queue.runtime else { return Ok(queue) };
        for number in 1..=WRITERS {
            let writer = OperationWriter {
                backlog: Arc::clone(&queue.backlog),
                handle: runtime.handle().clone(),
                pool: queue.pool.clone(),
                home: queue.home.clone(),
                clock: queue.clock.clone(),
                notifier: Arc::clone(&queue.notifier),
            };
            writer.spawn(number)?;
        }
        runtime.spawn(listen(address, tls, Arc::clone(&queue.notifier)));
        Ok(queue)
    }

    /// Executes a future on the queue's own runtime.
    async fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, QueueError>> + Send + 'static,
    ) -> Result<T, QueueError> {
        let Some(runtime) = &self.runtime else { return Err(no_outcome()) };
        runtime.spawn(future).await.unwrap_or_else(|_| Err(no_outcome()))
    }

    /// Reads with a connection of the pool; a connection that the server has closed is replaced.
    async fn read_rows<T, F>(
        &self,
        read: impl Fn(deadpool_postgres::Object) -> F + Send + 'static,
    ) -> Result<T, QueueError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StatementFailure>> + Send + 'static,
    {
        let pool = self.pool.clone();
        self.spawn(async move {
            let mut attempts = 0;
            loop {
                attempts += 1;
                let outcome = match acquire(&pool).await {
                    Ok(client) => read(client).await,
                    Err(failure) => Err(failure),
                };
                match outcome {
                    // A read changes nothing, so it is repeated.
                    Err(failure) if failure.class == FailureClass::Disconnected && attempts < 3 => {
                        pool.retain(|_, _| false);
                    }
                    other => return other.map_err(|failure| failure.error),
                }
            }
        })
        .await
    }
}

impl Drop for PostgresQueue {
    fn drop(&mut self) {
        self.backlog.close();
        self.notifier.close();
        if let Some(runtime) = self.runtime.take() {
            // The drop of a runtime waits, which a caller within a runtime must not.
            runtime.shutdown_background();
        }
    }
}

#[async_trait]
impl Queue for PostgresQueue {
    async fn execute(&self, operation: Operation) -> OperationResult {
        let (reply, outcome) = oneshot::channel();
        self.backlog.push(QueuedOperation { operation, reply });
        outcome.await.unwrap_or_else(|_| Err(no_outcome()))
    }

    async fn read(&self, query: TaskQuery) -> Result<QueryResult, QueueError> {
        let home = self.home.clone();
        self.read_rows(move |client| {
            let (query, home) = (query.clone(), home.clone());
            async move { query::answer_query(&client, query, &home).await }
        })
        .await
    }

    async fn wait_for_change(&self, at_most: Duration) {
        // Both ends of the wait mean the same to the caller.
        let _ = tokio::time::timeout(at_most, self.notifier.wait()).await;
    }

    async fn now_ms(&self) -> Result<u64, QueueError> {
        if let Some(clock) = &self.clock {
            return Ok(clock.steady_ms());
        }
        self.read_rows(|client| async move { query::server_time(&client).await }).await
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn home_identity(&self) -> Result<String, QueueError> {
        Ok(self.home.clone())
    }
}
