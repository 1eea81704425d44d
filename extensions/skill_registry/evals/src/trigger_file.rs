//! Files of queries: `evals/triggers.json`, `eval_queries.json`, `trigger_eval.json`.
//!
//! Their form is that of the agentskills guide, `[{query, should_trigger}]`. The fields
//! `expected_skill`, `forbidden`, `agent` and `split` are this program's own and optional.

use std::collections::HashMap;

use skill_compat::extended::{RecordReader, SectionRules};
use yaml_tree::Value;

use crate::case::{CaseSplit, TriggerCase};
use crate::finding::{CaseFinding, collect_findings, list_items};
use crate::json_tree::parse_json;

static RULES: SectionRules = SectionRules {
    name: "queries",
    kind: "evals.type",
    required: "evals.required",
    value: "evals.value",
    unknown: "evals.unknownField",
};

const FIELDS: [&str; 6] =
    ["query", "should_trigger", "expected_skill", "forbidden", "agent", "split"];

/// The parsed queries with their findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedTriggers {
    /// The cases that can be used.
    pub cases: Vec<TriggerCase>,
    /// The findings, in the order of the file.
    pub findings: Vec<CaseFinding>,
}

/// Parses a file of queries.
#[must_use]
pub fn parse_triggers(text: &str) -> ParsedTriggers {
    let tree = match parse_json(text) {
        Ok(tree) => tree,
        Err(found) => return ParsedTriggers { cases: Vec::new(), findings: vec![*found] },
    };
    let items = match list_items(&tree, "the file") {
        Ok(items) => items,
        Err(found) => return ParsedTriggers { cases: Vec::new(), findings: vec![*found] },
    };
    let (cases, mut findings) = collect_findings(&RULES, |reader| {
        let read =
            items.iter().enumerate().filter_map(|(index, item)| read_case(reader, index, item));
        read.collect::<Vec<_>>()
    });
    findings.extend(find_contradictions(&cases));
    // Readers go through the file from its beginning.
    findings.sort_by_key(|found| (found.line, found.column));
    ParsedTriggers { cases, findings }
}

fn read_case(reader: &mut RecordReader<'_>, index: usize, item: &Value) -> Option<TriggerCase> {
    let record = reader.read_record(format!("[{index}]"), item, &FIELDS)?;
    let query = reader.required_text(&record, "query");
    let should_trigger = reader.required_boolean(&record, "should_trigger");
    let expected_skill = reader.read_text(&record, "expected_skill");
    let forbidden = reader.read_list(&record, "forbidden", false);
    let forbidden = forbidden.iter().enumerate().filter_map(|(at, item)| {
        reader.read_plain_text(&format!("[{index}].forbidden[{at}]"), item)
    });
    let forbidden = forbidden.collect();
    let agent = reader.read_text(&record, "agent");
    let splits = [("train", CaseSplit::Train), ("held-out", CaseSplit::HeldOut)];
    let split = reader.read_keyword(&record, "split", &splits);
    Some(TriggerCase {
        name: format!("q{}", index + 1),
        query: query?,
        should_trigger: should_trigger?,
        expected_skill,
        forbidden,
        agent,
        split,
        at: item.span(),
    })
}

/// Finds queries that are given with both expectations.
fn find_contradictions(cases: &[TriggerCase]) -> Vec<CaseFinding> {
    let mut seen: HashMap<(&str, Option<&str>), &TriggerCase> = HashMap::new();
    let mut findings = Vec::new();
    for case in cases {
        let key = (case.query.as_str(), case.agent.as_deref());
        let first = *seen.entry(key).or_insert(case);
        if first.name == case.name {
            continue;
        }
        let contradicts = first.should_trigger != case.should_trigger;
        let message = match contradicts {
            true => {
                format!("the query of {} is repeated with the opposite expectation", first.name)
            }
            false => format!("the query of {} is repeated", first.name),
        };
        let found = CaseFinding::error(case.at, message, "remove one of the two");
        // A repetition counts twice; only a contradiction has no result.
        findings.push(CaseFinding { is_warning: !contradicts, ..found });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let parsed = parse_triggers(text);
        let line = |found: &CaseFinding| {
            let warning = if found.is_warning { " (warning)" } else { "" };
            format!("{}:{} {}{warning}", found.line, found.column, found.message)
        };
        parsed.findings.iter().map(line).collect()
    }

    #[test]
    fn all_fields_are_read() {
        let parsed = parse_triggers(
            r#"[
  {"query": "fill in the W-9", "should_trigger": true},
  {"query": "draw a form", "should_trigger": false, "expected_skill": "form-builder",
   "forbidden": ["tax-advice"], "agent": "clerk", "split": "held-out"}
]"#,
        );
        assert_eq!(parsed.findings, []);
        let [first, second] = &parsed.cases[..] else { panic!("{:?}", parsed.cases) };
        assert_eq!((first.name.as_str(), first.should_trigger), ("q1", true));
        assert_eq!(second.expected_skill.as_deref(), Some("form-builder"));
        assert_eq!(second.forbidden, ["tax-advice"]);
        assert_eq!(second.agent.as_deref(), Some("clerk"));
        assert_eq!((second.split, second.at.line), (Some(CaseSplit::HeldOut), 3));
    }

    #[test]
    fn wrong_values_are_reported_in_place() {
        assert_eq!(
            findings(
                r#"[
  {"query": " ", "should_trigger": true},
  {"query": ["x"], "should_trigger": "maybe"},
  "text",
  {"query": "a", "should_trigger": true, "note": 1, "split": "both"},
  {"query": "a", "should_trigger": true},
  {"query": "a", "should_trigger": false, "forbidden": [{}]}
]"#
            ),
            [
                "2:3 `[0]` has no `query`",
                "3:13 `[1].query` is a list, not a string",
                "3:38 `[1].should_trigger` is neither true nor false; it is not used",
                "4:3 `[2]` is a string, not a map",
                "5:42 `[3]` has no field `note` (warning)",
                "5:62 `[3].split` cannot be `both`",
                "6:3 the query of q4 is repeated (warning)",
                "7:3 the query of q4 is repeated with the opposite expectation",
                "7:57 `[5].forbidden[0]` is a map, not a string",
            ]
        );
        assert_eq!(findings(r#"{"query": "a"}"#), ["1:1 the file is not a list"]);
        let many = format!("[{}1]", "1,".repeat(20_000));
        assert_eq!(findings(&many), ["1:1 the file has 20001 cases, at most 20000 are read"]);
    }
}
