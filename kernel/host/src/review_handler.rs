//! Proposals of the skill provider in the table of questions.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;
use skillhost_core::ExtensionHost;
use skillhost_events::{Delivery, StoredEvent};
use skillhost_payload::{
    CallError, ErrorKind, OperatorCommand, ReviewDecision, ReviewListRequest, ReviewQuestion,
    skill_interface,
};
use skillhost_questions::{QuestionTable, ReviewLedger};

use crate::bus::{BuiltinHandler, HandlerOutcome};

/// The prefix of the topics of events about proposals.
const PROPOSAL_TOPICS: &str = "skill.proposal";

/// The ledger of proposals behind the loaded skill provider.
pub(crate) struct ProviderReviewLedger {
    host: Arc<ExtensionHost>,
}

impl ProviderReviewLedger {
    pub(crate) fn new(host: Arc<ExtensionHost>) -> Self {
        Self { host }
    }

    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        request: &impl Serialize,
    ) -> Result<T, CallError> {
        let provider = self.host.skill_provider().ok_or_else(|| {
            CallError::new(ErrorKind::Unavailable, "no extension provides skills")
                .with_hint(format!("see: {}", OperatorCommand::CheckExtensions))
        })?;
        let request =
            serde_json::to_vec(request).map_err(|error| CallError::protocol_error(&error))?;
        let limit = self.host.limits().tool;
        let reply = provider.call(skill_interface::NAME, method, request, limit).await?;
        serde_json::from_slice(&reply).map_err(|error| CallError::protocol_error(&error))
    }
}

#[async_trait]
impl ReviewLedger for ProviderReviewLedger {
    async fn list_reviews(&self, known: &[String]) -> Result<Vec<ReviewQuestion>, CallError> {
        let request = ReviewListRequest { known: known.to_vec() };
        self.call(skill_interface::LIST_REVIEWS, &request).await
    }

    async fn decide_review(&self, decision: ReviewDecision) -> Result<(), CallError> {
        let _text: String = self.call(skill_interface::DECIDE, &decision).await?;
        Ok(())
    }
}

/// The event handler that mirrors proposals in the table of questions.
pub(crate) struct ReviewHandler {
    questions: Arc<QuestionTable>,
    ledger: Arc<ProviderReviewLedger>,
}

impl ReviewHandler {
    pub(crate) fn new(questions: Arc<QuestionTable>, ledger: Arc<ProviderReviewLedger>) -> Self {
        Self { questions, ledger }
    }
}

#[async_trait]
impl BuiltinHandler for ReviewHandler {
    fn topic(&self) -> &str {
        PROPOSAL_TOPICS
    }

    /// Returns no key: each event mirrors all proposals.
    fn ordering_key(&self, _event: &StoredEvent) -> Option<String> {
        None
    }

    async fn handle(&self, _delivery: &Delivery) -> HandlerOutcome {
        match self.questions.mirror_reviews(&*self.ledger).await {
            Ok(()) => HandlerOutcome::Done,
            // A library of an earlier version does not list its proposals.
            Err(error) if error.kind == ErrorKind::Protocol => {
                tracing::warn!(%error, "proposals are not in the inbox");
                HandlerOutcome::Done
            }
            Err(error) => HandlerOutcome::Failed(error),
        }
    }
}
