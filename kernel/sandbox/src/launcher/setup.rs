//! The steps between `clone` and the program: everything is given up, one after another.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{
    DumpableBehavior, Gid, Resource, Rlimit, Signal, Uid, WaitOptions, WaitStatus, getgid,
    getrlimit, getuid, set_dumpable_behavior, set_parent_process_death_signal, setrlimit, setsid,
    umask, wait,
};
use rustix::system::sethostname;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, set_capabilities,
    set_capabilities_secure_bits, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use serde::{Deserialize, Serialize};
use skillhost_broker::PROXY_PORT;
use skillhost_policy::IsolationLevel;

use super::access_rules::{PORT_LANDLOCK, SCOPED_LANDLOCK, restrict_access};
use super::error::{SetupError, StepContext as _};
use super::mounts::{DetachedTree, copy_trees, enter_new_root, make_private};
use super::policy_paths::NOBODY;
use super::process_tree::count_user_tasks;
use super::signal_filter::apply_signal_filter;
use super::single_program::{execute_program, spawn_program};
use super::system_calls::CallFilters;
use crate::isolation::RefusalKind;
use crate::protocol::{CONTROL_DESCRIPTOR, ControlSocket, LaunchRequest};
use crate::sandbox_spec::InputMode;
use crate::sys;

/// The number of descriptors that a process may open.
const MAX_DESCRIPTORS: u64 = 1024;

/// The locked memory of a process, in bytes.
const MAX_LOCKED_MEMORY: u64 = 1 << 20;

/// The user of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunUser {
    /// The user of the kernel.
    Own,
    /// The user who owns nothing, if the kernel runs as root.
    Nobody,
    /// Root without capabilities, where `nobody` cannot reach the files.
    PowerlessRoot,
}

/// A message between the launcher and its child.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SetupMessage {
    /// The ids of the child are mapped and its limits are set.
    Continue,
    /// The attached descriptor receives the calls that send signals.
    Listener,
    /// The attached descriptor is the listener for connections to the allowed hosts.
    Proxy,
    /// The program was started, or would be.
    Started,
    /// A step failed; the child ends.
    Failed(SetupError),
    /// The program has ended.
    Exited { code: Option<i32>, signal: Option<i32>, left_over: usize },
}

/// A run whose isolation is to be set up in this process.
pub(super) struct RunSetup<'a> {
    pub(super) request: &'a LaunchRequest,
    pub(super) level: IsolationLevel,
    pub(super) landlock: i32,
    pub(super) user: RunUser,
    /// The trees that the launcher has copied already.
    pub(super) trees: Option<Vec<DetachedTree>>,
    pub(super) channel: Option<OwnedFd>,
    pub(super) control: ControlSocket,
}

impl RunSetup<'_> {
    /// Sets up the isolation and runs the program; ends this process.
    pub(super) fn run(mut self) -> ! {
        let code = match self.isolate().and_then(|()| self.run_program()) {
            Ok(()) => 0,
            Err(error) => {
                // Without the launcher, the message has no reader.
                let _ = self.control.send(&SetupMessage::Failed(error), &[]);
                125
            }
        };
        sys::exit_child(code)
    }

    fn isolate(&mut self) -> Result<(), SetupError> {
        match self.control.receive::<SetupMessage>().at("launcher")? {
            Some(message) if matches!(message.content, SetupMessage::Continue) => {}
            _ => return Err(SetupError::new(RefusalKind::Isolation, "launcher", "it has ended")),
        }
        // Compiled first: nothing after the limits should allocate much.
        let own_user = self.user != RunUser::Nobody;
        // Landlock denies the ports alone, where it can.
        let may_listen =
            self.request.policy.network.allow_local_binding || self.landlock >= PORT_LANDLOCK;
        let filters = CallFilters::compile(self.level, own_user, may_listen)?;
        setsid().at("session")?;
        umask(Mode::from_raw_mode(0o022));
        if self.level == IsolationLevel::Namespaces {
            self.enter_namespaces()?;
        }
        self.drop_privileges()?;
        // Both are reset by a change of the user.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).at("dumpable")?;
        set_parent_process_death_signal(Some(Signal::KILL)).at("death signal")?;
        self.limit_resources().at("limits")?;
        if self.landlock > 0 {
            restrict_access(self.request, self.level, self.landlock)?;
        }
        if self.level == IsolationLevel::Landlock && self.landlock < SCOPED_LANDLOCK {
            let listener = apply_signal_filter()?;
            self.control.send(&SetupMessage::Listener, &[listener.as_fd()]).at("signals")?;
        }
        filters.apply()
    }

    fn enter_namespaces(&mut self) -> Result<(), SetupError> {
        let mounts = |error: SetupError| error.within("mounts");
        make_private().map_err(mounts)?;
        let trees = match self.trees.take() {
            Some(trees) => trees,
            None => copy_trees(self.request, None).map_err(mounts)?,
        };
        let (user, group) = match self.user {
            RunUser::Nobody => (NOBODY, NOBODY),
            _ => (getuid().as_raw(), getgid().as_raw()),
        };
        enter_new_root(self.request, trees, user, group).map_err(mounts)?;
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
                .at("loopback")?;
        sys::start_loopback(socket.as_fd()).at("loopback")?;
        if !self.request.policy.network.allowed_domains.is_empty() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT)).at("proxy")?;
            self.control.send(&SetupMessage::Proxy, &[listener.as_fd()]).at("proxy")?;
        }
        sethostname(b"sandbox").at("host name")
    }

    fn drop_privileges(&self) -> Result<(), SetupError> {
        match self.user {
            RunUser::Own if !getuid().is_root() => {}
            RunUser::Nobody => {
                let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
                set_thread_groups(&[]).at("groups")?;
                set_thread_res_gid(group, group, group).at("group")?;
                set_thread_res_uid(user, user, user).at("user")?;
            }
            RunUser::Own | RunUser::PowerlessRoot => {
                // Without this bit a program of root would get capabilities again; `no_new_privs`,
                // which the filters set, prevents it as well where the bit is not allowed.
                let bits = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
                let _ = set_capabilities_secure_bits(bits);
            }
        }
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets).at("capabilities")
    }

    fn limit_resources(&self) -> io::Result<()> {
        let limits = &self.request.limits;
        let mebibytes = |count: u64| count.saturating_mul(1 << 20);
        // A limit of tasks counts all processes of the user, except in a user namespace.
        let others = match self.level {
            // The first process of the namespace is not one of the program.
            IsolationLevel::Namespaces => 1,
            _ => count_user_tasks(getuid().as_raw()),
        };
        for (resource, limit) in [
            (Resource::Data, mebibytes(limits.memory_mib)),
            (Resource::Fsize, mebibytes(limits.file_mib)),
            (Resource::Nofile, MAX_DESCRIPTORS),
            (Resource::Nproc, limits.tasks.saturating_add(others)),
            // One byte: nothing is written, and with 0 a dump program of the host would start.
            (Resource::Core, 1),
            (Resource::Memlock, MAX_LOCKED_MEMORY),
            (Resource::Msgqueue, 0),
        ] {
            lower_limit(resource, limit)?;
        }
        match limits.seconds {
            Some(seconds) => lower_limit(Resource::Cpu, seconds.saturating_add(1)),
            None => Ok(()),
        }
    }

    fn run_program(&mut self) -> Result<(), SetupError> {
        if self.request.probe {
            return self.control.send(&SetupMessage::Started, &[]).at("launcher");
        }
        if let Some(channel) = self.channel.take() {
            sys::set_inherited(&channel, CONTROL_DESCRIPTOR).at("channel")?;
        }
        let first = CONTROL_DESCRIPTOR + i32::from(self.request.channel);
        sys::close_on_exec_from(first).at("descriptors")?;
        if self.request.policy.deny_execution {
            if self.level != IsolationLevel::Namespaces {
                return Err(execute_program(self.request));
            }
            let child = spawn_program(self.request)?;
            return self.await_program(child.as_raw_pid().cast_unsigned());
        }
        let [program, arguments @ ..] = &self.request.command[..] else {
            return Err(SetupError::new(RefusalKind::Start, "start", "no program is given"));
        };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.request.cwd).env_clear().envs(&self.request.env);
        if self.request.stdin == InputMode::Null {
            command.stdin(Stdio::null());
        }
        let start_error = |error: io::Error| {
            SetupError::new(RefusalKind::Start, "start", format!("{program}: {error}"))
        };
        if self.level != IsolationLevel::Namespaces {
            return Err(start_error(command.exec()));
        }
        let child = command.spawn().map_err(start_error)?;
        drop(command);
        self.await_program(child.id())
    }

    /// Reports the start and the end of the program in a namespace.
    fn await_program(&mut self, child: u32) -> Result<(), SetupError> {
        self.control.send(&SetupMessage::Started, &[]).at("launcher")?;
        let status = wait_for(child).at("wait")?;
        // They end with this process, the first of its namespace.
        let left_over = count_processes().saturating_sub(1);
        let (code, signal) = (status.exit_status(), status.terminating_signal());
        self.control.send(&SetupMessage::Exited { code, signal, left_over }, &[]).at("launcher")
    }
}

/// Waits for a child. Orphans that end before are children of this process, too.
fn wait_for(child: u32) -> io::Result<WaitStatus> {
    loop {
        if let Some((pid, status)) = rustix::io::retry_on_intr(|| wait(WaitOptions::empty()))?
            && pid.as_raw_pid().cast_unsigned() == child
        {
            return Ok(status);
        }
    }
}

/// Counts the processes of this process namespace.
fn count_processes() -> usize {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok()).count()
}

fn lower_limit(resource: Resource, limit: u64) -> io::Result<()> {
    let limit = Some(limit.min(getrlimit(resource).maximum.unwrap_or(u64::MAX)));
    Ok(setrlimit(resource, Rlimit { current: limit, maximum: limit })?)
}
