//! The supervision of the kernel: its lock and its settings, without the process.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use skillhost_files::{create_private_dir, open_append};
use skillhost_home::Home;

/// The exit code of a kernel that requests its restart.
pub const RESTART_CODE: u8 = 75;

/// The variable that names a kernel's supervisor process.
pub const SUPERVISED: &str = "SKILLHOST_SUPERVISED";

/// The file that the supervisor of a home's kernel locks; it contains the supervisor's process id.
const LOCK_FILE: &str = "supervisor.lock";

/// The number of further attempts to take a held lock, and the pause between them.
const MAX_LOCK_RETRIES: u32 = 3;
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// A lock that makes this process the supervisor of a home's kernel, until it is dropped.
#[derive(Debug)]
pub struct SupervisorLock {
    _file: File,
}

/// An error returned when a process may not supervise the kernel of a home.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorLockError {
    /// Another process holds the lock.
    #[error("kernel of this home is already supervised{}", holder.map(|id| format!(", by process {id}")).unwrap_or_default())]
    Held {
        /// The id of that process, if it has written one.
        holder: Option<u32>,
    },
    /// The lock file could not be accessed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the lock file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl SupervisorLock {
    /// Returns whether a process supervises the kernel of a home, even if the kernel is not running
    /// yet.
    #[must_use]
    // A shared lock: two checks at once must not see each other as the supervisor.
    pub fn is_held(home: &Home) -> bool {
        let file = File::open(home.data_dir("kernel").join(LOCK_FILE));
        // A missing file is not locked.
        file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Makes this process the supervisor of a home's kernel.
    ///
    /// # Errors
    /// [`SupervisorLockError`].
    pub fn acquire(home: &Home) -> Result<Self, SupervisorLockError> {
        let directory = home.data_dir("kernel");
        let path = directory.join(LOCK_FILE);
        let failed = |source| SupervisorLockError::Io { path: path.clone(), source };
        create_private_dir(&directory).map_err(failed)?;
        // An existing file keeps its owner and mode, and is not truncated before the lock is held.
        let opened = match open_append(&path, true) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_append(&path, false),
            opened => opened,
        };
        let mut file = opened.map_err(failed)?;
        let mut locked = file.try_lock();
        for _ in 0..MAX_LOCK_RETRIES {
            if !matches!(locked, Err(TryLockError::WouldBlock)) {
                break;
            }
            // A process that only checks the lock holds it for a moment.
            std::thread::sleep(LOCK_RETRY_PAUSE);
            locked = file.try_lock();
        }
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The process id is only informative; the lock itself decides.
                let _ = file.read_to_string(&mut text);
                return Err(SupervisorLockError::Held { holder: text.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()))
            .map_err(failed)?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_supervisor_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("sandbox")).unwrap();
        let home = Home::open(directory.path(), skillhost_home::HomeSource::Argument).unwrap();
        let first = SupervisorLock::acquire(&home).unwrap();
        let Err(SupervisorLockError::Held { holder }) = SupervisorLock::acquire(&home) else {
            panic!("there are two");
        };
        assert_eq!(holder, Some(std::process::id()));
        assert!(SupervisorLock::is_held(&home));
        drop(first);
        assert!(!SupervisorLock::is_held(&home));
        SupervisorLock::acquire(&home).unwrap();
    }
}
