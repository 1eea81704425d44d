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

    /// Runs an operation that waits for the disk.
    fn with_reviews<T>(
        &self,
        work: impl FnOnce(&HomeReviews<'_>) -> Result<T, CliError>,
    ) -> Result<T, CallError> {
        // The context stays on this thread, so the runtime moves its other tasks away.
        tokio::task::block_in_place(|| work(&HomeReviews::new(self.session)?))
            .map_err(|error| to_call_error(&error))
    }
}

#[async_trait]
impl ReviewLedger for HomeReviewLedger<'_> {
    async fn list_reviews(&self, known: &[String]) -> Result<Vec<ReviewQuestion>, CallError> {
        self.with_reviews(|reviews| reviews.list(known))
    }

    async fn decide_review(&self, decision: ReviewDecision) -> Result<(), CallError> {
        self.with_reviews(|reviews| reviews.decide(&decision))
    }
}

fn to_call_error(error: &CliError) -> CallError {
    let kind = match error.code() {
        exit::NOT_FOUND => ErrorKind::NotFound,
        exit::USAGE => ErrorKind::InvalidArgument,
        exit::CONFLICT => ErrorKind::Conflict,
        exit::IO => ErrorKind::Io,
        _ => ErrorKind::Failed,
    };
    CallError::new(kind, error.message()).with_hint(error.hints().join("; "))
}
