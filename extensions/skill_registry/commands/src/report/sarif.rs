//! SARIF 2.1.0 (OASIS), for code scanning.
//!
//! Results are streamed; the rules that they name follow in the same run. JSON objects are
//! unordered, so only the list of rules has to be kept. The objects are written out here, with their
//! fields in alphabetical order: a crate with all types of the standard compiles longer than this one.

use std::io::{self, Write};
use std::path::{Component, Path};

use serde_json::{Value, json};
use skill_format::{Diagnostic, Severity};
use skill_policy::SuppressionOrigin;
use skill_rules::{Profile, RuleLevel};
use skillhost_terminal::json_text;

use super::writer::{CheckSummary, CheckedSkill, ReportWriter};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

pub(super) struct SarifWriter {
    profile: Profile,
    has_entries: bool,
    /// The ids of the rules, in the order of their first results.
    rules: Vec<&'static str>,
    /// The paths that could not be checked.
    unread: Vec<Value>,
}

impl SarifWriter {
    pub(super) fn new(profile: Profile) -> Self {
        Self { profile, has_entries: false, rules: Vec::new(), unread: Vec::new() }
    }

    fn result(&mut self, path: &Path, found: &Diagnostic) -> Value {
        let index = self.rules.iter().position(|&rule| rule == found.rule).unwrap_or_else(|| {
            self.rules.push(found.rule);
            self.rules.len() - 1
        });
        json!({
            "level": level(found.severity),
            "locations": [location(path, Some(found))],
            "message": message(found),
            "ruleId": found.rule,
            "ruleIndex": index,
        })
    }

    /// Writes the separator before the next result.
    fn separate(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if std::mem::replace(&mut self.has_entries, true) {
            return out.write_all(b",");
        }
        write!(
            out,
            "{{\"$schema\":\"{SCHEMA}\",\"version\":\"2.1.0\",\"runs\":[{{\"columnKind\":\
             \"unicodeCodePoints\",\"results\":["
        )
    }
}

impl ReportWriter for SarifWriter {
    fn write_skill(&mut self, checked: &CheckedSkill<'_>, out: &mut dyn Write) -> io::Result<()> {
        for found in checked.diagnostics() {
            self.separate(out)?;
            let result = self.result(checked.path, found);
            out.write_all(json_text(&result)?.as_bytes())?;
        }
        for found in checked.suppressed {
            self.separate(out)?;
            let mut result = self.result(checked.path, &found.diagnostic);
            // SARIF 2.1.0, 3.35: viewers hide such results and keep them for audits.
            result["suppressions"] = match &found.origin {
                SuppressionOrigin::Comment => json!([{ "kind": "inSource" }]),
                SuppressionOrigin::Policy { reason } => {
                    json!([{ "justification": reason, "kind": "external", "status": "accepted" }])
                }
            };
            out.write_all(json_text(&result)?.as_bytes())?;
        }
        Ok(())
    }

    fn write_problem(
        &mut self,
        checked: &CheckedSkill<'_>,
        _out: &mut dyn Write,
    ) -> io::Result<()> {
        self.unread.extend(checked.diagnostics().map(|found| {
            json!({
                "level": "error",
                "locations": [location(checked.path, None)],
                "message": message(found),
            })
        }));
        Ok(())
    }

    fn finish(&mut self, _summary: &CheckSummary, out: &mut dyn Write) -> io::Result<()> {
        if !self.has_entries {
            self.separate(out)?;
        }
        let rules: Vec<_> = self.rules.iter().map(|rule| descriptor(rule, self.profile)).collect();
        let tool = json!({
            "driver": {
                "name": "skillhost",
                "rules": rules,
                "semanticVersion": env!("CARGO_PKG_VERSION"),
            },
        });
        let unread = std::mem::take(&mut self.unread);
        let invocation = json!({
            "executionSuccessful": unread.is_empty(),
            "toolExecutionNotifications": unread,
        });
        writeln!(
            out,
            "],\"tool\":{},\"invocations\":{}}}]}}",
            json_text(&tool)?,
            json_text(&[invocation])?
        )
    }
}

fn descriptor(id: &str, profile: Profile) -> Value {
    let Some(rule) = skill_rules::find_rule(id) else {
        return json!({ "id": id });
    };
    let default = match rule.levels.level_for(profile) {
        RuleLevel::Error => "error",
        RuleLevel::Warning => "warning",
        RuleLevel::Note => "note",
        RuleLevel::Off => "none",
    };
    let help = rule.docs.trim();
    json!({
        "defaultConfiguration": { "level": default },
        "fullDescription": { "text": what_it_does(rule.docs) },
        "help": { "markdown": help, "text": help },
        "id": id,
        "shortDescription": { "text": rule.summary },
    })
}

/// Returns the first section of a rule's page, on one line.
fn what_it_does(docs: &str) -> String {
    let lines = docs.lines().map(str::trim).skip_while(|line| line.is_empty()).skip(1);
    let section: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    section.join(" ").trim().to_owned()
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

fn message(found: &Diagnostic) -> Value {
    let text = match &found.help {
        Some(help) => format!("{}\nhelp: {help}", found.message),
        None => found.message.clone(),
    };
    json!({ "text": literal(&text) })
}

/// Escapes quoted text that would be read as a link (SARIF 2.1.0, 3.11.6) or a placeholder
/// (3.11.5).
fn literal(text: &str) -> String {
    let mut text = text.to_owned();
    if text.contains("](") {
        text = text.replace('[', "\\[").replace(']', "\\]");
    }
    let is_placeholder = |part: &str| part.starts_with(|first: char| first.is_ascii_digit());
    if text.split('{').skip(1).any(is_placeholder) {
        text = text.replace('{', "{{").replace('}', "}}");
    }
    text
}

fn location(path: &Path, found: Option<&Diagnostic>) -> Value {
    let mut place = json!({ "artifactLocation": { "uri": uri(path) } });
    if let Some(found) = found.filter(|found| found.line > 0) {
        place["region"] = match found.column {
            0 => json!({ "startLine": found.line }),
            column => json!({ "startColumn": column, "startLine": found.line }),
        };
    }
    json!({ "physicalLocation": place })
}

/// Converts a path to a URI reference (RFC 3986), relative to the working directory if the path is.
fn uri(path: &Path) -> String {
    let mut uri = String::from(if path.is_absolute() { "file://" } else { "" });
    let mut first = true;
    for component in path.components() {
        if matches!(component, Component::CurDir) {
            continue;
        }
        if !std::mem::take(&mut first) && !uri.ends_with('/') {
            uri.push('/');
        }
        if matches!(component, Component::RootDir) {
            uri.push('/');
            continue;
        }
        for &byte in component.as_os_str().as_encoded_bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                uri.push(char::from(byte));
            } else {
                uri.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    if uri.is_empty() { ".".to_owned() } else { uri }
}

#[cfg(test)]
mod tests;
