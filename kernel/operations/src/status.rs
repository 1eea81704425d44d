//! `skillhost status`: the kernel of a home, and what waits for its user.

mod waiting;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use skillhost_control::{
    ControlRequest, KernelLock, KernelStatus, LockHolder, PendingChange, ScheduleSummary,
    SupervisorLock, find_containment_problems,
};
use skillhost_home::{DiscoveryResult, Home, Settings, discover_manifests};
use skillhost_payload::{CallError, OperatorCommand};
use skillhost_terminal::{
    BOLD, CliContext, CliError, CommandResult, GREEN, Output, RED, YELLOW, display_safe, exit,
};

pub use waiting::WaitingReviews;
use waiting::{ReviewSource, WaitingItems};

use crate::channel::ChannelReport;
use crate::duration::format_duration;
use crate::task_store::{TaskStoreReport, count_tasks};

/// The number of schedules that are printed.
const MAX_SCHEDULES: usize = 3;

/// The state of a home and of its kernel.
#[derive(Serialize)]
struct HomeStatus {
    state: KernelState,
    /// Absent if no kernel replied.
    kernel: Option<KernelStatus>,
    /// The process that holds the kernel's lock, if it is known.
    pid: Option<u32>,
    /// The supervisor's process, if it is known.
    supervisor: Option<u32>,
    /// The version of this program.
    version: &'static str,
    home: PathBuf,
    trusted: bool,
    /// The manifests on disk; the kernel reports those in use.
    manifests: Vec<String>,
    /// The model of agents that name none; absent if the settings are not valid.
    model: Option<String>,
    settings_problem: Option<PendingChange>,
    /// What the settings exempt from containment.
    uncontained: Vec<String>,
    /// The reasons why contained programs, or some of them, cannot run.
    containment: Vec<CallError>,
    /// The number of tasks in each state that has any.
    tasks: BTreeMap<&'static str, u64>,
    /// The people of channels.
    channels: ChannelReport,
    waiting: WaitingItems,
    log: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum KernelState {
    Running,
    /// It starts, shuts down, or does not reply.
    NotReady,
    /// Its supervisor waits before the next start.
    Restarting,
    NotRunning,
}

/// Prints the state of the kernel and the decisions that wait for the user; returns the exit code 3
/// if no kernel runs. `reviews` lists those about skills.
///
/// # Errors
/// No home is found, or it is broken.
pub fn cmd_status(session: &CliContext, reviews: ReviewSource<'_>) -> CommandResult {
    let home = session.home()?;
    let status = collect(session, &home, reviews)?;
    let output = session.output;
    match output.json {
        true => output.print_json(&status)?,
        false => status.print(output)?,
    }
    Ok(if status.state == KernelState::Running { exit::OK } else { exit::NOT_FOUND })
}

fn collect(
    session: &CliContext,
    home: &Home,
    reviews: ReviewSource<'_>,
) -> Result<HomeStatus, CliError> {
    let kernel: Option<KernelStatus> = session.try_running_kernel(home, &ControlRequest::Status)?;
    let holder = KernelLock::holder(home);
    let supervisor = SupervisorLock::holder(home);
    let (settings, settings_problem) = match Settings::load_home(home) {
        Ok(loaded) => (Some(loaded.settings), None),
        Err(error) => {
            let (reason, hint) = (error.to_string(), error.hint());
            (None, Some(PendingChange { subject: "settings".to_owned(), reason, hint }))
        }
    };
    let uncontained = settings.as_ref().map(|it| it.sandbox.describe_exceptions());
    // Settings that are not valid are a problem of their own.
    let containment = match &settings_problem {
        Some(_) => Vec::new(),
        None => find_containment_problems(home),
    };
    let shadowing = settings.as_ref().map(|it| it.allow_shadowing.clone()).unwrap_or_default();
    let found = discover_manifests(home, session.installation(), &shadowing);
    // The data of a home that is not trusted is not opened.
    let tasks = match home.is_untrusted() {
        true => Ok(TaskStoreReport::default()),
        false => count_tasks(session, home),
    };
    let channels = match home.is_untrusted() {
        true => ChannelReport::default(),
        false => ChannelReport::load(session, home)?,
    };
    Ok(HomeStatus {
        channels,
        state: match (&kernel, holder, supervisor) {
            (Some(_), ..) => KernelState::Running,
            (None, Some(_), _) => KernelState::NotReady,
            (None, None, Some(_)) => KernelState::Restarting,
            (None, None, None) => KernelState::NotRunning,
        },
        pid: kernel.as_ref().map(|kernel| kernel.pid).or(holder.and_then(|holder| holder.pid)),
        supervisor: supervisor.and_then(|LockHolder { pid }| pid),
        version: env!("CARGO_PKG_VERSION"),
        home: home.root().to_owned(),
        trusted: !home.is_untrusted(),
        manifests: enabled_manifests(&found),
        model: settings.map(|settings| settings.models.default),
        settings_problem,
        uncontained: uncontained.unwrap_or_default(),
        containment,
        waiting: WaitingItems::collect(session, home, &found, kernel.as_ref(), reviews, &tasks),
        tasks: tasks.map(|report| report.tasks).unwrap_or_default(),
        log: home.log_file(),
        kernel,
    })
}

fn enabled_manifests(found: &DiscoveryResult) -> Vec<String> {
    let enabled = found.manifests.values().filter(|found| found.manifest.enabled);
    enabled.map(|found| found.manifest.id.to_string()).collect()
}

impl HomeStatus {
    fn print(&self, output: Output) -> Result<(), CliError> {
        print_field(output, "kernel", &[self.kernel_line()])?;
        let trust = if self.trusted { "" } else { " (not trusted)" };
        print_field(output, "home", &[format!("{}{trust}", self.home.display())])?;
        match &self.kernel {
            Some(kernel) => print_kernel(output, kernel)?,
            None => {
                if let Some(model) = &self.model {
                    print_field(output, "model", &[display_safe(model)])?;
                }
                let found = match self.manifests.as_slice() {
                    [] => "none".to_owned(),
                    ids => ids.join(", "),
                };
                print_field(output, "manifests", &[found])?;
            }
        }
        let problem = self.settings_problem.as_ref();
        // The kernel's own report also names the settings in force.
        let notices = self.kernel.as_ref().map(|kernel| &kernel.notices);
        let invalid = notices.and_then(|notices| notices.invalid_settings.as_ref()).or(problem);
        let pending = notices.map(|notices| notices.pending.as_slice()).unwrap_or_default();
        let changes: Vec<_> = invalid.into_iter().chain(pending).flat_map(change_lines).collect();
        if !changes.is_empty() {
            print_field(output, "changes", &changes)?;
        }
        let problems = self.containment.iter().map(|one| format!("{}; {}", one.message, one.hint));
        let lines: Vec<_> = self.uncontained.iter().cloned().chain(problems).collect();
        if !lines.is_empty() {
            let lines = lines.iter().map(|line| display_safe(line));
            let lines: Vec<_> = lines.map(|line| format!("{YELLOW}{line}{YELLOW:#}")).collect();
            print_field(output, "sandbox", &lines)?;
        }
        let tasks: Vec<_> =
            self.tasks.iter().map(|(state, count)| format!("{count} {state}")).collect();
        if !tasks.is_empty() {
            print_field(output, "tasks", &[tasks.join(", ")])?;
        }
        let channels = self.channels.lines();
        if !channels.is_empty() {
            print_field(output, "channels", &channels)?;
        }
        let waiting = match self.waiting.lines() {
            lines if lines.is_empty() => vec!["nothing".to_owned()],
            lines => lines,
        };
        print_field(output, "waiting", &waiting)?;
        if let Some(kernel) = &self.kernel {
            let next: Vec<_> =
                kernel.schedules.iter().take(MAX_SCHEDULES).map(schedule_line).collect();
            if !next.is_empty() {
                print_field(output, "schedules", &next)?;
            }
        }
        print_field(output, "log", &[self.log.display().to_string()])
    }

    fn kernel_line(&self) -> String {
        let process = |pid: Option<u32>| pid.map(|pid| format!(", process {pid}"));
        let supervisor = match self.supervisor {
            Some(pid) => format!(", supervised by process {pid}"),
            None => String::new(),
        };
        match (&self.kernel, self.state) {
            (Some(kernel), _) => {
                let version = match kernel.version == self.version {
                    true => kernel.version.clone(),
                    false => format!("{}; this program is {}", kernel.version, self.version),
                };
                let uptime = format_duration(kernel.uptime_ms);
                format!(
                    "{GREEN}running{GREEN:#}{}, for {uptime}, version {}{supervisor}",
                    process(self.pid).unwrap_or_default(),
                    display_safe(&version)
                )
            }
            (None, KernelState::Restarting) => {
                format!("{YELLOW}not running{YELLOW:#}{supervisor}, which starts it again")
            }
            (None, KernelState::NotReady) => format!(
                "{YELLOW}not ready{YELLOW:#}{}: it starts, shuts down or hangs{supervisor}",
                process(self.pid).unwrap_or_default()
            ),
            _ => format!("{YELLOW}not running{YELLOW:#}; start it: {}", OperatorCommand::RunKernel),
        }
    }
}

fn print_kernel(output: Output, kernel: &KernelStatus) -> Result<(), CliError> {
    let model = display_safe(&kernel.model);
    let model = match &kernel.model_problem {
        Some(problem) => format!("{model}: {RED}{}{RED:#}", display_safe(problem)),
        None => model,
    };
    print_field(output, "model", &[model])?;
    let loaded: Vec<_> = kernel
        .extensions
        .iter()
        .map(|loaded| format!("{} {}", loaded.id, display_safe(&loaded.version)))
        .collect();
    let mut extensions = vec![match loaded.is_empty() {
        true => "none".to_owned(),
        false => loaded.join(", "),
    }];
    let rejected = kernel.rejected.iter().map(|rejected| display_safe(&rejected.id));
    let rejected: Vec<_> = rejected.collect();
    if !rejected.is_empty() {
        let doctor = OperatorCommand::CheckExtensions;
        extensions.push(format!("{RED}rejected{RED:#} {}; see: {doctor}", rejected.join(", ")));
    }
    print_field(output, "extensions", &extensions)?;
    let agents: Vec<_> = kernel
        .agents
        .iter()
        .map(|agent| match agent.problem {
            Some(_) => format!("{RED}{}{RED:#} (unusable)", agent.id),
            None => agent.id.to_string(),
        })
        .collect();
    let agents = if agents.is_empty() { "none".to_owned() } else { agents.join(", ") };
    print_field(output, "agents", &[agents])?;
    print_field(output, "runs", &[format!("{} active", kernel.active_runs)])
}

/// The column at which the values of fields start.
const VALUE_COLUMN: usize = 12;

/// Prints a field; each further line is below the first one.
fn print_field(output: Output, name: &str, lines: &[String]) -> Result<(), CliError> {
    let mut name = name;
    for line in lines {
        output.print_wrapped(&format!("{BOLD}{name:<11}{BOLD:#} {line}"), VALUE_COLUMN)?;
        name = "";
    }
    Ok(())
}

fn change_lines(change: &PendingChange) -> Vec<String> {
    let PendingChange { subject, reason, hint } = change;
    let first = format!("{YELLOW}{}{YELLOW:#}: {}", display_safe(subject), one_line(reason));
    let hints = hint.lines().map(|line| format!("  {}", display_safe(line)));
    std::iter::once(first).chain(hints).collect()
}

fn schedule_line(schedule: &ScheduleSummary) -> String {
    let when = match (schedule.running, schedule.next.as_str()) {
        (true, _) => "runs now",
        (false, "") => "never",
        (false, next) => next,
    };
    format!("{} {}", display_safe(&schedule.id), display_safe(when))
}

fn one_line(text: &str) -> String {
    display_safe(&text.replace('\n', " "))
}
