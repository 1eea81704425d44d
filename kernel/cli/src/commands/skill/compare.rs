//! `skillhost skill diff`: the differences between two versions of a skill.

use std::collections::BTreeMap;

use serde::Serialize;
use skill_diff::unified_diff;
use skill_store::{VersionFile, VersionTree};
use skillhost_terminal::{CliContext, CliError, CommandResult, exit};

use super::desk::ReviewContext;
use super::page::{self, TextPage};
use crate::cli::DiffArgs;

/// The output of the command with `--json`.
#[derive(Debug, Serialize)]
struct VersionComparison<'a> {
    skill_id: &'a str,
    from: u64,
    to: u64,
    files: Vec<FileDifference>,
}

/// A file that differs between the versions.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct FileDifference {
    pub(super) path: String,
    pub(super) change: FileDifferenceKind,
    /// Whether exactly one of the two is executable.
    pub(super) mode: bool,
    /// The unified diff; `None` for binary files.
    pub(super) diff: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FileDifferenceKind {
    Added,
    Removed,
    Changed,
}

pub(super) fn cmd_skill_diff(session: &CliContext, args: &DiffArgs) -> CommandResult {
    let context = ReviewContext::open(session)?;
    let id = &args.skill;
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

/// Compares the files of two versions, in the order of their paths.
pub(super) fn compare_versions(old: &VersionTree, new: &VersionTree) -> Vec<FileDifference> {
    let mut files: BTreeMap<&str, [Option<&VersionFile>; 2]> = BTreeMap::new();
    for (side, tree) in [old, new].into_iter().enumerate() {
        for file in &tree.files {
            files.entry(&file.path).or_default()[side] = Some(file);
        }
    }
    let differs = |(path, [old, new]): (&str, [Option<&VersionFile>; 2])| {
        let change = match (old, new) {
            (Some(old), Some(new)) if (old.digest, old.mode) == (new.digest, new.mode) => {
                return None;
            }
            (Some(_), Some(_)) => FileDifferenceKind::Changed,
            (None, _) => FileDifferenceKind::Added,
            (_, None) => FileDifferenceKind::Removed,
        };
        let text = |file: Option<&VersionFile>| match file {
            Some(file) => file.text().map(str::to_owned),
            None => Some(String::new()),
        };
        let mode = matches!((old, new), (Some(old), Some(new)) if old.mode != new.mode);
        let diff = text(old).zip(text(new)).map(|(old, new)| unified_diff(&old, &new, path));
        Some(FileDifference { path: path.to_owned(), change, mode, diff })
    };
    files.into_iter().filter_map(differs).collect()
}
