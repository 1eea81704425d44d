//! One JSON object for the run, and the object of one skill.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::value::RawValue;
use skill_format::{Diagnostic, Severity};
use skill_policy::{SuppressedFinding, SuppressionOrigin};
use skillhost_terminal::{SCHEMA_VERSION, json_text};

use super::writer::{CheckSummary, CheckedSkill, FixRecord, ReportWriter};

/// The JSON object of a skill.
#[derive(Serialize)]
struct SkillObject<'a> {
    path: Cow<'a, str>,
    valid: bool,
    errors: Vec<&'a str>,
    warnings: Vec<&'a str>,
    properties: &'a RawValue,
    diagnostics: Vec<&'a Diagnostic>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suppressed: Vec<SuppressedObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fixed: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    would_fix: Option<usize>,
    /// The changes of `--dry-run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<&'a str>,
}

/// The JSON object of a suppressed finding.
#[derive(Serialize)]
struct SuppressedObject<'a> {
    #[serde(flatten)]
    diagnostic: &'a Diagnostic,
    /// `comment` or `policy`.
    suppressed_by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> From<&'a SuppressedFinding> for SuppressedObject<'a> {
    fn from(found: &'a SuppressedFinding) -> Self {
        let (suppressed_by, reason) = match &found.origin {
            SuppressionOrigin::Comment => ("comment", None),
            SuppressionOrigin::Policy { reason } => ("policy", Some(reason.as_str())),
        };
        Self { diagnostic: &found.diagnostic, suppressed_by, reason }
    }
}

/// Serializes the object of a skill on one line.
pub(super) fn object(checked: &CheckedSkill<'_>) -> io::Result<String> {
    let messages = |severity| {
        let found = checked.diagnostics().filter(move |found| found.severity == severity);
        found.map(|found| &*found.message).collect()
    };
    let none = RawValue::from_string("{}".to_owned())?;
    let (would_fix, diff) = match checked.fix {
        FixRecord::Planned { count, diff } => (Some(*count), Some(diff.as_str())),
        FixRecord::Unrequested | FixRecord::Applied(_) => (None, None),
    };
    json_text(&SkillObject {
        path: checked.path.to_string_lossy(),
        valid: checked.is_valid(),
        errors: messages(Severity::Error),
        warnings: messages(Severity::Warning),
        properties: checked.properties.unwrap_or(&none),
        diagnostics: checked.diagnostics().collect(),
        suppressed: checked.suppressed.iter().map(SuppressedObject::from).collect(),
        fixed: checked.fix.applied(),
        would_fix,
        diff,
    })
}

/// A writer of `{schema_version, skills, summary}` that streams its entries.
#[derive(Default)]
pub(super) struct JsonWriter {
    has_entries: bool,
}

impl JsonWriter {
    /// Returns the separator before the next skill.
    fn separator(&mut self) -> String {
        if std::mem::replace(&mut self.has_entries, true) {
            ",".to_owned()
        } else {
            format!("{{\"schema_version\":{SCHEMA_VERSION},\"skills\":[")
        }
    }
}

impl ReportWriter for JsonWriter {
    fn write_skill(&mut self, checked: &CheckedSkill<'_>, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{}{}", self.separator(), object(checked)?)
    }

    fn finish(&mut self, summary: &CheckSummary, out: &mut dyn Write) -> io::Result<()> {
        if !self.has_entries {
            write!(out, "{}", self.separator())?;
        }
        writeln!(out, "],\"summary\":{}}}", json_text(summary)?)
    }
}
