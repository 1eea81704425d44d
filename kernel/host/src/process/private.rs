//! The copy that a process extension runs in: nobody but the kernel writes there.
//!
//! What was checked is what runs, also when the process is started again hours later. A folder that
//! agents can write to has neither property.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, flock};

use crate::installed::{TreeDigest, TreeError, copy_tree, digest_of};

/// A copy of an extension's files, removed when dropped.
pub(crate) struct PrivateFolder {
    pub(crate) path: PathBuf,
    /// What was copied.
    pub(crate) digest: TreeDigest,
    lock_file: PathBuf,
    /// Held as long as the copy is in use; a process that is killed gives it back.
    _lock: File,
}

impl PrivateFolder {
    /// Copies `source` to a new folder below `place`, and takes what killed kernels left there away.
    pub(crate) fn of(source: &Path, place: &Path) -> Result<Self, TreeError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let failed = |source| TreeError::Io { path: place.to_owned(), source };
        fs::create_dir_all(place).map_err(failed)?;
        // Between a name's making and its lock nobody else may sweep.
        let alone = open(&place.join(".sweep")).map_err(failed)?;
        flock(&alone, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        sweep(place);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        let (path, lock_file) = (place.join(&name), place.join(format!("{name}.lock")));
        let lock = take(&lock_file).map_err(failed)?;
        drop(alone);
        // What has this name and no lock is from a process with this number, long gone.
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let copied = copy_tree(source, &path).and_then(|()| digest_of(&path));
        match copied {
            Ok(digest) => Ok(Self { path, digest, lock_file, _lock: lock }),
            Err(error) => {
                remove(&path, &lock_file);
                Err(error)
            }
        }
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        remove(&self.path, &self.lock_file);
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).write(true).truncate(false).open(path)
}

/// Takes a lock that nobody holds.
fn take(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Removes each copy whose lock nobody holds.
fn sweep(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    let paths = entries.flatten().map(|entry| entry.path());
    for lock_file in paths.filter(|path| path.extension().is_some_and(|e| e == "lock")) {
        // Held until the copy is gone, so that nobody takes the name meanwhile.
        if let Ok(_lock) = take(&lock_file) {
            let path = lock_file.with_extension("");
            super::orphans::end(&path.with_extension("pid"));
            remove(&path, &lock_file);
        }
    }
}

/// What cannot be removed now is swept by a later start.
fn remove(path: &Path, lock_file: &Path) {
    let removed = fs::remove_dir_all(path);
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
    fn a_copy_lives_as_long_as_it_is_used_and_orphans_are_swept() {
        let temp = tempfile::tempdir().unwrap();
        let (source, place) = (temp.path().join("source"), temp.path().join("place"));
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("server.py"), "one").unwrap();
        fs::create_dir_all(place.join("999999-0")).unwrap();
        fs::write(place.join("999999-0.lock"), "").unwrap();

        let first = PrivateFolder::of(&source, &place).unwrap();
        fs::write(source.join("server.py"), "two").unwrap();
        let second = PrivateFolder::of(&source, &place).unwrap();
        assert_eq!(fs::read_to_string(first.path.join("server.py")).unwrap(), "one");
        assert_eq!(fs::read_to_string(second.path.join("server.py")).unwrap(), "two");
        assert_ne!(first.digest, second.digest);
        assert_eq!(names(&place).len(), 4, "each with its lock: {:?}", names(&place));
        assert!(!place.join("999999-0").exists(), "what a killed kernel left is gone");
        drop((first, second));
        assert_eq!(names(&place), Vec::<String>::new());

        std::os::unix::fs::symlink("server.py", source.join("link")).unwrap();
        assert!(PrivateFolder::of(&source, &place).is_err());
        assert_eq!(names(&place), Vec::<String>::new(), "a failed copy leaves nothing");
    }
}
