//! Append logs: files of one JSON object per line, each synced before a caller relies on it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A sink for log bytes; tests substitute a full disk.
pub trait AppendSink: Send + Sync {
    /// Appends bytes and syncs them. After an error some of them may have been written.
    ///
    /// # Errors
    /// The system's error.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Removes all bytes after a length.
    ///
    /// # Errors
    /// The system's error.
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
pub struct AppendLog {
    path: PathBuf,
    disk: Box<dyn AppendSink>,
    /// The length of the complete lines, in bytes.
    length: u64,
    /// True if a failed write left bytes behind `length` that could not be removed.
    torn: bool,
}

impl AppendLog {
    /// Continues a log that has complete lines of `length` bytes.
    #[must_use]
    pub fn new(path: PathBuf, disk: Box<dyn AppendSink>, length: u64) -> Self {
        Self { path, disk, length, torn: false }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends complete lines. After an error the log is unchanged, and the call may be repeated.
    ///
    /// # Errors
    /// The system's error.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
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

/// Splits a log into complete lines and returns their length in bytes: bytes after the last line
/// break were being written when the process or the machine ended.
#[must_use]
pub fn split_complete_lines(bytes: &[u8]) -> (Vec<&[u8]>, usize) {
    let length = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let lines = bytes[..length].split_inclusive(|byte| *byte == b'\n');
    (lines.map(|line| &line[..line.len() - 1]).collect(), length)
}

/// Opens a file for appending; with `new`, creates it.
///
/// # Errors
/// The system's error; with `new`, also if the file exists.
pub fn open_append(path: &Path, new: bool) -> io::Result<File> {
    OpenOptions::new().append(true).read(true).create_new(new).open(path)
}
