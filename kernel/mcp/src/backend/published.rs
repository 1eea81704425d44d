//! The skills that a provider publishes, as external clients see them.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;
use skillhost_core::{ExtensionHost, fetch_skill_generation};
use skillhost_payload::{
    CallContext, CallError, ErrorKind, OperatorCommand, PublishedBody, PublishedDetails,
    PublishedDetailsRequest, PublishedEntry, PublishedPrompt, PublishedPromptRequest,
    PublishedRequest, PublishedSkills, PublishedUriRequest, ReviewDecision, ReviewListRequest,
    ReviewOffer, ReviewQuestion, ReviewRequest, skill_interface,
};
use skillhost_questions::ReviewLedger;

/// A client's view of the skills that the loaded extensions publish.
///
/// Every call is sent to the provider; no result is cached.
#[derive(Clone)]
pub(super) struct PublishedSkillClient<'k> {
    host: &'k ExtensionHost,
    context: CallContext,
}

impl<'k> PublishedSkillClient<'k> {
    /// Creates the view of a client.
    pub(super) fn new(host: &'k ExtensionHost, context: CallContext) -> Self {
        Self { host, context }
    }
}

impl PublishedSkillClient<'_> {
    /// Lists the skills that the client may see; empty without a provider.
    ///
    /// # Errors
    /// The error of the provider.
    pub(super) async fn skills(self) -> Result<PublishedSkills, CallError> {
        let request = PublishedRequest { context: self.context };
        match call_skill_provider(self.host, skill_interface::LIST_PUBLISHED, &request).await {
            Err(error) if error.kind == ErrorKind::Unavailable => Ok(PublishedSkills::default()),
            other => other,
        }
    }

    /// Returns a value that changes whenever the list may have changed.
    ///
    /// # Errors
    /// The error of the provider.
    pub(super) async fn generation(self) -> Result<(u64, u64), CallError> {
        match self.host.skill_provider() {
            Some(provider) => fetch_skill_generation(&provider, self.host.limits().tool).await,
            None => Ok((0, 0)),
        }
    }

    /// Returns frontmatter and files of skills, without those that the client may not see.
    ///
    /// # Errors
    /// The error of the provider.
    pub(super) async fn details(
        self,
        skill_ids: Vec<String>,
    ) -> Result<Vec<PublishedDetails>, CallError> {
        let request = PublishedDetailsRequest { context: self.context, skill_ids };
        call_skill_provider(self.host, skill_interface::PUBLISHED_DETAILS, &request).await
    }

    /// Returns a number that changes whenever the details of these skills may; `None` from a
    /// provider without one.
    pub(super) async fn stamp(self, skill_ids: Vec<String>) -> Option<u64> {
        let request = PublishedDetailsRequest { context: self.context, skill_ids };
        // A provider built before stamps were added does not know the method.
        call_skill_provider(self.host, skill_interface::PUBLISHED_STAMP, &request)
            .await
            .unwrap_or_default()
    }

    /// Reads a file of a skill.
    ///
    /// # Errors
    /// The error of the provider.
    pub(super) async fn read(self, uri: String) -> Result<PublishedBody, CallError> {
        let request = PublishedUriRequest { context: self.context, uri };
        call_skill_provider(self.host, skill_interface::READ_PUBLISHED, &request).await
    }

    /// Lists a directory of a skill.
    ///
    /// # Errors
    /// The error of the provider.
    pub(super) async fn directory(self, uri: String) -> Result<Vec<PublishedEntry>, CallError> {
        let request = PublishedUriRequest { context: self.context, uri };
        call_skill_provider(self.host, skill_interface::READ_PUBLISHED_DIRECTORY, &request).await
    }

    /// Returns the prompt of a skill that a user invokes.
    ///
    /// # Errors
    /// The error of the provider.
    pub(super) async fn prompt(
        self,
        skill_id: String,
        arguments: std::collections::BTreeMap<String, String>,
    ) -> Result<PublishedPrompt, CallError> {
        let request = PublishedPromptRequest { context: self.context, skill_id, arguments };
        call_skill_provider(self.host, skill_interface::PUBLISHED_PROMPT, &request).await
    }

    /// Returns a proposal for review, if it can be shown completely. The caller decides on the
    /// reviewer.
    ///
    /// # Errors
    /// The error of the provider.
    pub(super) async fn review_offer(
        self,
        proposal: String,
    ) -> Result<Option<ReviewOffer>, CallError> {
        let request = ReviewRequest { context: self.context, proposal };
        call_skill_provider(self.host, skill_interface::OFFER_REVIEW, &request).await
    }

    /// Submits a person's decision on an offer; returns its outcome, for the model.
    ///
    /// # Errors
    /// The error of the provider.
    pub(super) async fn submit_decision(
        self,
        offer: ReviewOffer,
        approve: bool,
        reason: String,
    ) -> Result<String, CallError> {
        let ReviewOffer { proposal, digest, .. } = offer;
        let context = self.context;
        let (surface, by) = (None, None);
        let decision = ReviewDecision { context, proposal, digest, approve, reason, surface, by };
        call_skill_provider(self.host, skill_interface::DECIDE, &decision).await
    }
}

/// The ledger of proposals, on behalf of a client.
pub(super) struct ClientReviewLedger<'k> {
    provider: PublishedSkillClient<'k>,
    /// The outcome of the decision, for the model.
    outcome: Mutex<String>,
}

impl<'k> ClientReviewLedger<'k> {
    /// Creates the ledger of a client.
    pub(super) fn new(provider: PublishedSkillClient<'k>) -> Self {
        Self { provider, outcome: Mutex::default() }
    }

    /// Returns the outcome of the decision.
    pub(super) fn take_outcome(self) -> String {
        self.outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ReviewLedger for ClientReviewLedger<'_> {
    async fn list_reviews(&self, known: &[String]) -> Result<Vec<ReviewQuestion>, CallError> {
        let request = ReviewListRequest { known: known.to_vec() };
        call_skill_provider(self.provider.host, skill_interface::LIST_REVIEWS, &request).await
    }

    async fn decide_review(&self, decision: ReviewDecision) -> Result<(), CallError> {
        let decided: String =
            call_skill_provider(self.provider.host, skill_interface::DECIDE, &decision).await?;
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = decided;
        Ok(())
    }
}

/// Calls the skill provider.
async fn call_skill_provider<T: DeserializeOwned>(
    host: &ExtensionHost,
    method: &str,
    request: &impl Serialize,
) -> Result<T, CallError> {
    let provider = host.skill_provider().ok_or_else(|| {
        CallError::new(ErrorKind::Unavailable, "no extension provides skills")
            .with_hint(format!("see: {}", OperatorCommand::CheckExtensions))
    })?;
    let request = serde_json::to_vec(request).map_err(|error| CallError::protocol_error(&error))?;
    let limit = host.limits().tool;
    let reply = provider.call(skill_interface::NAME, method, request, limit).await?;
    serde_json::from_slice(&reply).map_err(|error| CallError::protocol_error(&error))
}
