//! `skillhost skill proposal list`.

use serde::Serialize;
use serde_json::{Value, json};
use skill_ledger::{ProposalFilter, ProposalState, ProposalSummary, ReviewFlag};
use skillhost_payload::format_minute;
use skillhost_terminal::{CliContext, CommandResult, TableColumn, exit};

use super::review_context::ReviewContext;
use crate::arguments::ProposalsArgs;

/// The number of characters of a justification in a list.
const MAX_JUSTIFICATION_CHARS: usize = 60;

pub(super) fn cmd_skill_proposals(session: &CliContext, args: &ProposalsArgs) -> CommandResult {
    let context = ReviewContext::open(session)?;
    let filter = ProposalFilter { all: args.all, skill: args.skill.as_deref(), state: None };
    let listed = context.proposals(filter)?;
    if session.output.json {
        session.output.print_json(
            &json!({ "proposals": listed.iter().map(|it| to_json(it, it)).collect::<Vec<_>>() }),
        )?;
        return Ok(exit::OK);
    }
    if listed.is_empty() {
        let which = if args.all { "no proposals" } else { "no proposals wait for a decision" };
        session.output.print_note(which);
        return Ok(exit::OK);
    }
    let rows: Vec<Vec<String>> = listed
        .iter()
        .map(|summary| {
            let mut why: String =
                summary.justification_line.chars().take(MAX_JUSTIFICATION_CHARS).collect();
            if summary.flags.iter().any(is_alarming) {
                why.insert_str(0, "(!) ");
            }
            let times =
                if summary.count > 1 { format!(" ×{}", summary.count) } else { String::new() };
            let advice = summary.recommendation.as_ref();
            let advice = advice.map_or(String::new(), |it| format!(", advice: {}", it.advice));
            vec![
                summary.seq.to_string(),
                summary.id.clone(),
                format!("{}{times}{advice}", summary.state),
                summary.skill_id.clone(),
                summary.path.clone(),
                format!("+{} -{}", summary.added, summary.removed),
                format_minute(summary.created_ms),
                match summary.author.agent_id.as_str() {
                    "" => summary.author.name(),
                    agent => agent.to_owned(),
                },
                why,
            ]
        })
        .collect();
    let columns = [
        TableColumn::fixed("#"),
        TableColumn::fixed("id").with_rank(5),
        TableColumn::text("state"),
        TableColumn::fixed("skill"),
        TableColumn::fixed("file").with_rank(1),
        TableColumn::fixed("lines").with_rank(4),
        TableColumn::fixed("proposed (UTC)").with_rank(3),
        TableColumn::fixed("by").with_rank(2),
        TableColumn::text("justification").with_rank(1),
    ];
    session.output.print_table(&columns, &rows)?;
    let stale = listed.iter().filter(|summary| summary.state == ProposalState::Stale).count();
    if stale > 0 {
        session.output.print_note(format!(
            "{stale} stale, as the file has changed since; `skillhost skill proposal rebase ID` makes one fit again"
        ));
    }
    Ok(exit::OK)
}

/// Converts a proposal into JSON with `digest`, the one that an approval names.
pub(super) fn to_json(proposal: &impl Serialize, summary: &ProposalSummary) -> Value {
    let mut object = json!(proposal);
    // Not a field of the record: it is computed from what the record contains.
    object["digest"] = json!(summary.review_digest());
    object
}

/// Returns whether a flag means that the text may differ from its appearance.
fn is_alarming(flag: &ReviewFlag) -> bool {
    matches!(flag, ReviewFlag::HiddenUnicode { .. } | ReviewFlag::PromptMarkup { .. })
}
