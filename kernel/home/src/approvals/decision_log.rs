//! Files of decisions: one JSON line each, appended under a lock and never changed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use skillhost_files::{create_private_dir, split_complete_lines, sync_directory, sync_file};

use super::error::ApprovalsError;

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// A line of a file of decisions.
pub(super) trait Decision: Serialize + DeserializeOwned {
    /// The version that this program writes, and the newest that it reads.
    const NEWEST: u32;

    /// Returns the version of the line's format.
    fn version(&self) -> u32;
}

/// The decisions of a file, oldest first.
#[derive(Debug, Clone)]
pub(super) struct DecisionLines<T> {
    pub(super) records: Vec<T>,
    /// The last line is incomplete and does not count.
    pub(super) torn: bool,
    /// The bytes of the complete lines.
    length: usize,
}

impl<T: Decision> DecisionLines<T> {
    /// Reads a file. A missing one is empty.
    pub(super) fn load(path: &Path) -> Result<Self, ApprovalsError> {
        let mut options = OpenOptions::new();
        // A link must not redirect the file, and a FIFO must not block the start.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        match options.read(true).custom_flags(flags.cast_signed()).open(path) {
            Ok(mut file) => {
                // Waits for a line that is being appended.
                flock(&file, FlockOperation::LockShared)
                    .map_err(|error| io_error(path, error.into()))?;
                Self::parse(path, &read_limited(&mut file, path)?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Self { records: Vec::new(), torn: false, length: 0 })
            }
            Err(error) => Err(io_error(path, error)),
        }
    }

    /// Appends a record to a file in a private directory; it is on disk when this returns. `repeats`
    /// is asked whether the current records make it superfluous.
    pub(super) fn append(
        dir: &Path,
        name: &str,
        record: &T,
        repeats: impl FnOnce(&[T]) -> bool,
    ) -> Result<(), ApprovalsError> {
        let path = dir.join(name);
        let io = |error| io_error(&path, error);
        create_private_dir(dir).map_err(io)?;
        let mut options = OpenOptions::new();
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        options.read(true).append(true).create(true).mode(0o600).custom_flags(flags.cast_signed());
        let mut file = options.open(&path).map_err(io)?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| io(error.into()))?;
        // Read again under the lock: another process may have appended.
        let lines = Self::parse(&path, &read_limited(&mut file, &path)?)?;
        if repeats(&lines.records) {
            return Ok(());
        }
        let length = lines.length as u64;
        if lines.torn {
            // An incomplete line would merge with the new one.
            file.set_len(length).map_err(io)?;
        }
        let mut line = serde_json::to_vec(record).map_err(|error| io(error.into()))?;
        line.push(b'\n');
        let written = file
            .write_all(&line)
            .and_then(|()| sync_file(&file))
            // The directory entry of a new file is durable only after its directory is synced.
            .and_then(|()| sync_directory(dir));
        if written.is_err() {
            // A line that cannot be removed is torn, or the caller revokes it.
            let _ = file.set_len(length).and_then(|()| sync_file(&file));
        }
        written.map_err(io)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, ApprovalsError> {
        let (lines, length) = split_complete_lines(bytes);
        let mut records = Vec::with_capacity(lines.len());
        for (number, line) in lines.into_iter().enumerate() {
            let damaged = |reason: String| {
                let path: PathBuf = path.to_owned();
                ApprovalsError::Damaged { path, line: number + 1, reason }
            };
            let record: T =
                serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))?;
            if record.version() > T::NEWEST {
                return Err(damaged(format!("version {} is unknown", record.version())));
            }
            records.push(record);
        }
        Ok(Self { records, torn: length < bytes.len(), length })
    }
}

fn io_error(path: &Path, source: io::Error) -> ApprovalsError {
    ApprovalsError::Io { path: path.to_owned(), source }
}

fn read_limited(file: &mut File, path: &Path) -> Result<Vec<u8>, ApprovalsError> {
    let mut bytes = Vec::new();
    let regular = file.metadata().map_err(|error| io_error(path, error))?.is_file();
    if !regular {
        return Err(io_error(path, io::Error::other("not a regular file")));
    }
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| io_error(path, error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io_error(path, io::Error::other(format!("larger than {MAX_BYTES} bytes"))));
    }
    Ok(bytes)
}
