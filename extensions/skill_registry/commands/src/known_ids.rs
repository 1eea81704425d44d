//! The ids of skills, proposals and rules with a text about each, for completion in a shell. The texts
//! are not trusted.

use skill_ledger::ProposalFilter;
use skill_rules::RULES;
use skillhost_terminal::CliContext;

use super::home_skills;
use crate::arguments::SkillRoots;

/// Returns the skills of the home, or of the working directory outside of one; none on an error.
#[must_use]
pub fn skill_ids(session: &CliContext) -> Vec<(String, String)> {
    let roots = SkillRoots { roots: Vec::new() };
    let Ok(store) = home_skills::open_readable_store(session, &roots) else { return Vec::new() };
    let snapshot = store.snapshot();
    let skills = snapshot.skills().iter();
    skills.map(|skill| (skill.id().to_string(), skill.description().to_owned())).collect()
}

/// Returns the numbers of the open proposals; none on an error.
#[must_use]
pub fn proposal_ids(session: &CliContext) -> Vec<(String, String)> {
    let Ok(home) = session.home() else { return Vec::new() };
    // Nothing is to be created or completed while a line is typed.
    let ledger = home_skills::open_ledger(&home).read_only();
    let open = ledger.proposals(ProposalFilter::default()).unwrap_or_default();
    let about = |skill: &str, why: &str| format!("{skill}: {why}");
    open.iter()
        .map(|it| (it.seq.to_string(), about(&it.skill_id, &it.justification_line)))
        .collect()
}

/// Returns the lint rules.
#[must_use]
pub fn rule_ids() -> Vec<(String, String)> {
    RULES.iter().map(|rule| (rule.id.to_owned(), rule.summary.to_owned())).collect()
}
