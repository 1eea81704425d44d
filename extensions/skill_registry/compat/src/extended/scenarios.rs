//! Parsing of test scenarios.

use serde::Serialize;
use yaml_tree::Value;

use super::reader::{RecordReader, SectionRules};

pub(super) static RULES: SectionRules = SectionRules {
    name: "tests",
    kind: "tests.type",
    required: "tests.required",
    value: "tests.value",
    unknown: "tests.unknownField",
};

/// The fields that identify a scenario: names and descriptions are too common.
pub(super) const FIELDS: &[&str] = &["cases"];

/// A structured test of a skill's behavior (SkillsCraft specification reference).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TestScenario {
    /// Its name. Required.
    pub name: String,
    /// The subject of the test. Required.
    pub description: String,
    /// Its cases, in the order written. Required.
    pub cases: Vec<TestCase>,
}

/// A prompt with its expected outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestCase {
    /// Its name. Required.
    pub name: String,
    /// The prompt. Required.
    pub input: String,
    /// The conditions to check afterwards. Required.
    pub assertions: Vec<TestAssertion>,
    /// The expected behavior, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_behavior: Option<String>,
}

/// A condition to check after a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TestAssertion {
    /// The kind of condition. Required.
    #[serde(rename = "type")]
    pub kind: AssertionType,
    /// The expected value. Required.
    ///
    /// The specification does not name the dialect of [`AssertionType::MatchesRegex`], so the
    /// syntax of regular expressions is not checked.
    pub value: String,
    /// A description in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The kind of an assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AssertionType {
    /// The reply contains the text.
    Contains,
    /// The reply does not contain the text.
    NotContains,
    /// The reply matches the regular expression.
    MatchesRegex,
    /// The file was created.
    FileCreated,
    /// The file was modified.
    FileModified,
    /// The command was run.
    CommandExecuted,
    /// A condition defined by the test runner.
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
        // The key `testScenario` suggests a single scenario without a list.
        one => std::slice::from_ref(one),
    };
    let mut scenarios = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let name = format!("{}[{index}]", RULES.name);
        let fields = ["name", "description", "cases"];
        let Some(record) = reader.read_record(name, item, &fields) else { continue };
        let name = reader.required_text(&record, "name").unwrap_or_default();
        let description = reader.required_text(&record, "description").unwrap_or_default();
        let items = reader.read_list(&record, "cases", true);
        let cases = read_cases(reader, &record.name, items);
        scenarios.push(TestScenario { name, description, cases });
    }
    // A text under the type's name has been reported and is not a declaration.
    (!scenarios.is_empty() || matches!(value, Value::Sequence(_))).then_some(scenarios)
}

fn read_cases(reader: &mut RecordReader<'_>, scenario: &str, items: &[Value]) -> Vec<TestCase> {
    let mut cases = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let name = format!("{scenario}.cases[{index}]");
        let fields = ["name", "input", "assertions", "expectedBehavior"];
        let Some(record) = reader.read_record(name, item, &fields) else { continue };
        let name = reader.required_text(&record, "name").unwrap_or_default();
        let input = reader.required_text(&record, "input").unwrap_or_default();
        let items = reader.read_list(&record, "assertions", true);
        let assertions = read_assertions(reader, &record.name, items);
        let expected_behavior = reader.read_text(&record, "expectedBehavior");
        cases.push(TestCase { name, input, assertions, expected_behavior });
    }
    cases
}

fn read_assertions(
    reader: &mut RecordReader<'_>,
    case: &str,
    items: &[Value],
) -> Vec<TestAssertion> {
    let mut assertions = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let name = format!("{case}.assertions[{index}]");
        assertions.extend(read_test_assertion(reader, name, item));
    }
    assertions
}

/// Reads a condition; `name` is its name in findings.
pub fn read_test_assertion(
    reader: &mut RecordReader<'_>,
    name: String,
    item: &Value,
) -> Option<TestAssertion> {
    let record = reader.read_record(name, item, &["type", "value", "description"])?;
    let kind = reader.required_keyword(&record, "type", &TYPES);
    let value = reader.required_text(&record, "value").unwrap_or_default();
    let description = reader.read_text(&record, "description");
    // Without a known kind, the value has no meaning.
    kind.map(|kind| TestAssertion { kind, value, description })
}

impl AssertionType {
    /// Returns its name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Contains => "contains",
            Self::NotContains => "not-contains",
            Self::MatchesRegex => "matches-regex",
            Self::FileCreated => "file-created",
            Self::FileModified => "file-modified",
            Self::CommandExecuted => "command-executed",
            Self::Custom => "custom",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kinds_agree() {
        assert!(TYPES.iter().all(|(name, kind)| kind.as_str() == *name));
    }
}
