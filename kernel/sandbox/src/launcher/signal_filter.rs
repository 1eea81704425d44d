//! Signals of a run without namespaces, where Landlock does not keep them inside.
//!
//! A filter suspends each call that sends a signal until the launcher has decided: it passes if the
//! target is a process of the run.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libc::{
    SYS_kill, SYS_pidfd_send_signal, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_tgkill,
    SYS_tkill,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use super::error::{SetupError, StepContext as _};
use super::process_tree::ProcessTree;
use crate::sys::{self, SuspendedCall};

/// The calls that send signals.
const SIGNAL_CALLS: [i64; 6] = [
    SYS_kill,
    SYS_tkill,
    SYS_tgkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_pidfd_send_signal,
];

/// The compiler does not know the action of a notification: this one is replaced by it.
const PLACEHOLDER: u16 = 0x7abc;
const PLACEHOLDER_RESULT: u32 = libc::SECCOMP_RET_TRACE | PLACEHOLDER as u32;

/// The launcher's end of the filter.
#[derive(Debug)]
pub(super) struct SignalListener(OwnedFd);

/// Applies the filter to this process and returns the descriptor for the launcher.
pub(super) fn apply_signal_filter() -> Result<OwnedFd, SetupError> {
    sys::install_listening_filter(&compile_filter()?).at("signals")
}

fn compile_filter() -> Result<BpfProgram, SetupError> {
    let rules: BTreeMap<_, _> = SIGNAL_CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let machine = std::env::consts::ARCH.try_into().at("signals")?;
    let action = SeccompAction::Trace(PLACEHOLDER.into());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, machine).at("signals")?;
    let mut program: BpfProgram = filter.try_into().at("signals")?;
    for instruction in &mut program {
        if instruction.k == PLACEHOLDER_RESULT {
            instruction.k = libc::SECCOMP_RET_USER_NOTIF;
        }
    }
    Ok(program)
}

impl SignalListener {
    pub(super) fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Decides on a call that waits.
    pub(super) fn answer_call(&self) {
        // The caller may have been killed in the meantime.
        if let Ok(call) = sys::receive_suspended_call(self.0.as_fd()) {
            let passes = is_inside(&call, &ProcessTree::read());
            let _ = sys::answer_suspended_call(self.0.as_fd(), &call, passes);
        }
    }
}

impl AsFd for SignalListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Tests whether all targets of a call are processes of the run.
fn is_inside(call: &SuspendedCall, tree: &ProcessTree) -> bool {
    if call.number == SYS_pidfd_send_signal {
        // A descriptor does not tell its process without more calls; programs fall back to `kill`.
        return false;
    }
    match call.target {
        thread @ 1.. => tree.has_thread(thread.unsigned_abs()),
        // For other calls than `kill` these are not valid.
        _ if call.number != SYS_kill => false,
        // The own group. The session of a run is new, so that its groups have no other members.
        0 => true,
        // All processes of the user.
        -1 => false,
        group => tree.has_group(group.unsigned_abs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_processes_are_targets() {
        let call = |number, target| SuspendedCall { id: 0, number, target };
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = child.id().cast_signed();
        let tree = ProcessTree::read();
        for (number, target, inside) in [
            (SYS_kill, pid, true),
            (SYS_tgkill, pid, true),
            (SYS_kill, 0, true),
            (SYS_kill, -1, false),
            (SYS_kill, 1, false),
            (SYS_kill, std::process::id().cast_signed(), false),
            (SYS_tkill, -5, false),
            (SYS_pidfd_send_signal, 3, false),
        ] {
            assert_eq!(is_inside(&call(number, target), &tree), inside, "{number} {target}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn filter_has_one_notification() {
        let program = compile_filter().unwrap();
        let results: Vec<_> =
            program.iter().filter(|i| i.k == libc::SECCOMP_RET_USER_NOTIF).collect();
        assert!(!results.is_empty() && program.iter().all(|i| i.k != PLACEHOLDER_RESULT));
    }
}
