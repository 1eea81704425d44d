//! The calls on Unix.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{self as sys, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{DirectoryListing, FileKind, FileStat};
use crate::signature::FileSignature;

/// An open root directory.
#[derive(Debug)]
pub(crate) struct RootDir(OwnedFd);

impl RootDir {
    /// Opens a root. Links in the path of the root itself are the operator's and are followed.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(sys::open(path, flags, Mode::empty())?))
    }

    /// Examines a path below the root; an empty path is the root.
    pub(crate) fn stat(&self, rel: &str) -> io::Result<FileStat> {
        let stat = if rel.is_empty() {
            sys::fstat(&self.0)?
        } else {
            sys::statat(&self.0, rel, AtFlags::SYMLINK_NOFOLLOW)?
        };
        Ok(convert(&stat))
    }

    /// Opens any entry below the root for reading, without blocking.
    pub(crate) fn open_file(&self, rel: &str) -> io::Result<File> {
        self.open_beneath(rel, OFlags::RDONLY | OFlags::NONBLOCK).map(File::from)
    }

    /// Lists a directory below the root; an empty path is the root.
    pub(crate) fn list(&self, rel: &str) -> io::Result<DirectoryListing> {
        let rel = if rel.is_empty() { "." } else { rel };
        let fd = self.open_beneath(rel, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut listing = DirectoryListing::default();
        for entry in sys::Dir::new(fd)? {
            let entry = entry?;
            let kind = kind(entry.file_type());
            match utf8(entry.file_name()) {
                Ok("." | "..") => {}
                Ok(name) => listing.push(name, kind),
                Err(name) => listing.push_not_utf8(name.to_owned(), kind),
            }
        }
        Ok(listing.sorted())
    }

    fn open_beneath(&self, rel: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        #[cfg(target_os = "linux")]
        {
            use sys::ResolveFlags;
            static MISSING: AtomicBool = AtomicBool::new(false);
            let resolve =
                ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            // The kernel answers EAGAIN while something above the file is being renamed.
            for _ in 0..4 {
                if MISSING.load(Ordering::Relaxed) {
                    break;
                }
                match sys::openat2(&self.0, rel, flags, Mode::empty(), resolve) {
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(Errno::NOSYS) => MISSING.store(true, Ordering::Relaxed),
                    // Sandboxes that do not know the call refuse it.
                    Err(Errno::PERM) => break,
                    answer => return Ok(answer?),
                }
            }
        }
        self.open_stepwise(rel, flags)
    }

    /// Opens one component after the other, so that no link is followed on the way.
    fn open_stepwise(&self, rel: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let step = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (parents, last) = rel.rsplit_once('/').unwrap_or(("", rel));
        let mut dir: Option<OwnedFd> = None;
        for component in parents.split('/').filter(|component| !component.is_empty()) {
            let at = dir.as_ref().unwrap_or(&self.0);
            dir = Some(sys::openat(at, component, step, Mode::empty())?);
        }
        let at = dir.as_ref().unwrap_or(&self.0);
        Ok(sys::openat(at, last, flags, Mode::empty())?)
    }
}

/// Examines an open file.
pub(crate) fn stat_file(file: &File) -> io::Result<FileStat> {
    Ok(convert(&sys::fstat(file)?))
}

fn utf8(name: &CStr) -> Result<&str, &OsStr> {
    name.to_str().map_err(|_| OsStr::from_bytes(name.to_bytes()))
}

fn kind(file_type: FileType) -> FileKind {
    match file_type {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => FileKind::Device,
        FileType::Unknown => FileKind::Unknown,
    }
}

// The widths and signs of `struct stat` differ between platforms, so every conversion is explicit
// although some are no-ops here.
#[expect(clippy::unnecessary_cast, reason = "the field types differ between platforms")]
fn convert(stat: &sys::Stat) -> FileStat {
    let nanos = |s: i64, ns: i64| s.wrapping_mul(1_000_000_000).wrapping_add(ns);
    FileStat {
        kind: kind(FileType::from_raw_mode(stat.st_mode as _)),
        signature: FileSignature {
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            size: stat.st_size as u64,
            mtime_ns: nanos(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            ctime_ns: nanos(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            mode: stat.st_mode as u32,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_open_calls_reject_links() {
        let temp = tempfile::tempdir().unwrap();
        let inside = temp.path().join("root/a/b");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(inside.join("f"), "text").unwrap();
        std::fs::write(temp.path().join("outside"), "secret").unwrap();
        std::os::unix::fs::symlink("b", temp.path().join("root/a/link")).unwrap();
        std::os::unix::fs::symlink("../outside", temp.path().join("root/out")).unwrap();
        let root = RootDir::open(&temp.path().join("root")).unwrap();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for rel in ["a/link/f", "a/link", "out"] {
            assert!(root.open_beneath(rel, flags).is_err(), "{rel}");
            assert!(root.open_stepwise(rel, flags).is_err(), "{rel}");
        }
        assert!(root.open_beneath("../outside", flags).is_err());
        for fd in [root.open_beneath("a/b/f", flags), root.open_stepwise("a/b/f", flags)] {
            assert_eq!(io::read_to_string(File::from(fd.unwrap())).unwrap(), "text");
        }
    }
}
