//! `skillhost skill optimize`: the ledger of a home for the candidates of a model.

use skill_catalog::AgentAuthor;
use skill_ledger::{
    ChangeTrial, Ledger, LedgerErrorKind, ProposalFilter, ProposalState, ProposeRequest, ReviewFlag,
};
use skill_test_command::{
    CandidateLedger, CandidateObjection, CandidateText, OptimizeArgs, RejectedChange,
    SkillOptimizations,
};
use skillhost_terminal::{CliContext, CliError, CommandResult};

use super::home_skills::{open_checked_ledger, open_store};
use super::test::open_test_home;
use super::wording::registry_error;
use crate::arguments::SkillRoots;

/// The author of proposals that an optimization records.
const OPTIMIZER: &str = "optimizer";

/// The byte order mark.
const BOM: char = '\u{feff}';

/// The rejected proposals that a request shows.
const MAX_REJECTED: usize = 20;

pub(super) fn cmd_skill_optimize(
    session: &CliContext,
    args: &OptimizeArgs,
    optimizations: SkillOptimizations<'_>,
) -> CommandResult {
    session.trusted_home()?;
    let home = open_test_home(session)?;
    let ledger = open_checked_ledger(session)?;
    let store = open_store(session, &SkillRoots::default())?;
    let check = |candidate: &CandidateText<'_>| {
        let request = ProposeRequest {
            new_content: Some(candidate.text.to_owned()),
            diff: None,
            ..to_request(candidate)
        };
        match ledger.try_change(&store.snapshot(), &request) {
            Ok(trial) => Ok(find_objection(trial)),
            Err(error) => match error.reason() {
                LedgerErrorKind::Refused
                | LedgerErrorKind::Invalid
                | LedgerErrorKind::Argument
                | LedgerErrorKind::TooLarge => {
                    let message = error.to_string();
                    Ok(Some(CandidateObjection { message, cases: Vec::new() }))
                }
                // The disk, a lock or the quota of proposals, which no candidate can change.
                _ => Err(registry_error(error)),
            },
        }
    };
    let propose = |candidate: &CandidateText<'_>| {
        store.poll_full();
        let author = AgentAuthor {
            agent_id: OPTIMIZER.to_owned(),
            origin: OPTIMIZER.to_owned(),
            ..AgentAuthor::default()
        };
        let made = ledger.propose(&store.snapshot(), &author, &to_request(candidate));
        made.map(|made| made.proposal.id).map_err(registry_error)
    };
    let functions = CandidateLedger {
        rejected: &|skill_id| list_rejected(&ledger, skill_id),
        check: &check,
        propose: &propose,
    };
    skill_test_command::cmd_skill_optimize(session, args, home, optimizations, &functions)
}

/// Returns the change as a diff against the text that was optimized, so that it does not apply to
/// another one.
fn to_request(candidate: &CandidateText<'_>) -> ProposeRequest {
    let CandidateText { skill_id, path, base, text, reason } = candidate;
    // The ledger keeps the mark of the file by itself.
    let [base, text] = [base, text].map(|text| text.strip_prefix(BOM).unwrap_or(text));
    ProposeRequest {
        skill_id: (*skill_id).to_owned(),
        path: Some((*path).to_owned()),
        diff: Some(skill_diff::unified_diff(base, text, path)),
        justification: (*reason).to_owned(),
        ..ProposeRequest::default()
    }
}

/// Returns the reason why a trial would not become a proposal.
fn find_objection(trial: ChangeTrial) -> Option<CandidateObjection> {
    if let Some(error) = trial.objection {
        let found = trial.acceptance.into_iter();
        let cases = found.flat_map(|found| found.leaks.into_iter().chain(found.regressions));
        let cases = cases.collect();
        return Some(CandidateObjection { message: error.to_string(), cases });
    }
    // A reviewer would only see a warning; a model has no reason for such text.
    let message = trial.flags.iter().find_map(|flag| match flag {
        ReviewFlag::HiddenUnicode { .. } => {
            Some("audit: the text has hidden characters".to_owned())
        }
        ReviewFlag::PromptMarkup { found } => {
            Some(format!("audit: the text has markup of prompts ({found})"))
        }
        _ => None,
    })?;
    Some(CandidateObjection { message, cases: Vec::new() })
}

/// Lists the newest edits of SKILL.md that people rejected, the oldest first.
fn list_rejected(ledger: &Ledger, skill_id: &str) -> Result<Vec<RejectedChange>, CliError> {
    let state = Some(ProposalState::Rejected);
    let filter = ProposalFilter { skill: Some(skill_id), state, ..ProposalFilter::default() };
    let found = ledger.proposals(filter).map_err(registry_error)?;
    let of_skill_file =
        found.iter().filter(|proposal| proposal.path.eq_ignore_ascii_case("SKILL.md"));
    let newest: Vec<_> = of_skill_file.rev().take(MAX_REJECTED).collect();
    let read = newest.into_iter().rev().map(|summary| {
        let proposal = ledger.proposal(&summary.id).map_err(registry_error)?;
        // Without the justification, in which an earlier optimization states held-out results.
        let reason = proposal.decided.and_then(|decided| decided.reason);
        let reason = reason.unwrap_or_else(|| "without a reason".to_owned());
        Ok(RejectedChange { diff: proposal.diff, reason })
    });
    read.collect()
}
