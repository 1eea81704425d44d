//! The rules of a check, with the levels that a repository sets.

use skill_format::Severity;

use crate::check_report::{CheckOptions, CheckScope};
use crate::profile::{Profile, RuleLevel};
use crate::rule::{Finding, Rule, RuleExtent, RuleGroup};
use crate::rules::RULES;
use crate::skill_document::SkillDocument;

/// Validation rules whose advice `context-budget` repeats.
const COVERED_BY_CONTEXT_BUDGET: [&str; 2] = ["body.maxLines", "body.maxTokens"];

/// Rules about fields that the specification does not have.
const FIELD_RULES: [&str; 2] = ["frontmatter.unknownField", "dialect-field"];

/// The rules of a check: those of a profile, with the levels and fields that a repository or a
/// command line sets.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    options: CheckOptions,
    /// The levels in the order of [`RULES`]; empty if none is set.
    levels: Vec<Option<RuleLevel>>,
    allowed_fields: Vec<String>,
}

impl RuleSet {
    /// Creates the set of a profile and a scope.
    #[must_use]
    pub fn new(options: CheckOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Returns the profile and the scope.
    #[must_use]
    pub fn options(&self) -> CheckOptions {
        self.options
    }

    /// Sets the level of a rule; an id without a rule has no effect.
    pub fn set_level(&mut self, id: &str, level: RuleLevel) {
        if let Some(index) = rule_index(id) {
            self.levels.resize(RULES.len(), None);
            self.levels[index] = Some(level);
        }
    }

    /// Disables all rules except some; of these, rules that the profile disables report notes.
    pub fn select_only(&mut self, ids: &[&str]) {
        for (index, rule) in RULES.iter().enumerate() {
            if !ids.contains(&rule.id) {
                self.set_level(rule.id, RuleLevel::Off);
            } else if self.level_at(index) == RuleLevel::Off {
                self.set_level(rule.id, RuleLevel::Note);
            }
        }
    }

    /// Accepts fields that the specification does not have. [`Profile::Reference`] rejects them
    /// nevertheless, like the validator that it repeats.
    pub fn allow_fields(&mut self, names: impl IntoIterator<Item = String>) {
        self.allowed_fields.extend(names);
    }

    /// Returns `true` if the check reads the other files of a skill, so that the caller must list
    /// them.
    #[must_use]
    pub fn needs_files(&self) -> bool {
        let mut rules = RULES.iter().enumerate();
        rules.any(|(index, rule)| {
            rule.extent == RuleExtent::Directory && self.severity_at(index).is_some()
        })
    }

    /// Returns the findings of a comparison of skills with the levels of this set.
    #[must_use]
    pub fn adjust(&self, mut finding: Finding) -> Option<Finding> {
        let severity = Some(finding.diagnostic.severity);
        finding.diagnostic.severity = self.overridden(finding.diagnostic.rule, severity)?;
        Some(finding)
    }

    /// Returns the severity of the findings of a rule, or `None` if it is not run.
    pub(crate) fn severity(&self, id: &str) -> Option<Severity> {
        self.severity_at(rule_index(id)?)
    }

    /// Returns the severity that is set for a rule, or the given one.
    pub(crate) fn overridden(&self, id: &str, usual: Option<Severity>) -> Option<Severity> {
        if self.levels.is_empty() {
            return usual;
        }
        let level = rule_index(id).and_then(|index| self.levels[index]);
        level.map_or(usual, RuleLevel::severity)
    }

    /// Returns the severity of the rule at an index of [`RULES`], or `None` if it is not run.
    pub(crate) fn severity_at(&self, index: usize) -> Option<Severity> {
        let rule: &Rule = RULES[index];
        let level = self.level_at(index);
        let is_set = self.levels.get(index).is_some_and(Option::is_some);
        let is_enabled = match self.options.scope {
            // Below an error, the lint rule of the same limit gives the better hint.
            CheckScope::Lint => {
                level == RuleLevel::Error || is_set || !COVERED_BY_CONTEXT_BUDGET.contains(&rule.id)
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

    fn level_at(&self, index: usize) -> RuleLevel {
        let set = self.levels.get(index).copied().flatten();
        set.unwrap_or_else(|| RULES[index].levels.level_for(self.options.profile))
    }

    /// Removes the findings about fields that this set allows.
    pub(crate) fn drop_allowed_fields(
        &self,
        subject: &SkillDocument<'_>,
        findings: &mut Vec<Finding>,
    ) {
        if self.allowed_fields.is_empty() || self.options.profile == Profile::Reference {
            return;
        }
        let Some(tree) = subject.tree() else { return };
        findings.retain(|found| {
            let found = &found.diagnostic;
            // A finding has no key, so its position identifies the field.
            !FIELD_RULES.contains(&found.rule)
                || !tree.entries.iter().any(|entry| {
                    (entry.key.span.line, entry.key.span.column) == (found.line, found.column)
                        && self.allowed_fields.contains(&entry.key.text)
                })
        });
    }
}

fn rule_index(id: &str) -> Option<usize> {
    RULES.binary_search_by(|rule| rule.id.cmp(id)).ok()
}

#[cfg(test)]
mod tests;
