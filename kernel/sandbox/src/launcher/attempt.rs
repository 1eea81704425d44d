//! The start of a program at one level.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, chown};
use std::path::Path;

use rustix::process::{Pid, Signal, WaitOptions, getgid, getuid, kill_process, waitpid};
use skillhost_policy::{Guarantee, IsolationLevel};

use super::cgroup::ControlGroup;
use super::error::{SetupError, StepContext as _};
use super::mounts::copy_trees;
use super::policy_paths::{NOBODY, nobody_can_use};
use super::setup::{RunSetup, RunUser, SetupMessage};
use super::signal_filter::SignalListener;
use crate::isolation::RefusalKind;
use crate::protocol::{ControlSocket, LaunchRequest};
use crate::sys;

/// The namespaces of the level `namespaces`.
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

/// A program that was started.
pub(super) struct StartedProgram {
    /// The program, or the first process of its namespace.
    pub(super) pid: Pid,
    pub(super) level: IsolationLevel,
    /// The socket of the first process of a namespace.
    pub(super) control: ControlSocket,
    /// The signals that wait for a decision, where the kernel does not decide itself.
    pub(super) signals: Option<SignalListener>,
    pub(super) cgroup: Option<ControlGroup>,
    /// The listener for connections to the allowed hosts.
    pub(super) proxy: Option<OwnedFd>,
}

/// The descriptors that a child has sent before its program was started.
#[derive(Default)]
struct ChildDescriptors {
    signals: Option<SignalListener>,
    proxy: Option<OwnedFd>,
}

/// Returns the user of a run at a level.
pub(super) fn choose_user(request: &LaunchRequest, level: IsolationLevel) -> RunUser {
    if !getuid().is_root() {
        return RunUser::Own;
    }
    let files = &request.policy.filesystem;
    let reachable = || {
        // A probe stands for the programs of the system.
        (request.probe || find_program(request).is_some_and(|path| nobody_can_use(&path, false)))
            && nobody_can_use(&request.cwd, false)
            && files.allow_read.iter().all(|path| nobody_can_use(path, false))
            && files.allow_write.iter().all(|path| nobody_can_use(path, true))
    };
    match level {
        // In a container with a single user, root is an ordinary user of the machine.
        IsolationLevel::Namespaces if !can_become_nobody() => RunUser::Own,
        _ if !can_become_nobody() => RunUser::PowerlessRoot,
        // Mounts can change the owners of files.
        IsolationLevel::Namespaces => RunUser::Nobody,
        _ if reachable() => RunUser::Nobody,
        _ => RunUser::PowerlessRoot,
    }
}

/// Tests whether the user namespace of the launcher has the user `nobody`.
fn can_become_nobody() -> bool {
    let has_id = |file: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        text.lines().any(|line| {
            let mut fields = line.split_whitespace().map(|field| field.parse::<u64>().unwrap_or(0));
            let (first, _, count) = (fields.next(), fields.next(), fields.next());
            let first = first.unwrap_or(u64::MAX);
            (first..first.saturating_add(count.unwrap_or(0))).contains(&u64::from(NOBODY))
        })
    };
    let may_set_groups =
        fs::read_to_string("/proc/self/setgroups").is_ok_and(|text| text.trim() == "allow");
    may_set_groups && has_id("/proc/self/uid_map") && has_id("/proc/self/gid_map")
}

/// Returns the file of the program, which may be in the search path of the run.
fn find_program(request: &LaunchRequest) -> Option<std::path::PathBuf> {
    let program = Path::new(request.command.first()?);
    let candidates = match program.components().count() {
        1 => {
            let path = request.env.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", |p| p);
            std::env::split_paths(path).map(|directory| directory.join(program)).collect()
        }
        _ => vec![request.cwd.join(program)],
    };
    candidates.into_iter().find_map(|path| path.canonicalize().ok())
}

/// Starts the program at a level.
///
/// # Errors
/// The step that failed; nothing of the program has run then.
pub(super) fn start_program(
    request: &LaunchRequest,
    level: IsolationLevel,
    user: RunUser,
    landlock: i32,
    channel: Option<&OwnedFd>,
    mut cgroup: Option<ControlGroup>,
) -> Result<StartedProgram, SetupError> {
    let (mut control, theirs) = ControlSocket::create_pair().at("socket")?;
    let channel = channel.map(OwnedFd::try_clone).transpose().at("channel")?;
    let isolated = level == IsolationLevel::Namespaces;
    // Only root of the machine may copy trees with other owners, and not in a namespace.
    let trees = match isolated && user == RunUser::Nobody {
        true => Some(copy_trees_for_nobody(request)?),
        false => None,
    };
    if user == RunUser::Nobody {
        give_pipes_away()?;
    }
    let namespaces = if isolated { NAMESPACES } else { 0 };
    let Some(pid) = sys::clone_process(namespaces).at("clone")? else {
        drop(control);
        let setup = RunSetup { request, level, landlock, user, trees, channel, control: theirs };
        setup.run()
    };
    drop((theirs, trees));
    let prepared = match isolated {
        true => map_run_ids(pid, user),
        false => Ok(()),
    };
    let prepared = prepared
        .and_then(|()| join_group(request, pid, &mut cgroup))
        .and_then(|()| control.send(&SetupMessage::Continue, &[]).at("socket"));
    match prepared.and_then(|()| await_start(&mut control, isolated)) {
        Ok(ChildDescriptors { signals, proxy }) => {
            Ok(StartedProgram { pid, level, control, signals, cgroup, proxy })
        }
        Err(error) => {
            // It has ended already, or nothing can be done about it.
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            Err(error)
        }
    }
}

/// Moves the child into its group. Without it the limits are checked, if that is sufficient.
fn join_group(
    request: &LaunchRequest,
    pid: Pid,
    cgroup: &mut Option<ControlGroup>,
) -> Result<(), SetupError> {
    match cgroup.as_ref().map_or(Ok(()), |group| group.add(pid)).at("cgroup") {
        Err(error) if request.isolation.require.contains(&Guarantee::ControlGroup) => Err(error),
        Err(_) => {
            *cgroup = None;
            Ok(())
        }
        added => added,
    }
}

/// Waits until the child has started the program.
fn await_start(
    control: &mut ControlSocket,
    isolated: bool,
) -> Result<ChildDescriptors, SetupError> {
    let mut received = ChildDescriptors::default();
    loop {
        let Some(message) = control.receive::<SetupMessage>().at("socket")? else {
            return match isolated {
                // The program itself replaces the child, which closes the socket.
                false => Ok(received),
                true => {
                    let kind = RefusalKind::Isolation;
                    Err(SetupError::new(kind, "set-up", "it ended unexpectedly"))
                }
            };
        };
        match message.content {
            SetupMessage::Failed(error) => return Err(error),
            SetupMessage::Listener => {
                let listener = message.descriptors.into_iter().next();
                received.signals = listener.map(SignalListener::from_descriptor);
            }
            SetupMessage::Proxy => received.proxy = message.descriptors.into_iter().next(),
            _ => return Ok(received),
        }
    }
}

/// Makes the pipes of the run belong to its user, who could not open `/dev/stderr` otherwise.
fn give_pipes_away() -> Result<(), SetupError> {
    for stream in ["/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2"] {
        if fs::metadata(stream).at(stream)?.file_type().is_fifo() {
            chown(stream, Some(NOBODY), None).at(stream)?;
        }
    }
    Ok(())
}

/// Maps the user of the run, and root for the set-up if the launcher is root.
fn map_run_ids(pid: Pid, user: RunUser) -> Result<(), SetupError> {
    let map = |own: u32| match user {
        RunUser::Own => format!("{own} {own} 1\n"),
        _ => format!("0 0 1\n{NOBODY} {NOBODY} 1\n"),
    };
    let (users, groups) = (map(getuid().as_raw()), map(getgid().as_raw()));
    write_id_maps(pid, user == RunUser::Own, &users, &groups)
}

fn write_id_maps(pid: Pid, deny: bool, users: &str, groups: &str) -> Result<(), SetupError> {
    let file = |name: &str| format!("/proc/{}/{name}", pid.as_raw_pid());
    if deny {
        fs::write(file("setgroups"), "deny").at("setgroups")?;
    }
    fs::write(file("uid_map"), users).at("uid_map")?;
    fs::write(file("gid_map"), groups).at("gid_map")
}

/// Copies the trees so that the files of root belong to `nobody` in them, and new files to root on
/// the disk. File systems without that feature are used if `nobody` can reach the paths anyway.
fn copy_trees_for_nobody(
    request: &LaunchRequest,
) -> Result<Vec<super::mounts::DetachedTree>, SetupError> {
    let mapped = create_owner_map().and_then(|owners| copy_trees(request, Some(owners.as_fd())));
    let files = &request.policy.filesystem;
    match mapped {
        Err(error) => {
            let usable = files.allow_read.iter().all(|path| nobody_can_use(path, false))
                && files.allow_write.iter().all(|path| nobody_can_use(path, true));
            if usable { copy_trees(request, None) } else { Err(error) }
        }
        mapped => mapped,
    }
    .map_err(|error| error.within("mounts"))
}

/// Creates a user namespace that exchanges root and `nobody`.
fn create_owner_map() -> Result<OwnedFd, SetupError> {
    let (control, mut theirs) = ControlSocket::create_pair().at("owners")?;
    let Some(pid) = sys::clone_process(libc::CLONE_NEWUSER).at("owners")? else {
        drop(control);
        // Lives until the launcher has opened the namespace.
        let _ = theirs.receive::<SetupMessage>();
        sys::exit_child(0)
    };
    drop(theirs);
    let after = NOBODY + 1;
    let map = format!(
        "0 {NOBODY} 1\n{NOBODY} 0 1\n1 1 {}\n{after} {after} {}\n",
        NOBODY - 1,
        u32::MAX - after
    );
    let namespace = write_id_maps(pid, false, &map, &map)
        .and_then(|()| fs::File::open(format!("/proc/{}/ns/user", pid.as_raw_pid())).at("owners"));
    drop(control);
    waitpid(Some(pid), WaitOptions::empty()).at("owners")?;
    Ok(namespace?.into())
}
