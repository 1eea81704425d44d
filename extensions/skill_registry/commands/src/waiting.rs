//! The skills and proposals that wait for a decision, for `skillhost status`.

use skill_ledger::ProposalFilter;
use skillhost_home::Home;
use skillhost_terminal::{CliContext, CliError};

use super::home_skills;
use super::wording::registry_error;
use crate::arguments::SkillRoots;

/// Returns the number of proposals that wait for a decision, and the skills of agents that wait for
/// approval, by id. A home without a ledger has none.
///
/// # Errors
/// The settings are not valid, or the ledger cannot be read.
pub fn waiting_reviews(
    session: &CliContext,
    home: &Home,
) -> Result<(usize, Vec<String>), CliError> {
    let ledger = home_skills::open_ledger(home);
    let proposals = ledger.proposals(ProposalFilter::default()).map_err(registry_error)?.len();
    let store = home_skills::open_store(session, &SkillRoots { roots: Vec::new() })?;
    let statuses = ledger.approval_statuses(&store.snapshot()).map_err(registry_error)?;
    let waiting = statuses.into_iter().filter(|(_, status)| !status.approved);
    let mut skills: Vec<_> = waiting.map(|(id, _)| id.to_string()).collect();
    skills.sort();
    Ok((proposals, skills))
}
