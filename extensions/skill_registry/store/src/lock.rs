//! One writer at a time, across processes and across copies of the program in one process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::ledger::{LedgerError, LedgerErrorKind};

/// The file whose lock is the ledger.
const LOCK: &str = "lock";

/// The file whose lock lets one wait for the other: whoever has just let go of the ledger has to
/// queue behind those that wait for it.
const TURN: &str = "turn";

/// The pause between two attempts; grows up to the longest.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(4);

/// The lock, held until it is dropped.
///
/// While it is held its file names the holder. A name that is found there by the next holder says
/// that the one before did not come to the end.
#[derive(Debug)]
pub(crate) struct Held {
    file: File,
    /// The process that held it before, if that ended without letting go.
    pub(crate) left_by: Option<String>,
}

impl Held {
    /// Takes the lock of a directory, waiting no longer than told.
    pub(crate) fn take(dir: &Path, wait: Duration) -> Result<Self, LedgerError> {
        let path = dir.join(LOCK);
        let failed = |error| LedgerError::io("locked", &path, &error);
        let until = Instant::now() + wait;
        let turn = open(&dir.join(TURN)).map_err(failed)?;
        let mut file = open(&path).map_err(failed)?;
        let locked = lock(&turn, until).and_then(|turned| Ok(turned && lock(&file, until)?));
        if !locked.map_err(failed)? {
            return Err(busy(&path, &mut file, wait));
        }
        drop(turn);
        let before = name_in(&mut file).map_err(failed)?;
        let name = format!("{}\n", std::process::id());
        // On a full disk the name is missing, and after a crash the next holder looks less closely.
        let told = file.set_len(0).and_then(|()| file.rewind());
        let _ = told.and_then(|()| file.write_all(name.as_bytes()));
        Ok(Self { file, left_by: (!before.is_empty()).then_some(before) })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // If this fails, the next holder looks more closely than it needs to.
        let _ = self.file.set_len(0);
        let _ = self.file.unlock();
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

/// Takes the lock of a file; tells whether that was possible in time.
fn lock(file: &File, until: Instant) -> io::Result<bool> {
    let mut pause = SHORTEST;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => return Ok(false),
            Err(TryLockError::WouldBlock) => thread::sleep(pause),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        pause = (pause * 2).min(LONGEST);
    }
}

/// Returns who is named in the file; a name that is none is what a crash can leave, too.
fn name_in(file: &mut File) -> io::Result<String> {
    let mut name = Vec::new();
    file.rewind()?;
    file.take(20).read_to_end(&mut name)?;
    Ok(String::from_utf8_lossy(&name).trim_end().to_owned())
}

fn busy(path: &Path, file: &mut File, wait: Duration) -> LedgerError {
    // Only the message depends on it.
    let holder = match name_in(file).unwrap_or_default().parse::<u32>() {
        Ok(id) => format!("process {id}"),
        Err(_) => "another process".to_owned(),
    };
    LedgerError::new(
        LedgerErrorKind::Locked,
        format!("{} has been held by {holder} for {} s", path.display(), wait.as_secs_f32()),
        "try again; end that process if it hangs",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_and_the_others_wait_no_longer_than_told() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join(LOCK);
        let wait = Duration::from_millis(20);
        let held = Held::take(temp.path(), wait).unwrap();
        assert_eq!(held.left_by, None);
        let error = Held::take(temp.path(), wait).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "{} has been held by process {} for 0.02 s",
                path.display(),
                std::process::id()
            )
        );
        drop(held);
        assert_eq!(Held::take(temp.path(), wait).unwrap().left_by, None);
    }

    #[test]
    fn a_holder_that_died_is_noticed_once() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join(LOCK), "4711\n").unwrap();
        let left_by = || Held::take(temp.path(), Duration::ZERO).unwrap().left_by.clone();
        assert_eq!(left_by().as_deref(), Some("4711"));
        assert_eq!(left_by(), None);
    }
}
