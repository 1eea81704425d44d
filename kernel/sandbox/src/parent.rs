//! The end of this process with its parent.

/// Makes the system send SIGTERM to this process when its parent ends, where the system can.
///
/// The parent may have ended before; the caller checks that afterwards.
#[cfg(target_os = "linux")]
pub fn exit_with_parent() {
    use rustix::process::{Signal, set_parent_process_death_signal};
    // Without the signal, this process outlives its parent.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
}

/// Does nothing, since other systems send no such signal.
#[cfg(not(target_os = "linux"))]
pub fn exit_with_parent() {}
