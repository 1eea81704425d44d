//! The file's place: made where it is missing, put aside where it is damaged.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::error::{JournalError, JournalErrorKind};
use crate::store::{JournalResult, JournalStore};

/// Opens the journal, made if it is not there. A damaged file is put aside first; then the second
/// value says where it lies.
pub(crate) fn open_journal(
    path: &Path,
    examine: bool,
) -> JournalResult<(JournalStore, Option<PathBuf>)> {
    let sound = |store: JournalStore| match examine {
        true => store.check_integrity().map(|()| store),
        false => Ok(store),
    };
    match JournalStore::open_current(path).and_then(|store| store.map(sound).transpose()) {
        Ok(Some(store)) => return Ok((store, None)),
        Err(error) if error.kind() != JournalErrorKind::Corrupt => return Err(error),
        _ => {}
    }
    let _alone = lock_exclusive(path)?;
    // Another process may have made it, or put the damaged one aside, just now.
    match JournalStore::open_or_make(path).and_then(sound) {
        Ok(store) => Ok((store, None)),
        Err(error) if error.kind() == JournalErrorKind::Corrupt => {
            let aside = quarantine(path)?;
            Ok((JournalStore::open_or_make(path)?, Some(aside)))
        }
        Err(error) => Err(error),
    }
}

/// What a file is told apart by from another one of its name; nothing where it is gone.
#[cfg(unix)]
pub(crate) fn file_identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Whether a file is there: files of one name are not told apart.
#[cfg(not(unix))]
pub(crate) fn file_identity(path: &Path) -> Option<(u64, u64)> {
    path.exists().then_some((0, 0))
}

/// Keeps other processes from making or moving the file.
fn lock_exclusive(path: &Path) -> JournalResult<File> {
    let failed = |error| JournalError::io("cannot make its folder", &error);
    if let Some(folder) = path.parent() {
        private_folder(folder).map_err(failed)?;
    }
    let lock = with_suffix(path, ".lock");
    let file = File::options().create(true).append(true).open(&lock).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

/// Moves the file and what SQLite keeps beside it to the first free name.
fn quarantine(path: &Path) -> JournalResult<PathBuf> {
    let name = |number: u32| with_suffix(path, &format!(".corrupt-{number}"));
    let free = (1..).find(|number| !name(*number).exists()).unwrap_or(u32::MAX);
    let aside = name(free);
    for suffix in ["-wal", "-shm", ""] {
        match fs::rename(with_suffix(path, suffix), with_suffix(&aside, suffix)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(JournalError::io("cannot put the damaged file aside", &error));
            }
            _ => {}
        }
    }
    Ok(aside)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// What users say is nobody else's business.
fn private_folder(path: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}
