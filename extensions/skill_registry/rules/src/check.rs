//! Runs the rules over one skill.

mod skill_yaml;

use skill_compat::reference;
use skill_format::{Diagnostic, SkillInput};

use crate::check_report::{CheckOptions, CheckReport, CheckScope};
use crate::profile::Profile;
use crate::rule::{Finding, FindingSink, RuleCheck, RuleGroup};
use crate::rule_set::RuleSet;
use crate::rules::RULES;
use crate::skill_document::{ParseState, SkillDocument};
use crate::suppress;

/// Checks a skill with the levels of the profile.
#[must_use]
pub fn check_skill(input: &SkillInput<'_>, options: CheckOptions) -> CheckReport {
    RuleSet::new(options).check(&SkillDocument::new(input, options.profile))
}

/// Returns `true` if a check reads the other files of a skill, so that the caller must list them.
#[must_use]
pub fn needs_files(options: CheckOptions) -> bool {
    RuleSet::new(options).needs_files()
}

impl RuleSet {
    /// Checks a skill that was parsed with the profile of the set.
    #[must_use]
    pub fn check(&self, subject: &SkillDocument<'_>) -> CheckReport {
        let CheckOptions { profile, scope } = self.options();
        let parse_state = subject.parse_state();
        let by_reference = profile == Profile::Reference;
        let mut findings = Vec::new();
        if by_reference {
            run_reference_validator(subject, &mut findings);
        } else {
            import_loading_findings(subject, self, parse_state, &mut findings);
        }
        for (index, rule) in RULES.iter().enumerate() {
            // The reference validator has already reported these, in its own words.
            if by_reference && rule.group == RuleGroup::Validation {
                continue;
            }
            let severity = self.severity_at(index).filter(|_| is_applicable(rule.id, parse_state));
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
        self.drop_allowed_fields(subject, &mut findings);
        let mut suppressed = Vec::new();
        if scope == CheckScope::Lint && parse_state == ParseState::Complete {
            // `validate` ignores suppressions, and a broken frontmatter has no reliable comments.
            suppressed = suppress::apply_suppressions(subject, self, &mut findings);
        }
        if !by_reference {
            // The sort is stable: findings at one position keep the order of the rules.
            findings.sort_by_key(|found| (found.diagnostic.line, found.diagnostic.column));
        }
        CheckReport { findings, suppressed }
    }
}

impl RuleSet {
    /// Checks a skill and returns the report of its bytes.
    pub(crate) fn check_input(&self, input: &SkillInput<'_>) -> CheckReport {
        self.check(&SkillDocument::new(input, self.options().profile))
    }
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
    rules: &RuleSet,
    parse_state: ParseState,
    findings: &mut Vec<Finding>,
) {
    for found in &subject.parsed().diagnostics {
        let severity = match rules.options().profile {
            // This profile is defined as the behavior of loading, so its severities stay.
            Profile::Lenient => rules.overridden(found.rule, Some(found.severity)),
            _ => rules.severity(found.rule),
        };
        if let Some(severity) = severity.filter(|_| is_applicable(found.rule, parse_state)) {
            let diagnostic = Diagnostic { severity, ..found.clone() };
            findings.push(Finding { diagnostic, edits: Vec::new() });
        }
    }
}

#[cfg(test)]
mod tests;
