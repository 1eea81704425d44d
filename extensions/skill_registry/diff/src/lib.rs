//! Diffs of texts: applying, creating and merging. Pure: text in, text out.
//!
//! Diffs come from models, so [`apply_diff`] tolerates formal errors: fences and prose around the
//! diff, missing headers or wrong counts, shifted positions, line ends, lost blanks on empty lines,
//! up to two differing outer lines of context. Each tolerance is recorded as a [`FuzzNote`]. The
//! content is strict: deleted lines and the other context must be in the text exactly, hunks keep
//! their order, and a hunk with two equally good positions is rejected. The error of a rejected diff
//! names the first line that differs, so that the model can correct the diff.
//!
//! This crate has its own search for positions: patch libraries choose the first of several matching
//! positions, do not report it, and cannot name the differing line; the tests compare with one of
//! them. The crate `similar` computes the differences; they are printed here because `similar` takes
//! a `\r` within a line for a line end, and merged here because its merge takes quadratic time and
//! joins two lines when a side removes the last newline.
//!
//! The time is bounded: texts by [`LIMIT`], the search for positions by a number of comparisons,
//! after which a diff is rejected with [`DiffError::TooLarge`].

mod apply;
mod error;
mod files;
mod fuzz;
mod hunk_search;
mod lines;
mod merge;
mod names;
mod parse;
mod unified;
mod words;

use serde::{Deserialize, Serialize};

pub use apply::apply_diff;
pub use error::DiffError;
pub use files::{FileDiff, split_files};
pub use merge::{MergeConflict, merge_texts};
pub use unified::{count_changes, unified_diff};
pub use words::{WordSegment, diff_words};

/// The maximum size of a diff and of a text in bytes: a diff that replaces all of a file of one MiB
/// by another one fits, for any length of lines.
pub const LIMIT: usize = 5 << 20;

/// The result of applying a diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchResult {
    /// The new text.
    pub text: String,
    /// The deviations from the literal diff: first those of the complete diff, then by hunk.
    pub fuzz: Vec<FuzzNote>,
}

/// A deviation from the literal diff.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuzzNote {
    /// The hunk, counted from 1; 0 for the complete diff.
    pub hunk: usize,
    /// The kind of deviation.
    pub kind: FuzzKind,
    /// The line of the base of the applied hunk, counted from 1; 0 for the complete diff.
    pub line: usize,
}

/// The kind of a deviation from the literal diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FuzzKind {
    /// The hunk was applied this many lines below the position according to its header and the
    /// earlier hunks.
    Offset(i64),
    /// Outer lines of context were ignored.
    Context {
        /// The number of lines.
        ignored: u8,
    },
    /// The line counts of the header were wrong.
    Counts,
    /// The hunk had no header, or one without numbers.
    NoNumbers,
    /// The context of the hunk overlaps lines of the previous one.
    Overlap,
    /// Empty lines of context had lost their leading blank.
    Blanks {
        /// The number of lines.
        lines: usize,
    },
    /// The diff was in a Markdown fence or between other marks.
    Fences,
    /// There was prose around the diff.
    Prose,
    /// The diff has another name for the file: its last component, a longer path, or `original`.
    FileName,
    /// The line ends differ from those of the base; the new lines have those of the base.
    LineEnds,
    /// The diff and the base differ in the newline at the end; it is as in the base.
    FinalNewline,
}
