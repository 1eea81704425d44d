//! Tests of `writer`.

use super::*;

fn summary(skills: usize, valid: usize, counts: [usize; 5]) -> CheckSummary {
    let [errors, warnings, notes, problems, fixed] = counts;
    CheckSummary { skills, valid, errors, warnings, notes, problems, fixed, ..Default::default() }
}

#[test]
fn summary_line_omits_zero_counts() {
    for (skills, valid, counts, expected) in [
        (0, 0, [0; 5], "no skill checked"),
        (0, 0, [0, 0, 0, 1, 0], "no skill checked; 1 problem"),
        (1, 1, [0; 5], "1 skill: valid"),
        (1, 0, [1, 0, 0, 0, 0], "1 skill: invalid; 1 error"),
        (2, 0, [2, 0, 0, 0, 0], "2 skills: all invalid; 2 errors"),
        (3, 3, [0, 1, 2, 0, 0], "3 skills: all valid; 1 warning, 2 notes"),
        (
            25,
            11,
            [31, 0, 0, 2, 5],
            "25 skills: 11 valid, 14 invalid; 31 errors, 2 problems, 5 fixed",
        ),
    ] {
        assert_eq!(summary(skills, valid, counts).line(), expected);
    }
}

#[test]
fn rule_totals_start_with_most_frequent() {
    let total = |findings, fixable| RuleTotal { findings, fixable };
    let rules = [("a", total(2, 0)), ("b", total(12, 12)), ("c", total(2, 1))];
    let many = CheckSummary { rules: Some(rules.into()), ..summary(3, 3, [0; 5]) };
    assert_eq!(
        many.rule_lines(),
        ["  12  b (fixable)", "   2  a", "   2  c (1 fixable)", "13 fixable with --fix"]
    );
    let one = CheckSummary { skills: 1, ..many };
    assert_eq!(one.rule_lines(), ["13 fixable with --fix"]);
    assert_eq!(summary(3, 3, [0; 5]).rule_lines(), [""; 0]);
}
