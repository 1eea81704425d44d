//! SARIF 2.1.0 (OASIS), for code scanning.
//!
//! Results are streamed; the rules that they name follow in the same run. JSON objects are
//! unordered, so only the list of rules has to be kept.

use std::io::{self, Write};
use std::path::{Component, Path};

use serde_sarif::sarif::{
    ArtifactLocation, Invocation, Location, Message, MultiformatMessageString, Notification,
    PhysicalLocation, Region, ReportingConfiguration, ReportingDescriptor, Result as Found,
    ResultLevel, Tool, ToolComponent,
};
use skill_format::{Diagnostic, Severity};
use skill_rules::{Profile, RuleLevel};
use skillhost_terminal::json_text;

use super::{CheckSummary, CheckedSkill, ReportWriter};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

pub(super) struct SarifWriter {
    profile: Profile,
    has_entries: bool,
    /// The ids of the rules, in the order of their first results.
    rules: Vec<&'static str>,
    /// The paths that could not be checked.
    unread: Vec<Notification>,
}

impl SarifWriter {
    pub(super) fn new(profile: Profile) -> Self {
        Self { profile, has_entries: false, rules: Vec::new(), unread: Vec::new() }
    }

    fn result(&mut self, path: &Path, found: &Diagnostic) -> Found {
        let index = self.rules.iter().position(|&rule| rule == found.rule).unwrap_or_else(|| {
            self.rules.push(found.rule);
            self.rules.len() - 1
        });
        Found::builder()
            .rule_id(found.rule)
            .rule_index(index as i64)
            .level(level(found.severity))
            .message(message(found))
            .locations(vec![location(path, Some(found))])
            .build()
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
        Ok(())
    }

    fn write_problem(
        &mut self,
        checked: &CheckedSkill<'_>,
        _out: &mut dyn Write,
    ) -> io::Result<()> {
        self.unread.extend(checked.diagnostics().map(|found| {
            Notification::builder()
                .level("error")
                .message(message(found))
                .locations(vec![location(checked.path, None)])
                .build()
        }));
        Ok(())
    }

    fn finish(&mut self, _summary: &CheckSummary, out: &mut dyn Write) -> io::Result<()> {
        if !self.has_entries {
            self.separate(out)?;
        }
        let driver = ToolComponent::builder()
            .name("skillhost")
            .semantic_version(env!("CARGO_PKG_VERSION"))
            .rules(self.rules.iter().map(|rule| descriptor(rule, self.profile)).collect::<Vec<_>>())
            .build();
        let tool = Tool::builder().driver(driver).build();
        let unread = std::mem::take(&mut self.unread);
        let invocation = Invocation::builder()
            .execution_successful(unread.is_empty())
            .tool_execution_notifications(unread)
            .build();
        writeln!(
            out,
            "],\"tool\":{},\"invocations\":{}}}]}}",
            json_text(&tool)?,
            json_text(&[invocation])?
        )
    }
}

fn descriptor(id: &str, profile: Profile) -> ReportingDescriptor {
    let text = |text: &str| MultiformatMessageString::builder().text(text).build();
    let Some(rule) = skill_rules::find_rule(id) else {
        return ReportingDescriptor::builder().id(id).build();
    };
    let help = MultiformatMessageString::builder()
        .text(rule.docs.trim())
        .markdown(rule.docs.trim())
        .build();
    let default = match rule.levels.level_for(profile) {
        RuleLevel::Error => "error",
        RuleLevel::Warning => "warning",
        RuleLevel::Note => "note",
        RuleLevel::Off => "none",
    };
    ReportingDescriptor::builder()
        .id(id)
        .short_description(text(rule.summary))
        .full_description(text(&what_it_does(rule.docs)))
        .help(help)
        .default_configuration(ReportingConfiguration::builder().level(default).build())
        .build()
}

/// Returns the first section of a rule's page, on one line.
fn what_it_does(docs: &str) -> String {
    let lines = docs.lines().map(str::trim).skip_while(|line| line.is_empty()).skip(1);
    let section: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    section.join(" ").trim().to_owned()
}

fn level(severity: Severity) -> ResultLevel {
    match severity {
        Severity::Error => ResultLevel::Error,
        Severity::Warning => ResultLevel::Warning,
        Severity::Note => ResultLevel::Note,
    }
}

fn message(found: &Diagnostic) -> Message {
    let text = match &found.help {
        Some(help) => format!("{}\nhelp: {help}", found.message),
        None => found.message.clone(),
    };
    Message::builder().text(literal(&text)).build()
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

fn location(path: &Path, found: Option<&Diagnostic>) -> Location {
    let mut place = PhysicalLocation::builder()
        .artifact_location(ArtifactLocation::builder().uri(uri(path)).build())
        .build();
    if let Some(found) = found.filter(|found| found.line > 0) {
        let mut region = Region::builder().start_line(i64::from(found.line)).build();
        region.start_column = (found.column > 0).then_some(i64::from(found.column));
        place.region = Some(region);
    }
    Location::builder().physical_location(place).build()
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
mod tests {
    use super::*;

    #[test]
    fn paths_become_uri_references() {
        for (path, expected) in [
            ("skills/beads/SKILL.md", "skills/beads/SKILL.md"),
            ("./SKILL.md", "SKILL.md"),
            (".", "."),
            ("../a b/ü%:?#/x", "../a%20b/%C3%BC%25%3A%3F%23/x"),
            ("/srv/skills", "file:///srv/skills"),
        ] {
            assert_eq!(uri(Path::new(path)), expected);
        }
    }

    #[test]
    fn quoted_text_is_literal() {
        assert_eq!(literal("a [b] {c} `x`"), "a [b] {c} `x`");
        assert_eq!(literal("[press](http://x)"), "\\[press\\](http://x)");
        assert_eq!(literal("{0} {a}"), "{{0}} {{a}}");
    }

    #[test]
    fn full_description_is_first_section() {
        let docs = "\n## What it does\nLooks at\nnames.\n\n## Why is this bad?\nIt is.\n";
        assert_eq!(what_it_does(docs), "Looks at names.");
    }
}
