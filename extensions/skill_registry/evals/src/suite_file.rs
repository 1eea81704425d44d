//! The settings of a skill's cases: `evals/suite.yaml`.

use std::collections::BTreeMap;

use skill_compat::extended::{FieldRecord, RecordReader, SectionRules};
use skill_format::tree;
use yaml_tree::{Span, Value};

use crate::finding::{CaseFinding, collect_findings};

static RULES: SectionRules = SectionRules {
    name: "suite",
    kind: "evals.type",
    required: "evals.required",
    value: "evals.value",
    unknown: "evals.unknownField",
};

/// The limit on the size of the file, in bytes.
const MAX_SUITE_FILE: usize = 64 << 10;

/// The limit on the runs of a case.
const MAX_RUNS: u32 = 100;

/// The settings of a skill's cases.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteSettings {
    /// The runs of each case with a model.
    pub runs: u32,
    /// The rate of runs above which a case passes.
    pub threshold: f64,
    /// The agent whose view is tested.
    pub agent: Option<String>,
    /// The answers of tools, by name; a tool that is not listed is a stub.
    pub tools: BTreeMap<String, ToolStub>,
}

/// The answer of a tool during a test with a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolStub {
    /// The tool itself is called.
    Real,
    /// The call succeeds with an empty result.
    Stub,
    /// The call succeeds with this text.
    Say(String),
}

/// The parsed settings with their findings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedSuite {
    /// The settings; a wrong value is replaced by its default.
    pub settings: SuiteSettings,
    /// The findings, in the order of the file.
    pub findings: Vec<CaseFinding>,
}

impl Default for SuiteSettings {
    fn default() -> Self {
        Self { runs: 3, threshold: 0.5, agent: None, tools: BTreeMap::new() }
    }
}

/// Parses a `suite.yaml`.
#[must_use]
pub fn parse_suite(text: &str) -> ParsedSuite {
    let mut settings = SuiteSettings::default();
    if text.len() > MAX_SUITE_FILE {
        let message =
            format!("the file has {} bytes, at most {MAX_SUITE_FILE} are read", text.len());
        let found = CaseFinding::error(Span::default(), message, "shorten the answers of tools");
        return ParsedSuite { settings, findings: vec![found] };
    }
    let tree = tree::parse_frontmatter(text, 1);
    let to_finding = |found: skill_format::Diagnostic| {
        let at = Span { line: found.line, column: found.column };
        CaseFinding::error(at, found.message, found.help.unwrap_or_default())
    };
    let mut findings: Vec<CaseFinding> = tree.diagnostics.into_iter().map(to_finding).collect();
    // Text that is not YAML was cut into fragments, whose findings would only confuse.
    if findings.is_empty() {
        let ((), read) = collect_findings(&RULES, |reader| {
            read_settings(reader, &tree.root, &mut settings);
        });
        findings = read;
    }
    findings.sort_by_key(|found| (found.line, found.column));
    ParsedSuite { settings, findings }
}

fn read_settings(reader: &mut RecordReader<'_>, root: &Value, settings: &mut SuiteSettings) {
    let fields = ["runs", "threshold", "agent", "tools"];
    let Some(record) = reader.read_record("the file".to_owned(), root, &fields) else { return };
    let runs = |text: &str| text.parse().ok().filter(|runs| (1..=MAX_RUNS).contains(runs));
    let help = format!("write a number from 1 to {MAX_RUNS}");
    if let Some(runs) = read_number(reader, &record, "runs", runs, &help) {
        settings.runs = runs;
    }
    let rate = |text: &str| text.parse().ok().filter(|rate| *rate > 0.0 && *rate <= 1.0);
    let help = "write a rate above 0 and at most 1";
    if let Some(rate) = read_number(reader, &record, "threshold", rate, help) {
        settings.threshold = rate;
    }
    settings.agent = reader.read_text(&record, "agent");
    match record.value("tools") {
        None => {}
        Some(Value::Mapping(tools)) => {
            for entry in &tools.entries {
                if let Some(stub) = read_stub(reader, &entry.key.text, &entry.value) {
                    settings.tools.insert(entry.key.text.clone(), stub);
                }
            }
        }
        Some(other) => {
            let message = "`tools` is not a map".to_owned();
            reader.report(RULES.kind, other.span(), message, "write `NAME: real` or `NAME: stub`");
        }
    }
}

fn read_number<T>(
    reader: &mut RecordReader<'_>,
    record: &FieldRecord<'_>,
    field: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
    help: &str,
) -> Option<T> {
    let text = reader.read_text(record, field)?;
    let number = parse(&text);
    if number.is_none() {
        let text = skill_compat::extended::excerpt(&text);
        let message = format!("`{field}` cannot be `{text}`");
        reader.report(RULES.value, record.field_span(field), message, help);
    }
    number
}

fn read_stub(reader: &mut RecordReader<'_>, tool: &str, value: &Value) -> Option<ToolStub> {
    let name = format!("tools.{}", skill_compat::extended::excerpt(tool));
    match value {
        Value::Scalar(scalar) if scalar.text == "real" => Some(ToolStub::Real),
        Value::Scalar(scalar) if scalar.text == "stub" => Some(ToolStub::Stub),
        Value::Mapping(_) => {
            let record = reader.read_record(name, value, &["say"])?;
            reader.required_text(&record, "say").map(ToolStub::Say)
        }
        other => {
            let message = format!("`{name}` is neither `real`, `stub` nor `{{say: …}}`");
            reader.report(RULES.value, other.span(), message, "write one of them");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let parsed = parse_suite(
            "runs: 5\nthreshold: 0.8\nagent: clerk\ntools:\n  read_file: real\n  web_search: stub\n  \
             ask: {say: 'No.'}\n",
        );
        assert_eq!(parsed.findings, []);
        let settings = parsed.settings;
        assert_eq!((settings.runs, settings.threshold), (5, 0.8));
        assert_eq!(settings.agent.as_deref(), Some("clerk"));
        assert_eq!(settings.tools["ask"], ToolStub::Say("No.".to_owned()));
        assert_eq!(settings.tools["read_file"], ToolStub::Real);
        assert_eq!(parse_suite("").settings, SuiteSettings::default());
    }

    #[test]
    fn wrong_settings_are_reported_in_place() {
        let parsed =
            parse_suite("runs: 0\nthreshold: 2\ntools: {a: maybe, b: {tell: x}}\nseed: 1\n");
        let lines: Vec<String> = parsed
            .findings
            .iter()
            .map(|found| format!("{}:{} {}", found.line, found.column, found.message))
            .collect();
        assert_eq!(
            lines,
            [
                "1:7 `runs` cannot be `0`",
                "2:12 `threshold` cannot be `2`",
                "3:12 `tools.a` is neither `real`, `stub` nor `{say: …}`",
                "3:22 `tools.b` has no `say`",
                "3:23 `tools.b` has no field `tell`",
                "4:1 `the file` has no field `seed`",
            ]
        );
        assert_eq!(parsed.settings, SuiteSettings::default());
        assert_eq!(parse_suite("[1]").findings[0].message, "`the file` is a list, not a map");
        assert!(!parse_suite("a: [").findings.is_empty());
        let large = "#".repeat(70_000);
        assert!(parse_suite(&large).findings[0].message.contains("at most 65536"));
    }
}
