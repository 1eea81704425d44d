//! Files of prompts with assertions: `evals/evals.json`, and the test scenarios of `skill.yaml`.
//!
//! The form of `evals.json` is that of the agentskills guide,
//! `{skill_name, evals: [{id, prompt, expected_output, files, assertions}]}`. An assertion is a
//! sentence, or an object of the SkillsCraft specification. The field `expectations` of
//! skill-creator has the same meaning as `assertions`.

use std::collections::HashSet;

use skill_compat::extended::{
    AssertionType, FieldRecord, RecordReader, SectionRules, TestScenario, read_test_assertion,
};
use yaml_tree::{Span, Value};

use crate::assertion_check::find_expression_error;
use crate::case::{CaseAssertion, OutputCase};
use crate::finding::{CaseFinding, collect_findings};
use crate::json_tree::parse_json;

static RULES: SectionRules = SectionRules {
    name: "evals",
    kind: "evals.type",
    required: "evals.required",
    value: "evals.value",
    unknown: "evals.unknownField",
};

const FIELDS: [&str; 7] =
    ["id", "name", "prompt", "expected_output", "files", "assertions", "expectations"];

/// The parsed prompts with their findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedOutputCases {
    /// The id of the skill that the file names.
    pub skill_name: Option<String>,
    /// The cases that can be used.
    pub cases: Vec<OutputCase>,
    /// The findings, in the order of the file.
    pub findings: Vec<CaseFinding>,
}

/// Parses an `evals.json`. `skill_id` is the skill whose directory has the file.
#[must_use]
pub fn parse_evals(text: &str, skill_id: &str) -> ParsedOutputCases {
    let tree = match parse_json(text) {
        Ok(tree) => tree,
        Err(found) => return ParsedOutputCases { findings: vec![*found], ..Default::default() },
    };
    let ((skill_name, cases), mut findings) =
        collect_findings(&RULES, |reader| read_file(reader, &tree).unwrap_or_default());
    if let Some((name, at)) = &skill_name
        && name != skill_id
    {
        let message = format!("the file is about `{name}`, but lies in `{skill_id}`");
        findings.push(CaseFinding::error(*at, message, "move the file, or correct `skill_name`"));
    }
    findings.extend(find_repeated_ids(&cases));
    findings.sort_by_key(|found| (found.line, found.column));
    ParsedOutputCases { skill_name: skill_name.map(|(name, _)| name), cases, findings }
}

/// Converts the test scenarios of a skill. The id of a case consists of the names of its scenario
/// and of the case.
#[must_use]
pub fn cases_of_scenarios(scenarios: &[TestScenario]) -> Vec<OutputCase> {
    let cases = scenarios.iter().flat_map(|scenario| {
        scenario.cases.iter().map(|case| OutputCase {
            id: format!("{}/{}", scenario.name, case.name),
            prompt: case.input.clone(),
            expected_output: case.expected_behavior.clone(),
            files: Vec::new(),
            assertions: case.assertions.iter().cloned().map(CaseAssertion::Typed).collect(),
            at: Span::default(),
        })
    });
    cases.collect()
}

type SkillName = Option<(String, Span)>;

fn read_file(reader: &mut RecordReader<'_>, tree: &Value) -> Option<(SkillName, Vec<OutputCase>)> {
    let record = reader.read_record("the file".to_owned(), tree, &["skill_name", "evals"])?;
    let name = reader.read_text(&record, "skill_name");
    let name = name.map(|name| (name, record.field_span("skill_name")));
    let items = reader.read_list(&record, "evals", true);
    let cases = items.iter().enumerate().filter_map(|(index, item)| read_case(reader, index, item));
    Some((name, cases.collect()))
}

fn read_case(reader: &mut RecordReader<'_>, index: usize, item: &Value) -> Option<OutputCase> {
    let place = format!("evals[{index}]");
    let record = reader.read_record(place.clone(), item, &FIELDS)?;
    let id = reader.required_text(&record, "id");
    let prompt = reader.required_text(&record, "prompt");
    let expected_output = reader.read_text(&record, "expected_output");
    let files = reader.read_list(&record, "files", false);
    let files = files
        .iter()
        .enumerate()
        .filter_map(|(at, item)| reader.read_plain_text(&format!("{place}.files[{at}]"), item));
    let files = files.collect();
    // Two tools name the same list differently, and a file may have both.
    let mut assertions = read_assertions(reader, &record, &place, "assertions");
    assertions.extend(read_assertions(reader, &record, &place, "expectations"));
    let (id, prompt) = (id?, prompt?);
    Some(OutputCase { id, prompt, expected_output, files, assertions, at: item.span() })
}

fn read_assertions(
    reader: &mut RecordReader<'_>,
    record: &FieldRecord<'_>,
    place: &str,
    field: &'static str,
) -> Vec<CaseAssertion> {
    let items = reader.read_list(record, field, false);
    let read = items.iter().enumerate().filter_map(|(at, item)| {
        let name = format!("{place}.{field}[{at}]");
        match item {
            Value::Mapping(_) => {
                let typed = read_test_assertion(reader, name.clone(), item)?;
                // Before any run is paid; an author would take a failed case for the model's fault.
                if typed.kind == AssertionType::MatchesRegex
                    && let Some(reason) = find_expression_error(&typed.value)
                {
                    let message = format!("`{name}`: {reason}");
                    reader.report(RULES.value, item.span(), message, "correct the expression");
                }
                Some(CaseAssertion::Typed(typed))
            }
            _ => reader.read_plain_text(&name, item).map(CaseAssertion::Sentence),
        }
    });
    read.collect()
}

fn find_repeated_ids(cases: &[OutputCase]) -> Vec<CaseFinding> {
    let mut seen = HashSet::new();
    let repeated = cases.iter().filter(|case| !seen.insert(case.id.as_str()));
    let to_finding = |case: &OutputCase| {
        let message = format!("the id `{}` is repeated", skill_compat::extended::excerpt(&case.id));
        CaseFinding::error(case.at, message, "give each case an id of its own")
    };
    repeated.map(to_finding).collect()
}

#[cfg(test)]
mod tests {
    use skill_compat::extended::ParsedExtendedSpec;

    use super::*;

    #[test]
    fn both_forms_of_assertions_are_read() {
        let parsed = parse_evals(
            r#"{"skill_name": "pdf-forms", "evals": [
  {"id": 1, "prompt": "Fill it in.", "expected_output": "A form", "files": ["evals/files/w9.pdf"],
   "assertions": ["names three months", {"type": "file-created", "value": "*.pdf"}]},
  {"id": "two", "prompt": "Read it.", "expectations": ["has a table"]}
]}"#,
            "pdf-forms",
        );
        assert_eq!(parsed.findings, []);
        let [first, second] = &parsed.cases[..] else { panic!("{:?}", parsed.cases) };
        assert_eq!((first.id.as_str(), first.files.len()), ("1", 1));
        assert_eq!(first.assertions[0], CaseAssertion::Sentence("names three months".to_owned()));
        let CaseAssertion::Typed(typed) = &first.assertions[1] else { panic!("{first:?}") };
        assert_eq!((typed.kind, typed.value.as_str()), (AssertionType::FileCreated, "*.pdf"));
        assert_eq!(second.assertions, [CaseAssertion::Sentence("has a table".to_owned())]);
    }

    #[test]
    fn scenarios_become_cases() {
        let yaml = "tests:\n  - name: greet\n    description: x\n    cases:\n      - name: ada\n        \
                    input: Greet Ada\n        assertions: [{type: contains, value: Ada}]\n";
        let spec = ParsedExtendedSpec::parse_skill_yaml(yaml, "greet").extended;
        let cases = cases_of_scenarios(&spec.tests.unwrap());
        assert_eq!((cases[0].id.as_str(), cases[0].prompt.as_str()), ("greet/ada", "Greet Ada"));
        assert_eq!(cases[0].assertions[0].text(), "contains: Ada");
    }

    #[test]
    fn wrong_files_are_reported_in_place() {
        let parsed = parse_evals(
            r#"{"skill_name": "other", "evals": [
  {"id": 1, "prompt": "x", "assertions": [{"type": "equals", "value": "y"}, 7, []]},
  {"id": 1, "prompt": "y"},
  {"prompt": ""}
]}"#,
            "pdf-forms",
        );
        let lines: Vec<String> = parsed
            .findings
            .iter()
            .map(|found| format!("{}:{} {}", found.line, found.column, found.message))
            .collect();
        assert_eq!(
            lines,
            [
                "1:16 the file is about `other`, but lies in `pdf-forms`",
                "2:52 `evals[0].assertions[0].type` cannot be `equals`",
                "2:80 `evals[0].assertions[2]` is a list, not a string",
                "3:3 the id `1` is repeated",
                "4:3 `evals[2]` has no `id`",
                "4:3 `evals[2]` has no `prompt`",
            ]
        );
        assert_eq!(parsed.cases.len(), 2);
        for (text, message) in [
            ("[]", "`the file` is a list, not a map"),
            ("{}", "`the file` has no `evals`"),
            (r#"{"evals": 1}"#, "`the file.evals` is a string, not a list"),
        ] {
            assert_eq!(parse_evals(text, "x").findings[0].message, message, "{text}");
        }
    }
}
