//! The one way the kernel writes a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Replaces a file whole: a temporary file beside it, fsync, rename, fsync of the directory.
///
/// # Errors
/// The system's error; the file then is what it was.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, None)
}

/// As [`write_atomically`], and nobody but its owner may read or write the file.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, Some(0o600))
}

/// As [`write_atomically`], and only its owner may write the file, whatever the umask allows.
pub(crate) fn write_owned(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, Some(0o644))
}

fn replace(path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".{name}.{}-{number}.tmp", std::process::id()));
    let written = write_new(&temporary, bytes, mode).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The original error is the one worth reporting.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    File::open(folder)?.sync_all()
}

fn write_new(path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if let Some(mode) = mode {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    }
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_stays_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_atomically(&folder.path().join("no/file"), b"x").is_err());
    }
}
