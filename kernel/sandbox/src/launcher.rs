//! The launcher: this binary, executed again with one thread, starts one program in isolation.
//!
//! It tries the levels of the request, the strongest first, each to its last step; if none has the
//! required guarantees, nothing is run. Afterwards it watches the limits until the program has
//! ended, and ends all processes that are left. The end of its control socket ends the run.

mod access_rules;
mod attempt;
mod cgroup;
mod denied_paths;
mod disk_usage;
mod error;
mod found_names;
mod git_directory;
mod host_sockets;
mod kept_files;
mod mounts;
mod open_directory;
mod policy_paths;
mod process_tree;
mod protected_names;
mod setup;
mod signal_filter;
mod single_program;
mod system_calls;
mod watch;

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::net::SocketType;
use rustix::net::sockopt::socket_type;
use rustix::process::{getpid, set_child_subreaper};
use skillhost_policy::{Guarantee, IsolationLevel};

use crate::isolation::{
    FailedLevel, IsolationReport, RefusalKind, RevertedFile, RunEnd, SandboxRefusal,
};
use crate::kernel_settings::KernelSettings;
use crate::protocol::{
    CONTROL_DESCRIPTOR, ControlSocket, LaunchRequest, LauncherMessage, PROTOCOL_VERSION,
};
use crate::sys;

use access_rules::MIN_LANDLOCK;
use attempt::{StartedProgram, choose_user, start_program};
use cgroup::ControlGroup;
use denied_paths::prepare_denied_paths;
use error::{SetupError, StepContext as _};
use host_sockets::find_host_sockets;
use policy_paths::prepare_paths;
use protected_names::ProtectedNames;
use setup::RunUser;
use watch::RunWatch;

/// The reverted files in a report, the bytes of one of their paths, and those of all in JSON.
const MAX_REVERTED: usize = 200;
const MAX_REVERTED_PATH: usize = 4 << 10;
const MAX_REVERTED_TEXT: usize = 512 << 10;

/// Runs the launcher; `false` if the socket could not be used.
pub(crate) fn run_launcher() -> bool {
    let Some(inherited) = sys::take_inherited(CONTROL_DESCRIPTOR) else { return false };
    if socket_type(&inherited) != Ok(SocketType::SEQPACKET) {
        return false;
    }
    // The number is that of the channel of the program.
    let Ok(moved) = rustix::io::fcntl_dupfd_cloexec(&inherited, 16) else { return false };
    drop(inherited);
    let mut host = ControlSocket::from_descriptor(moved);
    let message = match serve(&mut host) {
        Ok(Some(ended)) => ended,
        Ok(None) => return false,
        Err(refusal) => LauncherMessage::Refused(refusal),
    };
    host.send(&message, &[]).is_ok()
}

/// Runs the program of the request to its end; `None` if the kernel is not there any more.
fn serve(host: &mut ControlSocket) -> Result<Option<LauncherMessage>, SandboxRefusal> {
    let received = host.receive::<LaunchRequest>().at("request").map_err(to_refusal)?;
    let Some(received) = received else { return Ok(None) };
    let (mut request, channel) = (received.content, received.descriptors.into_iter().next());
    check_request(&request, channel.as_ref()).map_err(to_refusal)?;
    prepare_paths(&mut request)
        .and_then(|()| prepare_denied_paths(&mut request))
        .map_err(to_refusal)?;
    let mut names = ProtectedNames::find(&request);
    request.protected = names.existing().cloned().collect();
    request.sockets = find_host_sockets(&request);
    let watch = RunWatch::new(&request);
    let (mut program, isolation) = start_at_best_level(&request, &mut names, channel.as_ref())?;
    if request.probe {
        // Its child has ended already.
        watch.finish(program, host);
        return Ok(Some(LauncherMessage::Ready { isolation }));
    }
    // If the kernel has ended, the watch notices the closed socket and ends the program.
    let proxy = program.proxy.take();
    let attached: Vec<_> = proxy.iter().map(OwnedFd::as_fd).collect();
    let _ = host.send(&LauncherMessage::Ready { isolation }, &attached);
    drop(proxy);
    names.hold();
    let mut end = watch.finish(program, host);
    limit_report(names.revert(), &mut end);
    Ok(Some(LauncherMessage::Ended(end)))
}

/// Puts what was reverted into the report, as far as a message has room for it.
fn limit_report(reverted: Vec<RevertedFile>, end: &mut RunEnd) {
    let count = reverted.len();
    let mut room = MAX_REVERTED_TEXT;
    for mut file in reverted.into_iter().take(MAX_REVERTED) {
        for path in [Some(&mut file.path), file.from.as_mut()].into_iter().flatten() {
            path.truncate(path.floor_char_boundary(MAX_REVERTED_PATH));
        }
        // A control character takes six bytes in JSON.
        room =
            room.saturating_sub((file.path.len() + file.from.as_ref().map_or(0, String::len)) * 6);
        if room == 0 {
            break;
        }
        end.reverted.push(file);
    }
    end.more_reverted = count - end.reverted.len();
}

fn check_request(request: &LaunchRequest, channel: Option<&OwnedFd>) -> Result<(), SetupError> {
    let error = |message: String| Err(SetupError::new(RefusalKind::Policy, "request", message));
    if request.v != PROTOCOL_VERSION {
        return error(format!("version {} is not supported", request.v));
    }
    if request.channel != channel.is_some() {
        return error("`channel` does not match the attached descriptors".to_owned());
    }
    if request.command.is_empty() != request.probe {
        return error("a program is required, except for a probe".to_owned());
    }
    set_child_subreaper(Some(getpid())).at("subreaper")
}

fn start_at_best_level(
    request: &LaunchRequest,
    names: &mut ProtectedNames,
    channel: Option<&OwnedFd>,
) -> Result<(StartedProgram, IsolationReport), SandboxRefusal> {
    let version = sys::landlock_version();
    let version = request.landlock_abi.map_or(version, |assumed| version.min(assumed));
    let mut tried = Vec::new();
    for level in request.levels.iter().copied() {
        if level < request.isolation.minimum || level == IsolationLevel::None {
            continue;
        }
        let user = choose_user(request, level);
        let cgroup = ControlGroup::create(&request.limits);
        let missing = missing_guarantees(level, user, cgroup.is_some());
        let result = check_guarantees(request, level, version, &missing)
            .and_then(|()| names.keep_contents(level == IsolationLevel::Namespaces))
            .and_then(|()| start_program(request, level, user, version, channel, cgroup));
        match result {
            Ok(program) => {
                let cgroup = program.cgroup.is_some();
                let missing = missing_guarantees(level, user, cgroup);
                let report =
                    IsolationReport { level, landlock_abi: version, cgroup, missing, tried };
                return Ok((program, report));
            }
            // Another level would not change the policy or the program.
            Err(error) if error.kind != RefusalKind::Isolation => {
                return Err(to_refusal(error));
            }
            Err(error) => tried.push(FailedLevel { level, step: error.step, error: error.message }),
        }
    }
    let kind = RefusalKind::Isolation;
    let message = match tried.is_empty() {
        true => format!("no level of at least `{}` exists", request.isolation.minimum),
        false => {
            let levels: Vec<_> =
                tried.iter().map(|t| format!("{}: {}: {}", t.level, t.step, t.error)).collect();
            format!("no isolation level is available ({})", levels.join("; "))
        }
    };
    let hint = match tried.is_empty() {
        true => "lower `minimum` in the policy".to_owned(),
        false => find_hint(&tried, version),
    };
    Err(SandboxRefusal { kind, step: String::new(), message, hint, tried })
}

/// Returns the guarantees that a level does not have here.
fn missing_guarantees(level: IsolationLevel, user: RunUser, cgroup: bool) -> Vec<Guarantee> {
    let mut missing = Vec::new();
    if !cgroup {
        missing.push(Guarantee::ControlGroup);
    }
    if level != IsolationLevel::Namespaces {
        missing.extend([
            Guarantee::Domains,
            Guarantee::DenyInside,
            Guarantee::Modes,
            Guarantee::Names,
            Guarantee::Private,
        ]);
        // The limit of the system does not apply to root.
        if user == RunUser::PowerlessRoot && !cgroup {
            missing.push(Guarantee::Tasks);
        }
    }
    missing.sort();
    missing
}

/// Checks what can be known about a level before it is tried.
fn check_guarantees(
    request: &LaunchRequest,
    level: IsolationLevel,
    landlock: i32,
    missing: &[Guarantee],
) -> Result<(), SetupError> {
    let error =
        |step: &str, message: String| Err(SetupError::new(RefusalKind::Isolation, step, message));
    if level == IsolationLevel::Landlock {
        if landlock < MIN_LANDLOCK {
            let found = if landlock == 0 { "none".to_owned() } else { landlock.to_string() };
            return error("landlock", format!("version {MIN_LANDLOCK} is required, found {found}"));
        }
        if !process_tree::can_list_children() {
            return error("tree", "the kernel does not list the children of processes".to_owned());
        }
        if let Some(path) = request.policy.filesystem.denied_inside() {
            let path = path.display();
            return error("deny_inside", format!("{path} is inside of an allowed directory"));
        }
        if !request.policy.network.allow_unix_sockets.is_empty() {
            return error("private", "`allowUnixSockets` requires namespaces".to_owned());
        }
        if !request.policy.network.allowed_domains.is_empty() {
            return error("domains", "`allowedDomains` requires namespaces".to_owned());
        }
    }
    let lacking: Vec<_> = request
        .isolation
        .require
        .iter()
        .filter(|guarantee| missing.contains(guarantee))
        .map(|guarantee| guarantee.as_str())
        .collect();
    match lacking.is_empty() {
        true => Ok(()),
        false => error("require", format!("missing {}", lacking.join(", "))),
    }
}

/// Adds the remedy to an error that no other level would avoid.
fn to_refusal(error: SetupError) -> SandboxRefusal {
    let hint = match error.kind {
        RefusalKind::Start if error.message.contains("No such file") => {
            "check that the program exists, and that its directory and that of its interpreter are in `allowRead`"
        }
        RefusalKind::Start if error.message.contains("ermission denied") => {
            "check that the file is executable, and that its directory is in `allowRead`"
        }
        RefusalKind::Policy if error.message.contains("symbolic link") => {
            "name the real path in the policy"
        }
        RefusalKind::Policy if error.message.contains("does not exist") => {
            "create it, or remove it from the policy"
        }
        RefusalKind::Policy if error.message.contains("`denyRead` has") => {
            "remove the entry from `denyRead`, or start the program in another directory"
        }
        RefusalKind::Policy if error.step == "paths" => "correct this path in the policy",
        RefusalKind::Policy => "use the launcher of the same version",
        RefusalKind::Start => "check that the program can be executed",
        RefusalKind::Isolation => "try again",
    };
    SandboxRefusal::new(error.kind, &error.step, error.message, hint)
}

/// Returns the remedies for the levels that failed.
fn find_hint(tried: &[FailedLevel], landlock: i32) -> String {
    let settings = KernelSettings::read(Path::new("/"));
    let mut hints: Vec<String> = Vec::new();
    for failure in tried {
        let of_policy = match failure.step.as_str() {
            "deny_inside" => "allow only directories without denied paths",
            "domains" => "remove the hosts from `allowedDomains`",
            "private" => "remove the sockets from `allowUnixSockets`",
            "mounts: sockets" => "allow directories with fewer sockets",
            "protected names" => "use a work directory with fewer protected files",
            "require" => "remove the missing guarantees from `require`",
            _ => "",
        };
        let hint = match of_policy {
            "" => settings.explain_failure(failure, landlock).1,
            hint => hint.to_owned(),
        };
        if !hint.is_empty() && !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    hints.join("; or ")
}
