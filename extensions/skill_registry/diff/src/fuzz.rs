//! The messages of fuzz notes.

use std::fmt;

use super::{FuzzKind, FuzzNote};

impl fmt::Display for FuzzNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Hunk 0 is the complete diff, which has no line.
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
                write!(f, "applied {} lines above the position in its header", lines.unsigned_abs())
            }
            Self::Offset(lines) => {
                write!(f, "applied {lines} lines below the position in its header")
            }
            Self::Context { ignored } => write!(f, "{ignored} outer lines of context were ignored"),
            Self::Counts => f.write_str("its header had wrong line counts"),
            Self::NoNumbers => f.write_str("its header had no numbers"),
            Self::Overlap => f.write_str("its context overlaps the previous hunk"),
            Self::Blanks { lines } => {
                write!(f, "{lines} empty lines had lost their leading blank")
            }
            Self::Fences => f.write_str("marks around the diff were dropped"),
            Self::Prose => f.write_str("prose around the diff was dropped"),
            Self::FileName => f.write_str("the diff has another name for the file"),
            Self::LineEnds => f.write_str("the line ends are those of the file, not of the diff"),
            Self::FinalNewline => f.write_str("the newline at the end is as in the file"),
        }
    }
}
