//! The ledger of proposals of a home, for the table of questions.

use async_trait::async_trait;
use skill_commands::HomeReviews;
use skillhost_operations::ReviewLedger;
use skillhost_payload::{CallError, ErrorKind, ReviewDecision, ReviewQuestion};
use skillhost_terminal::{CliContext, CliError, exit};

/// The ledger of the session's home, used without a kernel.
pub(crate) struct HomeReviewLedger<'a> {
    session: &'a CliContext,
}

impl<'a> HomeReviewLedger<'a> {
    pub(crate) fn new(session: &'a CliContext) -> Self {
        Self { session }
    }
}

#[async_trait]
impl ReviewLedger for HomeReviewLedger<'_> {
    async fn list_reviews(&self, known: &[String]) -> Result<Vec<ReviewQuestion>, CallError> {
        let reviews = HomeReviews::new(self.session).map_err(to_call_error)?;
        reviews.list(known).map_err(to_call_error)
    }

    async fn decide_review(&self, decision: ReviewDecision) -> Result<(), CallError> {
        let reviews = HomeReviews::new(self.session).map_err(to_call_error)?;
        reviews.decide(&decision).map_err(to_call_error)
    }
}

fn to_call_error(error: CliError) -> CallError {
    let kind = match error.code() {
        exit::NOT_FOUND => ErrorKind::NotFound,
        exit::USAGE => ErrorKind::InvalidArgument,
        exit::CONFLICT => ErrorKind::Conflict,
        exit::IO => ErrorKind::Io,
        _ => ErrorKind::Failed,
    };
    CallError::new(kind, error.message()).with_hint(error.hints().join("; "))
}
