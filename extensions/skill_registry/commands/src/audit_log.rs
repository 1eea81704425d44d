//! `skillhost skill audit-log`.

use serde_json::{Value, json};
use skill_ledger::{AuditEntry, AuditFilter};
use skillhost_payload::format_rfc3339;
use skillhost_terminal::{CliContext, CommandResult, TableColumn, exit, json_text};

use super::review_context::ReviewContext;
use crate::arguments::{AuditLogArgs, AuditStart};

pub(super) fn cmd_skill_audit_log(session: &CliContext, args: &AuditLogArgs) -> CommandResult {
    let context = ReviewContext::open(session)?;
    let (after, since_ms) = match args.since {
        Some(AuditStart::Seq(seq)) => (Some(seq), None),
        Some(AuditStart::Time(ms)) => (None, Some(ms)),
        None => (args.after, None),
    };
    let filter = AuditFilter {
        skill: args.skill.as_deref(),
        proposal: args.proposal.as_deref(),
        after,
        since_ms,
        limit: Some(args.limit),
    };
    let entries = context.with_ledger(|ledger, _| ledger.audit(filter))?;
    if session.output.json {
        session.output.print_json(&json!({ "entries": entries }))?;
        return Ok(exit::OK);
    }
    if entries.is_empty() {
        session.output.print_note("nothing was done yet");
        return Ok(exit::OK);
    }
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect::<Result<_, _>>()?;
    let columns = [
        TableColumn::fixed("#"),
        TableColumn::fixed("time"),
        TableColumn::fixed("what"),
        TableColumn::text("by"),
        TableColumn::fixed("via").with_rank(3),
        TableColumn::fixed("skill"),
        TableColumn::fixed("proposal").with_rank(2),
        TableColumn::fixed("version").with_rank(1),
        TableColumn::text("detail").with_rank(4),
    ];
    session.output.print_table(&columns, &rows)?;
    Ok(exit::OK)
}

fn row(entry: &AuditEntry) -> std::io::Result<Vec<String>> {
    let or_dash =
        |text: Option<&str>| text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned();
    let mut detail = entry.detail.clone();
    detail.sort_all_objects();
    let detail = match detail {
        Value::Null => String::new(),
        detail => json_text(&detail)?,
    };
    Ok(vec![
        entry.seq.to_string(),
        format_rfc3339(entry.at_ms),
        entry.action.clone(),
        or_dash(Some(&entry.by)),
        entry.via.clone(),
        or_dash(entry.skill_id.as_deref()),
        or_dash(entry.proposal.as_deref()),
        entry.version.map_or_else(|| "-".to_owned(), |version| version.to_string()),
        detail,
    ])
}
