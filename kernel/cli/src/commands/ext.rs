//! `skillhost ext`: extensions, loaded and failed.

use serde::Serialize;
use skill_commands::{REGISTRY, registry_config};
use skill_service::ReviewConfig;
use skillhost_control::{
    ControlRequest, ExtensionDiagnosis, LoadReport, LoadedExtension, ReloadOutcome,
};
use skillhost_home::LoadPhase;
use skillhost_operations::{find_channel_store_problem, find_task_store_problem};
use skillhost_payload::CallError;
use skillhost_sandbox::{MachineIsolation, SandboxLauncher};
use skillhost_terminal::{
    BOLD, CliContext, CliError, CommandResult, GREEN, Output, RED, TableColumn, YELLOW,
    display_safe, exit,
};

use super::ext_isolation::print_isolation;
use super::{ext_approve, ext_build, ext_new};
use crate::cli::ExtensionCommand;
use crate::kernel_session::request_from_kernel;

pub(super) fn cmd_ext(session: &CliContext, command: &ExtensionCommand) -> CommandResult {
    match command {
        ExtensionCommand::List => list(session),
        ExtensionCommand::Doctor => doctor(session),
        ExtensionCommand::Reload { id } => reload(session, id),
        ExtensionCommand::New(args) => ext_new::cmd_ext_new(session, args),
        ExtensionCommand::Build(args) => ext_build::cmd_ext_build(session, args),
        ExtensionCommand::Rollback { id } => ext_build::cmd_ext_rollback(session, id),
        ExtensionCommand::Approve(args) => ext_approve::approve(session, args),
        ExtensionCommand::Approvals => ext_approve::list(session),
        ExtensionCommand::Revoke { id } => ext_approve::revoke(session, id),
        ExtensionCommand::Probe { manifest, process_home } => {
            ext_build::cmd_ext_probe(session, manifest, process_home.as_deref())
        }
    }
}

fn list(session: &CliContext) -> CommandResult {
    let report: LoadReport = request_from_kernel(session, ControlRequest::Report)?;
    if session.output.json {
        session.output.print_json(&report)?;
    } else {
        print_load_report(session.output, &report)?;
    }
    Ok(exit::OK)
}

/// Prints the load report as a table; details of failed extensions go to stderr.
pub(super) fn print_load_report(output: Output, report: &LoadReport) -> Result<(), CliError> {
    let mut rows = Vec::new();
    for extension in &report.loaded {
        rows.push(vec![
            extension.id.to_string(),
            "loaded".to_owned(),
            extension.version.clone(),
            provides(extension),
        ]);
    }
    for agent in &report.agents {
        rows.push(vec![agent.id.to_string(), "loaded".into(), String::new(), "agent".into()]);
    }
    for rejection in &report.rejected {
        let state = match rejection.phase {
            LoadPhase::Approve => "not approved".to_owned(),
            phase => format!("rejected ({phase})"),
        };
        let reason = rejection.reason.lines().next().unwrap_or_default();
        rows.push(vec![rejection.id.clone(), state, String::new(), reason.to_owned()]);
    }
    for id in &report.disabled {
        rows.push(vec![id.to_string(), "disabled".into(), String::new(), String::new()]);
    }
    let columns = [
        TableColumn::fixed("EXTENSION"),
        TableColumn::text("STATE"),
        TableColumn::fixed("VERSION").with_rank(1),
        TableColumn::text("PROVIDES"),
    ];
    output.print_table(&columns, &rows)?;
    for note in &report.notes {
        output.print_note(note);
    }
    if !report.rejected.is_empty() {
        output.print_note("skillhost ext doctor shows how to fix the rejected ones");
    }
    Ok(())
}

fn provides(extension: &LoadedExtension) -> String {
    let mut parts = Vec::new();
    parts.extend(extension.bundled.then(|| "bundled".to_owned()));
    if !extension.command.is_empty() {
        parts.push(match &extension.isolation {
            Some(report) if report.is_contained() => {
                format!("process ({})", report.level)
            }
            _ => "process (not isolated)".to_owned(),
        });
    }
    if !extension.tools.is_empty() {
        parts.push(format!("tools {}", extension.tools.join(" ")));
    }
    if let Some(priority) = extension.context_priority {
        parts.push(format!("context {priority}"));
    }
    if extension.service {
        parts.push("service".to_owned());
    }
    parts.extend(extension.interfaces.iter().cloned());
    parts.join(", ")
}

fn doctor(session: &CliContext) -> CommandResult {
    let diagnosis: ExtensionDiagnosis = request_from_kernel(session, ControlRequest::Diagnose)?;
    let (tasks, channels) =
        (find_task_store_problem(session)?, find_channel_store_problem(session)?);
    let is_healthy = diagnosis.healthy && tasks.is_none() && channels.is_none();
    let code = if is_healthy { exit::OK } else { exit::FINDINGS };
    let output = session.output;
    let review = match review_policy(session, &diagnosis.report) {
        // The kernel names the settings that are not valid, and works with the last valid ones.
        Err(_) if !diagnosis.pending.is_empty() => None,
        review => review?,
    };
    // That of this program; a kernel that runs as a service may also have a control group.
    let isolation = SandboxLauncher::default().describe_machine();
    if output.json {
        let review = review.as_ref();
        output.print_json(&ExtDoctorOutput {
            diagnosis: &diagnosis,
            review,
            isolation,
            tasks,
            channels,
        })?;
        return Ok(code);
    }
    let ExtensionDiagnosis { report, health, pending, delivery, containment, models, .. } =
        diagnosis;
    print_isolation(output, &isolation)?;
    for change in &pending {
        output.print_line(format!(
            "{YELLOW}pending{YELLOW:#} {BOLD}{}{BOLD:#}: {}",
            display_safe(&change.subject),
            display_safe(&change.reason.replace('\n', " "))
        ))?;
        hint(output, &change.hint)?;
    }
    if let Some(error) = delivery {
        output.print_line(format!(
            "{RED}unhealthy{RED:#} {BOLD}events{BOLD:#}: not delivered: {}",
            display_safe(&error.message)
        ))?;
        hint(output, &error.hint)?;
    }
    if let Some(problem) = tasks {
        output.print_line(format!(
            "{RED}unhealthy{RED:#} {BOLD}tasks{BOLD:#}: not executed: {}",
            display_safe(&problem.message)
        ))?;
        hint(output, &problem.hint)?;
    }
    if let Some(problem) = channels {
        output.print_line(format!(
            "{RED}unhealthy{RED:#} {BOLD}channels{BOLD:#}: off: {}",
            display_safe(&problem.message)
        ))?;
        hint(output, &problem.hint)?;
    }
    for problem in &containment {
        output.print_line(format!(
            "{RED}unhealthy{RED:#} {BOLD}sandbox{BOLD:#}: {}",
            display_safe(&problem.message)
        ))?;
        hint(output, &problem.hint)?;
    }
    for extension in &report.loaded {
        let opened = match extension.bundled {
            true => String::new(),
            false => format!("; opened in {} µs", extension.timings.total_us()),
        };
        match health.get(&extension.id).and_then(|health| health.error.as_ref()) {
            Some(error) => {
                output.print_line(format!(
                    "{RED}unhealthy{RED:#} {BOLD}{}{BOLD:#}: {}",
                    extension.id,
                    display_safe(&error.message)
                ))?;
                hint(output, &error.hint)?;
            }
            _ => output.print_line(format!(
                "{GREEN}ok{GREEN:#} {BOLD}{}{BOLD:#} {} ({}{opened})",
                extension.id,
                extension.version,
                provides(extension),
            ))?,
        }
    }
    for agent in &report.agents {
        let Some(unresolved) = models.iter().find(|unresolved| unresolved.agent == agent.id) else {
            output.print_line(format!("{GREEN}ok{GREEN:#} {BOLD}{}{BOLD:#} (agent)", agent.id))?;
            continue;
        };
        output.print_line(format!(
            "{RED}unhealthy{RED:#} {BOLD}{}{BOLD:#} (agent): model `{}`: {}",
            agent.id,
            display_safe(&unresolved.model),
            display_safe(&unresolved.message)
        ))?;
        hint(output, &unresolved.hint)?;
    }
    for id in &report.disabled {
        output.print_line(format!("{YELLOW}disabled{YELLOW:#} {BOLD}{id}{BOLD:#}"))?;
    }
    for rejection in &report.rejected {
        output.print_line(format!(
            "{RED}rejected{RED:#} {BOLD}{}{BOLD:#} in phase {}",
            display_safe(&rejection.id),
            rejection.phase
        ))?;
        output.print_line(format!("  manifest: {}", rejection.manifest.display()))?;
        for line in rejection.reason.lines() {
            output.print_line(format!("  reason: {}", display_safe(line)))?;
        }
        hint(output, &rejection.hint)?;
    }
    if let Some(review) = review {
        output.print_line(format!("{BOLD}review{BOLD:#} {}", display_safe(&review.to_string())))?;
    }
    for note in &report.notes {
        output.print_line(format!("{YELLOW}note{YELLOW:#} {}", display_safe(note)))?;
    }
    Ok(code)
}

/// The load report and the review policy for proposals.
#[derive(Serialize)]
struct ExtDoctorOutput<'d> {
    #[serde(flatten)]
    diagnosis: &'d ExtensionDiagnosis,
    #[serde(skip_serializing_if = "Option::is_none")]
    review: Option<&'d ReviewConfig>,
    /// The isolation that this machine offers.
    isolation: MachineIsolation,
    /// The problem of the file with the tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<CallError>,
    /// The problem of the file with the people of channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    channels: Option<CallError>,
}

/// Returns the review policy for proposals from the settings, or `None` without a registry.
fn review_policy(
    session: &CliContext,
    report: &LoadReport,
) -> Result<Option<ReviewConfig>, CliError> {
    if report.loaded.iter().all(|extension| extension.id.as_str() != REGISTRY) {
        return Ok(None);
    }
    Ok(Some(registry_config(session, &session.home()?)?.review))
}

fn hint(output: Output, text: &str) -> Result<(), CliError> {
    text.lines().try_for_each(|line| output.print_line(format!("  hint: {}", display_safe(line))))
}

fn reload(session: &CliContext, id: &str) -> CommandResult {
    let home = session.trusted_home()?;
    let request = ControlRequest::Reload { id: id.to_owned() };
    let Some(reloaded) = session.try_running_kernel::<ReloadOutcome>(&home, &request)? else {
        let home = home.root().display();
        return Err(CliError::new(exit::NOT_FOUND, format!("no kernel runs for {home}"))
            .with_hint("the next `skillhost run` loads the new build anyway"));
    };
    if session.output.json {
        session.output.print_json(&reloaded)?;
    } else if reloaded.from.is_empty() {
        let ReloadOutcome { id, to, switched_ms, .. } = reloaded;
        session.output.print_line(format!("started {id} {to} (after {switched_ms} ms)"))?;
    } else {
        let ReloadOutcome { id, from, to, switched_ms, drained_ms } = reloaded;
        // Only an agent has no old build that ends.
        let ended = match drained_ms > switched_ms || !from.contains(' ') {
            true => format!(", the old build ended after {drained_ms} ms"),
            false => String::new(),
        };
        session.output.print_line(format!(
            "reloaded {id}: {from} → {to} (switched after {switched_ms} ms{ended})"
        ))?;
    }
    Ok(exit::OK)
}
