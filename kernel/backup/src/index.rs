//! The index of a backup: its last entry, with a digest of every file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The version of the format.
pub(crate) const FORMAT: u32 = 1;

/// The name of the index in the archive.
pub(crate) const INDEX_NAME: &str = "backup.json";

/// The directory of the home's files in the archive.
pub(crate) const FILES_PREFIX: &str = "home/";

/// The parts of a home that a backup can have: entries of the home's directory.
pub(crate) const HOME_PARTS: [&str; 4] = ["skillhost.yaml", SECRETS_FILE, "manifests", "sandbox"];

/// The file of a home that contains secrets.
pub(crate) const SECRETS_FILE: &str = ".env";

/// The most entries of a backup.
pub(crate) const MAX_ENTRIES: usize = 1_000_000;

/// The largest index that is read, in bytes.
pub(crate) const MAX_INDEX_BYTES: u64 = 512 * 1024 * 1024;

/// The contents of a backup.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BackupIndex {
    /// The version of the format.
    pub(crate) format: u32,
    /// The version of the program that wrote it.
    pub(crate) version: String,
    /// The time of the backup, in milliseconds since 1970.
    pub(crate) created_ms: u64,
    /// The home, for display.
    pub(crate) home: PathBuf,
    /// The entries in the order of the archive.
    pub(crate) entries: Vec<IndexEntry>,
}

/// A file or directory of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IndexEntry {
    /// The path in the home.
    pub(crate) path: String,
    /// The digest and length of a file; `None` for a directory.
    #[serde(flatten)]
    pub(crate) file: Option<FileDigest>,
    /// The permissions.
    pub(crate) mode: u32,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileDigest {
    /// The length in bytes.
    pub(crate) size: u64,
    /// The sha256; hexadecimal.
    pub(crate) sha256: String,
}

/// The contents of a backup, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackupSummary {
    /// The version of the program that wrote it.
    pub version: String,
    /// The time of the backup, in milliseconds since 1970.
    pub created_ms: u64,
    /// The home that was backed up.
    pub home: PathBuf,
    /// The number of files.
    pub files: usize,
    /// The length of all files, in bytes.
    pub bytes: u64,
    /// True if the file with the secrets is among them.
    pub secrets: bool,
}

impl BackupIndex {
    pub(crate) fn summarize(&self) -> BackupSummary {
        let files = || self.entries.iter().filter_map(|entry| entry.file.as_ref());
        BackupSummary {
            version: self.version.clone(),
            created_ms: self.created_ms,
            home: self.home.clone(),
            files: files().count(),
            bytes: files().map(|file| file.size).sum(),
            secrets: self.entries.iter().any(|entry| entry.path == SECRETS_FILE),
        }
    }
}
