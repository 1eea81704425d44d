//! Findings about one SKILL.md.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Ranks a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file cannot be used as it stands.
    Error,
    /// The file is used, but not quite as its author may have meant it.
    Warning,
    /// Worth knowing; nothing is wrong.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// Says what a rule found, where, and what to do about it.
///
/// The file is known to the caller and is not repeated here. The texts quote untrusted input: a
/// terminal must print them through its own sanitiser.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Diagnostic {
    /// The rule's stable id, such as `frontmatter.duplicateKey`.
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The line in the file, counted from 1; 0 means the file as a whole.
    pub line: u32,
    /// The column in characters, counted from 1; 0 means the line as a whole.
    pub column: u32,
    /// What was found: a lower-case fragment without a final period.
    pub message: String,
    /// What to do about it, where there is something to do.
    pub help: Option<String>,
}

impl Diagnostic {
    fn new(rule: &'static str, severity: Severity, message: impl Into<String>) -> Self {
        Self { rule, severity, line: 0, column: 0, message: message.into(), help: None }
    }

    /// Makes an error about the file as a whole.
    #[must_use]
    pub fn error(rule: &'static str, message: impl Into<String>) -> Self {
        Self::new(rule, Severity::Error, message)
    }

    /// Makes a warning about the file as a whole.
    #[must_use]
    pub fn warning(rule: &'static str, message: impl Into<String>) -> Self {
        Self::new(rule, Severity::Warning, message)
    }

    /// Makes a note about the file as a whole.
    #[must_use]
    pub fn note(rule: &'static str, message: impl Into<String>) -> Self {
        Self::new(rule, Severity::Note, message)
    }

    /// Says where in the file it is; lines and columns count from 1, 0 means all of it.
    #[must_use]
    pub fn with_position(mut self, line: u32, column: u32) -> Self {
        (self.line, self.column) = (line, column);
        self
    }

    /// Says what to do about it.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// One line without the help, such as `3:7: warning[name.matchesDirectory]: …`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        if self.column > 0 {
            write!(f, "{}:", self.column)?;
        }
        if self.line > 0 {
            f.write_str(" ")?;
        }
        write!(f, "{}[{}]: {}", self.severity, self.rule, self.message)
    }
}

/// Returns the start of a text that a message quotes: untrusted texts can be long.
pub(crate) fn excerpt(text: &str) -> &str {
    const LONGEST: usize = 60;
    let end = text.char_indices().nth(LONGEST).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_where_what_and_which_rule() {
        let found = Diagnostic::warning("a.b", "it is odd");
        assert_eq!(found.to_string(), "warning[a.b]: it is odd");
        assert_eq!(found.clone().with_position(3, 0).to_string(), "3: warning[a.b]: it is odd");
        assert_eq!(found.with_position(3, 7).to_string(), "3:7: warning[a.b]: it is odd");
        assert_eq!(Diagnostic::error("a.b", "bad").to_string(), "error[a.b]: bad");
        assert_eq!(Diagnostic::note("a.b", "fine").to_string(), "note[a.b]: fine");
    }

    #[test]
    fn the_wire_form_has_every_part() {
        let found =
            Diagnostic::warning("a.b", "it is odd").with_position(3, 7).with_help("mend it");
        assert_eq!(
            serde_json::to_value(found).unwrap(),
            serde_json::json!({
                "rule": "a.b",
                "severity": "warning",
                "line": 3,
                "column": 7,
                "message": "it is odd",
                "help": "mend it",
            })
        );
    }

    #[test]
    fn errors_come_before_warnings_and_notes() {
        assert!(Severity::Error < Severity::Warning && Severity::Warning < Severity::Note);
    }
}
