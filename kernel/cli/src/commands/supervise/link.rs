//! The connection between a supervisor and its kernel: a socket that is the kernel's standard input.
//!
//! The kernel gives signs of life and, last of all, reports the code with which it ends in order. An
//! exit code alone says little: native code in the kernel can end the process at any time.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::FileType;
use tokio::net::UnixStream;

/// The variable that tells a kernel which descriptor is the connection.
pub(super) const SUPERVISOR_LINK: &str = "SKILLHOST_SUPERVISOR_LINK";

/// Its only value.
pub(super) const STDIN: &str = "0";

/// How often a kernel gives a sign of life.
const ALIVE_INTERVAL: Duration = Duration::from_secs(1);

const ALIVE: u8 = b'.';
/// Followed by the exit code.
const ENDED: u8 = b'E';

/// The supervisor's end.
pub(super) struct KernelLink {
    stream: UnixStream,
    /// The first half of a report.
    ended: bool,
    closed: bool,
}

/// What a kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KernelSign {
    Alive,
    /// It ends in order, with this exit code.
    Ended(u8),
}

impl KernelLink {
    /// Makes a connection; the second value is to be the kernel's standard input.
    pub(super) fn pair() -> io::Result<(Self, Stdio)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        // A kernel never waits for its supervisor.
        for end in [&ours, &theirs] {
            end.set_nonblocking(true)?;
        }
        let stream = UnixStream::from_std(ours)?;
        Ok((Self { stream, ended: false, closed: false }, Stdio::from(OwnedFd::from(theirs))))
    }

    /// Waits for the next sign; for ever where none can come. May be dropped and called again.
    pub(super) async fn next(&mut self) -> KernelSign {
        loop {
            if self.closed || self.stream.readable().await.is_err() {
                std::future::pending::<()>().await;
            }
            if let Some(sign) = self.take() {
                return sign;
            }
        }
    }

    /// Takes a sign that has come already.
    pub(super) fn take(&mut self) -> Option<KernelSign> {
        loop {
            let mut byte = [0];
            match self.stream.try_read(&mut byte) {
                Ok(0) => {
                    self.closed = true;
                    return None;
                }
                Ok(_) if std::mem::take(&mut self.ended) => {
                    return Some(KernelSign::Ended(byte[0]));
                }
                Ok(_) if byte[0] == ENDED => self.ended = true,
                Ok(_) if byte[0] == ALIVE => return Some(KernelSign::Alive),
                // Of a later version.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(_) => {
                    self.closed = true;
                    return None;
                }
            }
        }
    }
}

/// The kernel's end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SupervisorLink;

impl SupervisorLink {
    /// The connection to the supervisor of this process, where there is one.
    pub(crate) fn of_this_process() -> Option<Self> {
        let named = std::env::var(SUPERVISOR_LINK).is_ok_and(|value| value == STDIN);
        // Inherited by way of another process, the variable means nothing.
        (named && super::supervisor().is_some() && is_socket()).then_some(Self)
    }

    /// Gives signs of life as long as the runtime it runs on does its work.
    pub(crate) async fn stay_alive(self) {
        let mut tick = tokio::time::interval(ALIVE_INTERVAL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.say(&[ALIVE]);
        }
    }

    /// Gives one sign of life.
    pub(crate) fn alive(self) {
        self.say(&[ALIVE]);
    }

    /// Reports an end in order.
    pub(crate) fn ended(self, code: u8) {
        self.say(&[ENDED, code]);
    }

    /// A supervisor that does not read, or is gone, is not waited for.
    #[expect(clippy::unused_self, reason = "only a process with a supervisor has one")]
    fn say(self, bytes: &[u8]) {
        let _ = rustix::io::write(io::stdin(), bytes);
    }
}

fn is_socket() -> bool {
    let found = rustix::fs::fstat(io::stdin());
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Socket)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[tokio::test]
    async fn signs_arrive_in_order_across_reads() {
        let (ours, mut theirs) = StdUnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let stream = UnixStream::from_std(ours).unwrap();
        let mut link = KernelLink { stream, ended: false, closed: false };
        theirs.write_all(b".?E").unwrap();
        assert_eq!(link.next().await, KernelSign::Alive);
        assert_eq!(link.take(), None);
        theirs.write_all(&[75]).unwrap();
        assert_eq!(link.next().await, KernelSign::Ended(75));
        drop(theirs);
        assert_eq!(link.take(), None);
    }
}
