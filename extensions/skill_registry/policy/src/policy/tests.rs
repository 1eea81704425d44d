//! Tests of `policy`.

use skill_format::Severity;

use super::*;
use crate::policy_file::parse_policy;

fn scope(text: &str, relative: &str) -> PolicyScope {
    let mut policy = parse_policy(text).unwrap();
    policy.directory = PathBuf::from("/repo");
    PolicyScope::new(Some(Rc::new(policy)), Path::new("in"), &Path::new("/repo").join(relative))
}

fn finding(rule: &'static str) -> Finding {
    Finding { diagnostic: Diagnostic::error(rule, "x"), edits: Vec::new() }
}

#[test]
fn include_and_exclude_select_skills() {
    let scope = scope("[paths]\ninclude = [\"s\"]\nexclude = [\"s/old\", \"**/x\"]\n", "s");
    for (dir, included) in
        [("in/a", true), ("in", true), ("in/old/b", false), ("in/a/x", false), ("in/older", true)]
    {
        assert_eq!(scope.includes(Path::new(dir), "SKILL.md"), included, "{dir}");
    }
    assert!(PolicyScope::new(None, Path::new("."), Path::new("/")).includes(Path::new("a"), "x"));
}

#[test]
fn ignored_findings_keep_their_reason() {
    let text = "[[ignore]]\nrules = [\"name.*\"]\npaths = [\"s/a\"]\nreason = \"old\"\n";
    let scope = scope(text, "s");
    let mut findings = vec![finding("name.format"), finding("large-file")];
    assert!(scope.split_findings(Path::new("in/b"), "SKILL.md", &mut findings).is_empty());
    let suppressed = scope.split_findings(Path::new("in/a"), "SKILL.md", &mut findings);
    assert_eq!(findings, [finding("large-file")]);
    let origin = SuppressionOrigin::Policy { reason: "old".to_owned() };
    let diagnostic = finding("name.format").diagnostic;
    assert_eq!(suppressed, [SuppressedFinding { diagnostic, origin }]);
}

#[test]
fn ignored_findings_are_not_fixed() {
    let text = "[[ignore]]\nrules = [\"final-newline\"]\npaths = [\"s/a\"]\nreason = \"r\"\n";
    let scope = scope(text, "s");
    let rules = scope.rule_set(CheckScope::Lint, None, &RuleSelection::default());
    let input = skill_format::SkillInput {
        dir_name: "a",
        file_name: Some("SKILL.md"),
        bytes: b"---\nname: a\ndescription: Counts the beads in jars. Use when asked.\n---\nCount.",
        files: None,
    };
    for (dir, ending) in [("in/a", "Count."), ("in/b", "Count.\n")] {
        let rules = scope.rules_to_fix(&rules, Path::new(dir), "SKILL.md");
        let fixed = skill_rules::apply_fixes(&input, &rules).text;
        assert!(fixed.ends_with(ending), "{dir}: {fixed:?}");
    }
}

#[test]
fn unused_ignores_require_coverage() {
    let text = "[[ignore]]\nrules = [\"name.format\"]\npaths = [\"s/a\"]\nreason = \"r\"\n\n\
                [[ignore]]\nrules = [\"large-file\"]\nreason = \"r\"\n";
    let lines = |relative: &str, use_first: bool| {
        let scope = scope(text, relative);
        if use_first {
            scope.split_findings(Path::new("in/a"), "SKILL.md", &mut vec![finding("name.format")]);
        }
        let unused = unused_ignores(&[scope]).into_iter().flat_map(|(_, findings)| findings);
        unused.map(|found| found.diagnostic.line).collect::<Vec<_>>()
    };
    assert_eq!(lines("", false), [1, 6]);
    assert_eq!(lines("s", false), [1]);
    assert_eq!(lines("s", true), [0; 0]);
    assert_eq!(lines("s/b", false), [0; 0]);
}

#[test]
fn validate_takes_profile_and_fields_only() {
    let text = "profile = \"anthropic\"\nallowed-fields = [\"type\"]\n[severity]\n\"name.format\" = \
                \"off\"\n";
    let scope = scope(text, "");
    let everything = RuleSelection::default();
    let text = "---\nname: Bad Name\ndescription: Counts beads. Use when asked to count.\ntype: x\n---\nCount.\n";
    let found = |scope_of_check, profile| {
        let rules = scope.rule_set(scope_of_check, profile, &everything);
        let input = skill_format::SkillInput {
            dir_name: "Bad Name",
            file_name: Some("SKILL.md"),
            bytes: text.as_bytes(),
            files: None,
        };
        let profile = rules.options().profile;
        let report = rules.check(&skill_rules::SkillDocument::new(&input, profile));
        let errors = report.with_severity(Severity::Error).map(|found| found.rule);
        (profile, errors.collect::<Vec<_>>())
    };
    let (profile, errors) = found(CheckScope::Validate, None);
    assert_eq!(profile, Profile::Anthropic);
    assert!(errors.contains(&"name.format"), "{errors:?}");
    assert!(!errors.contains(&"frontmatter.unknownField"), "{errors:?}");
    assert_eq!(found(CheckScope::Lint, None).1, [""; 0]);
    assert_eq!(found(CheckScope::Lint, Some(Profile::Spec)).0, Profile::Spec);
}
