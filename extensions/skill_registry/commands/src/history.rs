//! `skillhost skill history`.

use serde_json::json;
use skill_ledger::{SkillVersion, VersionAuthor};
use skillhost_payload::format_minute;
use skillhost_terminal::{CliContext, CommandResult, TableColumn, exit};

use super::review_context::ReviewContext;
use crate::arguments::HistoryArgs;

pub(super) fn cmd_skill_history(session: &CliContext, args: &HistoryArgs) -> CommandResult {
    let context = ReviewContext::open(session)?;
    let skill = &context.resolve_skill(&args.skill)?;
    let versions = context.with_ledger(|ledger, skills| ledger.history(skills, skill))?;
    if session.output.json {
        session.output.print_json(&json!({ "skill_id": skill, "versions": versions }))?;
        return Ok(exit::OK);
    }
    let rows: Vec<Vec<String>> = versions.iter().map(row).collect();
    let columns = [
        TableColumn::fixed("version"),
        TableColumn::fixed("recorded (UTC)"),
        TableColumn::fixed("digest"),
        TableColumn::fixed("files").with_rank(4),
        TableColumn::fixed("bytes").with_rank(5),
        TableColumn::text("by"),
        TableColumn::text("approved by").with_rank(2),
        TableColumn::text("reason").with_rank(1),
    ];
    session.output.print_table(&columns, &rows)?;
    let partly = versions.iter().filter(|version| !version.complete).count();
    if partly > 0 {
        session.output.print_note(format!("of {partly} versions not every file is kept"));
    }
    Ok(exit::OK)
}

fn row(version: &SkillVersion) -> Vec<String> {
    vec![
        version.number.to_string(),
        format_minute(version.created_ms),
        version.tree.short(),
        version.files.to_string(),
        version.bytes.to_string(),
        author(&version.author),
        version.approved_by.clone().unwrap_or_else(|| "-".to_owned()),
        version.reason.clone().unwrap_or_default(),
    ]
}

fn author(author: &VersionAuthor) -> String {
    match author {
        VersionAuthor::External => "(edited directly)".to_owned(),
        VersionAuthor::Agent(author) if author.agent_id.is_empty() => author.name(),
        VersionAuthor::Agent(author) => format!("agent {}", author.agent_id),
        VersionAuthor::Person { name } => name.clone(),
    }
}
