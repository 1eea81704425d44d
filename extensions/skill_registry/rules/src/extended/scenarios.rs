//! Test scenarios.

use serde::Serialize;
use skill_format::Value;

use super::reader::{RecordReader, SectionRules};

pub(super) static RULES: SectionRules = SectionRules {
    name: "tests",
    kind: "tests.type",
    required: "tests.required",
    value: "tests.value",
    unknown: "tests.unknownField",
};

/// A scenario is known by its cases: names and descriptions are everywhere.
pub(super) const FIELDS: &[&str] = &["cases"];

/// A structured test of a skill's behavior (SkillsCraft specification reference).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TestScenario {
    /// Its name. Required.
    pub name: String,
    /// What it tests. Required.
    pub description: String,
    /// Its cases, in the order written. Required.
    pub cases: Vec<TestCase>,
}

/// One prompt and what has to come of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestCase {
    /// Its name. Required.
    pub name: String,
    /// The prompt. Required.
    pub input: String,
    /// What has to hold afterwards. Required.
    pub assertions: Vec<TestAssertion>,
    /// What is expected, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_behavior: Option<String>,
}

/// Something that has to hold after a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TestAssertion {
    /// What is looked at. Required.
    #[serde(rename = "type")]
    pub kind: AssertionType,
    /// What is looked for. Required.
    ///
    /// The specification does not say whose regular expressions [`AssertionType::MatchesRegex`]
    /// takes, so they are not examined.
    pub value: String,
    /// What it is about, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The kinds of assertions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AssertionType {
    /// The answer contains the text.
    Contains,
    /// The answer does not contain the text.
    NotContains,
    /// The answer matches the regular expression.
    MatchesRegex,
    /// The file exists afterwards and did not before.
    FileCreated,
    /// The file is another afterwards.
    FileModified,
    /// The command was run.
    CommandExecuted,
    /// Whoever runs the test knows.
    Custom,
}

const TYPES: [(&str, AssertionType); 7] = [
    ("contains", AssertionType::Contains),
    ("not-contains", AssertionType::NotContains),
    ("matches-regex", AssertionType::MatchesRegex),
    ("file-created", AssertionType::FileCreated),
    ("file-modified", AssertionType::FileModified),
    ("command-executed", AssertionType::CommandExecuted),
    ("custom", AssertionType::Custom),
];

pub(super) fn read_scenarios(
    reader: &mut RecordReader<'_>,
    value: &Value,
) -> Option<Vec<TestScenario>> {
    let items = match value {
        Value::Sequence(list) => list.items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut scenarios = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let name = format!("{}[{index}]", RULES.name);
        let fields = ["name", "description", "cases"];
        let Some(record) = reader.record(name, item, &fields) else { continue };
        let name = reader.required_text(&record, "name").unwrap_or_default();
        let description = reader.required_text(&record, "description").unwrap_or_default();
        let items = reader.list(&record, "cases", true);
        let cases = cases(reader, &record.name, items);
        scenarios.push(TestScenario { name, description, cases });
    }
    // A text under the type's name has been reported; it declares nothing.
    (!scenarios.is_empty() || matches!(value, Value::Sequence(_))).then_some(scenarios)
}

fn cases(reader: &mut RecordReader<'_>, scenario: &str, items: &[Value]) -> Vec<TestCase> {
    let mut cases = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let name = format!("{scenario}.cases[{index}]");
        let fields = ["name", "input", "assertions", "expectedBehavior"];
        let Some(record) = reader.record(name, item, &fields) else { continue };
        let name = reader.required_text(&record, "name").unwrap_or_default();
        let input = reader.required_text(&record, "input").unwrap_or_default();
        let items = reader.list(&record, "assertions", true);
        let assertions = assertions(reader, &record.name, items);
        let expected_behavior = reader.text(&record, "expectedBehavior");
        cases.push(TestCase { name, input, assertions, expected_behavior });
    }
    cases
}

fn assertions(reader: &mut RecordReader<'_>, case: &str, items: &[Value]) -> Vec<TestAssertion> {
    let mut assertions = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let name = format!("{case}.assertions[{index}]");
        let Some(record) = reader.record(name, item, &["type", "value", "description"]) else {
            continue;
        };
        let kind = reader.required_keyword(&record, "type", &TYPES);
        let value = reader.required_text(&record, "value").unwrap_or_default();
        let description = reader.text(&record, "description");
        if let Some(kind) = kind {
            assertions.push(TestAssertion { kind, value, description });
        }
    }
    assertions
}
