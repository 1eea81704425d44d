//! The context of a review: the ledger and the skills of a home, and the user's name.

use std::sync::Arc;

use nix::unistd::{Uid, User};
use skill_catalog::{Snapshot, Store};
use skill_format::SkillId;
use skill_ledger::{
    HumanActor, Ledger, LedgerError, Proposal, ProposalDrift, ProposalFilter, ProposalSummary,
    ToolGrant,
};
use skillhost_terminal::{CliContext, CliError, Output};

use super::home_skills;
use super::wording::registry_error;
use crate::arguments::SkillRoots;

/// The ledger of a home together with its skills.
pub(super) struct ReviewContext {
    ledger: Ledger,
    store: Store,
    output: Output,
}

impl ReviewContext {
    /// Opens the ledger of the session's home and completes the interrupted work of an earlier
    /// process.
    pub(super) fn open(session: &CliContext) -> Result<Self, CliError> {
        let store = home_skills::open_store(session, &SkillRoots { roots: Vec::new() })?;
        let context = Self {
            ledger: home_skills::open_checked_ledger(session)?,
            store,
            output: session.output,
        };
        // Restores the texts of proposals if the database had to be rebuilt.
        context.with_ledger(|ledger, skills| ledger.record_direct_edits(skills, &[]))?;
        Ok(context)
    }

    /// Runs an operation on the ledger and prints its notes.
    pub(super) fn with_ledger<T>(
        &self,
        work: impl FnOnce(&Ledger, &Snapshot) -> Result<T, LedgerError>,
    ) -> Result<T, CliError> {
        let (done, notes) = self.with_ledger_quiet(work);
        for note in notes {
            self.output.print_note(note);
        }
        done
    }

    /// Runs an operation as [`ReviewContext::with_ledger`] does, but returns the notes.
    pub(super) fn with_ledger_quiet<T>(
        &self,
        work: impl FnOnce(&Ledger, &Snapshot) -> Result<T, LedgerError>,
    ) -> (Result<T, CliError>, Vec<String>) {
        let done = work(&self.ledger, &self.store.snapshot());
        let notes = self.ledger.take_notes().iter().map(ToString::to_string).collect();
        (done.map_err(registry_error), notes)
    }

    /// Returns the current snapshot of the skills.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.store.snapshot()
    }

    /// Returns the name of a skill, which may be given as a unique prefix of its id.
    pub(super) fn resolve_skill(&self, given: &str) -> Result<String, CliError> {
        let snapshot = self.snapshot();
        let is_present = snapshot.skills().iter().any(|skill| skill.id().as_str() == given);
        // A removed skill keeps its versions, and its name is not the beginning of another.
        let is_recorded = || self.with_ledger(|ledger, skills| ledger.history(skills, given));
        if !is_present && is_recorded().is_ok() {
            return Ok(given.to_owned());
        }
        home_skills::resolve_skill(&snapshot, given)
    }

    /// Rescans the skills.
    pub(super) fn refresh(&self) {
        self.store.poll();
    }

    /// Lists proposals after detecting those that no longer fit their file.
    pub(super) fn proposals(
        &self,
        filter: ProposalFilter<'_>,
    ) -> Result<Vec<ProposalSummary>, CliError> {
        let waiting = self.with_ledger(|ledger, _| ledger.proposals(ProposalFilter::default()))?;
        let mut skills: Vec<SkillId> =
            waiting.iter().filter_map(|summary| SkillId::new(&summary.skill_id).ok()).collect();
        skills.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        skills.dedup();
        if !skills.is_empty()
            && let Err(error) =
                self.with_ledger(|ledger, snapshot| ledger.record_direct_edits(snapshot, &skills))
        {
            self.output.print_note(format!("proposals may be out of date: {}", error.message()));
        }
        self.with_ledger(|ledger, _| ledger.proposals(filter))
    }

    /// Returns the tools in `allowed-tools` of the skills, and whether they are approved.
    pub(super) fn tool_grants(&self) -> Result<Vec<ToolGrant>, CliError> {
        self.with_ledger(|ledger, skills| ledger.tool_grants(&self.store, skills))
    }

    /// Returns a proposal and the drift of its file since.
    pub(super) fn proposal(&self, id: &str) -> Result<(Proposal, ProposalDrift), CliError> {
        self.with_ledger(|ledger, skills| load_with_drift(ledger, skills, id))
    }
}

/// Loads a proposal and the drift of its file since.
pub(super) fn load_with_drift(
    ledger: &Ledger,
    skills: &Snapshot,
    id: &str,
) -> Result<(Proposal, ProposalDrift), LedgerError> {
    let proposal = ledger.proposal(id)?;
    let drift = ledger.compute_drift(skills, &proposal);
    Ok((proposal, drift))
}

/// Returns the user as the deciding actor; `via` names the command.
pub(super) fn current_actor(via: &str) -> HumanActor {
    let user = User::from_uid(Uid::current()).ok().flatten().map(|user| user.name);
    let named = user.or_else(|| std::env::var("USER").ok()).filter(|name| !name.is_empty());
    let name = named.map_or_else(|| "operator".to_owned(), |name| name.chars().take(64).collect());
    HumanActor { name, via: via.to_owned() }
}
