//! Differences between texts: applied, made, merged. Pure: text in, text out.
//!
//! Diffs come from models, so [`apply`] is forgiving at the edges: fences and prose around the diff,
//! headers that are missing or count wrongly, places that moved, line ends, blanks that were lost on
//! empty lines, up to two outer lines of context. All of that is recorded as a [`FuzzNote`]. In
//! substance it is strict: what a diff deletes and the rest of its context must be in the text
//! exactly, hunks keep their order, and where two places fit equally well none is chosen. What does
//! not apply is refused with the first line that differs, so that whoever wrote the diff can correct
//! it.
//!
//! Finding the place is written here. The patch libraries take the first of several places that fit,
//! do not tell where that was, and cannot say which line differed; one of them is the measure in the
//! tests. The differences themselves are found by `similar`; they are written here because a `\r`
//! that ends no line is a line end to it, and merged here because its merge takes quadratic time and
//! joins two lines where a side took the last newline away.
//!
//! The time is bounded: texts by [`LIMIT`], the search for places by a number of comparisons, after
//! which a diff is refused as [`DiffError::TooLarge`].

mod apply;
mod error;
mod files;
mod fuzz;
mod lines;
mod merge;
mod names;
mod parse;
mod place;
mod unified;
mod words;

use serde::{Deserialize, Serialize};

pub use apply::apply_diff;
pub use error::DiffError;
pub use files::{FileDiff, split_files};
pub use merge::{MergeConflict, merge_texts};
pub use unified::{count_changes, unified_diff};
pub use words::{WordSegment, diff_words};

/// The largest diff and the largest text, in bytes: a diff that replaces a whole file of a MiB by
/// another one fits, however short the lines are.
pub const LIMIT: usize = 5 << 20;

/// The text a diff makes of its base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchResult {
    /// The new text.
    pub text: String,
    /// Where the diff was not taken literally: first what concerns the whole diff, then by hunk.
    pub fuzz: Vec<FuzzNote>,
}

/// Says where a diff was not taken literally.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuzzNote {
    /// The hunk, counted from 1; 0 is the diff as a whole.
    pub hunk: usize,
    /// What was overlooked.
    pub kind: FuzzKind,
    /// The line of the base it was applied at, counted from 1; 0 for the diff as a whole.
    pub line: usize,
}

/// What was overlooked in a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FuzzKind {
    /// The hunk lies this many lines below where its header and the hunks before it say.
    Offset(i64),
    /// So many outer lines of context were ignored.
    Context {
        /// The number of lines.
        ignored: u8,
    },
    /// The line counts of the header were wrong.
    Counts,
    /// The hunk had no header, or one without numbers.
    NoNumbers,
    /// The context of the hunk lies over lines of the one before.
    Overlap,
    /// So many empty lines of context had lost their leading blank.
    Blanks {
        /// The number of lines.
        lines: usize,
    },
    /// The diff was in a Markdown fence or between other marks.
    Fences,
    /// There was prose around the diff.
    Prose,
    /// The diff calls the file something else: by its last component, a longer path, or `original`.
    FileName,
    /// The line ends were other than those of the base; the new lines have those of the base.
    LineEnds,
    /// The diff and the base disagreed about a newline at the end; it is as in the base.
    FinalNewline,
}
