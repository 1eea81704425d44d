//! Append logs: files of one JSON object per line, each synced before a caller relies on it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A sink for log bytes; tests substitute a full disk.
pub(crate) trait AppendSink: Send + Sync {
    /// Appends bytes and syncs them. After an error some of them may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Removes all bytes behind a length.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
}

impl AppendSink for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)?;
        // `sync_data` also syncs the new length, without the cost of other metadata.
        self.sync_data()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        self.sync_data()
    }
}

/// The append log of one file.
pub(crate) struct AppendLog {
    pub(crate) path: PathBuf,
    disk: Box<dyn AppendSink>,
    /// The length of the complete lines, in bytes.
    length: u64,
    /// True if a failed write left bytes behind `length` that could not be removed.
    torn: bool,
}

impl AppendLog {
    pub(crate) fn new(path: PathBuf, disk: Box<dyn AppendSink>, length: u64) -> Self {
        Self { path, disk, length, torn: false }
    }

    /// Appends complete lines. After an error the log is unchanged, and the call may be repeated.
    pub(crate) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        // The partial line must go first: the next line would be appended to it.
        if self.torn {
            self.disk.truncate(self.length)?;
            self.torn = false;
        }
        if let Err(error) = self.disk.append(lines) {
            self.torn = self.disk.truncate(self.length).is_err();
            return Err(error);
        }
        self.length += lines.len() as u64;
        Ok(())
    }
}

/// Splits a log into complete lines and returns their length in bytes: bytes behind the last line
/// break were being written when the process or the machine ended.
pub(crate) fn split_complete_lines(bytes: &[u8]) -> (Vec<&[u8]>, usize) {
    let length = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let lines = bytes[..length].split_inclusive(|byte| *byte == b'\n');
    (lines.map(|line| &line[..line.len() - 1]).collect(), length)
}

/// Creates a directory that only its owner may read, as threads are private.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Opens a file for appending.
pub(crate) fn open_append(path: &Path, new: bool) -> io::Result<File> {
    OpenOptions::new().append(true).read(true).create_new(new).open(path)
}

/// Returns the milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    // A clock before 1970 yields 0: times are informative, and must not stop a run.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A disk in memory with limited space.
    #[derive(Clone)]
    pub(crate) struct SmallDisk {
        pub(crate) bytes: Arc<Mutex<Vec<u8>>>,
        pub(crate) room: Arc<Mutex<usize>>,
        /// True if the bytes of a failed write cannot be removed.
        pub(crate) stuck: Arc<Mutex<bool>>,
    }

    impl SmallDisk {
        pub(crate) fn with_room(room: usize) -> Self {
            Self { bytes: Arc::default(), room: Arc::new(Mutex::new(room)), stuck: Arc::default() }
        }

        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap()
        }
    }

    impl AppendSink for SmallDisk {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            let mut kept = self.bytes.lock().unwrap();
            let fits = (*self.room.lock().unwrap()).saturating_sub(kept.len()).min(bytes.len());
            kept.extend(&bytes[..fits]);
            match fits == bytes.len() {
                true => Ok(()),
                false => Err(io::ErrorKind::StorageFull.into()),
            }
        }

        fn truncate(&mut self, length: u64) -> io::Result<()> {
            if *self.stuck.lock().unwrap() {
                return Err(io::ErrorKind::ReadOnlyFilesystem.into());
            }
            self.bytes.lock().unwrap().truncate(length as usize);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::SmallDisk;
    use super::*;

    #[test]
    fn full_disk_removes_partial_line() {
        let disk = SmallDisk::with_room(10);
        let mut journal = AppendLog::new("j".into(), Box::new(disk.clone()), 0);
        journal.append(b"first\n").unwrap();
        let full = journal.append(b"second\n").unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.text(), "first\n");
        *disk.room.lock().unwrap() = 100;
        journal.append(b"third\n").unwrap();
        assert_eq!(disk.text(), "first\nthird\n");
    }

    #[test]
    fn retry_truncates_partial_line() {
        let disk = SmallDisk::with_room(8);
        let mut journal = AppendLog::new("j".into(), Box::new(disk.clone()), 0);
        journal.append(b"first\n").unwrap();
        *disk.stuck.lock().unwrap() = true;
        journal.append(b"second\n").unwrap_err();
        assert_eq!(disk.text(), "first\nse");
        let stuck = journal.append(b"third\n").unwrap_err();
        assert_eq!(stuck.kind(), io::ErrorKind::ReadOnlyFilesystem);
        *disk.stuck.lock().unwrap() = false;
        *disk.room.lock().unwrap() = 100;
        journal.append(b"third\n").unwrap();
        assert_eq!(disk.text(), "first\nthird\n");
    }

    #[test]
    fn incomplete_line_is_split_off() {
        assert_eq!(split_complete_lines(b"a\nbc\nde"), (vec![&b"a"[..], b"bc"], 5));
        assert_eq!(split_complete_lines(b"a\n"), (vec![&b"a"[..]], 2));
        assert_eq!(split_complete_lines(b"a"), (vec![], 0));
        assert_eq!(split_complete_lines(b""), (vec![], 0));
    }
}
