//! The options of a check and its findings.

use serde::Serialize;
use skill_format::{Diagnostic, Severity};

use crate::profile::Profile;
use crate::rule::Finding;

/// The set of rules to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckScope {
    /// Conformance: rules of [`Validation`](crate::RuleGroup::Validation) that read only the head,
    /// and those that are errors in the profile.
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
    /// The findings that comments in the skill suppress.
    pub suppressed: Vec<Finding>,
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
