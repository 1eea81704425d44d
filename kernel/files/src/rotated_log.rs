//! Log files of bounded size: full files are renamed, and the oldest one is removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::path_suffix::with_suffix;
use crate::private_dir::create_private_dir;

/// The limits of a rotated log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// The length at which a file is renamed, in bytes. One longer line has a file of its own.
    pub max_bytes: u64,
    /// The number of files, with the one that is written.
    pub max_files: u32,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { max_bytes: 4 * 1024 * 1024, max_files: 5 }
    }
}

/// A log of lines in files of bounded size: `NAME`, and the earlier `NAME.1`, `NAME.2` and so on.
///
/// Each write is a number of complete lines, which never are in two files. Writes are not synced: a
/// crash of the machine loses the last ones. One process at a time writes a log.
#[derive(Debug)]
pub struct RotatedLog {
    path: PathBuf,
    limits: LogLimits,
    file: File,
    length: u64,
}

impl RotatedLog {
    /// Opens a log or creates it, readable only for its owner, with its directory. A partial last
    /// line of a killed process is completed.
    ///
    /// # Errors
    /// The system's error; [`io::ErrorKind::InvalidInput`] for a path that leads to another entry
    /// than a regular file.
    pub fn open(path: &Path, limits: LogLimits) -> io::Result<Self> {
        path.parent().map_or(Ok(()), create_private_dir)?;
        let (mut file, mut length) = open_file(path)?;
        if length > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                length += 1;
            }
        }
        Ok(Self { path: path.to_owned(), limits, file, length })
    }

    /// Renames the files, so that the next write begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.limits.max_files).rev() {
            let older = numbered_path(&self.path, number);
            let newer = match number {
                1 => self.path.clone(),
                number => numbered_path(&self.path, number - 1),
            };
            match fs::rename(newer, older) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if self.limits.max_files <= 1 {
            fs::remove_file(&self.path)?;
        }
        (self.file, self.length) = open_file(&self.path)?;
        Ok(())
    }
}

impl Write for RotatedLog {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let added = lines.len() as u64;
        if self.length > 0 && self.length + added > self.limits.max_bytes {
            self.rotate()?;
        }
        self.file.write_all(lines)?;
        self.length += added;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns the existing files of a log, the oldest one first.
#[must_use]
pub fn rotated_files(path: &Path, limits: LogLimits) -> Vec<PathBuf> {
    let earlier = (1..limits.max_files).rev().map(|number| numbered_path(path, number));
    earlier.chain([path.to_owned()]).filter(|path| path.symlink_metadata().is_ok()).collect()
}

fn numbered_path(path: &Path, number: u32) -> PathBuf {
    with_suffix(path, &format!(".{number}"))
}

fn open_file(path: &Path) -> io::Result<(File, u64)> {
    // Without `O_NONBLOCK`, a pipe in place of the log would block.
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    options.append(true).read(true).create(true).mode(0o600).custom_flags(flags);
    let file = options.open(path)?;
    let found = file.metadata()?;
    match found.is_file() {
        true => Ok((file, found.len())),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const LIMITS: LogLimits = LogLimits { max_bytes: 10, max_files: 3 };

    fn contents(path: &Path) -> Vec<String> {
        rotated_files(path, LIMITS).iter().map(|path| fs::read_to_string(path).unwrap()).collect()
    }

    #[test]
    fn full_files_are_renamed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logs/kernel.log");
        let mut log = RotatedLog::open(&path, LIMITS).unwrap();
        for number in 0..8 {
            log.write_all(format!("line{number}\n").as_bytes()).unwrap();
        }
        assert_eq!(contents(&path), ["line5\n", "line6\n", "line7\n"]);
        log.write_all(b"a line above the limit\n").unwrap();
        log.write_all(b"x\n").unwrap();
        assert_eq!(contents(&path), ["line7\n", "a line above the limit\n", "x\n"]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn partial_line_is_completed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kernel.log");
        fs::write(&path, "half").unwrap();
        RotatedLog::open(&path, LogLimits::default()).unwrap().write_all(b"next\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "half\nnext\n");
    }

    #[test]
    fn linked_log_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kernel.log");
        fs::write(directory.path().join("other"), "mine\n").unwrap();
        std::os::unix::fs::symlink("other", &path).unwrap();
        assert!(RotatedLog::open(&path, LIMITS).is_err());
        assert_eq!(fs::read_to_string(directory.path().join("other")).unwrap(), "mine\n");
    }
}
