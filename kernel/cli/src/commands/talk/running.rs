//! A conversation with the kernel that `skillhost run` runs: it may end and come again meanwhile.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use skillhost_kernel::control::{Connection, FromKernel, Request, Spoken};
use skillhost_kernel::{Channel, RunOutcome, Threads};
use tokio::signal::unix::Signal;
use tokio::task::{AbortHandle, JoinSet};

use super::Person;
use crate::error::CliError;
use crate::exit;

/// How long a kernel that is gone is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two attempts to reach it.
const PAUSE: Duration = Duration::from_millis(50);

/// The kernel at the other end of the socket, and a thread that it works on.
pub(super) struct Running {
    pub(super) socket: PathBuf,
    pub(super) threads: Threads,
    pub(super) thread: String,
    pub(super) agent: String,
}

/// How a connection ended.
enum Over {
    Done(RunOutcome),
    /// The kernel is gone, and another may come.
    Lost,
}

/// One conversation, over however many connections.
struct Conversation<'a> {
    person: &'a Arc<Person>,
    interrupted: &'a mut Signal,
    /// What is sent when it begins, and when it begins again.
    request: Request,
    /// A kernel has kept it.
    heard: bool,
    cancelled: bool,
}

impl Running {
    /// Sends a request and follows what becomes of it. Ctrl-C gives the run up, a second one leaves
    /// it to the kernel.
    pub(super) async fn follow(
        &self,
        request: Request,
        person: &Arc<Person>,
        interrupted: &mut Signal,
    ) -> Result<RunOutcome, CliError> {
        let mut talked =
            Conversation { person, interrupted, request, heard: false, cancelled: false };
        let mut lost: Option<Instant> = None;
        loop {
            let over = match Connection::open(&self.socket, &talked.request).await {
                Ok(connection) => {
                    lost = None;
                    talked.follow(connection).await?
                }
                Err(error) if is_gone(&error) => Over::Lost,
                Err(error) => return Err(CliError::io(&self.socket, &error)),
            };
            if let Over::Done(outcome) = over {
                return Ok(outcome);
            }
            if lost.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return Err(never_came(talked.heard));
            }
            person.wait_for_the_kernel();
            tokio::select! {
                biased;
                _ = talked.interrupted.recv() => return Err(interrupted_error()),
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }
}

impl Conversation<'_> {
    async fn follow(&mut self, mut connection: Connection) -> Result<Over, CliError> {
        let mut questions = JoinSet::new();
        let mut open: HashMap<u64, AbortHandle> = HashMap::new();
        if self.cancelled && connection.say(&Spoken::Cancel).await.is_err() {
            return Ok(Over::Lost);
        }
        loop {
            let said = tokio::select! {
                biased;
                _ = self.interrupted.recv() => {
                    if self.cancelled {
                        return Err(interrupted_error());
                    }
                    self.cancelled = true;
                    Spoken::Cancel
                }
                // A question that was taken back has no answer.
                Some(answered) = questions.join_next() => match answered {
                    Ok(said) => said,
                    Err(_) => continue,
                },
                line = connection.next() => {
                    let Ok(Some(line)) = line else { return Ok(Over::Lost) };
                    match line {
                        FromKernel::Hears(said) => {
                            self.person.begin_again();
                            self.heard = true;
                            self.request = Request::Talk(said);
                        }
                        FromKernel::RunEvent(event) => self.person.notice(&event),
                        FromKernel::Ask { id, request } => {
                            let person = Arc::clone(self.person);
                            let asking = async move {
                                let decision = Channel::approve(&*person, &request).await;
                                Spoken::Answer { id, decision }
                            };
                            open.insert(id, questions.spawn(asking));
                        }
                        FromKernel::AskSecret { id, request } => {
                            let person = Arc::clone(self.person);
                            let asking =
                                async move { Spoken::secret(id, person.secret(&request).await) };
                            open.insert(id, questions.spawn(asking));
                        }
                        FromKernel::GivenUp { id } => {
                            if let Some(asking) = open.remove(&id) {
                                asking.abort();
                            }
                        }
                        FromKernel::Ending { again: true } => return Ok(Over::Lost),
                        FromKernel::Ending { again: false } => return Err(ended()),
                        FromKernel::Done(outcome) => return Ok(Over::Done(outcome)),
                        FromKernel::Failed(failure) => return Err(failure.into()),
                    }
                    continue;
                }
            };
            if connection.say(&said).await.is_err() {
                return Ok(Over::Lost);
            }
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::NotFound | Kind::ConnectionRefused | Kind::ConnectionReset | Kind::BrokenPipe
    )
}

fn interrupted_error() -> CliError {
    CliError::new(exit::INTERRUPTED, "interrupted; the kernel has been told to give the run up")
}

const KEPT: &str = "what was said is kept: the next `skillhost run` goes on with it";

fn ended() -> CliError {
    CliError::new(exit::FINDINGS, "the kernel was ended before the answer came").hint(KEPT)
}

fn never_came(heard: bool) -> CliError {
    let seconds = PATIENCE.as_secs();
    let message = format!("the kernel has gone, and did not come back within {seconds} s");
    CliError::new(exit::FINDINGS, message).hint(match heard {
        true => KEPT,
        false => "it was not said: begin again, or start a kernel first: skillhost run",
    })
}
