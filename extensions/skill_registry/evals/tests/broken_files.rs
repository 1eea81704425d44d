//! Broken files of cases: each has a finding with the position of its cause, and none panics.

#![cfg(test)]

use proptest::prelude::*;
use skill_evals::{CaseFinding, parse_evals, parse_suite, parse_triggers};

/// The queries of a valid file, one per line from line 2 on.
fn trigger_lines() -> Vec<String> {
    let line = |n: usize| {
        format!("  {{\"query\": \"wörd {n}\", \"should_trigger\": {}}}", n.is_multiple_of(2))
    };
    (0..25).map(line).collect()
}

/// The prompts of a valid file, one per line from line 2 on.
fn eval_lines() -> Vec<String> {
    let line = |n: usize| {
        format!(
            "  {{\"id\": {n}, \"prompt\": \"do it {n}\", \"assertions\": [\"says {n}\", \
             {{\"type\": \"contains\", \"value\": \"{n}\"}}]}}"
        )
    };
    (0..25).map(line).collect()
}

fn trigger_file(lines: &[String]) -> String {
    format!("[\n{}\n]", lines.join(",\n"))
}

fn eval_file(lines: &[String]) -> String {
    format!("{{\"skill_name\": \"x\", \"evals\": [\n{}\n]}}", lines.join(",\n"))
}

/// Returns the errors of a file of queries, or of one of prompts.
fn check(text: &str, is_triggers: bool) -> Vec<CaseFinding> {
    let findings = match is_triggers {
        true => parse_triggers(text).findings,
        false => parse_evals(text, "x").findings,
    };
    findings.into_iter().filter(|found| !found.is_warning).collect()
}

#[test]
fn valid_files_have_no_findings() {
    assert_eq!(check(&trigger_file(&trigger_lines()), true), []);
    assert_eq!(check(&eval_file(&eval_lines()), false), []);
}

#[test]
fn each_wrong_line_is_named() {
    // What is replaced, by what, the text that ends before the position, and the kind of file.
    let changes: [(&str, &str, &str, bool); 8] = [
        ("\"query\"", "\"question\"", "  ", true),
        ("\"should_trigger\": ", "\"should_trigger\": 1", "\"should_trigger\": 1", true),
        ("\"query\": ", "\"query\" ", "\"query\" ", true),
        ("}", "}}", "}", true),
        ("\"id\": ", "\"identity\": ", "  ", false),
        ("\"prompt\": \"", "\"prompt\": [\"", "\"assertions\"", false),
        ("\"type\": \"contains\"", "\"type\": \"equals\"", "\"type\": ", false),
        ("\"says ", "\"says \\x ", "\\", false),
    ];
    let mut files = 0;
    for (from, to, before, is_triggers) in changes {
        for line in 0..25 {
            let mut lines = if is_triggers { trigger_lines() } else { eval_lines() };
            lines[line] = lines[line].replacen(from, to, 1);
            let text = if is_triggers { trigger_file(&lines) } else { eval_file(&lines) };
            let found = check(&text, is_triggers);
            let first = found.first().unwrap_or_else(|| panic!("{to} in line {line}: no finding"));
            let wanted = line as u32 + 2;
            let changed = lines[line].as_str();
            let end = changed.find(before).unwrap() + before.len();
            let column = changed[..end].chars().count() as u32 + 1;
            assert_eq!((first.line, first.column), (wanted, column), "{to}: {first:?}");
            assert!(!first.help.is_empty(), "{to}: {first:?}");
            files += 1;
        }
    }
    assert_eq!(files, 200);
}

#[test]
fn truncated_files_end_at_their_position() {
    for (text, is_triggers) in
        [(trigger_file(&trigger_lines()), true), (eval_file(&eval_lines()), false)]
    {
        let length = text.chars().count();
        for part in 1..=50 {
            let cut: String = text.chars().take(length * part / 51).collect();
            let found = check(&cut, is_triggers);
            assert_eq!(found.len(), 1, "{found:?}");
            let lines = cut.matches('\n').count() + 1;
            let column = cut.rsplit('\n').next().unwrap().chars().count() + 1;
            let position = (found[0].line as usize, found[0].column as usize);
            assert_eq!(position, (lines, column), "{found:?}");
            assert!(found[0].message.starts_with("the file is not JSON: EOF"), "{found:?}");
        }
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        for found in check(&text, true).iter().chain(&check(&text, false)) {
            prop_assert!(found.line > 0 && found.column > 0);
        }
        prop_assert!(parse_suite(&text).settings.runs > 0);
    }

    #[test]
    fn no_json_panics(text in "[\\[\\]{}:,\"a1\\\\ \\n]{0,80}") {
        let _ = (check(&text, true), check(&text, false));
    }
}
