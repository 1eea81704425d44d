//! Checks the `skill.yaml` and the `tool.json` next to a SKILL.md.

use skill_compat::extended::ParsedExtendedSpec;
use skill_format::{Diagnostic, Severity};

use crate::check_report::{CheckReport, CheckScope};
use crate::profile::{Profile, RuleLevel};
use crate::rule::Finding;
use crate::rule_set::RuleSet;
use crate::rules::RULES;

impl RuleSet {
    /// Returns `true` if the check covers `skill.yaml`, so that the caller must read it: every
    /// `lint`, and every profile with errors in it.
    #[must_use]
    pub fn needs_skill_yaml(&self) -> bool {
        let options = self.options();
        let is_error = |id: &str| {
            RULES.iter().any(|rule| {
                rule.id.starts_with(id)
                    && rule.levels.level_for(options.profile) == RuleLevel::Error
            })
        };
        options.scope == CheckScope::Lint || is_error("composition.")
    }

    /// Checks the text of a `skill.yaml`; `id` is the id of its skill.
    ///
    /// Only profile `skillscraft` defines the file, so in other profiles a finding is at most a
    /// warning.
    #[must_use]
    pub fn check_skill_yaml(&self, text: &str, id: &str) -> CheckReport {
        let is_skillscraft = self.options().profile == Profile::Skillscraft;
        let noticed = ParsedExtendedSpec::parse_skill_yaml(text, id).noticed.into_iter();
        let findings =
            noticed.filter(|noticed| is_skillscraft || !noticed.strict).filter_map(|noticed| {
                let severity = self.severity(noticed.rule)?;
                // `max` lowers here: severities are ordered from error to note.
                let severity =
                    if is_skillscraft { severity } else { severity.max(Severity::Warning) };
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
        CheckReport { findings, ..CheckReport::default() }
    }

    /// Returns the findings in a `tool.json` with the levels of the rules. A note stays a note.
    #[must_use]
    pub fn check_programs(&self, found: &[Diagnostic]) -> Vec<Finding> {
        let findings = found.iter().filter_map(|found| {
            let severity = self.severity(found.rule)?;
            // Severities are ordered from error to note.
            let severity = if found.severity == Severity::Note { Severity::Note } else { severity };
            let diagnostic = Diagnostic { severity, ..found.clone() };
            Some(Finding { diagnostic, edits: Vec::new() })
        });
        findings.collect()
    }
}

#[cfg(test)]
mod tests;
