//! The start of a kernel.

use std::time::Instant;

use skillhost_home::now_ms;

/// The time and the manner of a kernel's start.
pub(crate) struct KernelStart {
    /// In milliseconds since 1970, for display.
    pub(crate) at_ms: u64,
    /// For the uptime, which must not follow changes of the system's clock.
    pub(crate) at: Instant,
    /// A supervisor restarts the kernel.
    pub(crate) supervised: bool,
}

impl KernelStart {
    pub(crate) fn now(supervised: bool) -> Self {
        Self { at_ms: now_ms(), at: Instant::now(), supervised }
    }
}
