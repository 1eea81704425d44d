//! Writes that wait for the disk.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Performs a write that is synced. A runtime's other tasks do not wait for it: the worker hands them
/// to another thread before.
pub(crate) fn wait_for_disk<T>(write: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(write),
        // Commands without a runtime, and runtimes of one thread, which tests use.
        _ => write(),
    }
}
