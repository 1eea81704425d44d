//! Reimplementation of the reference validator skills-ref 0.1.1: its verdicts, messages and output.
//!
//! Scripts for the reference must keep working, so its quirks are kept: it splits the file at any
//! `---`, reads the frontmatter with strictyaml (every value is text; flow style, anchors, tags and
//! duplicate keys are rejected) and prints nested metadata in Python's notation. There are two
//! differences: the text after `Invalid YAML in frontmatter:` is worded differently, and an
//! uncaught exception of the reference becomes an error ([`ReferenceError::Crash`]).

mod error;
mod properties;
mod python;
mod scanner;
mod skill;
mod surrogate;
mod validate;
mod yaml;

use skill_format::{Diagnostic, Severity, SkillInput};
use yaml_tree::Span;

use error::{error_diagnostic, to_reference_error};
use yaml::StrictYamlValue;

pub use error::ReferenceError;
pub use properties::{PromptSkill, ReferenceProperties, to_prompt};
pub use skill::ReferenceSkill;

/// The file names that the reference tries, in this order.
pub const FILE_NAMES: [&str; 2] = ["SKILL.md", "skill.md"];

/// Parses the bytes of a SKILL.md.
///
/// # Errors
/// Returns [`ReferenceError`] if there is no frontmatter, or if the reference rejects it.
pub fn load_reference_skill(bytes: &[u8]) -> Result<ReferenceSkill, ReferenceError> {
    let text = std::str::from_utf8(bytes).map_err(|error| ReferenceError::Crash {
        rule: "file.encoding",
        problem: format!("the file is not UTF-8: byte {} cannot be decoded", error.valid_up_to()),
        at: Span::default(),
    })?;
    // Python converts every kind of line end to LF when it reads a text file.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let rest = text.strip_prefix("---").ok_or(ReferenceError::Missing)?;
    // The reference splits at any `---`, even inside a value.
    let (yaml, _) = rest.split_once("---").ok_or(ReferenceError::Unclosed)?;
    match yaml::load_yaml(yaml).map_err(to_reference_error)? {
        Some(StrictYamlValue::Map(fields)) => Ok(ReferenceSkill { fields }),
        _ => Err(ReferenceError::NotMapping),
    }
}

/// Validates a skill as `skills-ref validate` does: the same messages in the same order, with rule
/// ids.
///
/// The name of the directory is compared with the name of the skill. A file named neither
/// `SKILL.md` nor `skill.md` is ignored.
#[must_use]
pub fn validate_reference(input: &SkillInput<'_>) -> Vec<Diagnostic> {
    if !input.file_name.is_some_and(|name| FILE_NAMES.contains(&name)) {
        let missing = "Missing required file: SKILL.md";
        return vec![error_diagnostic("structure.missingSkillMd", Span::default(), missing)];
    }
    match load_reference_skill(input.bytes) {
        Ok(skill) => skill.validate(input.dir_name),
        Err(error) => vec![error.to_diagnostic()],
    }
}

/// The output of `skills-ref validate`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationOutput {
    /// The standard output with its final newline; empty if the skill is not valid.
    pub stdout: String,
    /// The standard error with its final newline; empty if the skill is valid.
    pub stderr: String,
}

/// Formats the output of `skills-ref validate` for a skill directory; `dir` is its path as given by
/// the user. Only errors count.
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
