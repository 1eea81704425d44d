//! The locks of a home's processes: of its running kernel and of the supervisor of that kernel.
//!
//! The system releases a lock when its process ends, even after a crash.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use skillhost_files::{create_private_dir, open_append};
use skillhost_home::Home;

/// The exit code of a kernel that requests its restart.
pub const RESTART_CODE: u8 = 75;

/// The variable that names a kernel's supervisor process.
pub const SUPERVISED: &str = "SKILLHOST_SUPERVISED";

/// The file that the supervisor of a home's kernel locks; it contains the supervisor's process id.
const SUPERVISOR_FILE: &str = "supervisor.lock";

/// The file that the running kernel of a home locks; it contains the kernel's process id.
const KERNEL_FILE: &str = "kernel.lock";

/// The number of further attempts to take a held lock, and the pause between them.
const MAX_LOCK_RETRIES: u32 = 3;
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The most bytes of a lock file that are read: a process id and a line break.
const MAX_HOLDER_BYTES: u64 = 32;

/// A lock that makes this process the supervisor of a home's kernel, until it is dropped.
#[derive(Debug)]
pub struct SupervisorLock {
    _file: File,
}

/// A lock that makes this process the running kernel of a home, until it is dropped.
#[derive(Debug)]
pub struct KernelLock {
    _file: File,
}

/// An error returned when a process may not supervise the kernel of a home.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorLockError {
    /// Another process holds the lock.
    #[error("kernel of this home is already supervised{}", format_holder(*holder, ", by process"))]
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

/// An error returned when a process may not be the running kernel of a home.
#[derive(Debug, thiserror::Error)]
pub enum KernelLockError {
    /// Another kernel runs for the home.
    #[error("skillhost already runs for {}{}", home.display(), format_holder(*holder, ", as process"))]
    Held {
        /// The home.
        home: PathBuf,
        /// The id of its process, if it has written one.
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

/// The holder of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockHolder {
    /// The id of the process, if it has written one; only informative, the lock itself decides.
    pub pid: Option<u32>,
}

impl SupervisorLock {
    /// Returns whether a process supervises the kernel of a home, even if the kernel is not running
    /// yet.
    #[must_use]
    pub fn is_held(home: &Home) -> bool {
        Self::holder(home).is_some()
    }

    /// Returns the process that supervises the kernel of a home, or `None` if none does.
    #[must_use]
    pub fn holder(home: &Home) -> Option<LockHolder> {
        find_holder(&lock_path(home, SUPERVISOR_FILE))
    }

    /// Makes this process the supervisor of a home's kernel.
    ///
    /// # Errors
    /// [`SupervisorLockError`].
    pub fn acquire(home: &Home) -> Result<Self, SupervisorLockError> {
        let path = lock_path(home, SUPERVISOR_FILE);
        match acquire_file(&path) {
            Ok(LockAttempt::Acquired(file)) => Ok(Self { _file: file }),
            Ok(LockAttempt::Held(holder)) => Err(SupervisorLockError::Held { holder: holder.pid }),
            Err(source) => Err(SupervisorLockError::Io { path, source }),
        }
    }
}

impl KernelLock {
    /// Returns the process of the kernel that runs for a home, or `None` if none runs. A kernel that
    /// starts or shuts down counts as running.
    #[must_use]
    pub fn holder(home: &Home) -> Option<LockHolder> {
        find_holder(&lock_path(home, KERNEL_FILE))
    }

    /// Makes this process the running kernel of a home.
    ///
    /// # Errors
    /// [`KernelLockError`].
    pub fn acquire(home: &Home) -> Result<Self, KernelLockError> {
        let path = lock_path(home, KERNEL_FILE);
        match acquire_file(&path) {
            Ok(LockAttempt::Acquired(file)) => Ok(Self { _file: file }),
            Ok(LockAttempt::Held(LockHolder { pid: holder })) => {
                Err(KernelLockError::Held { home: home.root().to_owned(), holder })
            }
            Err(source) => Err(KernelLockError::Io { path, source }),
        }
    }
}

fn lock_path(home: &Home, file: &str) -> PathBuf {
    home.data_dir("kernel").join(file)
}

fn format_holder(holder: Option<u32>, words: &str) -> String {
    holder.map(|id| format!("{words} {id}")).unwrap_or_default()
}

/// The result of an attempt to lock a file.
enum LockAttempt {
    Acquired(File),
    Held(LockHolder),
}

/// Returns the process that holds the lock of a file, or `None` if none does.
fn find_holder(path: &Path) -> Option<LockHolder> {
    // Non-blocking: the file of a home that is not trusted may be a pipe.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A missing file is not locked.
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return None;
    }
    // A shared lock: two checks at once must not see each other as the holder.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(read_holder(&mut file)),
        _ => None,
    }
}

fn read_holder(file: &mut File) -> LockHolder {
    let mut text = String::new();
    // A process that has just acquired the lock may not have written its id yet.
    let _ = file.take(MAX_HOLDER_BYTES).read_to_string(&mut text);
    LockHolder { pid: text.trim().parse().ok() }
}

/// Locks a file and writes the id of this process to it.
fn acquire_file(path: &Path) -> io::Result<LockAttempt> {
    path.parent().map_or(Ok(()), create_private_dir)?;
    // An existing file keeps its owner and mode, and is not truncated before the lock is held.
    let opened = match open_append(path, true) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_append(path, false),
        opened => opened,
    };
    let mut file = opened?;
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
        Err(TryLockError::WouldBlock) => return Ok(LockAttempt::Held(read_holder(&mut file))),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("{}\n", std::process::id()).as_bytes())?;
    Ok(LockAttempt::Acquired(file))
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

    #[test]
    fn running_kernel_is_named() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("sandbox")).unwrap();
        let home = Home::open(directory.path(), skillhost_home::HomeSource::Argument).unwrap();
        assert_eq!(KernelLock::holder(&home), None);
        let first = KernelLock::acquire(&home).unwrap();
        let own = Some(std::process::id());
        assert_eq!(KernelLock::holder(&home), Some(LockHolder { pid: own }));
        let error = KernelLock::acquire(&home).unwrap_err();
        let expected = format!(
            "skillhost already runs for {}, as process {}",
            home.root().display(),
            std::process::id()
        );
        assert_eq!(error.to_string(), expected);
        // The two roles of a home have locks of their own.
        SupervisorLock::acquire(&home).unwrap();
        drop(first);
        assert_eq!(KernelLock::holder(&home), None);
    }

    #[test]
    fn hostile_lock_file_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("sandbox/data/kernel");
        std::fs::create_dir_all(&data).unwrap();
        let home = Home::open(directory.path(), skillhost_home::HomeSource::Argument).unwrap();
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, data.join(KERNEL_FILE), mode).unwrap();
        assert_eq!(KernelLock::holder(&home), None);
        let real = std::fs::File::create(data.join("real")).unwrap();
        real.lock().unwrap();
        std::os::unix::fs::symlink("real", data.join(SUPERVISOR_FILE)).unwrap();
        assert_eq!(SupervisorLock::holder(&home), None);
    }
}
