//! `skillhost ext build`, `ext rollback`, and `ext probe`, which tests a build.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use skillhost_builder::TrialReport;
use skillhost_control::{BuildOutcome, BuildPreview, ControlRequest, RollbackOutcome};
use skillhost_core::PluginLoader;
use skillhost_home::{ApprovalSurface, Settings};
use skillhost_kernel::{BootOptions, control, probe_extension as load};
use skillhost_operations::{BuildConsent, ask_build_consent};
use skillhost_process::ProcessSupervisor;
use skillhost_terminal::{
    CliContext, CliError, CommandResult, Output, display_safe, exit, format_details, parse_answer,
};
use tokio_util::sync::CancellationToken;

use crate::cli::ExtensionBuildArgs;
use crate::failures::kernel_error;
use crate::kernel_session::{request_from_kernel, with_kernel};

pub(super) fn cmd_ext_build(session: &CliContext, args: &ExtensionBuildArgs) -> CommandResult {
    let output = session.output;
    let preview: BuildPreview =
        request_from_kernel(session, ControlRequest::PreviewBuild { id: args.id.clone() })?;
    let surface = if args.yes { ApprovalSurface::CommandLine } else { ApprovalSurface::Terminal };
    if !args.yes {
        if output.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            let message = "its files require a review, but no approval channel is available";
            return Err(CliError::usage(message).with_hint("skillhost ext build ID --yes"));
        }
        for line in format_details(&preview.details) {
            output.print_progress(line);
        }
        let consent = BuildConsent {
            command: "ext build",
            extension: preview.id.as_str(),
            sha256: &preview.sha256,
            details: &preview.details,
            prompt: &format!("build and install {}?", preview.id),
        };
        if !ask_build_consent(session, consent)? {
            return Err(CliError::new(exit::FINDINGS, "nothing was built"));
        }
    }
    // The digest binds the approval: files changed after the preview fail the build.
    let request = ControlRequest::Build { id: args.id.clone(), sha256: preview.sha256, surface };
    let progress = BuildProgress::start(session, &args.id)?;
    let built = request_cancellable(session, request);
    drop(progress);
    let built: BuildOutcome = built?;
    if output.json {
        output.print_json(&built)?;
        return Ok(exit::OK);
    }
    let tools = match built.tools.as_slice() {
        [] => "no tools".to_owned(),
        names => format!("tools {}", names.join(" ")),
    };
    output.print_line(format!(
        "built {} {}: {}, sha256 {}",
        built.id,
        display_safe(&built.version),
        display_safe(&tools),
        built.sha256
    ))?;
    if let Some(isolation) = &built.isolation {
        output.print_line(format!("isolation: {}", isolation.level))?;
    }
    if !built.warnings.is_empty() {
        output.print_note(format!("the compiler warns:\n{}", built.warnings));
    }
    output.print_line(activation_note(built.active))?;
    Ok(exit::OK)
}

/// A line on the terminal with the time that a build has taken so far: the first build of a crate
/// compiles the SDK, which takes a minute. Removed when dropped.
struct BuildProgress {
    output: Output,
    stop: Option<CancellationToken>,
}

impl BuildProgress {
    /// Shows the line, if standard error is a terminal.
    fn start(session: &CliContext, id: &str) -> Result<Self, CliError> {
        let output = session.output;
        if output.json || !io::stderr().is_terminal() {
            return Ok(Self { output, stop: None });
        }
        let (stop, id) = (CancellationToken::new(), display_safe(id));
        let stopped = stop.clone();
        session.spawn(Box::pin(async move {
            let mut seconds = 0;
            while !stopped.is_cancelled() {
                output.redraw_line(format!("checking, building and trying {id}: {seconds} s"));
                tokio::time::sleep(Duration::from_secs(1)).await;
                seconds += 1;
            }
        }))?;
        Ok(Self { output, stop: Some(stop) })
    }
}

impl Drop for BuildProgress {
    fn drop(&mut self) {
        if let Some(stop) = &self.stop {
            stop.cancel();
            self.output.redraw_line("");
        }
    }
}

pub(super) fn cmd_ext_rollback(session: &CliContext, id: &str) -> CommandResult {
    let done: RollbackOutcome =
        request_from_kernel(session, ControlRequest::RollBack { id: id.to_owned() })?;
    if session.output.json {
        session.output.print_json(&done)?;
    } else {
        let RollbackOutcome { id, from, to, approved, active } = done;
        session.output.print_line(format!("rolled back {id}: sha256 {from} → {to}"))?;
        session.output.print_line(match approved {
            true => activation_note(active).to_owned(),
            false => format!(
                "its other files have changed since they were approved; look at it and approve it: \
                 skillhost ext approve {id}"
            ),
        })?;
    }
    Ok(exit::OK)
}

fn activation_note(active: bool) -> &'static str {
    match active {
        true => "it is in use",
        false => "it is in use from the next start",
    }
}

/// Sends a request to the kernel; Ctrl-C cancels it together with its child processes.
fn request_cancellable<T: DeserializeOwned>(
    session: &CliContext,
    request: ControlRequest,
) -> Result<T, CliError> {
    let home = session.trusted_home()?;
    if let Some(answer) = session.try_running_kernel(&home, &request)? {
        return Ok(answer);
    }
    with_kernel(session, |kernel| {
        Box::pin(async move {
            tokio::select! {
                // In order: a build that ended together with the interrupt was interrupted, too.
                biased;
                _ = tokio::signal::ctrl_c() => {
                    Err(CliError::new(exit::INTERRUPTED, "interrupted; nothing was installed"))
                }
                answer = control::execute_request(&kernel, request) => {
                    parse_answer(&answer.map_err(kernel_error)?)
                }
            }
        })
    })
}

/// Loads one extension and prints its description on one line; `ext build` runs and parses this.
pub(super) fn cmd_ext_probe(
    session: &CliContext,
    manifest: &Path,
    process_home: Option<&Path>,
) -> CommandResult {
    let home = session.trusted_home()?;
    let processes = ProcessSupervisor::with_home(process_home.map(Path::to_owned));
    let loaders: Vec<Arc<dyn PluginLoader>> = vec![Arc::new(processes)];
    // The builder writes the settings that matter for a process into the home of the trial.
    let settings = Settings::load_home(&home)?.settings;
    let options = BootOptions { loaders, ..BootOptions::new(home, settings) };
    let report = match session.block_on(Box::pin(load(options, manifest)))? {
        Ok(probed) => TrialReport::Loaded(probed),
        Err(failure) => TrialReport::Rejected(failure),
    };
    let line = serde_json::to_string(&report).map_err(io::Error::from)?;
    session.output.print_line(line)?;
    Ok(exit::OK)
}
