//! The gate that runs pass between turns; closed while the kernel drains.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use skillhost_core::foreign_text::kernel_element;
use tokio_util::sync::CancellationToken;

/// The state of a restart, as runs see it.
#[derive(Default)]
pub struct RunGate {
    closed: AtomicBool,
    /// Cancelled when the time for draining is over.
    over: CancellationToken,
    /// The text of the notice for resumed runs.
    notice: OnceLock<String>,
}

impl RunGate {
    /// Makes runs that can continue after a restart stop before their next turn.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Returns whether runs that can continue after a restart must stop now.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Ends every run that ignored the drain.
    pub fn end_runs(&self) {
        self.over.cancel();
    }

    /// Waits until the time for draining is over.
    pub(crate) async fn wait_until_shutdown(&self) {
        self.over.cancelled().await;
    }

    /// Sets the notice about the restart that this kernel was started for. Of several calls, the
    /// first one counts.
    pub fn set_notice(&self, text: String) {
        let _ = self.notice.set(text);
    }

    /// Returns the notice for resumed runs, or `None` without a requested restart.
    pub fn resume_notice(&self, nonce: &str) -> Option<String> {
        self.notice.get().map(|text| kernel_element("notice", nonce, text))
    }
}
