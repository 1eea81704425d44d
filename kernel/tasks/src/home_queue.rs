//! The queue of a home: a file, or a database that several machines share.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skillhost_home::{Home, Settings};

#[cfg(feature = "postgres")]
mod connecting;

use crate::error::QueueError;
use crate::operation::{Operation, OperationResult};
use crate::queue::{QueryResult, Queue, TaskQuery, TaskQueue};
use crate::sqlite::SqliteQueue;

/// Returns the queue of a home, as its settings name it. No file is read or created and no server
/// is reached before the first use.
///
/// A database that cannot be used fails each operation; the file of the home never replaces it.
#[must_use]
pub fn open_home_queue(home: &Home, settings: &Settings) -> TaskQueue {
    match settings.tasks.shared_database() {
        None => TaskQueue::new(Arc::new(SqliteQueue::in_directory(&home.data_dir("kernel")))),
        Some((secret, schema)) => TaskQueue::new(Arc::new(SharedQueue::new(home, secret, schema))),
    }
}

#[cfg(not(feature = "postgres"))]
use UnsupportedStore as DatabaseLink;
#[cfg(feature = "postgres")]
use connecting::DatabaseLink;

/// The connection of a program without the store: an error.
#[cfg(not(feature = "postgres"))]
struct UnsupportedStore;

#[cfg(not(feature = "postgres"))]
impl UnsupportedStore {
    fn new(_home: &Home, _secret: &str, _schema: &str) -> Self {
        Self
    }

    #[expect(clippy::unused_async, reason = "with the feature, it connects")]
    async fn store(&self) -> Result<&dyn Queue, QueueError> {
        Err(QueueError::new(
            crate::QueueErrorKind::Database,
            "tasks are in a PostgreSQL database, which this program does not support",
            "use a program that was built with `--features postgres`, or remove `store` from \
             `tasks` in skillhost.yaml",
        ))
    }

    fn connected(&self) -> Option<&dyn Queue> {
        None
    }
}

/// A queue in a shared database, which is reached with the first operation and after a failure
/// again.
struct SharedQueue {
    link: DatabaseLink,
}

impl SharedQueue {
    fn new(home: &Home, secret: &str, schema: &str) -> Self {
        Self { link: DatabaseLink::new(home, secret, schema) }
    }
}

#[async_trait]
impl Queue for SharedQueue {
    async fn execute(&self, operation: Operation) -> OperationResult {
        self.link.store().await?.execute(operation).await
    }

    async fn read(&self, query: TaskQuery) -> Result<QueryResult, QueueError> {
        self.link.store().await?.read(query).await
    }

    async fn wait_for_change(&self, at_most: Duration) {
        match self.link.connected() {
            Some(store) => store.wait_for_change(at_most).await,
            // The next operation of the caller connects.
            None => tokio::time::sleep(at_most).await,
        }
    }

    async fn now_ms(&self) -> Result<u64, QueueError> {
        self.link.store().await?.now_ms().await
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn home_identity(&self) -> Result<String, QueueError> {
        self.link.store().await?.home_identity().await
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use skillhost_home::HomeSource;

    use super::*;
    use crate::error::QueueErrorKind;

    #[tokio::test]
    async fn unusable_database_creates_no_file() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("sandbox")).unwrap();
        let home = Home::open(directory.path(), HomeSource::Argument).unwrap();
        let text = "tasks: {store: postgres, url_secret: SKILLHOST_TEST_DATABASE}";
        let settings = Settings::parse(Path::new("skillhost.yaml"), text).unwrap();
        let queue = open_home_queue(&home, &settings);
        assert!(queue.store().is_shared());
        let error = queue.counts().await.unwrap_err();
        assert_eq!(error.kind(), QueueErrorKind::Database);
        let expected = match cfg!(feature = "postgres") {
            true => "`SKILLHOST_TEST_DATABASE` with the address of the database not found",
            false => "which this program does not support",
        };
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.hint().is_empty());
        assert!(!home.data_dir("kernel").exists());
    }
}
