//! The connection of a thread, opened when it is needed.

use std::path::PathBuf;

use rusqlite::Connection;

use super::file::FileStamp;
use crate::error::{QueueError, QueueErrorKind};
use crate::store::StoreResult;

/// Opens a connection; `None` if there is no file, and none is to be created.
type ConnectionOpener = fn(&std::path::Path) -> StoreResult<Option<Connection>>;

/// A connection to the file at a path.
pub(super) struct LazyConnection {
    path: PathBuf,
    opener: ConnectionOpener,
    open: Option<(Connection, FileStamp)>,
    /// The damage that was found, and in which content.
    damage: Option<(QueueError, Option<FileStamp>)>,
}

impl LazyConnection {
    /// Creates a connection that is not open.
    pub(super) fn new(path: PathBuf, opener: ConnectionOpener) -> Self {
        Self { path, opener, open: None, damage: None }
    }

    /// Returns the connection and opens it if needed.
    ///
    /// # Errors
    /// An error of the file; once it is damaged the same error until its content changes.
    pub(super) fn acquire(&mut self) -> StoreResult<Option<&Connection>> {
        let stamp = FileStamp::load(&self.path);
        if let Some((error, damaged)) = &self.damage {
            if *damaged == stamp {
                return Err(error.clone());
            }
            self.damage = None;
        }
        // Rows written to a file that was moved away would be lost.
        let is_current = |(_, opened): &(Connection, FileStamp)| {
            stamp.is_some_and(|stamp| stamp.is_same_file(opened))
        };
        if !self.open.as_ref().is_some_and(is_current) {
            self.open = None;
            let opened = (self.opener)(&self.path).inspect_err(|error| self.note(error))?;
            self.open = opened.zip(FileStamp::load(&self.path));
        }
        Ok(self.open.as_ref().map(|(conn, _)| conn))
    }

    /// Remembers that the file is damaged, if that is the error.
    pub(super) fn note(&mut self, error: &QueueError) {
        if error.kind() == QueueErrorKind::Corrupt {
            // Closed: what SQLite has in its memory must not reach a restored file.
            self.open = None;
            self.damage = Some((error.clone(), FileStamp::load(&self.path)));
        }
    }

    /// Closes the connection; the next use opens it again.
    pub(super) fn close(&mut self) {
        self.open = None;
    }
}
