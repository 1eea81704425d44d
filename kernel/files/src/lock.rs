//! A lock of a directory for one writer at a time, across processes and within a process.

use std::cell::Cell;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The file that locks the directory.
const LOCK: &str = "lock";

/// The file that locks the queue: a process that has just released the lock has to queue behind
/// the waiting ones.
const TURN: &str = "turn";

/// The pause between two attempts; grows up to the longest.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(1);
const MAX_RETRY_DELAY: Duration = Duration::from_millis(4);

/// The limit on the bytes of names that are read.
const MOST_NAMES: u64 = 64 << 10;

/// An error of acquiring a lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The system failed.
    #[error("{path} cannot be locked: {source}", path = path.display())]
    Io {
        /// The file of the lock.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process held the lock for the complete wait.
    #[error("{path} has been held by {holder} for {wait} s", path = path.display(),
        holder = describe_holder(*holder), wait = wait.as_secs_f32())]
    Held {
        /// The file of the lock.
        path: PathBuf,
        /// The process that held it, if the file names it.
        holder: Option<u32>,
        /// The time that was waited.
        wait: Duration,
    },
}

fn describe_holder(holder: Option<u32>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
}

/// A lock on a directory, held until it is dropped.
///
/// While it is held, the last line of its file names the holder. Names found by the next holder
/// belong to processes that were killed; they stay until recovery has handled their changes.
#[derive(Debug)]
pub struct DirectoryLock {
    file: File,
    /// The processes that held it before and ended without letting go.
    pub left_by: Vec<String>,
    /// The length of the file that stays after the release.
    stays: Cell<u64>,
}

impl DirectoryLock {
    /// Acquires the lock of a directory; waits at most for `wait`.
    pub fn acquire(dir: &Path, wait: Duration) -> Result<Self, LockError> {
        let path = dir.join(LOCK);
        let failed = |source| LockError::Io { path: path.clone(), source };
        let until = Instant::now() + wait;
        // The queue comes first: the holder of `turn` is the only one that polls the lock.
        let turn = open(&dir.join(TURN)).map_err(failed)?;
        let mut file = open(&path).map_err(failed)?;
        let locked = lock(&turn, until).and_then(|turned| Ok(turned && lock(&file, until)?));
        if !locked.map_err(failed)? {
            // Only the message depends on it.
            let named = read_holders(&mut file).unwrap_or_default().pop();
            let holder = named.and_then(|name| name.parse().ok());
            return Err(LockError::Held { path, holder, wait });
        }
        // Released as soon as the lock is held, so that the next process can start waiting for it.
        drop(turn);
        let left_by = read_holders(&mut file).map_err(failed)?;
        let stays = file.seek(SeekFrom::End(0)).map_err(failed)?;
        // On a full disk the name is missing, and after a crash the next holder looks less closely.
        let _ = file.write_all(format!("{}\n", std::process::id()).as_bytes());
        Ok(Self { file, left_by, stays: Cell::new(stays) })
    }

    /// Removes the names of processes that ended without a release, after their changes were
    /// recovered.
    pub fn clear_stale_holders(&self) {
        self.stays.set(0);
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // If this fails, the next holder looks more closely than it needs to.
        let _ = self.file.set_len(self.stays.get());
        // The name is removed before the unlock, else the next holder would find it.
        let _ = self.file.unlock();
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

/// Acquires the lock of a file; returns `false` if the deadline passes first.
fn lock(file: &File, until: Instant) -> io::Result<bool> {
    let mut pause = MIN_RETRY_DELAY;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => return Ok(false),
            Err(TryLockError::WouldBlock) => thread::sleep(pause),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        pause = (pause * 2).min(MAX_RETRY_DELAY);
    }
}

/// Returns the names in the file; a crash can also leave invalid names.
fn read_holders(file: &mut File) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    file.rewind()?;
    // A damaged file must not make a process read without limit.
    file.take(MOST_NAMES).read_to_end(&mut names)?;
    Ok(String::from_utf8_lossy(&names).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_lock_times_out() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join(LOCK);
        let wait = Duration::from_millis(20);
        let held = DirectoryLock::acquire(temp.path(), wait).unwrap();
        assert_eq!(held.left_by, [""; 0]);
        let error = DirectoryLock::acquire(temp.path(), wait).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "{} has been held by process {} for 0.02 s",
                path.display(),
                std::process::id()
            )
        );
        drop(held);
        assert_eq!(DirectoryLock::acquire(temp.path(), wait).unwrap().left_by, [""; 0]);
    }

    #[test]
    fn dead_holders_stay_until_recovery() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join(LOCK);
        std::fs::write(&path, "4711\n").unwrap();
        let take = || DirectoryLock::acquire(temp.path(), Duration::ZERO).unwrap();
        // The second one dies, the third one fails.
        let held = take();
        assert_eq!(held.left_by, ["4711"]);
        let both = std::fs::read(&path).unwrap();
        drop(held);
        std::fs::write(&path, both).unwrap();
        let own = std::process::id().to_string();
        assert_eq!(take().left_by, ["4711", &own]);
        let held = take();
        assert_eq!(held.left_by, ["4711", &own]);
        held.clear_stale_holders();
        drop(held);
        assert_eq!(take().left_by, [""; 0]);
    }
}
