//! The reference validator, skills-ref 0.1.1, over again: its verdicts, its messages, its output.
//!
//! Scripts written for it keep working, so its quirks are kept: it cuts the file at any `---`,
//! reads the frontmatter with strictyaml (everything is text; flow style, anchors, tags and
//! duplicate keys are refused) and prints nested metadata in Python's notation. Two things differ:
//! what follows `Invalid YAML in frontmatter:` is in our words, and where the reference ends with
//! an uncaught exception there is an error of ours ([`ReferenceError::Crash`]).

mod properties;
mod python;
mod scanner;
mod validate;
mod yaml;

use skill_format::{Diagnostic, Severity, Span};

use crate::input::SkillInput;
use scanner::{ScanMark, StrictYamlError};
use yaml::{StrictYamlMap, StrictYamlValue};

pub use properties::{PromptSkill, ReferenceProperties, to_prompt};

/// The names the reference looks for, in this order.
pub const FILE_NAMES: [&str; 2] = ["SKILL.md", "skill.md"];

/// Why the reference does not read a skill. The text is what it prints.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The text does not begin with `---`.
    #[error("SKILL.md must start with YAML frontmatter (---)")]
    Missing,
    /// There is no second `---`.
    #[error("SKILL.md frontmatter not properly closed with ---")]
    Unclosed,
    /// The YAML is broken, or of a kind that strictyaml refuses.
    #[error("Invalid YAML in frontmatter: {problem} (line {}, column {})", at.line, at.column)]
    Yaml {
        /// What is wrong.
        problem: String,
        /// Where in the file.
        at: Span,
    },
    /// The frontmatter is empty, text or a list.
    #[error("SKILL.md frontmatter must be a YAML mapping")]
    NotMapping,
    /// A required field is not there.
    #[error("Missing required field in frontmatter: {0}")]
    MissingField(&'static str),
    /// A required field is empty or no text.
    #[error("Field '{0}' must be a non-empty string")]
    EmptyField(&'static str),
    /// The reference ends with an uncaught exception.
    #[error("{problem}; the reference validator crashes here")]
    Crash {
        /// Our id of what is wrong.
        rule: &'static str,
        /// What is wrong.
        problem: String,
        /// Where in the file.
        at: Span,
    },
}

impl ReferenceError {
    /// Returns our id of what is wrong.
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

    /// Returns where in the file it is.
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Self::Yaml { at, .. } | Self::Crash { at, .. } => *at,
            _ => Span { line: 1, column: 0 },
        }
    }

    fn diagnostic(&self) -> Diagnostic {
        error(self.rule(), self.span(), self.to_string())
    }
}

fn error(rule: &'static str, at: Span, message: impl Into<String>) -> Diagnostic {
    let severity = Severity::Error;
    let message = python::make_encodable(message.into());
    Diagnostic { rule, severity, line: at.line, column: at.column, message, help: None }
}

/// A SKILL.md as the reference reads it.
#[derive(Clone, Debug)]
pub struct ReferenceSkill {
    fields: StrictYamlMap,
}

/// Reads the bytes of a SKILL.md.
///
/// # Errors
/// [`ReferenceError`] if there is no frontmatter, or none that the reference reads.
pub fn load_reference_skill(bytes: &[u8]) -> Result<ReferenceSkill, ReferenceError> {
    let text = std::str::from_utf8(bytes).map_err(|error| ReferenceError::Crash {
        rule: "file.encoding",
        problem: format!("the file is not UTF-8: byte {} cannot be decoded", error.valid_up_to()),
        at: Span::default(),
    })?;
    // Python reads text files with every kind of line end as LF.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let rest = text.strip_prefix("---").ok_or(ReferenceError::Missing)?;
    let (yaml, _) = rest.split_once("---").ok_or(ReferenceError::Unclosed)?;
    match yaml::load_yaml(yaml).map_err(to_reference_error)? {
        Some(StrictYamlValue::Map(fields)) => Ok(ReferenceSkill { fields }),
        _ => Err(ReferenceError::NotMapping),
    }
}

fn to_reference_error(refused: StrictYamlError) -> ReferenceError {
    let StrictYamlError { at, problem, crashes } = refused;
    let at = to_span(at);
    if crashes {
        ReferenceError::Crash { rule: "frontmatter.yaml", problem, at }
    } else {
        ReferenceError::Yaml { problem, at }
    }
}

/// Returns the place in the file; the frontmatter begins behind the first `---`.
fn to_span(mark: ScanMark) -> Span {
    let fence = if mark.line == 0 { 3 } else { 0 };
    Span { line: mark.line + 1, column: mark.column + fence + 1 }
}

/// Validates a skill as `skills-ref validate` does: its messages in its order, with our rule ids.
///
/// The directory's name is compared with the skill's. A file that is spelt neither `SKILL.md` nor
/// `skill.md` is not seen.
#[must_use]
pub fn validate_reference(input: &SkillInput<'_>) -> Vec<Diagnostic> {
    if !input.file_name.is_some_and(|name| FILE_NAMES.contains(&name)) {
        let missing = "Missing required file: SKILL.md";
        return vec![error("structure.missingSkillMd", Span::default(), missing)];
    }
    match load_reference_skill(input.bytes) {
        Ok(skill) => skill.validate(input.dir_name),
        Err(error) => vec![error.diagnostic()],
    }
}

/// What `skills-ref validate` prints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationOutput {
    /// On standard output, final newline included; empty if the skill is not valid.
    pub stdout: String,
    /// On standard error, final newline included; empty if the skill is valid.
    pub stderr: String,
}

/// Writes the lines of `skills-ref validate` about a skill directory; `dir` is how it was named.
/// Only errors count.
#[must_use]
pub fn format_output(dir: &str, found: &[Diagnostic]) -> ValidationOutput {
    let mut lines = ValidationOutput::default();
    for error in found.iter().filter(|found| found.severity == Severity::Error) {
        if lines.stderr.is_empty() {
            lines.stderr = format!("Validation failed for {dir}:\n");
        }
        lines.stderr.extend(["  - ", &error.message, "\n"]);
    }
    if lines.stderr.is_empty() {
        lines.stdout = format!("Valid skill: {dir}\n");
    }
    lines
}

/// Writes a text as Python's `repr` does: `'text'`.
#[must_use]
pub fn python_repr(text: &str) -> String {
    python::repr_of(text)
}
