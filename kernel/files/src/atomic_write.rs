//! Atomic file writes.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::synced::{sync_directory, write_new_file};

/// Replaces a file atomically: a temporary file in its directory, fsync, rename, fsync of the
/// directory.
///
/// # Errors
/// The system's error; the file is then unchanged.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_file(path, bytes, None)
}

/// Replaces a file atomically; only its owner may read or write it.
///
/// # Errors
/// As [`write_atomically`].
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_file(path, bytes, Some(0o600))
}

/// Replaces a file atomically; only its owner may write it, independent of the umask.
///
/// # Errors
/// As [`write_atomically`].
pub fn write_owned(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_file(path, bytes, Some(0o644))
}

/// Renames an entry within a file system, and synchronizes the directories of both names. An
/// existing file at the new name is replaced.
///
/// # Errors
/// The system's error; the entry may have its new name if only the synchronization failed.
pub fn rename_synced(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    let directory = |path: &Path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => Path::new(".").to_owned(),
    };
    sync_directory(&directory(to))?;
    match directory(from) == directory(to) {
        true => Ok(()),
        false => sync_directory(&directory(from)),
    }
}

fn replace_file(path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let directory = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // The counter separates concurrent writers of one process, the process id those of several.
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = directory.join(format!(".{name}.{}-{number}.tmp", std::process::id()));
    let written =
        write_new_file(&temporary, bytes, mode).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The original error is the one worth reporting.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    // Without syncing the directory the rename itself can be lost.
    sync_directory(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_file_leaves_no_temporary() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(write_atomically(&directory.path().join("no/file"), b"x").is_err());
    }
}
