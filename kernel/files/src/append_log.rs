//! Append logs: files of one JSON object per line, each synced before a caller relies on it.
//!
//! One thread of the process, `append-log`, writes and syncs the lines of all logs, in the order in
//! which they were appended: an async worker that appends only waits for the receipt.

use std::fs::{File, OpenOptions};
use std::future::Future;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::synced::sync_file_data;

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
        sync_file_data(self)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        sync_file_data(self)
    }
}

/// A writer of complete lines that does not block, for logs that are not files.
pub trait LineWriter: Send + Sync {
    /// Starts to write lines, after those of earlier calls. Lines are written even if their receipt
    /// is dropped.
    fn write_lines(&self, lines: Vec<u8>) -> AppendReceipt;
}

/// The append log of one file or writer. A file is closed with the log, after the lines that were
/// appended before.
pub struct AppendLog {
    path: PathBuf,
    target: LogTarget,
}

/// The place of a log's lines.
enum LogTarget {
    File(Arc<Mutex<AppendFile>>),
    Writer(Box<dyn LineWriter>),
}

/// The file of a log and its state.
struct AppendFile {
    disk: Box<dyn AppendSink>,
    /// The length of the complete lines, in bytes.
    length: u64,
    /// True if a failed write left bytes after `length` that have not been removed.
    torn: bool,
    /// True if no line follows one that could not be written.
    ends_on_error: bool,
    has_ended: bool,
}

/// The receipt of appended lines: a future that is ready when they are on disk. Lines are written
/// even if their receipt is dropped.
#[derive(Debug)]
pub struct AppendReceipt(oneshot::Receiver<io::Result<()>>);

/// A write for the append-log thread.
type AppendJob = Box<dyn FnOnce() + Send>;

impl AppendLog {
    /// Continues a log that has complete lines of `length` bytes. After an error the log is
    /// unchanged, and the same lines may be appended again.
    #[must_use]
    pub fn new(path: PathBuf, disk: Box<dyn AppendSink>, length: u64) -> Self {
        let file = AppendFile { disk, length, torn: false, ends_on_error: false, has_ended: false };
        Self { path, target: LogTarget::File(Arc::new(Mutex::new(file))) }
    }

    /// Creates a log whose lines a writer stores. The path names it in errors.
    #[must_use]
    pub fn with_writer(path: PathBuf, writer: Box<dyn LineWriter>) -> Self {
        Self { path, target: LogTarget::Writer(writer) }
    }

    /// Creates a log without lines that ends with its first error: lines after it are not written.
    #[must_use]
    pub fn ending_on_error(path: PathBuf, disk: Box<dyn AppendSink>) -> Self {
        let file =
            AppendFile { disk, length: 0, torn: false, ends_on_error: true, has_ended: false };
        Self { path, target: LogTarget::File(Arc::new(Mutex::new(file))) }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends complete lines. Without lines, the receipt is ready when all earlier ones are.
    pub fn append(&self, lines: Vec<u8>) -> AppendReceipt {
        let file = match &self.target {
            LogTarget::File(file) => Arc::clone(file),
            LogTarget::Writer(writer) => return writer.write_lines(lines),
        };
        let (sender, receipt) = AppendReceipt::channel();
        let job = move || {
            let written = file.lock().unwrap_or_else(PoisonError::into_inner).append(&lines);
            // Before the receipt: a caller that has it and drops the log has closed the file.
            drop(file);
            let _ = sender.send(written);
        };
        // Without the thread the job is dropped, and the receipt is an error.
        if let Some(jobs) = append_thread() {
            let _ = jobs.send(Box::new(job));
        }
        receipt
    }
}

impl AppendFile {
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if lines.is_empty() || self.has_ended {
            return Ok(());
        }
        // The partial line must go first: the next line would be appended to it.
        if self.torn {
            self.disk.truncate(self.length)?;
            self.torn = false;
        }
        // Until the write returns: a panic in it leaves bytes as well.
        self.torn = true;
        if let Err(error) = self.disk.append(lines) {
            self.torn = self.disk.truncate(self.length).is_err();
            self.has_ended = self.ends_on_error;
            return Err(error);
        }
        self.torn = false;
        self.length += lines.len() as u64;
        Ok(())
    }
}

impl AppendReceipt {
    /// Creates a receipt, and the sender of its result; a dropped sender is an error.
    #[must_use]
    pub fn channel() -> (oneshot::Sender<io::Result<()>>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }

    /// Returns the result if the lines are written by now.
    pub fn try_result(&mut self) -> Option<io::Result<()>> {
        match self.0.try_recv() {
            Ok(written) => Some(written),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(thread_error())),
        }
    }
}

impl Future for AppendReceipt {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let received = Pin::new(&mut self.0).poll(cx);
        received.map(|written| written.unwrap_or_else(|_| Err(thread_error())))
    }
}

fn thread_error() -> io::Error {
    io::Error::other("the append-log thread did not complete the write")
}

/// Returns the queue of the append-log thread, which the first line starts.
fn append_thread() -> Option<mpsc::Sender<AppendJob>> {
    static THREAD: Mutex<Option<mpsc::Sender<AppendJob>>> = Mutex::new(None);
    let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if thread.is_none() {
        let (sender, jobs) = mpsc::channel::<AppendJob>();
        let work = move || {
            for job in jobs {
                // A write that panics ends neither the thread nor the logs of others; its receipt
                // is an error.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
        };
        let started = std::thread::Builder::new().name("append-log".to_owned()).spawn(work);
        *thread = started.is_ok().then_some(sender);
    }
    thread.clone()
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
