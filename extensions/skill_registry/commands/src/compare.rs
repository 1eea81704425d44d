//! `skillhost skill diff`: the differences between two versions of a skill.

use serde::Serialize;
use skillhost_terminal::{CliContext, CliError, CommandResult, exit};

use super::difference::{FileDifference, compare_versions};
use super::page::{self, TextPage};
use super::review_context::ReviewContext;
use crate::arguments::DiffArgs;

/// The output of the command with `--json`.
#[derive(Debug, Serialize)]
struct VersionComparison<'a> {
    skill_id: &'a str,
    from: u64,
    to: u64,
    files: Vec<FileDifference>,
}

pub(super) fn cmd_skill_diff(session: &CliContext, args: &DiffArgs) -> CommandResult {
    let context = ReviewContext::open(session)?;
    let id = &context.resolve_skill(&args.skill)?;
    let versions = context.with_ledger(|ledger, skills| ledger.history(skills, id))?;
    let last = versions.last().map_or(1, |version| version.number);
    let to = args.to.unwrap_or(last);
    let before = versions.iter().map(|version| version.number).filter(|number| *number < to);
    let from = args.from.unwrap_or_else(|| before.max().unwrap_or(to));
    let version = |number| context.with_ledger(|ledger, _| ledger.version(id, Some(number)));
    let (old, new) = (version(from)?, version(to)?);
    let files = compare_versions(&old, &new);
    if session.output.json {
        session.output.print_json(&VersionComparison { skill_id: id, from, to, files })?;
        return Ok(exit::OK);
    }
    if files.is_empty() {
        session.output.print_note(format!("versions {from} and {to} of `{id}` are the same"));
    }
    print(session, &files)?;
    Ok(exit::OK)
}

pub(super) fn print(session: &CliContext, files: &[FileDifference]) -> Result<(), CliError> {
    let mut page = TextPage::default();
    for file in files {
        page.add_difference(file, session.output.width());
    }
    page::print(session.output, &page)
}
