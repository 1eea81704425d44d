//! The isolation that a run would reach, without a run.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use skillhost_policy::{IsolationLevel, IsolationRequirement, NetworkPolicy, SandboxPolicy};

use crate::isolation::{FailedLevel, IsolationReport, RefusalKind, SandboxRefusal};
use crate::kernel_settings::KernelSettings;
use crate::machine::{MachineIsolation, MachineLevel};
use crate::protocol::{
    AccessPolicy, ControlSocket, LaunchRequest, LauncherMessage, PROTOCOL_VERSION,
};
use crate::sandbox_spec::{InputMode, LevelSelection};
use crate::sandboxed_child::{SETUP_TIMEOUT, SandboxLauncher};
use crate::sys::landlock_version;

/// The number of results that are kept.
const MAX_RESULTS: usize = 256;

/// The results of this process. The state of a machine rarely improves while a program runs, and
/// each run reports its own isolation anyway.
static RESULTS: Mutex<Option<HashMap<String, IsolationReport>>> = Mutex::new(None);

impl SandboxLauncher {
    /// Returns the isolation that a run with this policy would reach on this machine.
    ///
    /// The launcher takes all steps of a run except for the program; this blocks for some
    /// milliseconds. A result is kept for this process; limits do not matter. A refusal is not
    /// kept, so that a remedy has an effect at once. As root, the result is that of a program of
    /// the system: others may be out of reach of the user of the run.
    ///
    /// # Errors
    /// [`SandboxRefusal`]: a run would be refused, too.
    pub fn probe(&self, policy: &SandboxPolicy) -> Result<IsolationReport, SandboxRefusal> {
        let key = describe_key(self, policy);
        let known = |results: &Option<HashMap<_, IsolationReport>>| {
            results.as_ref().and_then(|results| results.get(&key).cloned())
        };
        if let Some(report) = known(&RESULTS.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(report);
        }
        let report = self.probe_levels(policy, LevelSelection::default())?;
        let mut results = RESULTS.lock().unwrap_or_else(PoisonError::into_inner);
        let results = results.get_or_insert_default();
        if results.len() >= MAX_RESULTS {
            results.clear();
        }
        results.insert(key, report.clone());
        Ok(report)
    }

    /// Tries each level with a policy without paths, and explains those that fail. Blocks for
    /// some milliseconds.
    #[must_use]
    pub fn describe_machine(&self) -> MachineIsolation {
        let isolation =
            IsolationRequirement { minimum: IsolationLevel::Landlock, require: Default::default() };
        let policy = SandboxPolicy { isolation, ..SandboxPolicy::default() };
        let mut levels = Vec::new();
        for level in LevelSelection::default().levels {
            let only = LevelSelection { levels: vec![level], landlock_abi: None };
            levels.push(match self.probe_levels(&policy, only) {
                Ok(report) => MachineLevel {
                    level,
                    failure: None,
                    cgroup: report.cgroup,
                    missing: report.missing,
                },
                Err(refusal) => {
                    let failure = refusal.tried.into_iter().next();
                    let whole = FailedLevel { level, step: refusal.step, error: refusal.message };
                    MachineLevel {
                        level,
                        failure: Some(failure.unwrap_or(whole)),
                        cgroup: false,
                        missing: Vec::new(),
                    }
                }
            });
        }
        let settings = KernelSettings::read(Path::new("/"));
        let landlock_abi = landlock_version();
        let gaps = settings.explain(&levels, landlock_abi);
        MachineIsolation { kernel: settings.kernel, landlock_abi, levels, gaps }
    }

    /// Tries some levels; nothing is kept.
    pub(crate) fn probe_levels(
        &self,
        policy: &SandboxPolicy,
        levels: LevelSelection,
    ) -> Result<IsolationReport, SandboxRefusal> {
        let SandboxPolicy { filesystem, network, limits, isolation, deny_execution } =
            policy.clone();
        let request = LaunchRequest {
            v: PROTOCOL_VERSION,
            command: Vec::new(),
            cwd: PathBuf::from("/"),
            env: std::collections::BTreeMap::new(),
            stdin: InputMode::Null,
            channel: false,
            policy: AccessPolicy { filesystem, network, deny_execution },
            limits,
            isolation,
            levels: levels.levels,
            landlock_abi: levels.landlock_abi,
            probe: true,
            protected: Vec::new(),
            sockets: Vec::new(),
        };
        let failed = |error: io::Error| {
            SandboxRefusal::new(RefusalKind::Isolation, "launcher", error.to_string(), "")
        };
        match self.exchange(&request).map_err(failed)? {
            LauncherMessage::Ready { isolation } => Ok(isolation),
            LauncherMessage::Refused(refusal) => Err(refusal),
            LauncherMessage::Ended(_) => Err(failed(io::ErrorKind::InvalidData.into())),
        }
    }

    /// Sends a request to a new launcher and returns its first answer.
    fn exchange(&self, request: &LaunchRequest) -> io::Result<LauncherMessage> {
        let (mut control, theirs) = ControlSocket::create_pair()?;
        let mut command = self.to_command(theirs);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut launcher = command.spawn()?;
        // The command owns the other end of the socket, whose end is the sign of a failure.
        drop(command);
        let answer = control
            .send(request, &[])
            .and_then(|()| await_packet(&control))
            .and_then(|()| control.receive());
        // Without its socket the launcher ends by itself, except if it hangs.
        drop(control);
        if answer.is_err() {
            launcher.kill()?;
        }
        launcher.wait()?;
        let ended = || io::Error::new(io::ErrorKind::UnexpectedEof, "it has ended");
        answer?.map(|message| message.content).ok_or_else(ended)
    }
}

fn await_packet(control: &ControlSocket) -> io::Result<()> {
    let deadline = Instant::now() + SETUP_TIMEOUT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = to_timespec(left);
        let mut sources = [PollFd::new(control, PollFlags::IN)];
        match poll(&mut sources, Some(&timeout)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map(|_| ()).map_err(io::Error::from),
        }
    }
}

fn to_timespec(time: Duration) -> Timespec {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() }
}

/// Describes what the result depends on.
fn describe_key(launcher: &SandboxLauncher, policy: &SandboxPolicy) -> String {
    // All fields are named, so that a new one is considered.
    let SandboxPolicy { filesystem, network, limits: _, isolation, deny_execution: _ } = policy;
    let NetworkPolicy {
        allowed_domains,
        denied_domains: _,
        allow_unix_sockets,
        allow_local_binding: _,
    } = network;
    let IsolationRequirement { minimum, require } = isolation;
    let domains = allowed_domains.is_empty();
    let program = launcher.program();
    format!("{program:?} {filesystem:?} {domains} {allow_unix_sockets:?} {minimum:?} {require:?}")
}
