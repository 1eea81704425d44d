//! Runs the rules over one skill.

mod skill_yaml;

use serde::Serialize;
use skill_compat::reference;
use skill_format::{Diagnostic, Severity, SkillInput};

use crate::profile::{Profile, RuleLevel};
use crate::rule::{Finding, FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::rules::{RULES, find_rule};
use crate::skill_document::{ParseState, SkillDocument};
use crate::suppress;

pub use skill_yaml::{check_skill_yaml, needs_skill_yaml};

/// The set of rules to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckScope {
    /// Conformance: rules of [`RuleGroup::Validation`] that read only the head, and those that are
    /// errors in the profile.
    #[default]
    Validate,
    /// Quality: every rule. Advice on the length of a body comes from `context-budget` alone, so
    /// that it is not reported twice.
    Lint,
}

/// Options of a check.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions {
    /// The rule profile.
    pub profile: Profile,
    /// The set of rules to run.
    pub scope: CheckScope,
}

/// The findings in one skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The findings in the order of the file; in [`Profile::Reference`], first those of the
    /// reference validator in its own order.
    pub findings: Vec<Finding>,
}

impl CheckReport {
    /// Returns `true` if no finding is an error.
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

/// Returns `true` if a check reads the other files of a skill, so that the caller must list them.
#[must_use]
pub fn needs_files(options: CheckOptions) -> bool {
    RULES.iter().any(|rule| {
        rule.extent == RuleExtent::Directory && effective_severity(rule, options).is_some()
    })
}

/// Validation rules whose advice `context-budget` repeats.
const COVERED_BY_CONTEXT_BUDGET: [&str; 2] = ["body.maxLines", "body.maxTokens"];

/// Returns the severity of a rule's findings, or `None` if the rule is not run.
fn effective_severity(rule: &Rule, options: CheckOptions) -> Option<Severity> {
    let level = rule.levels.level_for(options.profile);
    let is_enabled = match options.scope {
        // Below an error, the lint rule of the same limit gives the better hint.
        CheckScope::Lint => {
            level == RuleLevel::Error || !COVERED_BY_CONTEXT_BUDGET.contains(&rule.id)
        }
        CheckScope::Validate => {
            rule.group == RuleGroup::Validation
                // Advice on the body is left to `lint`; an error decides validity and must not
                // depend on the scope.
                && (rule.extent == RuleExtent::Head || level == RuleLevel::Error)
        }
    };
    level.severity().filter(|_| is_enabled)
}

/// Checks a skill.
#[must_use]
pub fn check_skill(input: &SkillInput<'_>, options: CheckOptions) -> CheckReport {
    check_subject(&SkillDocument::new(input, options.profile), options.scope)
}

/// Checks a parsed skill in the profile that it was parsed with.
#[must_use]
pub fn check_subject(subject: &SkillDocument<'_>, scope: CheckScope) -> CheckReport {
    let options = CheckOptions { profile: subject.profile(), scope };
    let parse_state = subject.parse_state();
    let by_reference = options.profile == Profile::Reference;
    let mut findings = Vec::new();
    if by_reference {
        run_reference_validator(subject, &mut findings);
    } else {
        import_loading_findings(subject, options, parse_state, &mut findings);
    }
    for rule in RULES {
        // The reference validator has already reported these, in its own words.
        if by_reference && rule.group == RuleGroup::Validation {
            continue;
        }
        let severity =
            effective_severity(rule, options).filter(|_| is_applicable(rule.id, parse_state));
        let Some(severity) = severity else { continue };
        let found = &mut FindingSink::new(rule, severity, &mut findings);
        match rule.check {
            RuleCheck::LoadingAnd(find) | RuleCheck::Skill(find) => find(subject, found),
            RuleCheck::Declared => report_extended(rule.id, subject, found),
            RuleCheck::Loading
            | RuleCheck::Reading
            | RuleCheck::Suppression
            | RuleCheck::Catalog => {}
        }
    }
    if scope == CheckScope::Lint && parse_state == ParseState::Complete {
        // `validate` ignores suppressions, and a broken frontmatter has no reliable comments.
        suppress::apply_suppressions(subject, &mut findings);
    }
    if !by_reference {
        // The sort is stable: findings at one position keep the order of the rules.
        findings.sort_by_key(|found| (found.diagnostic.line, found.diagnostic.column));
    }
    CheckReport { findings }
}

/// Adds the findings of the reference validator, in its words and order, in place of this crate's
/// validation rules.
fn run_reference_validator(subject: &SkillDocument<'_>, findings: &mut Vec<Finding>) {
    let found = reference::validate_reference(subject.input());
    findings.extend(found.into_iter().map(|diagnostic| Finding { diagnostic, edits: Vec::new() }));
}

/// Reports the findings in a skill's extended declarations that belong to one rule.
fn report_extended(rule: &str, subject: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let Some(collector) = subject.extended() else { return };
    for noticed in collector.noticed.iter().filter(|noticed| noticed.rule == rule) {
        if !noticed.strict || subject.profile() == Profile::Skillscraft {
            findings.add(noticed.at, noticed.message.clone(), noticed.help.clone());
        }
    }
}

/// Returns `true` if a rule can add information in this state of the skill.
fn is_applicable(id: &str, parse_state: ParseState) -> bool {
    match parse_state {
        // All other rules would only repeat that there is no file, or no readable field.
        ParseState::Absent => id == "structure.missingSkillMd",
        ParseState::Broken => {
            id.starts_with("file.")
                || id.starts_with("structure.")
                || (id.starts_with("frontmatter.") && id != "frontmatter.unknownField")
        }
        ParseState::Complete => true,
    }
}

/// Copies the findings of loading, with the severity of the profile.
fn import_loading_findings(
    subject: &SkillDocument<'_>,
    options: CheckOptions,
    parse_state: ParseState,
    findings: &mut Vec<Finding>,
) {
    for found in &subject.parsed().diagnostics {
        let severity = match options.profile {
            // This profile is defined as the behavior of loading, so its severities stay.
            Profile::Lenient => Some(found.severity),
            _ => find_rule(found.rule).and_then(|rule| effective_severity(rule, options)),
        };
        if let Some(severity) = severity.filter(|_| is_applicable(found.rule, parse_state)) {
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
    fn rejected_file_is_never_valid() {
        let rejected: [&[u8]; 8] = [
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
            for bytes in rejected {
                let options = CheckOptions { profile, scope: CheckScope::Validate };
                assert!(!found(bytes, options).is_valid(), "{profile:?} {bytes:?}");
            }
        }
    }

    #[test]
    fn loading_rules_are_registered() {
        let text =
            "\u{FEFF}\n--- \nname: X\ntags: {a: b}\ndescription: &a y\na: *a\na: !b c\n---\n";
        for found in skill_format::parse_skill("x", text.as_bytes()).unwrap().parsed.diagnostics {
            assert!(find_rule(found.rule).is_some(), "{found}");
        }
    }

    #[test]
    fn validate_reads_body_for_errors_only() {
        let text = b"---\nname: x\ndescription: y\n---\n[a](../b.md)\n";
        for (profile, scope, is_enabled) in [
            (Profile::Spec, CheckScope::Validate, false),
            (Profile::Spec, CheckScope::Lint, true),
            (Profile::SeedStrict, CheckScope::Validate, true),
        ] {
            let options = CheckOptions { profile, scope };
            let report = found(text, options);
            let any = report.findings.iter().any(|it| it.diagnostic.rule == "reference.traversal");
            assert_eq!((any, needs_files(options)), (is_enabled, is_enabled), "{options:?}");
        }
    }

    #[test]
    fn body_length_is_reported_once() {
        let line = "Count the beads.\n";
        let text = format!("---\nname: x\ndescription: y\n---\n{}", line.repeat(501));
        let reported = |profile, scope| {
            let report = found(text.as_bytes(), CheckOptions { profile, scope });
            let rules = report.findings.into_iter().map(|it| it.diagnostic.rule);
            let about = |id: &&str| id.starts_with("body.") || *id == "context-budget";
            rules.filter(about).collect::<Vec<_>>()
        };
        assert_eq!(reported(Profile::Spec, CheckScope::Validate), ["body.maxLines"]);
        assert_eq!(reported(Profile::Spec, CheckScope::Lint), ["context-budget"]);
        assert_eq!(reported(Profile::SeedStrict, CheckScope::Validate), ["body.maxLines"]);
        assert_eq!(reported(Profile::SeedStrict, CheckScope::Lint), ["body.maxLines"]);
    }

    #[test]
    fn findings_follow_file_order() {
        let text = b"---\nhint: z\nname: y\ndescription: <b>z</b>\n---\n";
        let report = found(text, CheckOptions::default());
        let lines: Vec<_> = report.findings.iter().map(|found| found.diagnostic.line).collect();
        assert_eq!(lines, [2, 3, 4]);
    }
}
