//! What was overlooked in a diff, in words.

use std::fmt;

use super::{FuzzKind, FuzzNote};

impl fmt::Display for FuzzNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.hunk > 0 {
            write!(f, "hunk {} at line {}: ", self.hunk, self.line)?;
        }
        self.kind.fmt(f)
    }
}

impl fmt::Display for FuzzKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(lines) if *lines < 0 => {
                write!(f, "it lies {} lines above where it says", lines.unsigned_abs())
            }
            Self::Offset(lines) => write!(f, "it lies {lines} lines below where it says"),
            Self::Context { ignored } => write!(f, "{ignored} outer lines of context were ignored"),
            Self::Counts => f.write_str("its header had wrong line counts"),
            Self::NoNumbers => f.write_str("its header had no numbers"),
            Self::Overlap => f.write_str("its context overlaps the hunk before"),
            Self::Blanks { lines } => {
                write!(f, "{lines} empty lines had lost their leading blank")
            }
            Self::Fences => f.write_str("marks around the diff were dropped"),
            Self::Prose => f.write_str("prose around the diff was dropped"),
            Self::FileName => f.write_str("the diff calls the file something else"),
            Self::LineEnds => f.write_str("the line ends are those of the file, not of the diff"),
            Self::FinalNewline => f.write_str("the newline at the end is as in the file"),
        }
    }
}
