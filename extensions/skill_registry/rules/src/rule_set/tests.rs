//! Tests of `rule_set`.

use skill_format::SkillInput;

use super::*;

const TEXT: &str = "---\nname: x\ndescription: Counts the beads in a jar. Use when asked.\ntype: a\nhomepage: b\n---\nCount. \n";

fn found(rules: &RuleSet) -> Vec<String> {
    let input =
        SkillInput { dir_name: "x", file_name: None, bytes: TEXT.as_bytes(), files: Some(&[]) };
    let report = rules.check_input(&SkillInput { file_name: Some("SKILL.md"), ..input });
    let found = report.findings.iter().map(|found| &found.diagnostic);
    found.map(|found| format!("{} {}", found.severity, found.rule)).collect()
}

fn lint() -> RuleSet {
    RuleSet::new(CheckOptions { profile: Profile::Spec, scope: CheckScope::Lint })
}

#[test]
fn levels_replace_those_of_profile() {
    let mut rules = lint();
    assert_eq!(
        found(&rules),
        [
            "error frontmatter.unknownField",
            "error frontmatter.unknownField",
            "note dialect-field",
            "note trailing-whitespace",
        ]
    );
    rules.set_level("frontmatter.unknownField", RuleLevel::Note);
    rules.set_level("dialect-field", RuleLevel::Off);
    rules.set_level("trailing-whitespace", RuleLevel::Error);
    rules.set_level("no.such.rule", RuleLevel::Error);
    assert_eq!(
        found(&rules),
        [
            "note frontmatter.unknownField",
            "note frontmatter.unknownField",
            "error trailing-whitespace"
        ]
    );
}

#[test]
fn selection_disables_other_rules() {
    let mut rules = lint();
    rules.select_only(&["dialect-field", "body.maxLines"]);
    assert_eq!(found(&rules), ["note dialect-field"]);
    assert!(!rules.needs_files() && lint().needs_files());
}

#[test]
fn allowed_fields_are_not_reported() {
    let mut rules = lint();
    rules.allow_fields(["type".to_owned(), "homepage".to_owned()]);
    let kept = found(&rules);
    assert!(kept.iter().all(|it| !FIELD_RULES.iter().any(|rule| it.ends_with(rule))), "{kept:?}");
    let options = CheckOptions { profile: Profile::Reference, scope: CheckScope::Lint };
    let mut reference = RuleSet::new(options);
    let before = found(&reference);
    reference.allow_fields(["type".to_owned(), "homepage".to_owned()]);
    assert_eq!(found(&reference), before);
}
