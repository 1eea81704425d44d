//! The file `channels.db`: people, conversations, buttons, positions and pairing codes of a home.
//!
//! The file is apart from the tasks, whose store several machines may share: peers and positions
//! belong to one home. It is created when the first code is made, and never replaced: a damaged file
//! turns the channels off, as an empty one would forget who is allowed and what was received.

mod file;
mod inbound_rows;
mod peer_rows;
mod question_rows;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use skillhost_payload::{CallError, ChannelConversation, ErrorKind};

pub(crate) use inbound_rows::ConversationRecord;
pub use peer_rows::{PairingCode, PeerRecord};
pub(crate) use question_rows::{ButtonRecord, ShownQuestion};

/// The name of the file.
const FILE_NAME: &str = "channels.db";

/// The people and conversations of a home's channels; cheap to clone.
#[derive(Clone)]
pub struct ChannelStore {
    path: Arc<PathBuf>,
    /// Opened when it is needed. One connection: the rows are few, and writes are serialized.
    connection: Arc<Mutex<Option<Connection>>>,
}

/// An error of the file of channels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelStoreError {
    /// The file is damaged, or belongs to another program.
    #[error("`channels.db` is damaged: {0}")]
    Damaged(String),
    /// A newer program wrote the file.
    #[error("`channels.db` has version {found}, this program supports up to {supported}")]
    Newer {
        /// Its version.
        found: i64,
        /// The version of this program.
        supported: i64,
    },
    /// Another program has locked the file.
    #[error("`channels.db` is locked by another program")]
    Locked,
    /// The file cannot be read or written.
    #[error("`channels.db` cannot be read or written: {0}")]
    Io(String),
    /// A value exceeds its limit.
    #[error("{0}")]
    TooLarge(String),
}

impl ChannelStoreError {
    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Damaged(_) => {
                "restore `channels.db` from a backup; or move it away together with \
                 `channels.db-wal` and `channels.db-shm`, and pair every person again"
            }
            Self::Newer { .. } => "use the newer program that wrote it; the file is unchanged",
            Self::Locked => "close the program that has it open, then try again",
            Self::Io(_) => "free disk space, or correct the permissions",
            Self::TooLarge(_) => "store a smaller value",
        }
    }
}

impl From<ChannelStoreError> for CallError {
    fn from(error: ChannelStoreError) -> Self {
        let kind = match error {
            ChannelStoreError::Damaged(_) | ChannelStoreError::Io(_) => ErrorKind::Io,
            ChannelStoreError::Newer { .. } | ChannelStoreError::Locked => ErrorKind::Unavailable,
            ChannelStoreError::TooLarge(_) => ErrorKind::TooLarge,
        };
        Self::new(kind, error.to_string()).with_hint(error.hint())
    }
}

impl From<rusqlite::Error> for ChannelStoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged(error.to_string())
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            Some(_) => Self::Io(error.to_string()),
            // A stored value that this program did not write.
            None => Self::Damaged(error.to_string()),
        }
    }
}

/// The result of an operation on the file.
pub(crate) type StoreResult<T> = Result<T, ChannelStoreError>;

impl ChannelStore {
    /// Creates the store of a directory; its file is opened when it is needed.
    #[must_use]
    pub fn in_directory(directory: &Path) -> Self {
        let path = Arc::new(directory.join(FILE_NAME));
        Self { path, connection: Arc::default() }
    }

    /// Returns whether the file exists: a home without paired people has none.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Checks every page of the file; a missing one is in order.
    ///
    /// # Errors
    /// [`ChannelStoreError`].
    pub async fn check_integrity(&self) -> Result<(), ChannelStoreError> {
        self.read(|conn| file::check_pages(conn)).await.map(drop)
    }

    /// Reads rows; `None` without a file, which is not created.
    async fn read<T: Send + 'static>(
        &self,
        action: impl FnOnce(&mut Connection) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<Option<T>> {
        match self.exists() {
            true => self.run(action).await.map(Some),
            false => Ok(None),
        }
    }

    /// Changes rows, and creates the file if it does not exist. The changes are durable when this
    /// returns.
    async fn run<T: Send + 'static>(
        &self,
        action: impl FnOnce(&mut Connection) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let store = self.clone();
        // No worker of the runtime waits for the disk.
        let run = tokio::task::spawn_blocking(move || store.run_blocking(action));
        run.await.map_err(|error| ChannelStoreError::Io(error.to_string()))?
    }

    fn run_blocking<T>(
        &self,
        action: impl FnOnce(&mut Connection) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let mut open = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        // Rows written to a file that was moved away would be lost.
        if !self.path.exists() {
            *open = None;
        }
        let conn = match &mut *open {
            Some(conn) => conn,
            none => none.insert(file::open_connection(&self.path)?),
        };
        let done = action(conn);
        if done.is_err() {
            // Opened again, so that a repaired or restored file is used.
            *open = None;
        }
        done
    }
}

/// The columns of a conversation.
fn conversation_from(chat: String, topic: String, is_group: bool) -> ChannelConversation {
    // The empty text stands for no topic, as NULL is not part of a primary key.
    let topic = (!topic.is_empty()).then_some(topic);
    ChannelConversation { id: chat, topic, is_group }
}

/// Returns the topic as it is stored.
fn topic_key(conversation: &ChannelConversation) -> &str {
    conversation.topic.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
