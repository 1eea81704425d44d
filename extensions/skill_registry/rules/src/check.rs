//! Runs the rules over one skill.

mod skill_yaml;

use serde::Serialize;
use skill_format::{Diagnostic, Severity};

use crate::extended;
use crate::input::SkillInput;
use crate::profile::{Profile, RuleLevel};
use crate::reference;
use crate::rule::{Finding, FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::rules::{RULES, find_rule};
use crate::subject::{ParseState, SkillDocument};
use crate::suppress;

pub use skill_yaml::{check_skill_yaml, needs_skill_yaml};

/// What is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckScope {
    /// Does it conform? Rules of [`RuleGroup::Validation`] that need the head alone, and those that
    /// are errors in the profile.
    #[default]
    Validate,
    /// Is it good? Every rule, but nothing twice: of the length of a body, `context-budget` tells
    /// unless that is an error.
    Lint,
}

/// How to check.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions {
    /// Whose rules count.
    pub profile: Profile,
    /// What is asked.
    pub scope: CheckScope,
}

/// What was found in one skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// In the order of the file; in [`Profile::Reference`], first those of the
    /// reference in its own order.
    pub findings: Vec<Finding>,
}

impl CheckReport {
    /// Tells whether none of the findings is an error.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.findings.iter().any(|found| found.diagnostic.severity == Severity::Error)
    }

    /// Returns the diagnostics of a severity.
    pub fn with_severity(&self, severity: Severity) -> impl Iterator<Item = &Diagnostic> {
        let diagnostics = self.findings.iter().map(|found| &found.diagnostic);
        diagnostics.filter(move |found| found.severity == severity)
    }
}

impl Serialize for CheckReport {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.findings.iter().map(|found| &found.diagnostic))
    }
}

/// Tells whether a check looks at the other files of a skill, so that they must be listed.
#[must_use]
pub fn needs_files(options: CheckOptions) -> bool {
    RULES
        .iter()
        .any(|rule| rule.reach == RuleExtent::Folder && effective_severity(rule, options).is_some())
}

/// Validation rules of which `context-budget` tells as much.
const TOLD_BY_CONTEXT_BUDGET: [&str; 2] = ["body.maxLines", "body.maxTokens"];

/// Returns the severity a rule's findings have; nothing if it is not asked.
fn effective_severity(rule: &Rule, options: CheckOptions) -> Option<Severity> {
    let level = rule.levels.level_for(options.profile);
    let asked = match options.scope {
        // What is advice, the lint rule of the same says better.
        CheckScope::Lint => level == RuleLevel::Error || !TOLD_BY_CONTEXT_BUDGET.contains(&rule.id),
        CheckScope::Validate => {
            rule.group == RuleGroup::Validation
                && (rule.reach == RuleExtent::Head || level == RuleLevel::Error)
        }
    };
    level.severity().filter(|_| asked)
}

/// Checks a skill.
#[must_use]
pub fn check_skill(input: &SkillInput<'_>, options: CheckOptions) -> CheckReport {
    check_subject(&SkillDocument::new(input, options.profile), options.scope)
}

/// Checks a skill that has been taken up already, in the profile it was taken up with.
#[must_use]
pub fn check_subject(subject: &SkillDocument<'_>, scope: CheckScope) -> CheckReport {
    let options = CheckOptions { profile: subject.profile(), scope };
    let standing = subject.parse_state();
    let by_reference = options.profile == Profile::Reference;
    let mut findings = Vec::new();
    if by_reference {
        run_reference_validator(subject, &mut findings);
    } else {
        import_loading_findings(subject, options, standing, &mut findings);
    }
    for rule in RULES {
        if by_reference && rule.group == RuleGroup::Validation {
            continue;
        }
        let severity =
            effective_severity(rule, options).filter(|_| is_applicable(rule.id, standing));
        let Some(severity) = severity else { continue };
        let found = &mut FindingSink::new(rule, severity, &mut findings);
        match rule.check {
            RuleCheck::LoadingAnd(find) | RuleCheck::Skill(find) => find(subject, found),
            RuleCheck::Declared => extended::report_extended(rule.id, subject, found),
            RuleCheck::Loading
            | RuleCheck::Reading
            | RuleCheck::Suppression
            | RuleCheck::Catalog => {}
        }
    }
    if scope == CheckScope::Lint && standing == ParseState::Complete {
        suppress::apply_suppressions(subject, &mut findings);
    }
    if !by_reference {
        findings.sort_by_key(|found| (found.diagnostic.line, found.diagnostic.column));
    }
    CheckReport { findings }
}

/// Says what the reference validator says, in its words and order; instead of our own rules about
/// the same.
fn run_reference_validator(subject: &SkillDocument<'_>, findings: &mut Vec<Finding>) {
    let found = reference::validate_reference(subject.input());
    findings.extend(found.into_iter().map(|diagnostic| Finding { diagnostic, edits: Vec::new() }));
}

/// Tells whether a rule can say anything that the reader does not know from a worse finding.
fn is_applicable(id: &str, standing: ParseState) -> bool {
    match standing {
        ParseState::Absent => id == "structure.missingSkillMd",
        ParseState::Broken => {
            id.starts_with("file.")
                || id.starts_with("structure.")
                || (id.starts_with("frontmatter.") && id != "frontmatter.unknownField")
        }
        ParseState::Complete => true,
    }
}

/// Takes over what loading found, as serious as the profile finds it.
fn import_loading_findings(
    subject: &SkillDocument<'_>,
    options: CheckOptions,
    standing: ParseState,
    findings: &mut Vec<Finding>,
) {
    for found in &subject.parsed().diagnostics {
        let severity = match options.profile {
            Profile::Lenient => Some(found.severity),
            _ => find_rule(found.rule).and_then(|rule| effective_severity(rule, options)),
        };
        if let Some(severity) = severity.filter(|_| is_applicable(found.rule, standing)) {
            let diagnostic = Diagnostic { severity, ..found.clone() };
            findings.push(Finding { diagnostic, edits: Vec::new() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8], options: CheckOptions) -> CheckReport {
        let file_name = Some("SKILL.md");
        check_skill(&SkillInput { dir_name: "x", file_name, bytes, files: Some(&[]) }, options)
    }

    #[test]
    fn what_loading_refuses_is_valid_nowhere() {
        let refused: [&[u8]; 8] = [
            b"",
            b"---\nname: x\ndescription: \xFF\n---\n",
            b"# x\n",
            b"---\nname: x\n",
            b"---\n- x\n---\n",
            b"---\n[x\n---\n",
            b"---\nname: x\n---\n",
            b"---\nname: x\ndescription:\n- y\n---\n",
        ];
        for profile in Profile::ALL {
            for bytes in refused {
                let options = CheckOptions { profile, scope: CheckScope::Validate };
                assert!(!found(bytes, options).is_valid(), "{profile:?} {bytes:?}");
            }
        }
    }

    #[test]
    fn every_rule_of_loading_is_a_rule() {
        let text =
            "\u{FEFF}\n--- \nname: X\ntags: {a: b}\ndescription: &a y\na: *a\na: !b c\n---\n";
        for found in skill_format::parse_skill("x", text.as_bytes()).unwrap().parsed.diagnostics {
            assert!(find_rule(found.rule).is_some(), "{found}");
        }
    }

    #[test]
    fn validate_asks_for_more_than_the_head_only_where_that_is_an_error() {
        let text = b"---\nname: x\ndescription: y\n---\n[a](../b.md)\n";
        for (profile, scope, asked) in [
            (Profile::Spec, CheckScope::Validate, false),
            (Profile::Spec, CheckScope::Lint, true),
            (Profile::SeedStrict, CheckScope::Validate, true),
        ] {
            let options = CheckOptions { profile, scope };
            let report = found(text, options);
            let any = report.findings.iter().any(|it| it.diagnostic.rule == "reference.traversal");
            assert_eq!((any, needs_files(options)), (asked, asked), "{options:?}");
        }
    }

    #[test]
    fn the_length_of_a_body_is_told_once() {
        let line = "Count the beads.\n";
        let text = format!("---\nname: x\ndescription: y\n---\n{}", line.repeat(501));
        let told = |profile, scope| {
            let report = found(text.as_bytes(), CheckOptions { profile, scope });
            let rules = report.findings.into_iter().map(|it| it.diagnostic.rule);
            let about = |id: &&str| id.starts_with("body.") || *id == "context-budget";
            rules.filter(about).collect::<Vec<_>>()
        };
        assert_eq!(told(Profile::Spec, CheckScope::Validate), ["body.maxLines"]);
        assert_eq!(told(Profile::Spec, CheckScope::Lint), ["context-budget"]);
        assert_eq!(told(Profile::SeedStrict, CheckScope::Validate), ["body.maxLines"]);
        assert_eq!(told(Profile::SeedStrict, CheckScope::Lint), ["body.maxLines"]);
    }

    #[test]
    fn findings_are_in_the_order_of_the_file() {
        let text = b"---\nhint: z\nname: y\ndescription: <b>z</b>\n---\n";
        let report = found(text, CheckOptions::default());
        let lines: Vec<_> = report.findings.iter().map(|found| found.diagnostic.line).collect();
        assert_eq!(lines, [2, 3, 4]);
    }
}
