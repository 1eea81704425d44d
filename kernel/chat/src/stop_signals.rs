//! The signals that end a turn: Ctrl-C, and the end of the terminal.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals of a chat. From their creation on, they no longer end the process.
pub struct StopSignals {
    interrupt: Signal,
    hangup: Signal,
    is_hung_up: bool,
}

impl StopSignals {
    /// Starts to listen.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub fn listen() -> io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, hangup: signal(SignalKind::hangup())?, is_hung_up: false })
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn recv(&mut self) {
        // The stream of a signal does not end.
        tokio::select! {
            biased;
            _ = self.hangup.recv() => self.is_hung_up = true,
            _ = self.interrupt.recv() => {}
        }
    }

    /// Returns whether the terminal was closed.
    pub(crate) fn is_hung_up(&self) -> bool {
        self.is_hung_up
    }
}
