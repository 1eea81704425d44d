//! The generation file, by which a store detects writes of other processes before the next poll.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use skillhost_files::{create_private_dir, write_atomically};

use crate::error::StoreError;

/// The file `sandbox/data/skill_registry/generation`, which offline commands touch when they have
/// written something that the registry serves.
#[derive(Debug)]
pub struct GenerationFile {
    path: PathBuf,
    seen: Mutex<Option<GenerationStamp>>,
}

/// An identity of one state of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GenerationStamp {
    ino: u64,
    len: u64,
    modified: Option<SystemTime>,
}

impl GenerationFile {
    /// The file's name in the registry's data directory.
    pub const NAME: &str = "generation";

    /// Watches the file in a data directory; it need not exist.
    #[must_use]
    pub fn new(data_dir: &Path) -> Self {
        let path = data_dir.join(Self::NAME);
        let seen = Mutex::new(stamp(&path));
        Self { path, seen }
    }

    /// Returns whether the file was touched since the last call; costs one `stat`.
    pub fn has_changed(&self) -> bool {
        let now = stamp(&self.path);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let moved = now.is_some() && now != *seen;
        *seen = now;
        moved
    }

    /// Announces a write; every registry checks the file at its next turn.
    ///
    /// # Errors
    /// [`StoreError::Generation`] if the file cannot be replaced.
    pub fn touch(data_dir: &Path) -> Result<(), StoreError> {
        let path = data_dir.join(Self::NAME);
        replace(data_dir, &path).map_err(|source| StoreError::Generation { path, source })
    }
}

/// Replaces the file, so that its identity changes even if the clock does not advance.
fn replace(data_dir: &Path, path: &Path) -> std::io::Result<()> {
    create_private_dir(data_dir)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    write_atomically(path, format!("{now}\n").as_bytes())
}

fn stamp(path: &Path) -> Option<GenerationStamp> {
    let metadata = fs::metadata(path).ok()?;
    #[cfg(unix)]
    let ino = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let ino = 0;
    Some(GenerationStamp { ino, len: metadata.len(), modified: metadata.modified().ok() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_touch_is_seen_once() {
        let temp = tempfile::tempdir().unwrap();
        let data = temp.path().join("data/skill_registry");
        let file = GenerationFile::new(&data);
        assert!(!file.has_changed());
        for _ in 0..3 {
            GenerationFile::touch(&data).unwrap();
            assert!(file.has_changed());
            assert!(!file.has_changed());
        }
        let names: Vec<_> =
            fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [GenerationFile::NAME]);
        fs::remove_dir_all(&data).unwrap();
        assert!(!file.has_changed());
        GenerationFile::touch(&data).unwrap();
        assert!(file.has_changed());
    }

    #[test]
    fn unwritable_directory_is_error() {
        let temp = tempfile::tempdir().unwrap();
        let blocked = temp.path().join("file");
        fs::write(&blocked, "").unwrap();
        let error = GenerationFile::touch(&blocked).unwrap_err();
        let path = blocked.join(GenerationFile::NAME);
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}
