//! The errors of the reference.

use skill_format::{Diagnostic, Severity};
use yaml_tree::Span;

use super::scanner::{ScanMark, StrictYamlError};
use super::surrogate::make_encodable;

/// An error of the reference. Its text equals the output of the reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The text does not begin with `---`.
    #[error("SKILL.md must start with YAML frontmatter (---)")]
    Missing,
    /// There is no second `---`.
    #[error("SKILL.md frontmatter not properly closed with ---")]
    Unclosed,
    /// The YAML is invalid or rejected by strictyaml.
    #[error("Invalid YAML in frontmatter: {problem} (line {}, column {})", at.line, at.column)]
    Yaml {
        /// The description of the error.
        problem: String,
        /// The position in the file.
        at: Span,
    },
    /// The frontmatter is empty, text or a list.
    #[error("SKILL.md frontmatter must be a YAML mapping")]
    NotMapping,
    /// A required field is missing.
    #[error("Missing required field in frontmatter: {0}")]
    MissingField(&'static str),
    /// A required field is empty or not a text.
    #[error("Field '{0}' must be a non-empty string")]
    EmptyField(&'static str),
    /// The reference ends with an uncaught exception.
    #[error("{problem}; the reference validator crashes here")]
    Crash {
        /// The id of the corresponding rule.
        rule: &'static str,
        /// The description of the error.
        problem: String,
        /// The position in the file.
        at: Span,
    },
}

impl ReferenceError {
    /// Returns the id of the corresponding rule.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Missing => "frontmatter.missing",
            Self::Unclosed => "frontmatter.unclosed",
            Self::Yaml { .. } => "frontmatter.yaml",
            Self::NotMapping => "frontmatter.type",
            Self::MissingField("name") | Self::EmptyField("name") => "name.required",
            Self::MissingField(_) | Self::EmptyField(_) => "description.required",
            Self::Crash { rule, .. } => rule,
        }
    }

    /// Returns the position in the file.
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Self::Yaml { at, .. } | Self::Crash { at, .. } => *at,
            _ => Span { line: 1, column: 0 },
        }
    }

    /// Converts the error to the diagnostic that the validator prints.
    pub(super) fn to_diagnostic(&self) -> Diagnostic {
        error_diagnostic(self.rule(), self.span(), self.to_string())
    }
}

/// Returns an error of a rule; unprintable stand-ins in the message are replaced.
pub(super) fn error_diagnostic(
    rule: &'static str,
    at: Span,
    message: impl Into<String>,
) -> Diagnostic {
    let severity = Severity::Error;
    // A diagnostic must be printable, but texts here may hold stand-ins of surrogates.
    let message = make_encodable(message.into());
    Diagnostic { rule, severity, line: at.line, column: at.column, message, help: None }
}

/// Converts an error of the strict parser.
pub(super) fn to_reference_error(error: StrictYamlError) -> ReferenceError {
    let StrictYamlError { at, problem, crashes } = error;
    let at = to_span(at);
    if crashes {
        ReferenceError::Crash { rule: "frontmatter.yaml", problem, at }
    } else {
        ReferenceError::Yaml { problem, at }
    }
}

/// Converts a mark to a position in the file; the frontmatter starts after the first `---`.
pub(super) fn to_span(mark: ScanMark) -> Span {
    // The rest of the fence line is the first line of the YAML text.
    let fence = if mark.line == 0 { 3 } else { 0 };
    Span { line: mark.line + 1, column: mark.column + fence + 1 }
}
