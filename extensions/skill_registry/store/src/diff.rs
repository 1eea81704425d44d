//! Differences between texts: applied, made, merged. Pure.

use serde::{Deserialize, Serialize};
use similar::{ChangeTag, TextDiff, TextMerge};

/// How many unchanged lines surround a change.
const CONTEXT: usize = 3;

/// The text a diff makes of its base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patched {
    /// The new text.
    pub text: String,
    /// Where the diff was not taken literally.
    pub fuzz: Vec<FuzzNote>,
}

/// Says where a diff was not taken literally.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuzzNote {
    /// The hunk, counted from 1; 0 is the diff as a whole.
    pub hunk: usize,
    /// What was overlooked.
    pub kind: FuzzKind,
    /// The line of the base it was applied at, counted from 1.
    pub line: usize,
}

/// What was overlooked in a diff.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FuzzKind {
    /// The hunk lies this many lines below where it says.
    Offset(i64),
    /// So many lines of context were ignored.
    Context {
        /// The number of lines.
        ignored: u8,
    },
    /// The line counts of the header were wrong.
    Counts,
    /// The diff was fenced.
    Fences,
    /// The line ends were other than those of the base.
    LineEnds,
}

/// Says why a diff does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// The diff has no hunk.
    #[error("the diff has no hunk")]
    NoHunks,
    /// The diff is malformed.
    #[error("the diff is malformed: {0}")]
    Malformed(String),
    /// A hunk does not fit the text.
    #[error("hunk {hunk} does not apply")]
    Mismatch {
        /// The hunk, counted from 1.
        hunk: usize,
    },
    /// The text is the same after it.
    #[error("the diff changes nothing")]
    NothingChanges,
}

/// Lines that were changed in two ways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// The first line in our text, counted from 1.
    pub line: usize,
    /// What it was.
    pub base: String,
    /// What we have.
    pub ours: String,
    /// What they have.
    pub theirs: String,
}

/// Applies a diff to a text.
///
/// # Errors
/// Fails on a diff that does not fit or says nothing.
pub fn apply(base: &str, diff: &str, _path: &str) -> Result<Patched, DiffError> {
    let parsed = flickzeug::Diff::from_str(diff)
        .map_err(|error| DiffError::Malformed(error.to_string().to_lowercase()))?;
    if parsed.hunks().is_empty() {
        return Err(DiffError::NoHunks);
    }
    match flickzeug::apply(base, &parsed) {
        Ok((text, _)) if text == base => Err(DiffError::NothingChanges),
        Ok((text, _)) => Ok(Patched { text, fuzz: Vec::new() }),
        Err(error) => Err(DiffError::Mismatch { hunk: error.hunk_index() }),
    }
}

/// Makes the canonical diff of two texts.
#[must_use]
pub fn unified(base: &str, new: &str, path: &str) -> String {
    let diff = TextDiff::from_lines(base, new);
    let (old, new) = (format!("a/{path}"), format!("b/{path}"));
    diff.unified_diff().context_radius(CONTEXT).header(&old, &new).to_string()
}

/// Counts the lines a change adds and removes.
#[must_use]
pub fn counts(base: &str, new: &str) -> (usize, usize) {
    let diff = TextDiff::from_lines(base, new);
    let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
    (count(ChangeTag::Insert), count(ChangeTag::Delete))
}

/// Merges two changes of one text.
///
/// # Errors
/// The places that both changed in different ways.
pub fn merge(base: &str, ours: &str, theirs: &str) -> Result<String, Vec<Conflict>> {
    let merge = TextMerge::from_lines(base, ours, theirs);
    if !merge.is_conflicted() {
        return Ok(merge.to_string());
    }
    let conflict = |region: &similar::MergeRegion| {
        let text = |range: std::ops::Range<usize>, line: &dyn Fn(usize) -> Option<String>| {
            range.filter_map(line).collect::<String>()
        };
        Conflict {
            line: region.ours_range().start + 1,
            base: text(region.base_range(), &|at| merge.base_line(at).map(str::to_owned)),
            ours: text(region.ours_range(), &|at| merge.ours_line(at).map(str::to_owned)),
            theirs: text(region.theirs_range(), &|at| merge.theirs_line(at).map(str::to_owned)),
        }
    };
    Err(merge.conflicts().map(conflict).collect())
}
