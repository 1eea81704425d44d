//! Checks the `skill.yaml` next to a SKILL.md.

use skill_compat::extended::ParsedExtendedSpec;
use skill_format::{Diagnostic, Severity};

use super::{CheckOptions, CheckReport, CheckScope, effective_severity};
use crate::profile::{Profile, RuleLevel};
use crate::rule::Finding;
use crate::rules::{RULES, find_rule};

/// Returns `true` if a check covers `skill.yaml`, so that the caller must read it: every `lint`,
/// and every profile with errors in it.
#[must_use]
pub fn needs_skill_yaml(options: CheckOptions) -> bool {
    let is_error = |id: &str| {
        RULES.iter().any(|rule| {
            rule.id.starts_with(id) && rule.levels.level_for(options.profile) == RuleLevel::Error
        })
    };
    options.scope == CheckScope::Lint || is_error("composition.")
}

/// Checks the text of a `skill.yaml`; `id` is the id of its skill.
///
/// Only profile `skillscraft` defines the file, so in other profiles a finding is at most a
/// warning.
#[must_use]
pub fn check_skill_yaml(text: &str, id: &str, options: CheckOptions) -> CheckReport {
    let is_skillscraft = options.profile == Profile::Skillscraft;
    let noticed = ParsedExtendedSpec::parse_skill_yaml(text, id).noticed.into_iter();
    let findings =
        noticed.filter(|noticed| is_skillscraft || !noticed.strict).filter_map(|noticed| {
            let severity = effective_severity(find_rule(noticed.rule)?, options)?;
            // `max` lowers here: severities are ordered from error to note.
            let severity = if is_skillscraft { severity } else { severity.max(Severity::Warning) };
            let diagnostic = Diagnostic {
                rule: noticed.rule,
                severity,
                line: noticed.at.line,
                column: noticed.at.column,
                message: noticed.message,
                help: (!noticed.help.is_empty()).then_some(noticed.help),
            };
            Some(Finding { diagnostic, edits: Vec::new() })
        });
    let mut findings: Vec<Finding> = findings.collect();
    // Reading groups findings by section; the report is in file order.
    findings.sort_by_key(|found| (found.diagnostic.line, found.diagnostic.column));
    CheckReport { findings }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, profile: Profile, scope: CheckScope) -> Vec<String> {
        let options = CheckOptions { profile, scope };
        assert!(needs_skill_yaml(options), "{options:?}");
        let report = check_skill_yaml(text, "beads", options);
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
        let lines: Vec<u32> = check_skill_yaml(text, "beads", CheckOptions::default())
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
            assert_eq!(needs_skill_yaml(options), profile == Profile::Skillscraft, "{profile:?}");
        }
    }
}
