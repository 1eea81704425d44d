//! `skillhost skill diff`: what differs between two versions of a skill.

use std::collections::BTreeMap;

use serde::Serialize;
use skill_store::{VersionFile, VersionTree, diff::unified_diff};

use super::desk::Desk;
use super::page::{self, Page};
use crate::cli::DiffArgs;
use crate::error::CliError;
use crate::exit;
use crate::output::Outcome;
use crate::session::Session;

/// What the command prints with `--json`.
#[derive(Debug, Serialize)]
struct Comparison<'a> {
    skill_id: &'a str,
    from: u64,
    to: u64,
    files: Vec<Difference>,
}

/// A file that is not the same in both versions.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    pub(super) path: String,
    pub(super) change: Change,
    /// Whether only one of the two can be run.
    pub(super) mode: bool,
    /// Nothing for what is no text.
    pub(super) diff: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    Added,
    Removed,
    Changed,
}

pub(super) fn diff(session: &Session, args: &DiffArgs) -> Outcome {
    let desk = Desk::open(session)?;
    let id = &args.skill;
    let versions = desk.ask(|ledger, skills| ledger.history(skills, id))?;
    let last = versions.last().map_or(1, |version| version.number);
    let to = args.to.unwrap_or(last);
    let before = versions.iter().map(|version| version.number).filter(|number| *number < to);
    let from = args.from.unwrap_or_else(|| before.max().unwrap_or(to));
    let version = |number| desk.ask(|ledger, _| ledger.version(id, Some(number)));
    let (old, new) = (version(from)?, version(to)?);
    let files = compare(&old, &new);
    if session.output.json {
        session.output.object(&Comparison { skill_id: id, from, to, files })?;
        return Ok(exit::OK);
    }
    if files.is_empty() {
        session.output.note(format!("versions {from} and {to} of `{id}` are the same"));
    }
    print(session, &files)?;
    Ok(exit::OK)
}

pub(super) fn print(session: &Session, files: &[Difference]) -> Result<(), CliError> {
    let mut page = Page::default();
    for file in files {
        page.difference(file, session.output.width());
    }
    page::print(session.output, &page)
}

/// Compares the files of two versions, in the order of their paths.
pub(super) fn compare(old: &VersionTree, new: &VersionTree) -> Vec<Difference> {
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
            (Some(_), Some(_)) => Change::Changed,
            (None, _) => Change::Added,
            (_, None) => Change::Removed,
        };
        let text = |file: Option<&VersionFile>| match file {
            Some(file) => file.text().map(str::to_owned),
            None => Some(String::new()),
        };
        let mode = matches!((old, new), (Some(old), Some(new)) if old.mode != new.mode);
        let diff = text(old).zip(text(new)).map(|(old, new)| unified_diff(&old, &new, path));
        Some(Difference { path: path.to_owned(), change, mode, diff })
    };
    files.into_iter().filter_map(differs).collect()
}
