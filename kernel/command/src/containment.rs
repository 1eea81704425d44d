//! The containment of a command: its policy, its scratch directory and the isolation it reaches.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use skillhost_files::RunDirectory;
use skillhost_home::{Home, SettingsError, load_operator_policy};
use skillhost_payload::{CallError, ErrorKind};
use skillhost_policy::{ComposedPolicy, PolicyError, PolicyRequest, PolicyUse};
use skillhost_sandbox::{IsolationReport, RefusalKind, SandboxLauncher, SandboxRefusal};

use crate::environment::command_environment;
use crate::toolchains::find_toolchains;

/// The name of the scratch directory in digests and approvals.
const SCRATCH: &str = "@scratch";

/// The containment of one command.
pub(crate) enum Containment {
    /// The operator has set `sandbox: off`.
    Off,
    /// The command runs in isolation.
    Contained(Box<ContainedCommand>),
}

/// The policy of a command and what it needs.
pub(crate) struct ContainedCommand {
    /// The policy; its minimum is the level that the approval states.
    pub(crate) composed: ComposedPolicy,
    /// The isolation that the command will reach.
    pub(crate) isolation: IsolationReport,
    /// The complete environment.
    pub(crate) environment: BTreeMap<OsString, OsString>,
    /// Its home directory and temporary directory, removed with this value.
    scratch: RunDirectory,
}

/// Prepares the containment of a command that may change the directory `writable`. Blocks.
///
/// # Errors
/// The settings are not valid, or the machine does not offer the required isolation.
pub(crate) fn prepare_containment(
    home: &Home,
    launcher: &SandboxLauncher,
    writable: &Path,
    timeout: Duration,
) -> Result<Containment, CallError> {
    let operator = load_operator_policy(home).map_err(|error| to_settings_error(&error))?;
    if operator.is_off(PolicyUse::Command, None) {
        return Ok(Containment::Off);
    }
    let io_error = |error: std::io::Error| CallError::new(ErrorKind::Io, error.to_string());
    let scratch = RunDirectory::create().map_err(io_error)?;
    let scratch_path = scratch.path().to_owned();
    let variable = |name: &str| std::env::var_os(name);
    let toolchains = find_toolchains(&operator.user_home, variable);
    let mut base = PolicyUse::Command.default_policy(writable);
    base.filesystem.allow_write.push(scratch_path.clone());
    base.filesystem.allow_read = toolchains.readable;
    let request = PolicyRequest {
        policy_use: PolicyUse::Command,
        id: None,
        base,
        approved_layer: None,
        operator_layer: None,
        layers: &[],
        work: writable,
        aliases: &[(&scratch_path, SCRATCH)],
    };
    let mut composed = operator.compose(request).map_err(|error| to_policy_error(&error))?;
    // The toolchains are offered, not required: the operator may have denied them.
    let files = &mut composed.policy.filesystem;
    files.allow_read.retain(|path| !files.deny_read.iter().any(|denied| path.starts_with(denied)));
    // The limit of the launcher is in seconds.
    let seconds = timeout.as_millis().div_ceil(1000).max(1);
    let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
    let limits = &mut composed.policy.limits;
    limits.seconds = Some(limits.seconds.map_or(seconds, |limit| limit.min(seconds)));
    let isolation = launcher.probe(&composed.policy).map_err(to_refusal_error)?;
    // A weaker level than the approved one is refused.
    composed.policy.isolation.minimum = isolation.level;
    let mut environment = command_environment(variable);
    environment.insert("PATH".into(), toolchains.search_path);
    add_private_directories(&mut environment, &operator.user_home, &scratch_path);
    let contained = ContainedCommand { composed, isolation, environment, scratch };
    Ok(Containment::Contained(Box::new(contained)))
}

/// Replaces the directories that programs write to, and keeps those of toolchains.
fn add_private_directories(
    environment: &mut BTreeMap<OsString, OsString>,
    user_home: &Path,
    scratch: &Path,
) {
    for (name, below) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let place = user_home.join(below);
        if place.is_dir() {
            environment.entry(name.into()).or_insert_with(|| place.into());
        }
    }
    environment.insert("HOME".into(), scratch.into());
    environment.insert("TMPDIR".into(), scratch.into());
    // The repository may belong to another user than the one of the run.
    for (name, value) in [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "safe.directory"),
        ("GIT_CONFIG_VALUE_0", "*"),
    ] {
        environment.insert(name.into(), value.into());
    }
}

impl ContainedCommand {
    /// Returns the policy in short, for an approval.
    pub(crate) fn describe(&self) -> String {
        let policy = &self.composed.policy;
        let named = |paths: &[PathBuf]| {
            let paths = paths.iter().filter(|path| !path.starts_with(self.scratch_path()));
            paths.map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        };
        let writes = match named(&policy.filesystem.allow_write) {
            writes if writes.is_empty() => "nothing".to_owned(),
            writes => writes,
        };
        let mut reads = named(&policy.filesystem.allow_read);
        if !reads.is_empty() {
            reads.insert_str(0, ", ");
        }
        let domains = &policy.network.allowed_domains;
        let network = match domains.is_empty() {
            true => "no network".to_owned(),
            false => {
                let names: Vec<_> = domains.iter().map(ToString::to_string).collect();
                format!("network: {}", names.join(", "))
            }
        };
        let mut text = format!("writes: {writes}\nreads: that, the system{reads}\n{network}");
        let sockets = named(&policy.network.allow_unix_sockets);
        if !sockets.is_empty() {
            text.push_str(&format!("\nsockets: {sockets}"));
        }
        text
    }

    fn scratch_path(&self) -> &Path {
        self.scratch.path()
    }
}

fn to_settings_error(error: &SettingsError) -> CallError {
    CallError::new(ErrorKind::Unavailable, format!("the settings are not valid: {error}"))
        .with_hint(error.hint())
}

fn to_policy_error(error: &PolicyError) -> CallError {
    let message = format!("the policy of commands is not valid: {error}");
    CallError::new(ErrorKind::InvalidArgument, message)
        .with_hint(error.hint_or("the operator can correct `sandbox.commands` in skillhost.yaml"))
}

/// Returns the error of a command that was not run.
pub(crate) fn to_refusal_error(refusal: SandboxRefusal) -> CallError {
    let message = format!("the command was not run: {refusal}");
    let kind = match refusal.kind {
        RefusalKind::Policy => ErrorKind::InvalidArgument,
        RefusalKind::Isolation => ErrorKind::Unavailable,
        RefusalKind::Start => ErrorKind::Io,
    };
    let is_inside = refusal.tried.iter().any(|level| level.step.starts_with("deny_inside"));
    let hint = match is_inside {
        // The private data of extensions are inside of the sandbox.
        true => format!("{}; or name a directory below sandbox", refusal.hint),
        false => refusal.hint,
    };
    CallError::new(kind, message).with_hint(hint)
}
