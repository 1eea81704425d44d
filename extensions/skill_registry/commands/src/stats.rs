//! `skillhost skill stats`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use skillhost_payload::format_minute;
use skillhost_terminal::{CliContext, CommandResult, TableColumn, exit};

use super::review_context::ReviewContext;
use crate::arguments::StatsArgs;

pub(super) fn cmd_skill_stats(session: &CliContext, args: &StatsArgs) -> CommandResult {
    let context = ReviewContext::open(session)?;
    let since_ms = args.days.map(days_ago);
    let skills = context.with_ledger(|ledger, _| ledger.stats(since_ms))?;
    if session.output.json {
        session.output.print_json(&json!({ "since_ms": since_ms, "skills": skills }))?;
        return Ok(exit::OK);
    }
    if skills.is_empty() {
        session.output.print_note("no skill was read");
        return Ok(exit::OK);
    }
    let rows: Vec<Vec<String>> = skills
        .iter()
        .map(|skill| {
            vec![
                skill.skill_id.clone(),
                skill.reads.to_string(),
                skill.resource_reads.to_string(),
                skill.agents.to_string(),
                skill.sessions.to_string(),
                skill.tokens.to_string(),
                format_minute(skill.last_ms),
            ]
        })
        .collect();
    let columns = [
        TableColumn::fixed("skill"),
        TableColumn::fixed("reads"),
        TableColumn::fixed("files").with_rank(4),
        TableColumn::fixed("agents").with_rank(3),
        TableColumn::fixed("sessions").with_rank(2),
        TableColumn::fixed("tokens"),
        TableColumn::fixed("last read (UTC)").with_rank(1),
    ];
    session.output.print_table(&columns, &rows)?;
    Ok(exit::OK)
}

fn days_ago(days: u32) -> i64 {
    let ago = Duration::from_secs(u64::from(days) * 86_400);
    let since =
        SystemTime::now().checked_sub(ago).and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
