//! The process group of a child: its first process and all that this one starts.

use rustix::io::Result;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// A guard that kills all processes of a group on drop.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    /// The first process, whose number is that of the group; `None` once the number may be reused.
    leader: Option<Pid>,
}

impl ProcessGroup {
    /// Returns the group of a child that was started as the leader of a new one.
    pub(crate) fn from_child(child: &Child) -> Self {
        Self { leader: child.id().and_then(|id| Pid::from_raw(id.cast_signed())) }
    }

    pub(crate) fn leader(&self) -> Option<Pid> {
        self.leader
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // The error means that no process of the group is left.
            let _ = kill_process_group(leader, signal);
        }
    }

    /// Ends the guard: the operating system may reuse the number from here on.
    pub(crate) fn release(&mut self) {
        self.leader = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// The memory that a limit counts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LimitedMemory {
    /// The data segment: some runtimes reserve far more addresses than they use.
    Data,
    /// All addresses.
    Addresses,
}

/// Limits the memory of a process and of the processes that it starts from now on.
///
/// Set from outside after the start: a limit in the child would require `unsafe` code.
#[cfg(target_os = "linux")]
pub(crate) fn limit_memory(process: Pid, memory: LimitedMemory, bytes: u64) -> Result<()> {
    use rustix::process::{Resource, Rlimit, prlimit};
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    let resource = match memory {
        LimitedMemory::Data => Resource::Data,
        LimitedMemory::Addresses => Resource::As,
    };
    prlimit(Some(process), resource, limit).map(drop)
}

/// Does not limit the memory, since other systems cannot limit another process.
#[cfg(not(target_os = "linux"))]
pub(crate) fn limit_memory(_: Pid, _: LimitedMemory, _: u64) -> Result<()> {
    Ok(())
}
