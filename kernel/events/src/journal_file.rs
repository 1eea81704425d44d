//! The journal file: creation if it is missing, quarantine if it is damaged.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use skillhost_files::{create_private_dir, with_suffix};

use crate::error::{JournalError, JournalErrorKind};
use crate::store::{JournalResult, JournalStore};

/// Opens the journal and creates a missing file.
///
/// A damaged file is quarantined first; its new path is then the second value. With `examine` every
/// page is checked.
pub(crate) fn open_journal(
    path: &Path,
    examine: bool,
) -> JournalResult<(JournalStore, Option<PathBuf>)> {
    let checked = |store: JournalStore| match examine {
        true => store.check_integrity().map(|()| store),
        false => Ok(store),
    };
    // The common case takes no lock, so that a reader never waits for a migration.
    match JournalStore::open_current(path).and_then(|store| store.map(checked).transpose()) {
        Ok(Some(store)) => return Ok((store, None)),
        Err(error) if error.kind() != JournalErrorKind::Corrupt => return Err(error),
        _ => {}
    }
    let _lock = lock_exclusive(path)?;
    // Another process may have created the file, or quarantined the damaged one, in between.
    match JournalStore::open_or_create(path).and_then(checked) {
        Ok(store) => Ok((store, None)),
        Err(error) if error.kind() == JournalErrorKind::Corrupt => {
            let quarantined = quarantine(path)?;
            Ok((JournalStore::open_or_create(path)?, Some(quarantined)))
        }
        Err(error) => Err(error),
    }
}

/// Returns the device and inode of a file, or `None` if it does not exist.
#[cfg(unix)]
pub(crate) fn file_identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Returns a constant for an existing file: replaced files are not detected on this platform.
#[cfg(not(unix))]
pub(crate) fn file_identity(path: &Path) -> Option<(u64, u64)> {
    // The standard library has no stable file identity outside of Unix.
    path.exists().then_some((0, 0))
}

/// Locks the creation and quarantine of the file against other processes.
// A file of its own, because the journal itself is renamed while the lock is held.
fn lock_exclusive(path: &Path) -> JournalResult<File> {
    let to_error = |error| JournalError::io("cannot create its directory", &error);
    if let Some(directory) = path.parent() {
        // Events contain messages of users.
        create_private_dir(directory).map_err(to_error)?;
    }
    let lock = with_suffix(path, ".lock");
    let file = File::options().create(true).append(true).open(&lock).map_err(to_error)?;
    file.lock().map_err(to_error)?;
    Ok(file)
}

/// Moves the file and SQLite's files next to it to the first free name.
fn quarantine(path: &Path) -> JournalResult<PathBuf> {
    let name = |number: u32| with_suffix(path, &format!(".corrupt-{number}"));
    let free = (1..).find(|number| !name(*number).exists()).unwrap_or(u32::MAX);
    let quarantined = name(free);
    // The journal itself last: after an interruption its old name still shows the damage.
    for suffix in ["-wal", "-shm", ""] {
        match fs::rename(with_suffix(path, suffix), with_suffix(&quarantined, suffix)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(JournalError::io("cannot quarantine the damaged file", &error));
            }
            _ => {}
        }
    }
    Ok(quarantined)
}
