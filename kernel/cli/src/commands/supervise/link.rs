//! The connection between a supervisor and its kernel: a socket as the kernel's standard input.
//!
//! The kernel sends heartbeats and, before an orderly exit, its exit code. The code of the process
//! alone is not reliable: native code in the kernel can end the process at any time.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::FileType;
use tokio::net::UnixStream;

/// The variable that names the descriptor of the connection.
pub(super) const SUPERVISOR_LINK: &str = "SKILLHOST_SUPERVISOR_LINK";

/// The variable's only value.
pub(super) const STDIN: &str = "0";

/// The interval between heartbeats.
const ALIVE_INTERVAL: Duration = Duration::from_secs(1);

const ALIVE: u8 = b'.';
/// The first byte of an exit report; the exit code follows.
const ENDED: u8 = b'E';

/// The supervisor's side of the connection.
pub(super) struct KernelLink {
    stream: UnixStream,
    /// Whether the first half of an exit report has arrived.
    ended: bool,
    closed: bool,
}

/// A signal from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KernelSign {
    Alive,
    /// An orderly exit with this code.
    Ended(u8),
}

impl KernelLink {
    /// Creates a connection; the second value becomes the kernel's standard input.
    pub(super) fn pair() -> io::Result<(Self, Stdio)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        // The kernel must never block on its supervisor.
        for end in [&ours, &theirs] {
            end.set_nonblocking(true)?;
        }
        let stream = UnixStream::from_std(ours)?;
        Ok((Self { stream, ended: false, closed: false }, Stdio::from(OwnedFd::from(theirs))))
    }

    /// Waits for the next signal; forever if none can arrive. Cancel-safe.
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

    /// Returns a signal that has already arrived.
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
                // A signal of a later version is ignored.
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

/// The kernel's side of the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SupervisorLink;

impl SupervisorLink {
    /// Returns the connection to the supervisor of this process, if there is one.
    pub(crate) fn of_this_process() -> Option<Self> {
        let named = std::env::var(SUPERVISOR_LINK).is_ok_and(|value| value == STDIN);
        // A variable inherited through another process names an unrelated descriptor.
        (named && super::supervisor().is_some() && is_socket()).then_some(Self)
    }

    /// Sends heartbeats as long as the runtime makes progress.
    pub(crate) async fn stay_alive(self) {
        let mut tick = tokio::time::interval(ALIVE_INTERVAL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.say(&[ALIVE]);
        }
    }

    /// Sends one heartbeat.
    pub(crate) fn alive(self) {
        self.say(&[ALIVE]);
    }

    /// Reports an orderly exit.
    pub(crate) fn ended(self, code: u8) {
        self.say(&[ENDED, code]);
    }

    /// Writes without blocking: a supervisor that does not read, or has ended, is skipped.
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
