//! A tool call outside of any run: of a task that is this call, or of a client.

use async_trait::async_trait;
use skillhost_conversation::{ApprovalDecision, ApprovalRequest};
use skillhost_payload::{CallEffect, CallError};

/// The maker of a tool call outside of any run.
#[async_trait]
pub trait TaskCall: Send + Sync {
    /// Requests an approval. [`ApprovalDecision::Parked`] ends the attempt without the call.
    async fn request_approval(&self, request: &ApprovalRequest) -> ApprovalDecision;

    /// Records the start of the call; the tool is invoked next.
    ///
    /// # Errors
    /// The error of the call if the record is not on disk; the tool is then not invoked.
    async fn start_call(&self, effect: CallEffect) -> Result<(), CallError>;
}
