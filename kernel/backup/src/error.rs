//! Errors of backups and of their restoration.

use std::io;
use std::path::{Path, PathBuf};

use skillhost_files::jail::RelPathError;

/// The reason why no backup was written.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file of the backup exists.
    #[error("{}: file already exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A database could not be read consistently.
    #[error("{}: database could not be copied: {source}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// A database stayed locked by another process.
    #[error("{}: database is locked by another process", path.display())]
    Locked {
        /// The database.
        path: PathBuf,
    },
    /// The home has too many entries.
    #[error("{}: more than {limit} files and directories", path.display())]
    TooMany {
        /// The home.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
}

impl BackupError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

/// The reason why a backup was not restored. No file of the target has changed.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a backup.
    #[error("{}: file is not a backup of skillhost", path.display())]
    NotABackup {
        /// The file.
        path: PathBuf,
    },
    /// The backup was written by a later version.
    #[error("{}: backup has format {format}, this program reads up to {limit}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
        /// The newest known format.
        limit: u32,
    },
    /// The archive ends too early, or its bytes are not valid.
    #[error("{}: backup is damaged{}: {source}", path.display(), after(last.as_deref()))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The entry that was read last, in printable form.
        last: Option<String>,
        /// The error of the archive.
        source: io::Error,
    },
    /// The content of an entry is not the one that was written.
    #[error("{}: backup is damaged: {} {problem}", path.display(), entry.escape_debug())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The entry.
        entry: String,
        /// The difference.
        problem: &'static str,
    },
    /// An entry has a path that is not one of a home.
    #[error("{}: entry `{}` is refused: {problem}", path.display(), entry.escape_debug())]
    Path {
        /// The file.
        path: PathBuf,
        /// The entry.
        entry: String,
        /// The rule that it breaks.
        problem: PathProblem,
    },
    /// The files of the backup need more space than the target has.
    #[error("{}: backup needs more than the {limit} bytes that can be used", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit, in bytes: most of the free space.
        limit: u64,
    },
    /// The target has files that the backup would replace.
    #[error("{}: home has files", path.display())]
    NotEmpty {
        /// The target.
        path: PathBuf,
    },
}

/// The rule that a path in a backup breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// It is absolute, leads out of the home, or is malformed.
    #[error("{0}")]
    Form(#[from] RelPathError),
    /// It is not UTF-8.
    #[error("its name is not UTF-8")]
    Encoding,
    /// It is not part of a home.
    #[error("it is not part of a home")]
    Foreign,
    /// It is a link, a device or another special file.
    #[error("it is neither a regular file nor a directory")]
    Special,
    /// The archive has it twice.
    #[error("it occurs twice")]
    Repeated,
    /// The archive has too many entries.
    #[error("there are too many entries")]
    TooMany,
}

impl RestoreError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

fn after(last: Option<&str>) -> String {
    last.map(|entry| format!(" after {}", entry.escape_debug())).unwrap_or_default()
}
