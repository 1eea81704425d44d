//! The lease of a claim, as its run sees it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use skillhost_tasks::TaskClaim;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The lease of a claim.
#[derive(Debug)]
pub(crate) struct TaskLease {
    pub(crate) claim: TaskClaim,
    /// The age of the last confirmed heartbeat from which on no effect begins.
    max_age: Duration,
    /// The moment at which the last confirmed heartbeat was sent.
    confirmed: watch::Sender<Instant>,
    lost: CancellationToken,
    cancel: CancellationToken,
    /// Who requested the cancellation.
    cancelled_by: Mutex<Option<String>>,
}

/// The error of a run whose claim is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LostClaimError;

impl TaskLease {
    /// Creates the lease of a claim, with its length.
    pub(crate) fn new(claim: TaskClaim, claimed_at: Instant, length: Duration) -> Self {
        Self {
            claim,
            max_age: length / 2,
            confirmed: watch::Sender::new(claimed_at),
            lost: CancellationToken::new(),
            cancel: CancellationToken::new(),
            cancelled_by: Mutex::default(),
        }
    }

    /// Notes a heartbeat that was sent at a moment and has renewed the lease.
    pub(crate) fn confirm(&self, sent_at: Instant) {
        self.confirmed.send_replace(sent_at);
    }

    /// Notes that another claim has replaced this one; the run is dropped.
    pub(crate) fn lose(&self) {
        self.lost.cancel();
    }

    /// Cancels the run; of several requests the first one is reported.
    pub(crate) fn cancel_run(&self, by: &str) {
        let mut cancelled_by = self.cancelled_by.lock().unwrap_or_else(PoisonError::into_inner);
        cancelled_by.get_or_insert_with(|| by.to_owned());
        self.cancel.cancel();
    }

    /// Returns who has requested the cancellation of the run, if it is to be cancelled.
    pub(crate) fn cancelled_by(&self) -> Option<String> {
        self.cancelled_by.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the token that cancels the run.
    pub(crate) fn cancel_token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Waits until the claim is lost.
    pub(crate) async fn wait_for_loss(&self) {
        self.lost.cancelled().await;
    }

    /// Waits until a recent heartbeat is confirmed, so that an effect may begin.
    ///
    /// # Errors
    /// [`LostClaimError`] if the claim is lost before.
    pub(crate) async fn wait_for_claim(&self) -> Result<(), LostClaimError> {
        let mut confirmed = self.confirmed.subscribe();
        loop {
            if self.lost.is_cancelled() {
                return Err(LostClaimError);
            }
            if confirmed.borrow_and_update().elapsed() < self.max_age {
                return Ok(());
            }
            tokio::select! {
                () = self.lost.cancelled() => return Err(LostClaimError),
                // The sender is part of this lease.
                _ = confirmed.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use skillhost_tasks::TaskId;

    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn lease() -> Arc<TaskLease> {
        let claim = TaskClaim { task: TaskId::generate(), epoch: 1 };
        Arc::new(TaskLease::new(claim, Instant::now(), LEASE))
    }

    #[tokio::test(start_paused = true)]
    async fn old_heartbeat_delays_effects() {
        let lease = lease();
        assert_eq!(lease.wait_for_claim().await, Ok(()));
        tokio::time::advance(LEASE / 2).await;
        let waiting = tokio::spawn({
            let lease = Arc::clone(&lease);
            async move { lease.wait_for_claim().await }
        });
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!waiting.is_finished());
        lease.confirm(Instant::now());
        assert_eq!(waiting.await.unwrap(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn lost_claim_ends_the_wait() {
        let lease = lease();
        tokio::time::advance(LEASE / 2).await;
        lease.lose();
        assert_eq!(lease.wait_for_claim().await, Err(LostClaimError));
    }
}
