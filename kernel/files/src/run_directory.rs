//! Private directories of runs: copies of skills, and homes and temporary files of programs.
//!
//! Each is locked as long as its process lives. One without a lock is that of a killed process, which
//! the next process removes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Once;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// The start of the names, by which the directories of killed processes are found.
const PREFIX: &str = "skillhost-run-";

/// The attempts to create a directory that no other process removes before it is locked.
const MAX_ATTEMPTS: usize = 8;

/// The depth to which permissions are repaired before a directory is removed.
const MAX_DEPTH: usize = 64;

/// A private directory of a run. Removed on drop; after the death of its process, by the next one
/// that calls [`remove_abandoned_runs`].
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    /// Held until the directory is removed; the system releases it with the process.
    _lock: Option<File>,
}

impl RunDirectory {
    /// Creates an empty directory in the system's directory of temporary files. Blocks.
    ///
    /// The first call in a process also removes those of killed processes.
    ///
    /// # Errors
    /// The system's error.
    pub fn create() -> io::Result<Self> {
        static ABANDONED: Once = Once::new();
        ABANDONED.call_once(remove_abandoned_runs);
        Self::create_in(&std::env::temp_dir())
    }

    fn create_in(parent: &Path) -> io::Result<Self> {
        // A policy has no paths with links.
        let parent = fs::canonicalize(parent)?;
        for _ in 0..MAX_ATTEMPTS {
            let made = tempfile::Builder::new()
                .prefix(PREFIX)
                .permissions(fs::Permissions::from_mode(0o700))
                .tempdir_in(&parent)?;
            match lock_directory(made.path()) {
                Ok(RunLock::Locked(lock)) => {
                    return Ok(Self { path: made.keep(), _lock: Some(lock) });
                }
                Ok(RunLock::Unsupported) => {
                    return Ok(Self { path: made.keep(), _lock: None });
                }
                // Another process took it for abandoned between its creation and its lock.
                Ok(RunLock::Busy) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("another process removes new private directories"))
    }

    /// Returns the path, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // What cannot be removed now is removed by a later process.
        let _ = remove_directory(&self.path);
    }
}

/// Removes the private directories of runs whose processes were killed. Blocks.
///
/// Only directories of this user that are no links and that no process has locked.
pub fn remove_abandoned_runs() {
    remove_abandoned_in(&std::env::temp_dir());
}

fn remove_abandoned_in(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let path = entry.path();
        // Held until the directory is removed, so that no other process removes it, too.
        if let Ok(RunLock::Locked(_lock)) = lock_directory(&path) {
            // What cannot be removed now is tried again by a later process.
            let _ = remove_directory(&path);
        }
    }
}

enum RunLock {
    Locked(File),
    /// Another process holds it.
    Busy,
    /// The file system has no locks.
    Unsupported,
}

/// Locks a directory of this user without following a link.
fn lock_directory(path: &Path) -> io::Result<RunLock> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory =
        OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let opened = directory.metadata()?;
    if opened.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(RunLock::Busy),
        Err(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS) => return Ok(RunLock::Unsupported),
        Err(error) => return Err(error.into()),
    }
    // It may have been removed between the opening and the lock.
    let named = fs::symlink_metadata(path)?;
    let is_same = (named.dev(), named.ino()) == (opened.dev(), opened.ino());
    if is_same { Ok(RunLock::Locked(directory)) } else { Ok(RunLock::Busy) }
}

/// Removes a directory with its content; links are removed, not followed.
fn remove_directory(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        // A program may have taken its own permissions away, as package managers do.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            allow_removal(path, 0);
            fs::remove_dir_all(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Gives the owner all permissions on the directories below a path.
fn allow_removal(path: &Path, depth: usize) {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // By the descriptor, because `chmod` follows links.
    let Ok(directory) = rustix::fs::open(path, flags, rustix::fs::Mode::empty()) else { return };
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&directory);
    let _ = rustix::fs::chmod(format!("/proc/self/fd/{descriptor}"), rustix::fs::Mode::RWXU);
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        if depth < MAX_DEPTH && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            allow_removal(&entry.path(), depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(parent: &Path) -> Vec<String> {
        let entries = fs::read_dir(parent).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_unlocked_directories_of_runs_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "").unwrap();
        let used = RunDirectory::create_in(parent.path()).unwrap();
        fs::write(used.path().join("file"), "").unwrap();
        for name in ["skillhost-run-dead", "skillhost-other", "someone"] {
            fs::create_dir_all(parent.path().join(name).join("below")).unwrap();
        }
        symlink(outside.path(), parent.path().join("skillhost-run-dead/below/link")).unwrap();
        symlink(outside.path(), parent.path().join("skillhost-run-link")).unwrap();
        fs::write(parent.path().join("skillhost-run-file"), "").unwrap();
        remove_abandoned_in(parent.path());
        let own = used.path().file_name().unwrap().to_str().unwrap().to_owned();
        let mut expected =
            [&*own, "skillhost-other", "skillhost-run-file", "skillhost-run-link", "someone"];
        expected.sort_unstable();
        assert_eq!(names(parent.path()), expected);
        assert!(used.path().join("file").exists() && outside.path().join("kept").exists());
        drop(used);
        assert!(!names(parent.path()).contains(&own));
    }

    #[test]
    fn directory_without_permissions_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let run = RunDirectory::create_in(parent.path()).unwrap();
        let deep = run.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "").unwrap();
        for path in [&deep, &run.path().join("a")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        }
        // Root needs no permission, so the repair is tried by itself, too.
        allow_removal(run.path(), 0);
        assert!(deep.join("file").exists());
        assert_eq!(fs::metadata(&deep).unwrap().permissions().mode() & 0o777, 0o700);
        drop(run);
        assert_eq!(names(parent.path()), [""; 0]);
    }
}
