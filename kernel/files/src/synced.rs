//! Files and directories that are synchronized to disk before they get their final names.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Panics in debug builds if the thread runs the tasks of an async runtime: a write that waits for
/// the disk would delay them all. Blocking threads of a runtime are fine.
#[track_caller]
pub fn assert_may_block() {
    // A lock of tokio knows whether its thread is one of those, even for a runtime of its own in an
    // extension's library.
    if cfg!(debug_assertions) {
        drop(tokio::sync::Mutex::new(()).blocking_lock());
    }
}

/// Synchronizes the content and the metadata of a file to disk.
///
/// # Errors
/// The system's error.
#[track_caller]
pub fn sync_file(file: &File) -> io::Result<()> {
    assert_may_block();
    file.sync_all()
}

/// Synchronizes the content of a file to disk, with its length and without other metadata, which
/// would cost more.
#[track_caller]
pub(crate) fn sync_file_data(file: &File) -> io::Result<()> {
    assert_may_block();
    file.sync_data()
}

/// Writes a new file and synchronizes its content to disk; on Unix with `mode`, less the umask.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`], or another error of the system. The file may then be
/// incomplete.
pub fn write_new_file(path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if let Some(mode) = mode {
        // Set at creation: a later change of mode would leave the file readable for a moment.
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    }
    #[cfg(not(unix))]
    let _ = mode;
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    // Before a rename: otherwise a power loss could leave an empty file under the final name.
    sync_file(&file)
}

/// Synchronizes the entries of a directory to disk.
///
/// # Errors
/// The system's error.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    sync_file(&File::open(path)?)?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Synchronizes the entries of a directory and of every directory below it to disk.
///
/// # Errors
/// The system's first error.
pub fn sync_tree(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        }
    }
    sync_directory(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_file_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        write_new_file(&path, b"one", Some(0o600)).unwrap();
        let error = write_new_file(&path, b"two", None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        sync_tree(directory.path()).unwrap();
        assert!(sync_tree(&path).is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn runtime_worker_must_not_sync() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        let sync = move || sync_directory(&path);
        let on_worker = tokio::spawn({
            let sync = sync.clone();
            async move { sync() }
        });
        assert_eq!(on_worker.await.is_err_and(|error| error.is_panic()), cfg!(debug_assertions));
        tokio::task::spawn_blocking(sync.clone()).await.unwrap().unwrap();
        tokio::spawn(async move { tokio::task::block_in_place(sync) }).await.unwrap().unwrap();
    }
}
