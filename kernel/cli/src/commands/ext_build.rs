//! `skillhost ext build`, `ext rollback`, and `ext probe`, which tries what was built.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use skillhost_build::TrialReport;
use skillhost_kernel::control::{self, ControlRequest};
use skillhost_kernel::{
    ApprovalSurface, BootOptions, BuildOutcome, BuildPreview, RollbackOutcome, Settings,
    probe_extension as load,
};
use skillhost_process::ProcessSupervisor;

use super::talk::shown_details;
use crate::cli::ExtBuildArgs;
use crate::error::CliError;
use crate::exit;
use crate::output::{BOLD, Outcome, show};
use crate::session::Session;

pub(super) fn build(session: &Session, args: &ExtBuildArgs) -> Outcome {
    let output = session.output;
    let preview: BuildPreview =
        session.answer(ControlRequest::PreviewBuild { id: args.id.clone() })?;
    let surface = if args.yes { ApprovalSurface::CommandLine } else { ApprovalSurface::Terminal };
    if !args.yes {
        if output.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            let message = "its files have to be looked at, and nobody can be asked here";
            return Err(CliError::usage(message).hint("skillhost ext build ID --yes"));
        }
        for line in shown_details(&preview.details) {
            output.aside(line);
        }
        output.aside(format!("{BOLD}build and install {}?{BOLD:#} [y]es, [N]o", preview.id));
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        if !matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
            return Err(CliError::new(exit::FINDINGS, "nothing was built"));
        }
    }
    let request = ControlRequest::Build { id: args.id.clone(), sha256: preview.sha256, surface };
    let built: BuildOutcome = interruptible(session, request)?;
    if output.json {
        output.object(&built)?;
        return Ok(exit::OK);
    }
    let tools = match built.tools.as_slice() {
        [] => "no tools".to_owned(),
        names => format!("tools {}", names.join(" ")),
    };
    output.line(format!(
        "built {} {}: {}, sha256 {}",
        built.id,
        show(&built.version),
        show(&tools),
        built.sha256
    ))?;
    if !built.warnings.is_empty() {
        output.note(format!("the compiler warns:\n{}", built.warnings));
    }
    output.line(when(built.active))?;
    Ok(exit::OK)
}

pub(super) fn roll_back(session: &Session, id: &str) -> Outcome {
    let done: RollbackOutcome = session.answer(ControlRequest::RollBack { id: id.to_owned() })?;
    if session.output.json {
        session.output.object(&done)?;
    } else {
        let RollbackOutcome { id, from, to, approved, active } = done;
        session.output.line(format!("rolled back {id}: sha256 {from} → {to}"))?;
        session.output.line(match approved {
            true => when(active).to_owned(),
            false => format!(
                "its other files have changed since they were approved; look at it and approve it: \
                 skillhost ext approve {id}"
            ),
        })?;
    }
    Ok(exit::OK)
}

fn when(active: bool) -> &'static str {
    match active {
        true => "it is in use",
        false => "it is in use from the next start on",
    }
}

/// Has a request answered; Ctrl-C ends it and everything it has started.
fn interruptible<T: DeserializeOwned>(
    session: &Session,
    request: ControlRequest,
) -> Result<T, CliError> {
    let home = session.trusted_home()?;
    if let Some(answer) = session.ask_running(&home, &request)? {
        return Ok(answer);
    }
    session.with_kernel(async |kernel| {
        tokio::select! {
            answer = control::execute_request(kernel, request) => {
                let answer = answer?;
                Ok(serde_json::from_str(answer.get()).map_err(io::Error::from)?)
            }
            _ = tokio::signal::ctrl_c() => {
                Err(CliError::new(exit::INTERRUPTED, "interrupted; nothing was installed"))
            }
        }
    })
}

/// Loads one extension and says what it is, on one line: what `ext build` starts and reads.
pub(super) fn probe(session: &Session, manifest: &Path, process_home: Option<&Path>) -> Outcome {
    let home = session.trusted_home()?;
    let processes = Arc::new(ProcessSupervisor::default());
    let process_home = process_home.map(Path::to_owned);
    let options =
        BootOptions { processes, process_home, ..BootOptions::new(home, Settings::default()) };
    let report = match session.block_on(load(options, manifest))? {
        Ok(probed) => TrialReport::Loaded(probed),
        Err(failure) => TrialReport::Rejected(failure),
    };
    let line = serde_json::to_string(&report).map_err(io::Error::from)?;
    session.output.line(line)?;
    Ok(exit::OK)
}
