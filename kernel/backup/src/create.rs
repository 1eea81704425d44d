//! The creation of a backup.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use skillhost_files::temporary::unique_temporary_name;
use skillhost_files::{rename_synced, sync_file};
use skillhost_home::{Home, now_ms};

use crate::archive::ArchiveWriter;
use crate::collect::{CollectedEntries, CollectedEntry, EntryKind, SkippedEntry, collect_entries};
use crate::error::BackupError;
use crate::index::{BackupIndex, BackupSummary, FORMAT, IndexEntry};
use crate::snapshot::{FileSnapshot, snapshot_append_log, snapshot_database, snapshot_file};

/// The options of a backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupOptions {
    /// Include the file with the secrets.
    pub secrets: bool,
    /// Replace an existing file.
    pub overwrite: bool,
}

/// A backup that was written.
#[derive(Debug, Serialize)]
pub struct BackupReport {
    /// The file.
    pub file: PathBuf,
    /// Its length, in bytes.
    pub file_bytes: u64,
    /// The contents.
    #[serde(flatten)]
    pub summary: BackupSummary,
    /// The entries of the home that could not be included.
    pub skipped: Vec<SkippedEntry>,
    /// The databases that SQLite cannot read; they were copied as they are.
    pub damaged: Vec<PathBuf>,
}

/// Writes a backup of a home to a file that only its owner can read. Processes may use the home
/// meanwhile.
///
/// # Errors
/// [`BackupError`]; the file is then unchanged.
pub fn create_backup(
    home: &Home,
    file: &Path,
    options: BackupOptions,
) -> Result<BackupReport, BackupError> {
    if !options.overwrite && file.symlink_metadata().is_ok() {
        return Err(BackupError::Exists { path: file.to_owned() });
    }
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let temporary = directory.join(unique_temporary_name());
    let written = write_archive(home, file, &temporary, options.secrets);
    let renamed = written.and_then(|report| {
        // Checked again: the backup may have taken minutes.
        if !options.overwrite && file.symlink_metadata().is_ok() {
            return Err(BackupError::Exists { path: file.to_owned() });
        }
        rename_synced(&temporary, file).map_err(BackupError::io(file))?;
        Ok(report)
    });
    if renamed.is_err() {
        // The first error is the one worth reporting.
        let _ = fs::remove_file(&temporary);
    }
    renamed
}

fn write_archive(
    home: &Home,
    file: &Path,
    temporary: &Path,
    secrets: bool,
) -> Result<BackupReport, BackupError> {
    let failed = || BackupError::io(file);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let stream = options.open(temporary).map_err(failed())?;
    let own = stream.metadata().map_err(failed())?;
    let CollectedEntries { entries, mut skipped } =
        collect_entries(home, secrets, (own.dev(), own.ino()))?;
    let mut archive = ArchiveWriter::new(BufWriter::new(stream));
    let (mut indexed, mut damaged) = (Vec::new(), Vec::new());
    for entry in entries {
        match add_entry(&mut archive, home, &entry, &mut damaged)? {
            Some(added) => indexed.push(added),
            None => skipped.push(SkippedEntry {
                path: entry.path.as_str().into(),
                reason: "it was removed during the backup".to_owned(),
            }),
        }
    }
    let index = BackupIndex {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created_ms: now_ms(),
        home: home.root().to_owned(),
        entries: indexed,
    };
    let text = serde_json::to_vec(&index).map_err(io::Error::from).map_err(failed())?;
    let mut stream = archive.finish(&text).map_err(failed())?;
    stream.flush().map_err(failed())?;
    let stream = stream.into_inner().map_err(|error| failed()(error.into_error()))?;
    sync_file(&stream).map_err(failed())?;
    let file_bytes = stream.metadata().map_err(failed())?.len();
    let summary = index.summarize();
    Ok(BackupReport { file: file.to_owned(), file_bytes, summary, skipped, damaged })
}

/// Adds an entry; returns `None` for one that no longer exists.
fn add_entry(
    archive: &mut ArchiveWriter<BufWriter<File>>,
    home: &Home,
    entry: &CollectedEntry,
    damaged: &mut Vec<PathBuf>,
) -> Result<Option<IndexEntry>, BackupError> {
    let CollectedEntry { kind, path, mode } = entry;
    let full = home.root().join(path.as_str());
    let failed = || BackupError::io(&full);
    let indexed = |file| Some(IndexEntry { path: path.to_string(), file, mode: *mode });
    let snapshot = match kind {
        EntryKind::Directory => {
            archive.add_directory(path.as_str(), *mode).map_err(failed())?;
            return Ok(indexed(None));
        }
        EntryKind::Database => match snapshot_database(&full) {
            Ok((snapshot, false)) => Ok(snapshot),
            Ok((snapshot, true)) => {
                damaged.push(path.as_str().into());
                Ok(snapshot)
            }
            Err(BackupError::Io { source, .. }) => Err(source),
            Err(error) => return Err(error),
        },
        EntryKind::AppendLog => snapshot_append_log(&full),
        EntryKind::Plain => snapshot_file(&full),
    };
    let FileSnapshot { content, size } = match snapshot {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        snapshot => snapshot.map_err(failed())?,
    };
    let digest = archive.add_file(path.as_str(), *mode, size, content).map_err(failed())?;
    Ok(indexed(Some(digest)))
}
