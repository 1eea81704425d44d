//! Tests of `skill_yaml`.

use super::*;
use crate::check_report::CheckOptions;

fn found(text: &str, profile: Profile, scope: CheckScope) -> Vec<String> {
    let options = CheckOptions { profile, scope };
    let rules = RuleSet::new(options);
    assert!(rules.needs_skill_yaml(), "{options:?}");
    let report = rules.check_skill_yaml(text, "beads");
    report.findings.iter().map(|found| found.diagnostic.to_string()).collect()
}

#[test]
fn only_skillscraft_reports_errors() {
    let text = "composition:\n  executionOrder: first\n  dependencies: none\nextra: 1\n";
    let skillscraft = found(text, Profile::Skillscraft, CheckScope::Validate);
    assert!(
        skillscraft.iter().any(|line| line.contains("error[composition.type]")),
        "{skillscraft:?}"
    );
    let spec = found(text, Profile::Spec, CheckScope::Lint);
    assert!(spec.iter().all(|line| !line.contains("error[")), "{spec:?}");
    assert!(spec.iter().any(|line| line.contains("warning[composition.type]")), "{spec:?}");
    let lines: Vec<u32> = RuleSet::default()
        .check_skill_yaml(text, "beads")
        .findings
        .iter()
        .map(|found| found.diagnostic.line)
        .collect();
    assert!(lines.is_sorted() && lines.iter().any(|&line| line > 1), "{lines:?}");
}

#[test]
fn malformed_yaml_is_reported() {
    assert_eq!(
        found("- a\n", Profile::Spec, CheckScope::Lint),
        ["warning[composition.type]: `skill.yaml` is not a map"]
    );
    assert_eq!(
        found("composition: {dependencies: []}\n", Profile::Spec, CheckScope::Lint),
        [""; 0]
    );
}

#[test]
fn validate_reads_skillscraft_only() {
    for profile in Profile::ALL {
        let options = CheckOptions { profile, scope: CheckScope::Validate };
        assert_eq!(
            RuleSet::new(options).needs_skill_yaml(),
            profile == Profile::Skillscraft,
            "{profile:?}"
        );
    }
}
