//! Where a person decides: the ledger and the skills of a home, and the person's name.

use std::sync::Arc;

use nix::unistd::{Uid, User};
use skill_store::{
    HumanActor, Ledger, LedgerError, Proposal, ProposalDrift, ProposalFilter, ProposalSummary,
    SkillId, Snapshot, Store, ToolGrant,
};

use super::stored;
use crate::cli::SkillRoots;
use crate::error::CliError;
use crate::output::Output;
use crate::session::CliContext;

/// The ledger of a home together with its skills.
pub(super) struct ReviewContext {
    ledger: Ledger,
    store: Store,
    output: Output,
}

impl ReviewContext {
    /// Opens the ledger of the session's home. What an earlier process could not end is ended now.
    pub(super) fn open(session: &CliContext) -> Result<Self, CliError> {
        let store = stored::open_store(session, &SkillRoots { roots: Vec::new() })?;
        let desk =
            Self { ledger: stored::open_ledger(&session.home()?), store, output: session.output };
        // Makes the texts of proposals again, where the database had to be rebuilt.
        desk.with_ledger(|ledger, skills| ledger.record_direct_edits(skills, &[]))?;
        Ok(desk)
    }

    /// Asks the ledger something, or has it do something; says what it noticed on the way.
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

    /// As [`ReviewContext::with_ledger`], but returns what the ledger noticed.
    pub(super) fn with_ledger_quiet<T>(
        &self,
        work: impl FnOnce(&Ledger, &Snapshot) -> Result<T, LedgerError>,
    ) -> (Result<T, CliError>, Vec<String>) {
        let done = work(&self.ledger, &self.store.snapshot());
        let notes = self.ledger.take_notes().iter().map(ToString::to_string).collect();
        (done.map_err(CliError::from), notes)
    }

    /// The skills as they are.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.store.snapshot()
    }

    /// Looks for skills that came or went since.
    pub(super) fn refresh(&self) {
        self.store.poll();
    }

    /// Lists proposals, after finding out which of them no longer fit their file.
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

    /// Returns what `allowed-tools` of the skills names, and whether it counts.
    pub(super) fn tool_grants(&self) -> Result<Vec<ToolGrant>, CliError> {
        self.with_ledger(|ledger, skills| ledger.tool_grants(&self.store, skills))
    }

    /// Returns a proposal and how its file has moved since it was made.
    pub(super) fn proposal(&self, id: &str) -> Result<(Proposal, ProposalDrift), CliError> {
        self.with_ledger(|ledger, skills| load_with_drift(ledger, skills, id))
    }
}

/// Reads a proposal and how its file has moved since it was made.
pub(super) fn load_with_drift(
    ledger: &Ledger,
    skills: &Snapshot,
    id: &str,
) -> Result<(Proposal, ProposalDrift), LedgerError> {
    let proposal = ledger.proposal(id)?;
    let drift = ledger.compute_drift(skills, &proposal);
    Ok((proposal, drift))
}

/// The person at the keyboard; `via` says which command they decide with.
pub(super) fn current_actor(via: &'static str) -> HumanActor {
    let user = User::from_uid(Uid::current()).ok().flatten().map(|user| user.name);
    let named = user.or_else(|| std::env::var("USER").ok()).filter(|name| !name.is_empty());
    let name = named.map_or_else(|| "operator".to_owned(), |name| name.chars().take(64).collect());
    HumanActor { name, via }
}
