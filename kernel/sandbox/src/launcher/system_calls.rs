//! The system calls of a sandboxed program.
//!
//! Calls of another architecture end the program. The lists are for the numbers up to
//! [`LAST_CALL`]; a later call does not exist inside, and programs have another way.

use std::collections::BTreeMap;

use libc::*;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use skillhost_policy::IsolationLevel;

use super::error::{SetupError, StepContext as _};

type CallRules = BTreeMap<i64, Vec<SeccompRule>>;

/// The last number that the lists consider.
const LAST_CALL: i64 = 462;

/// Calls that do not exist inside. `clone3` and `openat2` hide their flags behind a pointer; files
/// and shared memory without a name are not counted by a limit.
const ABSENT_CALLS: &[i64] = &[
    SYS_clone3,
    SYS_openat2,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_memfd_create,
    SYS_memfd_secret,
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_shmdt,
];

/// Calls that are refused: other processes, mounts, namespaces, the kernel, clocks and machines.
const DENIED_CALLS: &[i64] = &[
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    SYS_process_mrelease,
    SYS_kcmp,
    SYS_pidfd_getfd,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_fanotify_init,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_syslog,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_vhangup,
    SYS_mbind,
    SYS_set_mempolicy,
    SYS_migrate_pages,
    SYS_move_pages,
    SYS_lookup_dcookie,
    SYS_nfsservctl,
];

/// Refused calls that only this architecture has.
#[cfg(target_arch = "x86_64")]
const DENIED_OLD_CALLS: &[i64] =
    &[SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_uselib, SYS_sysfs, SYS_ustat];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_OLD_CALLS: &[i64] = &[];

/// Calls that reach what other programs of the user share, if there are no namespaces.
const SHARED_CALLS: &[i64] = &[
    SYS_socket,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_semget,
    SYS_semop,
    SYS_semctl,
    SYS_semtimedop,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_inotify_add_watch,
];

/// Calls on a process, and the argument that must be 0 for the caller itself.
const OWN_PROCESS_CALLS: &[(i64, u8)] = &[
    (SYS_prlimit64, 0),
    (SYS_sched_setaffinity, 0),
    (SYS_sched_setscheduler, 0),
    (SYS_sched_setparam, 0),
    (SYS_sched_setattr, 0),
];

/// Calls on processes, and the first argument for a single process; the second one must be 0 for
/// the caller itself. Other first arguments mean a group, or all processes of the user.
const PRIORITY_CALLS: &[(i64, u64)] =
    &[(SYS_setpriority, PRIO_PROCESS as u64), (SYS_ioprio_set, 1)];

/// Calls on metadata, which Landlock does not consider. They report success without an effect: a
/// copy must not fail because it cannot retain a time.
const METADATA_CALLS: &[i64] = &[
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchmodat2,
    SYS_fchown,
    SYS_fchownat,
    SYS_utimensat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
];
#[cfg(target_arch = "x86_64")]
const METADATA_OLD_CALLS: &[i64] =
    &[SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat];
#[cfg(not(target_arch = "x86_64"))]
const METADATA_OLD_CALLS: &[i64] = &[];

/// Calls that take a mode: its argument, and that of the flags that tell whether it counts.
const MODE_CALLS: &[(i64, u8, Option<u8>)] = &[
    (SYS_fchmod, 1, None),
    (SYS_fchmodat, 2, None),
    (SYS_fchmodat2, 2, None),
    (SYS_openat, 3, Some(2)),
    (SYS_mknodat, 2, None),
    (SYS_mkdirat, 2, None),
];
#[cfg(target_arch = "x86_64")]
const MODE_OLD_CALLS: &[(i64, u8, Option<u8>)] = &[
    (SYS_chmod, 1, None),
    (SYS_open, 2, Some(1)),
    (SYS_creat, 1, None),
    (SYS_mknod, 1, None),
    (SYS_mkdir, 1, None),
];
#[cfg(not(target_arch = "x86_64"))]
const MODE_OLD_CALLS: &[(i64, u8, Option<u8>)] = &[];

/// The namespaces that `clone` can create; the lowest bits are those of the signal.
const NAMESPACE_FLAGS: [u64; 8] =
    [0x80, 1 << 17, 1 << 25, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30];

/// Requests that put input into a terminal or change its line discipline.
const TERMINAL_REQUESTS: [u64; 3] = [TIOCSTI, TIOCLINUX, TIOCSETD];

/// FIOSETOWN and SIOCSPGRP: the kernel would send signals for the program.
const OWNER_REQUESTS: [u64; 2] = [0x8901, 0x8902];

/// F_SETOWN, F_SETSIG and F_SETOWN_EX, likewise.
const OWNER_COMMANDS: [u64; 3] = [8, 10, 15];

/// The compiled filters of one run.
pub(super) struct CallFilters(Vec<BpfProgram>);

impl CallFilters {
    /// Compiles the filters of a level; `own_user` if the run keeps the user of the kernel.
    pub(super) fn compile(
        level: IsolationLevel,
        own_user: bool,
        may_listen: bool,
    ) -> Result<Self, SetupError> {
        let mut denied = calls(DENIED_CALLS);
        denied.append(&mut calls(DENIED_OLD_CALLS));
        let mut clones = NAMESPACE_FLAGS.map(|bit| rule([has_bits(0, bit, bit)])).to_vec();
        // A thread with descriptors of its own would have files that are not counted.
        let (thread, files) = (CLONE_THREAD as u64, CLONE_FILES as u64);
        clones.push(rule([has_bits(0, thread | files, thread)]));
        denied.insert(SYS_clone, clones);
        let unshare = u64::from(CLOSE_RANGE_UNSHARE);
        denied.insert(SYS_close_range, vec![rule([has_bits(2, unshare, unshare)])]);
        let other_personality = [is_not(0, 0), is_not(0, 0xffff_ffff)];
        denied.insert(SYS_personality, vec![rule(other_personality)]);
        // A datagram socket of a pair can send to any address.
        let pairs = [
            rule([is_not(0, AF_UNIX as u64)]),
            rule([has_bits(1, 0xf, SOCK_DGRAM as u64)]),
            rule([has_bits(1, 0xf, SOCK_RAW as u64)]),
        ];
        denied.insert(SYS_socketpair, pairs.into());
        // No file that gives the rights of its owner to its users.
        for (call, mode, flags) in MODE_CALLS.iter().chain(MODE_OLD_CALLS) {
            for bit in [0o4000, 0o2000] {
                let mut conditions = vec![has_bits(*mode, bit, bit)];
                conditions
                    .extend(flags.map(|flags| has_bits(flags, O_CREAT as u64, O_CREAT as u64)));
                denied.entry(*call).or_default().push(rule(conditions));
            }
        }
        let mut requests = TERMINAL_REQUESTS.to_vec();
        if level == IsolationLevel::Namespaces {
            // A network namespace contains these families. MPTCP and SCTP are not what Landlock
            // calls TCP.
            let families = [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK];
            let other_family = families.map(|family| is_not(0, family as u64));
            let protocols = [IPPROTO_MPTCP, IPPROTO_SCTP];
            let mut sockets = vec![rule(other_family)];
            sockets.extend(protocols.map(|protocol| rule([is(2, protocol as u64)])));
            denied.insert(SYS_socket, sockets);
            if !may_listen {
                denied.append(&mut calls(&[SYS_listen]));
            }
        } else {
            denied.append(&mut calls(SHARED_CALLS));
            for (call, argument) in OWN_PROCESS_CALLS {
                denied.insert(*call, vec![rule([is_not(*argument, 0)])]);
            }
            for (call, process) in PRIORITY_CALLS {
                denied.insert(*call, vec![rule([is_not(0, *process)]), rule([is_not(1, 0)])]);
            }
            denied.insert(SYS_fcntl, OWNER_COMMANDS.map(|command| rule([is(1, command)])).into());
            denied.insert(SYS_prctl, vec![rule([is(0, PR_SET_DUMPABLE as u64)])]);
            requests.extend(OWNER_REQUESTS);
        }
        denied.insert(SYS_ioctl, requests.into_iter().map(|r| rule([is(1, r)])).collect());

        let known: Vec<_> = (0..=LAST_CALL).filter(|call| !ABSENT_CALLS.contains(call)).collect();
        let error = |code: i32| SeccompAction::Errno(code.unsigned_abs());
        let mut filters = vec![
            compile(denied, SeccompAction::Allow, error(EPERM))?,
            compile(calls(&known), error(ENOSYS), SeccompAction::Allow)?,
        ];
        if level == IsolationLevel::Landlock && own_user {
            let mut metadata = calls(METADATA_CALLS);
            metadata.append(&mut calls(METADATA_OLD_CALLS));
            filters.push(compile(metadata, SeccompAction::Allow, error(0))?);
        }
        Ok(Self(filters))
    }

    /// Applies the filters to this process and all that it starts.
    pub(super) fn apply(&self) -> Result<(), SetupError> {
        self.0.iter().try_for_each(|filter| seccompiler::apply_filter(filter).at("system calls"))
    }
}

fn compile(
    rules: CallRules,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, SetupError> {
    let machine = std::env::consts::ARCH.try_into().at("system calls")?;
    let filter = SeccompFilter::new(rules, otherwise, matched, machine).at("system calls")?;
    filter.try_into().at("system calls")
}

fn calls(numbers: &[i64]) -> CallRules {
    numbers.iter().map(|number| (*number, Vec::new())).collect()
}

#[expect(clippy::expect_used, reason = "the conditions are constants; a test compiles all filters")]
fn rule(conditions: impl Into<Vec<SeccompCondition>>) -> SeccompRule {
    SeccompRule::new(conditions.into()).expect("at least one condition")
}

#[expect(clippy::expect_used, reason = "the arguments are constants; a test compiles all filters")]
fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> SeccompCondition {
    // The kernel considers the lower half of these arguments.
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
        .expect("an argument up to 5")
}

fn is(argument: u8, value: u64) -> SeccompCondition {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn is_not(argument: u8, value: u64) -> SeccompCondition {
    condition(argument, SeccompCmpOp::Ne, value)
}

fn has_bits(argument: u8, mask: u64, value: u64) -> SeccompCondition {
    condition(argument, SeccompCmpOp::MaskedEq(mask), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_all_levels_compile() {
        for level in [IsolationLevel::Namespaces, IsolationLevel::Landlock] {
            for own_user in [true, false] {
                let filters = CallFilters::compile(level, own_user, own_user).unwrap().0;
                let metadata = level == IsolationLevel::Landlock && own_user;
                assert_eq!(filters.len(), 2 + usize::from(metadata), "{level} {own_user}");
            }
        }
    }
}
