//! The thread that reads.

use std::path::PathBuf;
use std::sync::mpsc;

use tokio::sync::oneshot;

use super::connection::LazyConnection;
use super::{file, queries};
use crate::queue::{QueryResult, TaskQuery};
use crate::store::StoreResult;

/// A request to the thread.
pub(super) enum ReadRequest {
    /// Answers a query.
    Query(TaskQuery, oneshot::Sender<StoreResult<QueryResult>>),
    /// Returns a number that changes with each commit of another connection; `None` for a file
    /// that is missing or not readable.
    Version(oneshot::Sender<Option<i64>>),
    /// Closes the file.
    Close(oneshot::Sender<()>),
}

/// Executes requests until the last sender is dropped.
pub(super) fn run_reader(path: PathBuf, requests: &mpsc::Receiver<ReadRequest>) {
    let mut connection = LazyConnection::new(path, file::open_readable);
    // The receivers may be gone; the requests are done nevertheless.
    while let Ok(request) = requests.recv() {
        match request {
            ReadRequest::Query(query, sender) => {
                let found =
                    connection.acquire().and_then(|conn| queries::answer_query(conn, query));
                let found = found.inspect_err(|error| connection.note(error));
                let _ = sender.send(found);
            }
            ReadRequest::Version(sender) => {
                let version = connection.acquire().ok().flatten().and_then(|conn| {
                    conn.pragma_query_value(None, "data_version", |row| row.get(0)).ok()
                });
                let _ = sender.send(version);
            }
            ReadRequest::Close(sender) => {
                connection.close();
                let _ = sender.send(());
            }
        }
    }
}
