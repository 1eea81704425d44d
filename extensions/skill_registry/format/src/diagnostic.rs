//! Diagnostics about one SKILL.md.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file cannot be used in its current form.
    Error,
    /// The file is used, but possibly not as its author meant it.
    Warning,
    /// Information about a correct file.
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

/// A finding of a rule: its position, its message and the way to fix it.
///
/// The caller knows the file, so it is not repeated here. The texts quote untrusted input: a
/// terminal must print them through its own sanitizer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Diagnostic {
    /// The rule's stable id, such as `frontmatter.duplicateKey`.
    pub rule: &'static str,
    /// The severity.
    pub severity: Severity,
    /// The line in the file, counted from 1; 0 means the complete file.
    pub line: u32,
    /// The column in characters, counted from 1; 0 means the complete line.
    pub column: u32,
    /// The message: a lower-case fragment without a final period.
    pub message: String,
    /// The suggested fix, if there is one.
    pub help: Option<String>,
}

impl Diagnostic {
    fn new(rule: &'static str, severity: Severity, message: impl Into<String>) -> Self {
        Self { rule, severity, line: 0, column: 0, message: message.into(), help: None }
    }

    /// Creates an error about the complete file.
    #[must_use]
    pub fn error(rule: &'static str, message: impl Into<String>) -> Self {
        Self::new(rule, Severity::Error, message)
    }

    /// Creates a warning about the complete file.
    #[must_use]
    pub fn warning(rule: &'static str, message: impl Into<String>) -> Self {
        Self::new(rule, Severity::Warning, message)
    }

    /// Creates a note about the complete file.
    #[must_use]
    pub fn note(rule: &'static str, message: impl Into<String>) -> Self {
        Self::new(rule, Severity::Note, message)
    }

    /// Sets the position in the file; lines and columns count from 1, 0 means the complete file or line.
    #[must_use]
    pub fn with_position(mut self, line: u32, column: u32) -> Self {
        (self.line, self.column) = (line, column);
        self
    }

    /// Sets the suggested fix.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Formats one line without the help, such as `3:7: warning[name.matchesDirectory]: …`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_position_and_rule() {
        let found = Diagnostic::warning("a.b", "it is odd");
        assert_eq!(found.to_string(), "warning[a.b]: it is odd");
        assert_eq!(found.clone().with_position(3, 0).to_string(), "3: warning[a.b]: it is odd");
        assert_eq!(found.with_position(3, 7).to_string(), "3:7: warning[a.b]: it is odd");
        assert_eq!(Diagnostic::error("a.b", "bad").to_string(), "error[a.b]: bad");
        assert_eq!(Diagnostic::note("a.b", "fine").to_string(), "note[a.b]: fine");
    }

    #[test]
    fn diagnostic_serializes_every_field() {
        let found = Diagnostic::warning("a.b", "it is odd").with_position(3, 7).with_help("fix it");
        assert_eq!(
            serde_json::to_value(found).unwrap(),
            serde_json::json!({
                "rule": "a.b",
                "severity": "warning",
                "line": 3,
                "column": 7,
                "message": "it is odd",
                "help": "fix it",
            })
        );
    }

    #[test]
    fn errors_sort_before_warnings() {
        assert!(Severity::Error < Severity::Warning && Severity::Warning < Severity::Note);
    }
}
