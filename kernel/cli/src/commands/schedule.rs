//! `skillhost schedule`: scheduled jobs.

use serde_json::json;
use skillhost_control::{ControlRequest, LastRun, ScheduleRunOutcome, ScheduleSummary};
use skillhost_terminal::{CliContext, CommandResult, TableColumn, display_safe, exit};

use crate::cli::ScheduleCommand;
use crate::kernel_session::request_from_kernel;

/// The number of characters of an error in the table.
const ERROR: usize = 80;

pub(super) fn cmd_schedule(session: &CliContext, command: &ScheduleCommand) -> CommandResult {
    match command {
        ScheduleCommand::List => list(session),
        ScheduleCommand::Run { id } => run(session, id),
    }
}

fn list(session: &CliContext) -> CommandResult {
    let running =
        session.try_running_kernel(&session.trusted_home()?, &ControlRequest::Schedules)?;
    let watched = running.is_some();
    let schedules: Vec<ScheduleSummary> = match running {
        Some(schedules) => schedules,
        None => request_from_kernel(session, ControlRequest::Schedules)?,
    };
    let output = session.output;
    if output.json {
        output.print_json(&json!({ "running": watched, "schedules": schedules }))?;
        return Ok(exit::OK);
    }
    if schedules.is_empty() {
        output.print_note("there are no schedules; a manifest has them under `schedules`");
        return Ok(exit::OK);
    }
    let rows: Vec<_> = schedules
        .iter()
        .map(|schedule| {
            vec![
                schedule.id.clone(),
                schedule.cron.clone(),
                schedule.action.clone(),
                schedule.next.clone(),
                format_last_run(schedule),
            ]
        })
        .collect();
    let columns = [
        TableColumn::fixed("SCHEDULE"),
        TableColumn::fixed("CRON").with_rank(2),
        TableColumn::text("DOES").with_rank(3),
        TableColumn::fixed("NEXT"),
        TableColumn::text("LAST").with_rank(1),
    ];
    output.print_table(&columns, &rows)?;
    if !watched {
        output.print_note("nothing runs for this home; schedules wait for `skillhost run`");
    }
    Ok(exit::OK)
}

/// Formats the outcome of the last execution on one line.
fn format_last_run(schedule: &ScheduleSummary) -> String {
    if schedule.running {
        return "runs now".to_owned();
    }
    match &schedule.last {
        None => "never".to_owned(),
        Some(LastRun { at, error: Some(error), .. }) => {
            let error = display_safe(error.lines().next().unwrap_or_default());
            let end = error.char_indices().nth(ERROR).map_or(error.len(), |(end, _)| end);
            format!("{at}: {}", &error[..end])
        }
        Some(LastRun { at, took_ms: Some(ms), .. }) => format!("{at}: ok, {ms} ms"),
        Some(LastRun { at, .. }) => format!("{at}: did not end"),
    }
}

fn run(session: &CliContext, id: &str) -> CommandResult {
    let ran: ScheduleRunOutcome =
        request_from_kernel(session, ControlRequest::RunSchedule { id: id.to_owned() })?;
    if session.output.json {
        session.output.print_json(&ran)?;
        return Ok(exit::OK);
    }
    let result = ran.result.map(|line| format!(": {}", display_safe(&line))).unwrap_or_default();
    session.output.print_line(format!("{} ran in {} ms{result}", ran.schedule, ran.ms))?;
    Ok(exit::OK)
}
