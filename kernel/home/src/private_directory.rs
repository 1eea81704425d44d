//! The private copy from which an extension is used; only the kernel writes to it.
//!
//! The checked files are the ones that run, even if a process restarts or a prompt is rendered
//! hours later. A directory that agents write to guarantees neither.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, flock};
use skillhost_files::{TreeError, TreeFile, write_tree};
use skillhost_manifest::Manifest;
use skillhost_sandbox::kill_recorded;

use crate::approvals::pin_digest;
use crate::home::Home;

/// A copy of an extension's files, removed when dropped.
#[derive(Debug)]
pub struct PrivateDirectory {
    /// The directory.
    pub path: PathBuf,
    /// The digest that a manifest may pin; see [`pin_digest`].
    pub pin: String,
    lock_file: PathBuf,
    /// Held while the copy is in use; the system releases it if the process is killed.
    _lock: File,
}

impl PrivateDirectory {
    /// Writes files to a new directory below `place`, and removes the leftovers of killed kernels.
    pub fn with_files(files: &[TreeFile], place: &Path) -> Result<Self, TreeError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let failed = |source| TreeError::Io { path: place.to_owned(), source };
        fs::create_dir_all(place).map_err(failed)?;
        // No other process may sweep between the creation of a lock file and its lock.
        let sweep_lock = open_lock_file(&place.join(".sweep")).map_err(failed)?;
        flock(&sweep_lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        remove_stale(place);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        let (path, lock_file) = (place.join(&name), place.join(format!("{name}.lock")));
        let lock = lock_exclusive(&lock_file).map_err(failed)?;
        drop(sweep_lock);
        // A directory of this name without a lock is from a dead process with the same id.
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        match write_tree(files, &path) {
            Ok(()) => Ok(Self { path, pin: pin_digest(files), lock_file, _lock: lock }),
            Err(error) => {
                remove_copy(&path, &lock_file);
                Err(error)
            }
        }
    }
}

/// Returns the directory of an extension's private copies.
pub fn copies_of(home: &Home, manifest: &Manifest) -> PathBuf {
    let kind = if manifest.command().is_some() { "processes" } else { "copies" };
    home.data_dir("kernel").join(kind).join(manifest.id.as_str())
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        remove_copy(&self.path, &self.lock_file);
    }
}

fn open_lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).write(true).truncate(false).open(path)
}

/// Acquires a lock, or fails if another process holds it.
fn lock_exclusive(path: &Path) -> io::Result<File> {
    let file = open_lock_file(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Removes each copy whose lock is free.
fn remove_stale(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    let paths = entries.flatten().map(|entry| entry.path());
    for lock_file in paths.filter(|path| path.extension().is_some_and(|e| e == "lock")) {
        // Held until the copy is removed, so that no other process takes its name.
        if let Ok(_lock) = lock_exclusive(&lock_file) {
            let path = lock_file.with_extension("");
            kill_recorded(&path.with_extension("pid"));
            remove_copy(&path, &lock_file);
        }
    }
}

/// Removes a copy; a later start sweeps the rest after a failure.
fn remove_copy(path: &Path, lock_file: &Path) {
    let removed = fs::remove_dir_all(path);
    // The lock file goes last: without it no later start would find the copy.
    if removed.is_ok() || !path.exists() {
        let _ = fs::remove_file(path.with_extension("pid"));
        let _ = fs::remove_file(lock_file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(place: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(place)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != ".sweep")
            .collect();
        names.sort();
        names
    }

    #[test]
    fn copy_lives_until_dropped() {
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("place");
        let server = |text: &str| TreeFile {
            path: "server.py".to_owned(),
            bytes: text.into(),
            executable: false,
        };
        fs::create_dir_all(place.join("999999-0")).unwrap();
        fs::write(place.join("999999-0.lock"), "").unwrap();

        let first = PrivateDirectory::with_files(&[server("one")], &place).unwrap();
        let second = PrivateDirectory::with_files(&[server("two")], &place).unwrap();
        assert_eq!(fs::read_to_string(first.path.join("server.py")).unwrap(), "one");
        assert_eq!(fs::read_to_string(second.path.join("server.py")).unwrap(), "two");
        assert_ne!(first.pin, second.pin);
        assert_eq!(names(&place).len(), 4, "each with its lock: {:?}", names(&place));
        assert!(!place.join("999999-0").exists(), "what a killed kernel left is gone");
        drop((first, second));
        assert_eq!(names(&place), Vec::<String>::new());

        assert!(PrivateDirectory::with_files(&[server("one"), server("one")], &place).is_err());
        assert_eq!(names(&place), Vec::<String>::new(), "a failed copy leaves nothing");
    }
}
