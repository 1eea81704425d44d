//! Tests of the documentation of rules: completeness, examples and the generated document.
#![expect(
    clippy::disallowed_methods,
    reason = "the document is a file; the crate itself reads none"
)]

use std::path::Path;

use skill_format::{Severity, SkillInput};
use skill_rules::explain::{ExampleSkill, RuleExamples, parse_documentation, render_all_pages};
use skill_rules::fmt::{FmtOptions, format_skill};
use skill_rules::{
    CatalogSkill, CheckOptions, CheckScope, RULES, Rule, RuleCheck, RuleSet, apply_fixes,
    check_catalog, check_skill,
};

fn has_catalog_finding(rule: &Rule, examples: &RuleExamples) -> bool {
    let skills = examples.skills.iter().filter_map(|skill| {
        let entries = skill.entries();
        CatalogSkill::new(&skill.input(&entries))
    });
    let found = check_catalog(&skills.collect::<Vec<_>>());
    found.iter().any(|(_, finding)| finding.diagnostic.rule == rule.id)
}

fn has_finding(rule: &Rule, skill: &ExampleSkill, examples: &RuleExamples) -> bool {
    let entries = skill.entries();
    [CheckScope::Lint, CheckScope::Validate].into_iter().any(|scope| {
        let report =
            check_skill(&skill.input(&entries), CheckOptions { profile: examples.profile, scope });
        report.findings.iter().any(|found| found.diagnostic.rule == rule.id)
    })
}

#[test]
fn examples_match_their_section() {
    let mut wrong = Vec::new();
    for rule in RULES {
        let docs = match parse_documentation(rule) {
            Ok(docs) => docs,
            Err(error) => {
                wrong.push(format!("{}: {error}", rule.id));
                continue;
            }
        };
        if matches!(rule.check, RuleCheck::Reading) {
            continue;
        }
        if matches!(rule.check, RuleCheck::Catalog) {
            for (examples, expected) in [(&docs.bad, true), (&docs.good, false)] {
                if has_catalog_finding(rule, examples) != expected {
                    wrong.push(format!("{}: Bad or Good is not what it says", rule.id));
                }
            }
            continue;
        }
        for (examples, expected) in [(&docs.bad, true), (&docs.good, false)] {
            for skill in &examples.skills {
                if has_finding(rule, skill, examples) != expected {
                    let what = if expected { "not raised by Bad" } else { "raised by Good" };
                    wrong.push(format!("{} is {what}: {}", rule.id, skill.dir_name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn fixable_findings_are_fixed() {
    let mut left = Vec::new();
    for rule in RULES.iter().filter(|rule| rule.fixable) {
        let Ok(docs) = parse_documentation(rule) else { continue };
        for skill in &docs.bad.skills {
            let entries = skill.entries();
            let options = CheckOptions { profile: docs.bad.profile, scope: CheckScope::Lint };
            let input = skill.input(&entries);
            let fixed = apply_fixes(&input, &RuleSet::new(options)).text;
            let formatted = format_skill(&fixed, FmtOptions::default()).map_or(fixed, |it| it.text);
            let again = SkillInput { bytes: formatted.as_bytes(), ..input };
            let mut found = check_skill(&again, options).findings.into_iter();
            if found.any(|found| found.diagnostic.rule == rule.id) {
                left.push(rule.id);
            }
        }
    }
    assert_eq!(left, [""; 0]);
}

#[test]
fn good_examples_are_valid() {
    let mut wrong = Vec::new();
    for rule in RULES {
        let Ok(docs) = parse_documentation(rule) else { continue };
        for skill in &docs.good.skills {
            let entries = skill.entries();
            let options = CheckOptions { profile: docs.good.profile, scope: CheckScope::Validate };
            let report = check_skill(&skill.input(&entries), options);
            let errors = report.with_severity(Severity::Error);
            wrong.extend(errors.map(|error| format!("{}: {error}", rule.id)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn summaries_read_after_a_colon() {
    for rule in RULES {
        let summary = rule.summary;
        let starts = summary.starts_with(|c: char| c.is_lowercase() || c == '`' || c.is_numeric())
            || summary.starts_with("SKILL.md");
        assert!(starts && !summary.ends_with('.') && summary.len() <= 80, "{}: {summary}", rule.id);
    }
}

#[test]
fn rules_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/rules.md");
    let text = render_all_pages(RULES);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "docs/rules.md is out of date; UPDATE_DOCS=1 cargo test -p skill-rules updates it"
    );
}
