//! The files that differ between two versions of a skill.

use std::collections::BTreeMap;

use serde::Serialize;
use skill_diff::unified_diff;
use skill_ledger::{VersionFile, VersionTree};

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
