//! The proposals of a home as questions to people, for `skillhost inbox`.

use skill_ledger::{LedgerError, LedgerErrorKind, ProposalFilter};
use skill_service::list_review_questions;
use skillhost_home::Home;
use skillhost_payload::{ReviewDecision, ReviewQuestion};
use skillhost_terminal::{CliContext, CliError};

use super::home_skills;
use super::review_context::{ReviewContext, current_actor};
use super::wording::registry_error;

/// The proposals of a home.
pub struct HomeReviews<'a> {
    session: &'a CliContext,
    home: Home,
}

impl<'a> HomeReviews<'a> {
    /// Creates the proposals of the session's home; opens no file.
    ///
    /// # Errors
    /// The home is missing.
    pub fn new(session: &'a CliContext) -> Result<Self, CliError> {
        Ok(Self { session, home: session.home()? })
    }

    /// Lists the proposals that wait for a decision, and the `known` ones. Reading creates no ledger.
    ///
    /// # Errors
    /// The ledger or the skills cannot be read.
    pub fn list(&self, known: &[String]) -> Result<Vec<ReviewQuestion>, CliError> {
        let ledger = home_skills::open_ledger(&self.home);
        let waiting = ledger.proposals(ProposalFilter::default()).map_err(registry_error)?;
        if waiting.is_empty() {
            return list_review_questions(&ledger, known).map_err(registry_error);
        }
        // Finds those that no longer fit their file.
        let context = ReviewContext::open(self.session)?;
        context.with_ledger_quiet(|ledger, _| list_review_questions(ledger, known)).0
    }

    /// Decides about a proposal on behalf of the user.
    ///
    /// # Errors
    /// The proposal does not wait, or has another digest; those of the ledger.
    pub fn decide(&self, decision: &ReviewDecision) -> Result<(), CliError> {
        let ReviewDecision { proposal, digest, approve, reason, .. } = decision;
        let context = ReviewContext::open(self.session)?;
        let actor = current_actor("inbox");
        context.with_ledger(|ledger, skills| {
            if !approve {
                return ledger.reject(&actor, proposal, reason).map(drop);
            }
            let digest = digest.parse().map_err(|_| {
                let message = "the digest of the proposal is not valid";
                LedgerError::new(LedgerErrorKind::Argument, message, "look at it again")
            })?;
            let reason = Some(reason.as_str()).filter(|reason| !reason.is_empty());
            ledger.approve(skills, &actor, proposal, digest, reason).map(drop)
        })
    }
}
