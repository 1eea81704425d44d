//! The connection to a program: requests in both directions over one socket.
//!
//! Several calls are open at the same time. What a program requests belongs to one of them, and ends
//! with it. A line that is not a message closes the connection, because what follows has no meaning.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::call_scope::CallScope;
use crate::protocol::{
    KernelAnswer, KernelMessage, MAX_LINE, ProgramMessage, ProgramRequest, ProtocolViolation,
    WireError, parse_line, to_line,
};

/// The limit of lines that wait to be written. A line has up to 4 MiB, and a program need not read.
const QUEUE_LIMIT: usize = 8;

/// The limit of files that are read for a program or wait to be queued.
const MAX_READS: usize = 4;

/// The limit of requests of a program at the same time.
const MAX_REQUESTS: usize = 64;

/// A connection to a running program.
#[derive(Clone)]
pub(crate) struct ProgramChannel {
    shared: Arc<ChannelState>,
}

struct ChannelState {
    lines: mpsc::Sender<Vec<u8>>,
    /// The rights to read a file; one is held until the answer is queued.
    reads: Semaphore,
    calls: Mutex<OpenCalls>,
    /// Cancelled when reading ends: the program has closed its end or violated the protocol.
    closed: CancellationToken,
    violation: OnceLock<ProtocolViolation>,
    /// Cancelled if a cancelled call does not end.
    stuck: CancellationToken,
    /// The time that a cancelled call has to end.
    grace: Duration,
    /// Notified when a cancelled call has ended.
    settled: Notify,
}

#[derive(Default)]
struct OpenCalls {
    /// The number of requests so far; ids start at 1.
    last: u64,
    open: HashMap<u64, OpenCall>,
    /// The cancelled calls that the program has not answered yet.
    abandoned: BTreeSet<u64>,
    /// The number of open requests of the program.
    requests: usize,
}

struct OpenCall {
    answer: oneshot::Sender<CallOutcome>,
    /// `None` for a request that allows no requests of the program.
    scope: Option<Arc<CallScope>>,
    ended: CancellationToken,
}

type CallOutcome = Result<Box<RawValue>, WireError>;

/// The reason why a request has no result.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The program answered with an error.
    Reported(WireError),
    /// The connection is closed.
    Closed,
    /// The request exceeds a line.
    TooLong,
}

/// A request in progress; it is cancelled if it is dropped before its answer.
struct RequestGuard<'a> {
    channel: &'a ProgramChannel,
    id: u64,
    answered: bool,
}

impl ProgramChannel {
    /// Creates a connection and spawns its tasks.
    pub(crate) fn new<R, W>(read: R, write: W, grace: Duration) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (lines, queue) = mpsc::channel(QUEUE_LIMIT);
        let shared = ChannelState {
            lines,
            reads: Semaphore::new(MAX_READS),
            calls: Mutex::default(),
            closed: CancellationToken::new(),
            violation: OnceLock::new(),
            stuck: CancellationToken::new(),
            grace,
            settled: Notify::new(),
        };
        let channel = Self { shared: Arc::new(shared) };
        tokio::spawn(write_lines(write, queue, channel.shared.closed.clone()));
        tokio::spawn(channel.clone().read_messages(BufReader::new(read)));
        channel
    }

    /// Makes a request and waits for its answer. Dropping the future cancels it.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: &impl Serialize,
        scope: Option<Arc<CallScope>>,
    ) -> Result<Box<RawValue>, RequestError> {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut calls = self.calls();
            // Checked with the lock: the reader clears the calls once it has closed.
            if self.shared.closed.is_cancelled() {
                return Err(RequestError::Closed);
            }
            calls.last += 1;
            let id = calls.last;
            calls.open.insert(id, OpenCall { answer, scope, ended: CancellationToken::new() });
            id
        };
        let mut guard = RequestGuard { channel: self, id, answered: false };
        let Some(line) = to_line(&KernelMessage { id: Some(id), method, params }) else {
            self.calls().open.remove(&id);
            guard.answered = true;
            return Err(RequestError::TooLong);
        };
        // A closed queue closes the answer as well.
        let _ = self.shared.lines.send(line).await;
        let outcome = answered.await;
        guard.answered = true;
        match outcome {
            Ok(outcome) => outcome.map_err(RequestError::Reported),
            Err(_) => Err(RequestError::Closed),
        }
    }

    /// Waits until the connection is closed.
    pub(crate) async fn wait_until_closed(&self) {
        self.shared.closed.cancelled().await;
    }

    /// Waits until a cancelled call was not answered in time.
    pub(crate) async fn wait_until_stuck(&self) {
        self.shared.stuck.cancelled().await;
    }

    /// Waits until every cancelled call has ended, or the connection is closed.
    pub(crate) async fn wait_until_settled(&self) {
        loop {
            let settled = self.shared.settled.notified();
            if self.calls().abandoned.is_empty() {
                return;
            }
            tokio::select! {
                () = settled => {}
                () = self.shared.closed.cancelled() => return,
            }
        }
    }

    /// Returns whether the connection is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.closed.is_cancelled()
    }

    /// Closes the connection.
    pub(crate) fn close(&self) {
        self.shared.closed.cancel();
    }

    /// Returns the line that closed the connection.
    pub(crate) fn violation(&self) -> Option<ProtocolViolation> {
        self.shared.violation.get().cloned()
    }

    fn calls(&self) -> MutexGuard<'_, OpenCalls> {
        self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read_messages(self, mut read: BufReader<impl AsyncRead + Unpin>) {
        let closed = self.shared.closed.clone();
        let reading = async {
            let mut number = 0;
            loop {
                number += 1;
                let Some(line) = read_line(&mut read, number).await? else { return Ok(()) };
                match parse_line(number, &line)? {
                    ProgramMessage::Answer { id, outcome } => self.accept(number, id, outcome)?,
                    ProgramMessage::Request(request) => self.start_request(request).await,
                }
            }
        };
        let ended = tokio::select! {
            ended = reading => ended,
            () = closed.cancelled() => Ok(()),
        };
        if let Err(violation) = ended {
            // Reading ends with the first violation, so the cell is still empty.
            let _ = self.shared.violation.set(violation);
        }
        let mut calls = self.calls();
        closed.cancel();
        for (_, call) in calls.open.drain() {
            call.ended.cancel();
        }
    }

    /// Passes an answer to its request.
    fn accept(&self, line: u64, id: u64, outcome: CallOutcome) -> Result<(), ProtocolViolation> {
        let mut calls = self.calls();
        match calls.open.remove(&id) {
            Some(call) => {
                call.ended.cancel();
                // The caller may have been dropped just now.
                let _ = call.answer.send(outcome);
                Ok(())
            }
            None if calls.abandoned.remove(&id) => {
                self.shared.settled.notify_waiters();
                Ok(())
            }
            None if (1..=calls.last).contains(&id) => {
                Err(ProtocolViolation::AnsweredTwice { line, id })
            }
            None => Err(ProtocolViolation::UnknownRequest { line, id }),
        }
    }

    /// Starts the work for a request of the program.
    async fn start_request(&self, request: ProgramRequest) {
        let refused = match self.admit(&request) {
            Ok((scope, ended)) => {
                let channel = self.clone();
                tokio::spawn(async move {
                    let answering = async {
                        let _right = match CallScope::reads_file(&request) {
                            true => channel.shared.reads.acquire().await.ok(),
                            false => None,
                        };
                        let line = format_answer(&request.id, scope.serve(&request).await);
                        // A closed connection needs no answer.
                        let _ = channel.shared.lines.send(line).await;
                    };
                    tokio::select! {
                        () = answering => {}
                        // What a call has requested ends with it.
                        () = ended.cancelled() => {}
                    }
                    channel.calls().requests -= 1;
                });
                return;
            }
            Err(refused) => refused,
        };
        // Awaited here, so that a program that only writes is not read any more.
        let _ = self.shared.lines.send(format_answer(&request.id, Err(refused))).await;
    }

    fn admit(
        &self,
        request: &ProgramRequest,
    ) -> Result<(Arc<CallScope>, CancellationToken), WireError> {
        let error = |kind: &str, message: String| {
            Err(WireError { kind: kind.to_owned(), message, hint: String::new() })
        };
        let Some(id) = CallScope::call_of(request) else {
            return error("invalid_argument", "`params` has no `call`".to_owned());
        };
        let mut calls = self.calls();
        if calls.requests >= MAX_REQUESTS {
            return error("too_large", format!("more than {MAX_REQUESTS} requests at a time"));
        }
        let Some(OpenCall { scope: Some(scope), ended, .. }) = calls.open.get(&id) else {
            return error("cancelled", format!("call {id} is not open"));
        };
        let admitted = (Arc::clone(scope), ended.clone());
        calls.requests += 1;
        Ok(admitted)
    }

    /// Ends the program if a cancelled call is not answered in time.
    async fn watch_abandoned(self, id: u64) {
        tokio::select! {
            () = self.shared.closed.cancelled() => {}
            () = tokio::time::sleep(self.shared.grace) => {
                if self.calls().abandoned.contains(&id) {
                    self.shared.stuck.cancel();
                }
            }
        }
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        {
            let mut calls = self.channel.calls();
            let Some(call) = calls.open.remove(&self.id) else { return };
            call.ended.cancel();
            calls.abandoned.insert(self.id);
        }
        let params = CancelParams { id: self.id };
        let message = KernelMessage { id: None, method: "cancel", params };
        if let Some(line) = to_line(&message) {
            // A program that does not read is found by the watch.
            let _ = self.channel.shared.lines.try_send(line);
        }
        // The drop may happen outside of a runtime, for example during its shutdown.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(self.channel.clone().watch_abandoned(self.id));
        }
    }
}

#[derive(Serialize)]
struct CancelParams {
    id: u64,
}

fn format_answer(id: &str, outcome: CallOutcome) -> Vec<u8> {
    let (result, error) = match outcome {
        Ok(result) => (Some(result), None),
        Err(error) => (None, Some(error)),
    };
    to_line(&KernelAnswer { id, result, error }).unwrap_or_else(|| {
        let message = "the answer has more than 4 MiB".to_owned();
        let error = WireError { kind: "too_large".to_owned(), message, hint: String::new() };
        to_line(&KernelAnswer::<()> { id, result: None, error: Some(error) }).unwrap_or_default()
    })
}

async fn write_lines(
    mut write: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Vec<u8>>,
    closed: CancellationToken,
) {
    let writing = async {
        while let Some(line) = queue.recv().await {
            if write.write_all(&line).await.is_err() || write.flush().await.is_err() {
                return;
            }
        }
    };
    // A write to a program that does not read would block forever.
    tokio::select! {
        () = writing => {}
        () = closed.cancelled() => {}
    }
}

/// Reads one line without its line break, or `None` at the end.
async fn read_line(
    read: &mut BufReader<impl AsyncRead + Unpin>,
    number: u64,
) -> Result<Option<Vec<u8>>, ProtocolViolation> {
    let mut line = Vec::new();
    loop {
        // An error of the socket is its end: the process has ended.
        let available = read.fill_buf().await.unwrap_or_default();
        if available.is_empty() {
            return Ok(None);
        }
        let newline = available.iter().position(|byte| *byte == b'\n');
        let part = newline.unwrap_or(available.len());
        if line.len() + part >= MAX_LINE {
            return Err(ProtocolViolation::TooLong { line: number });
        }
        line.extend_from_slice(&available[..part]);
        read.consume(part + usize::from(newline.is_some()));
        if newline.is_some() {
            return Ok(Some(line));
        }
    }
}
