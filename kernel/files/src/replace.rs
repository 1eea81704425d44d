//! Atomic replacement of a file, only over the bytes that were read.

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use cap_fs_ext::{FollowSymlinks, MetadataExt as _, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use crate::synced::sync_file;
use crate::temporary;

/// An error of a replacement; the file is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// The file no longer has the bytes that were read.
    #[error("{path} has changed since it was read", path = path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The path leads to a symbolic link or to another entry that is not a regular file.
    #[error("{path} is not a regular file", path = path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// The system failed, or the file may not be written.
    #[error("{path} cannot be replaced: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Replaces a file if it still has the bytes that were read.
///
/// A reader sees the old text or the new one, also after a crash. The new text is a new file with
/// the permissions of the old one, and with its owner if the process may change owners; a hard link
/// to the old file keeps the old text. A write between the last check of the file and its
/// replacement, a few microseconds, is not detected.
///
/// # Errors
/// [`ReplaceError::Changed`] if the bytes are not `expected`, [`ReplaceError::NotRegular`] if the
/// path itself is a symbolic link (links above it are followed), [`ReplaceError::Io`] if the file
/// cannot be read or written; a file without write permission is left alone.
pub fn replace_file(path: &Path, expected: &[u8], new: &[u8]) -> Result<(), ReplaceError> {
    replace(path, expected, new).map_err(|refusal| {
        let path = path.to_owned();
        match refusal {
            ReplaceErrorKind::Changed => ReplaceError::Changed { path },
            ReplaceErrorKind::NotRegular => ReplaceError::NotRegular { path },
            ReplaceErrorKind::Io(source) => ReplaceError::Io { path, source },
        }
    })
}

/// A [`ReplaceError`] that need not name the file.
enum ReplaceErrorKind {
    Changed,
    NotRegular,
    Io(io::Error),
}

impl From<io::Error> for ReplaceErrorKind {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn replace(path: &Path, expected: &[u8], new: &[u8]) -> Result<(), ReplaceErrorKind> {
    let name = path.file_name().ok_or(ReplaceErrorKind::NotRegular)?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // From here on names are looked up in this one directory, wherever it is moved.
    let dir = Dir::open_ambient_dir(parent, ambient_authority())?;
    let (file, before) = open(&dir, name)?;
    let mut bytes = Vec::with_capacity(expected.len() + 1);
    // One byte more shows a file that is longer than the expected text.
    file.take(expected.len() as u64 + 1).read_to_end(&mut bytes)?;
    if bytes != expected {
        return Err(ReplaceErrorKind::Changed);
    }
    // A rename ignores the mode of the file, so its write protection is checked here.
    if before.permissions().readonly() {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied).into());
    }
    // A leftover file does no harm: the next writer in the directory removes it.
    let _ = temporary::sweep(&dir, false);
    let temporary = temporary::unique_temporary_name();
    let written =
        write(&dir, &temporary, &before, new).map_err(ReplaceErrorKind::Io).and_then(|()| {
            // The last moment to detect a concurrent write.
            if !is_same_file(&before, &dir.symlink_metadata(name)?)? {
                return Err(ReplaceErrorKind::Changed);
            }
            Ok(dir.rename(&temporary, &dir, name)?)
        });
    if written.is_err() {
        // The first error is returned; an error of the cleanup would only hide it.
        let _ = dir.remove_file(&temporary);
        return written;
    }
    // The name is only safe once the directory is.
    #[cfg(unix)]
    sync_file(&dir.open(".")?.into_std())?;
    Ok(())
}

fn open(dir: &Dir, name: &OsStr) -> Result<(File, Metadata), ReplaceErrorKind> {
    let mut options = OpenOptions::new();
    // Non-blocking, because opening a FIFO would wait for a writer.
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = dir.open_with(name, &options).map_err(|error| match dir.symlink_metadata(name) {
        Ok(metadata) if !metadata.is_file() => ReplaceErrorKind::NotRegular,
        _ => ReplaceErrorKind::Io(error),
    })?;
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((file, metadata)) } else { Err(ReplaceErrorKind::NotRegular) }
}

fn write(dir: &Dir, temporary: &str, old: &Metadata, new: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // `create_new` does not follow a link that waits under this name.
    options.write(true).create_new(true);
    let mut file = dir.open_with(temporary, &options)?;
    file.write_all(new)?;
    #[cfg(unix)]
    {
        use cap_std::fs::MetadataExt as _;
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
            // Only root may change owners; for other users the new text matters more than its
            // owner.
            let _ = std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()));
        }
    }
    file.set_permissions(old.permissions())?;
    // The content has to be on the disk before the rename makes it visible.
    sync_file(&file.into_std())
}

/// Returns whether a name still refers to the file that was read, without a write since.
fn is_same_file(read: &Metadata, now: &Metadata) -> io::Result<bool> {
    let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino(), metadata.len());
    Ok(identity(read) == identity(now) && read.modified()? == now.modified()?)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;

    use super::*;

    fn names(dir: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn replacement_leaves_no_other_file() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("SKILL.md");
        fs::write(&path, "old").unwrap();
        replace_file(&path, b"old", b"newer").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"newer");
        assert_eq!(names(temp.path()), ["SKILL.md"]);
    }

    #[test]
    fn changed_file_is_not_replaced() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("SKILL.md");
        for now in ["old and more", "ol", "", "OLD"] {
            fs::write(&path, now).unwrap();
            let error = replace_file(&path, b"old", b"new").unwrap_err();
            assert!(matches!(error, ReplaceError::Changed { .. }), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), now);
            assert_eq!(names(temp.path()), ["SKILL.md"]);
        }
        assert_eq!(
            replace_file(&path, b"old", b"new").unwrap_err().to_string(),
            format!("{} has changed since it was read", path.display())
        );
    }

    #[test]
    fn other_or_rewritten_file_differs() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).unwrap();
        let look = |name| dir.symlink_metadata(name).unwrap();
        dir.write("a", "text").unwrap();
        dir.write("b", "text").unwrap();
        let stamp = fs::metadata(temp.path().join("a")).unwrap().modified().unwrap();
        let restamp = |by| {
            let file = fs::File::options().write(true).open(temp.path().join("a")).unwrap();
            file.set_modified(stamp + std::time::Duration::from_millis(by)).unwrap();
        };
        let before = look("a");
        assert!(is_same_file(&before, &look("a")).unwrap());
        assert!(!is_same_file(&before, &look("b")).unwrap());
        restamp(5);
        assert!(!is_same_file(&before, &look("a")).unwrap());
        dir.write("a", "longer").unwrap();
        restamp(0);
        assert!(!is_same_file(&before, &look("a")).unwrap());
    }

    #[test]
    fn missing_path_is_io_error() {
        let temp = tempfile::tempdir().unwrap();
        for path in ["SKILL.md", "gone/SKILL.md"] {
            let error = replace_file(&temp.path().join(path), b"", b"new").unwrap_err();
            assert!(
                matches!(&error, ReplaceError::Io { source, .. }
                    if source.kind() == io::ErrorKind::NotFound),
                "{error}"
            );
        }
        assert_eq!(names(temp.path()), [""; 0]);
    }

    #[cfg(unix)]
    mod unix {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

        use super::*;

        #[test]
        fn replacement_preserves_mode() {
            let temp = tempfile::tempdir().unwrap();
            let path = temp.path().join("SKILL.md");
            for mode in [0o600, 0o644, 0o755, 0o666] {
                fs::write(&path, "old").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                replace_file(&path, b"old", b"new").unwrap();
                assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
            }
        }

        #[test]
        fn readonly_file_is_not_replaced() {
            let temp = tempfile::tempdir().unwrap();
            let path = temp.path().join("SKILL.md");
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
            let error = replace_file(&path, b"old", b"new").unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{} cannot be replaced: permission denied", path.display())
            );
            assert_eq!(fs::read(&path).unwrap(), b"old");
            assert_eq!(names(temp.path()), ["SKILL.md"]);
        }

        #[test]
        fn symlink_is_not_replaced() {
            let temp = tempfile::tempdir().unwrap();
            let target = temp.path().join("target");
            fs::write(&target, "old").unwrap();
            let link = temp.path().join("SKILL.md");
            symlink("target", &link).unwrap();
            let dangling = temp.path().join("skill.md");
            symlink("nowhere", &dangling).unwrap();
            for path in [&link, &dangling, &temp.path().to_owned()] {
                let error = replace_file(path, b"old", b"new").unwrap_err();
                assert!(matches!(error, ReplaceError::NotRegular { .. }), "{error}");
            }
            assert_eq!(fs::read(&target).unwrap(), b"old");
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        }

        #[test]
        fn fifo_does_not_block_replacement() {
            let temp = tempfile::tempdir().unwrap();
            let path = temp.path().join("SKILL.md");
            let mode = rustix::fs::Mode::RUSR;
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
                .unwrap();
            let error = replace_file(&path, b"", b"new").unwrap_err();
            assert!(matches!(error, ReplaceError::NotRegular { .. }), "{error}");
        }

        #[test]
        fn linked_directory_is_followed() {
            let temp = tempfile::tempdir().unwrap();
            fs::create_dir(temp.path().join("real")).unwrap();
            fs::write(temp.path().join("real/SKILL.md"), "old").unwrap();
            symlink("real", temp.path().join("link")).unwrap();
            replace_file(&temp.path().join("link/SKILL.md"), b"old", b"new").unwrap();
            assert_eq!(fs::read(temp.path().join("real/SKILL.md")).unwrap(), b"new");
        }
    }
}
