//! Fuzzes the files of cases of a skill.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skill_evals::{compare_skill_texts, parse_evals, parse_suite, parse_triggers, shingles_of_diff};

fuzz_target!(|text: &str| {
    let triggers = parse_triggers(text);
    let evals = parse_evals(text, "beads");
    let suite = parse_suite(text);
    for found in triggers.findings.iter().chain(&evals.findings).chain(&suite.findings) {
        assert!(found.line > 0 && found.column > 0 && !found.message.is_empty());
    }
    assert!(suite.settings.runs > 0);
    let _ = (compare_skill_texts(text, ""), shingles_of_diff(text));
});
