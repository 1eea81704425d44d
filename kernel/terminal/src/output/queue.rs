//! Output without blocking: a bounded queue and a writer thread.
//!
//! A kernel that runs for days must not stop because a terminal is paused, a pipe is not read or a
//! disk is full. Texts beyond the limit are dropped and counted, and the count is printed as soon
//! as possible. Single commands wait for their output instead and use no queue.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;
use skillhost_payload::format_rfc3339;

use super::SCHEMA_VERSION;

/// The maximum number of queued texts.
const MAX_TEXTS: usize = 4096;
/// The maximum size of the queued texts, in bytes.
const MAX_BYTES: usize = 4 << 20;

static QUEUES: OnceLock<OutputQueues> = OnceLock::new();

/// The queue of the log file, in a process that has one.
static LOG_FILE: OnceLock<OutputQueue> = OnceLock::new();

/// The queues of this process.
struct OutputQueues {
    stdout: OutputQueue,
    stderr: OutputQueue,
}

/// A queue of texts for one stream. Cheap to clone.
#[derive(Clone)]
pub struct OutputQueue(Arc<Shared>);

struct Shared {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    texts: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The number of texts dropped since the count was last printed.
    dropped: u64,
    /// Whether a text is being written.
    writing: bool,
    /// Whether the last write failed.
    failing: bool,
    /// Whether the stream has no reader and never will.
    gone: bool,
}

/// Queues all further output of this process, its log included; a second call has no effect. If the
/// thread cannot be started, output stays synchronous.
pub fn install(json: bool) {
    if QUEUES.get().is_some() {
        return;
    }
    let stdout = OutputQueue::start("stdout", anstream::stdout(), move |count| match json {
        true => dropped_event(count),
        false => dropped_note(count),
    });
    let stderr = OutputQueue::start("stderr", anstream::stderr(), move |count| match json {
        true => dropped_event(count),
        false => dropped_note(count),
    });
    let (Ok(stdout), Ok(stderr)) = (stdout, stderr) else { return };
    if QUEUES.set(OutputQueues { stdout, stderr }).is_ok() {
        // The default hook would block on an unread stderr.
        std::panic::set_hook(Box::new(|panic| {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("unnamed");
            let mut message = format!("thread `{name}`: {panic}");
            // Captured only if `RUST_BACKTRACE` requests it, as by the default hook.
            let backtrace = Backtrace::capture();
            if backtrace.status() == BacktraceStatus::Captured {
                message = format!("{message}\n{backtrace}");
            }
            if let Some(queue) = LOG_FILE.get() {
                queue.push(log_line("ERROR", "panic", &message).into_bytes());
            }
            if let Some(queue) = stderr_queue() {
                queue.push(format!("{message}\n").into_bytes());
            }
        }));
    }
}

/// Writes the events for the log file to a stream from now on; a second call has no effect. If the
/// thread cannot be started, the process has no log file.
pub fn install_log_file(stream: impl Write + Send + 'static) {
    let note = |count| {
        let message = format!("{count} lines were dropped: they could not be written");
        log_line("WARN", "output", &message)
    };
    if LOG_FILE.get().is_none()
        && let Ok(queue) = OutputQueue::start("log-file", stream, note)
    {
        let _ = LOG_FILE.set(queue);
    }
}

/// Returns a line of the log file, as the log events of the process have it.
#[must_use]
pub fn log_line(level: &str, target: &str, message: &str) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut line = json!({
        "timestamp": format_rfc3339(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)),
        "level": level,
        "target": target,
        "fields": { "message": message },
    });
    line.sort_all_objects();
    format!("{line}\n")
}

fn dropped_note(count: u64) -> String {
    format!("note: {count} lines were dropped: they could not be written\n")
}

fn dropped_event(count: u64) -> String {
    let payload = json!({ "lines": count });
    let mut event = json!({
        "schema_version": SCHEMA_VERSION,
        "event": "output.dropped",
        "source": "output",
        "payload": payload,
    });
    event.sort_all_objects();
    format!("{event}\n")
}

/// Returns the queue of standard output, if installed.
pub fn stdout_queue() -> Option<&'static OutputQueue> {
    QUEUES.get().map(|queues| &queues.stdout)
}

/// Returns the queue of standard error, if installed.
pub fn stderr_queue() -> Option<&'static OutputQueue> {
    QUEUES.get().map(|queues| &queues.stderr)
}

/// Waits until all queues are written, within one time limit.
pub fn flush(limit: Duration) {
    let end = Instant::now() + limit;
    for queue in [stdout_queue(), stderr_queue(), LOG_FILE.get()].into_iter().flatten() {
        queue.flush(end);
    }
}

impl OutputQueue {
    /// Starts the writer thread; `note` formats the count of dropped texts.
    fn start(
        name: &str,
        mut stream: impl Write + Send + 'static,
        note: impl Fn(u64) -> String + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let queue = Self(Arc::clone(&shared));
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || while shared.write_next(&mut stream, &note) {})?;
        Ok(queue)
    }

    /// Queues a text, or drops it if the queue is full.
    pub fn push(&self, text: Vec<u8>) {
        let mut state = self.0.lock();
        if state.gone {
            return;
        }
        // Dropped, not waited for: the caller may hold a runtime thread.
        if state.texts.len() >= MAX_TEXTS || state.bytes + text.len() > MAX_BYTES {
            state.dropped += 1;
            return;
        }
        state.bytes += text.len();
        state.texts.push_back(text);
        drop(state);
        self.0.changed.notify_all();
    }

    fn flush(&self, end: Instant) {
        let mut state = self.0.lock();
        let pending = |state: &QueueState| {
            // A count that cannot be written must not hold up the end of the process.
            state.writing || !state.texts.is_empty() || (state.dropped > 0 && !state.failing)
        };
        while !state.gone && pending(&state) {
            let remaining = end.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return;
            }
            let waited = self.0.changed.wait_timeout(state, remaining);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a text or a printable count and writes it; returns `false` once the stream has no
    /// reader.
    fn write_next(&self, stream: &mut impl Write, note: &impl Fn(u64) -> String) -> bool {
        let mut state = self.lock();
        let text = loop {
            if let Some(text) = state.texts.pop_front() {
                state.bytes -= text.len();
                break text;
            }
            if state.dropped > 0 && !state.failing {
                break Vec::new();
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        // Drops follow the queued texts in time, so the count is printed after them, unless writes
        // fail.
        let dropped = match state.failing || state.texts.is_empty() {
            true => std::mem::take(&mut state.dropped),
            false => 0,
        };
        state.writing = true;
        let failing = state.failing;
        drop(state);
        let count = if dropped > 0 { note(dropped) } else { String::new() };
        // After a failure the drops precede this text, so the count comes first.
        let (first, second) = match failing {
            true => (count.as_bytes(), text.as_slice()),
            false => (text.as_slice(), count.as_bytes()),
        };
        let written = stream
            .write_all(first)
            .and_then(|()| stream.write_all(second))
            .and_then(|()| stream.flush());
        let mut state = self.lock();
        state.writing = false;
        state.failing = written.is_err();
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                // Queued texts can never be printed, so their memory is freed.
                state.gone = true;
                state.texts = VecDeque::new();
            }
            // A failed count is added again, so that the next one is complete.
            Err(_) => state.dropped += dropped + u64::from(!text.is_empty()),
        }
        let goes_on = !state.gone;
        drop(state);
        self.changed.notify_all();
        goes_on
    }
}

/// The writer of the log. A failed write is ignored.
#[derive(Debug, Clone, Copy)]
pub struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match stderr_queue() {
            Some(queue) => queue.push(bytes.to_vec()),
            None => {
                let _ = io::stderr().lock().write_all(bytes);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The writer of events for the log file; without one, they are discarded.
#[derive(Debug, Clone, Copy)]
pub struct LogFileWriter;

impl Write for LogFileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(queue) = LOG_FILE.get() {
            queue.push(bytes.to_vec());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A stream with scripted write results that reports the written texts.
    struct Stream {
        answers: mpsc::Receiver<io::Result<()>>,
        written: mpsc::Sender<String>,
    }

    impl Write for Stream {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Once the test has ended, every write succeeds.
            self.answers.recv().unwrap_or(Ok(()))?;
            let _ = self.written.send(String::from_utf8(bytes.to_vec()).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Rig {
        queue: OutputQueue,
        answers: mpsc::Sender<io::Result<()>>,
        written: mpsc::Receiver<String>,
    }

    impl Rig {
        fn new() -> Self {
            let (answers, answered) = mpsc::channel();
            let (sender, written) = mpsc::channel();
            let stream = Stream { answers: answered, written: sender };
            let queue = OutputQueue::start("rig", stream, |n| format!("{n} dropped\n")).unwrap();
            Self { queue, answers, written }
        }

        fn push(&self, text: &str) {
            self.queue.push(text.as_bytes().to_vec());
        }

        fn allow(&self) -> String {
            self.answers.send(Ok(())).unwrap();
            self.written.recv_timeout(Duration::from_secs(60)).unwrap()
        }

        fn fail(&self, kind: io::ErrorKind) {
            self.answers.send(Err(kind.into())).unwrap();
            self.queue.flush(Instant::now() + Duration::from_secs(60));
        }
    }

    #[test]
    fn full_queue_drops_and_counts() {
        let rig = Rig::new();
        for number in 0..=MAX_TEXTS + 2 {
            rig.push(&format!("{number}\n"));
        }
        let first = rig.allow();
        assert_eq!(first, "0\n");
        let mut last = String::new();
        for _ in 0..MAX_TEXTS {
            last = rig.allow();
            if last.ends_with("dropped\n") {
                break;
            }
        }
        if !last.ends_with("dropped\n") {
            last = rig.allow();
        }
        // The thread may or may not take the first text before the queue fills.
        assert!(["2 dropped\n", "3 dropped\n"].contains(&last.as_str()), "{last}");
    }

    #[test]
    fn failed_write_is_reported() {
        let rig = Rig::new();
        rig.push("lost\n");
        rig.fail(io::ErrorKind::StorageFull);
        rig.push("kept\n");
        assert_eq!([rig.allow(), rig.allow()], ["1 dropped\n", "kept\n"]);
    }

    #[test]
    fn closed_stream_silences_output_only() {
        let rig = Rig::new();
        rig.push("lost\n");
        rig.fail(io::ErrorKind::BrokenPipe);
        rig.push("ignored\n");
        assert_eq!(rig.queue.0.lock().texts.len(), 0);
    }

    #[test]
    fn flush_times_out_on_stuck_stream() {
        let rig = Rig::new();
        rig.push("stuck\n");
        rig.queue.flush(Instant::now());
        assert!(rig.written.try_recv().is_err());
    }
}
