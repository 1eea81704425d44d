//! Reads of unreviewed files: within a limit, and only regular files.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};

/// The treatment of a symbolic link in place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkPolicy {
    /// The link may lead to any regular file.
    Follow,
    /// A link is an error.
    Refuse,
}

/// Reads a regular file of at most `limit` bytes.
///
/// Does not wait for a FIFO or a device: only a regular file is opened, and without blocking.
///
/// # Errors
/// The system's error; [`io::ErrorKind::InvalidInput`] for a rejected link and for a file that is
/// not a regular one, [`io::ErrorKind::FileTooLarge`] above the limit.
pub fn read_limited(path: &Path, limit: u64, links: LinkPolicy) -> io::Result<Vec<u8>> {
    read_open_file(open_regular_file(path, links)?, limit)
}

/// Reads the start of a regular file, at most `limit` bytes; otherwise as [`read_limited`].
///
/// # Errors
/// As [`read_limited`].
pub fn read_beginning(path: &Path, limit: u64, links: LinkPolicy) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular_file(path, links)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file without waiting for it.
fn open_regular_file(path: &Path, links: LinkPolicy) -> io::Result<File> {
    // The open of a FIFO must not block, and a terminal must not become the controlling one.
    let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    // Opening a device can have an effect, so the kind is also checked before.
    let before = match links {
        LinkPolicy::Follow => fs::metadata(path)?,
        LinkPolicy::Refuse => {
            flags |= OFlags::NOFOLLOW;
            fs::symlink_metadata(path)?
        }
    };
    check_kind(&before)?;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    // The entry may have been replaced between the check and the open.
    check_kind(&file.metadata()?)?;
    Ok(file)
}

/// Reads a regular file below a directory as [`read_limited`] does, and does not follow links
/// between that directory and the file. `relative` has only plain components.
///
/// # Errors
/// As [`read_limited`].
pub fn read_limited_below(base: &Path, relative: &str, limit: u64) -> io::Result<Vec<u8>> {
    let step = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = rustix::fs::open(base, step, Mode::empty())?;
    let mut path = base.to_owned();
    let (parents, name) = relative.rsplit_once('/').unwrap_or(("", relative));
    for component in parents.split('/').filter(|component| !component.is_empty()) {
        path.push(component);
        // Without this check a link would be reported as `ENOTDIR`.
        if fs::symlink_metadata(&path)?.is_symlink() {
            return Err(link_error());
        }
        dir = openat(&dir, component, step | OFlags::NOFOLLOW, Mode::empty())?;
    }
    path.push(name);
    check_kind(&fs::symlink_metadata(&path)?)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(&dir, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    read_open_file(File::from(file), limit)
}

fn check_kind(found: &fs::Metadata) -> io::Result<()> {
    if found.is_symlink() {
        return Err(link_error());
    }
    if found.is_dir() {
        return Err(io::Error::from_raw_os_error(rustix::io::Errno::ISDIR.raw_os_error()));
    }
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(())
}

/// Reads an open file. Its metadata are read again, because they may have changed since the check
/// by name.
fn read_open_file(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let found = file.metadata()?;
    check_kind(&found)?;
    let too_large = |bytes: u64| {
        let message = format!("the file has {bytes} bytes, at most {limit} are read");
        io::Error::new(io::ErrorKind::FileTooLarge, message)
    };
    if found.len() > limit {
        return Err(too_large(found.len()));
    }
    let mut bytes = Vec::new();
    // Files of /proc have the length 0, and other files grow during the read.
    let read = file.take(limit + 1).read_to_end(&mut bytes)? as u64;
    if read > limit { Err(too_large(read)) } else { Ok(bytes) }
}

fn link_error() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a symbolic link, not a regular file")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn special_files_are_rejected_without_wait() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, Mode::RUSR, 0).unwrap();
        let zero = dir.path().join("zero");
        symlink("/dev/zero", &zero).unwrap();
        for path in [&fifo, &zero, Path::new("/dev/zero")] {
            let error = read_limited(path, 10, LinkPolicy::Follow).unwrap_err();
            assert_eq!(error.to_string(), "not a regular file", "{}", path.display());
        }
        let error = read_limited_below(dir.path(), "fifo", 10).unwrap_err();
        assert_eq!(error.to_string(), "not a regular file");
    }

    #[test]
    fn large_files_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_limited(&path, 5, LinkPolicy::Refuse).unwrap(), b"12345");
        let error = read_limited(&path, 4, LinkPolicy::Refuse).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read_limited(&path, 4, LinkPolicy::Follow).unwrap_err();
        assert_eq!(error.to_string(), "the file has 1099511627776 bytes, at most 4 are read");
        // The file system reports a length of 0.
        let error = read_limited(Path::new("/proc/self/status"), 4, LinkPolicy::Follow);
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn links_are_followed_only_where_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("a/b");
        fs::create_dir_all(&inside).unwrap();
        fs::write(inside.join("file"), "text").unwrap();
        symlink("b", dir.path().join("a/link")).unwrap();
        symlink("file", inside.join("other")).unwrap();
        let read = |relative: &str| read_limited_below(dir.path(), relative, 10);
        assert_eq!(read("a/b/file").unwrap(), b"text");
        for relative in ["a/link/file", "a/b/other"] {
            let error = read(relative).unwrap_err();
            assert!(error.to_string().starts_with("a symbolic link"), "{relative}: {error}");
        }
        let other = inside.join("other");
        assert_eq!(read_limited(&other, 10, LinkPolicy::Follow).unwrap(), b"text");
        assert!(read_limited(&other, 10, LinkPolicy::Refuse).is_err());
        assert_eq!(read("a/none").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read("none/file").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
