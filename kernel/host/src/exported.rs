//! The kernel's offer to external clients: tools that manifests export, and the skills that a
//! provider publishes.

use serde::Serialize;
use serde::de::DeserializeOwned;
use skillhost_home::suggest_similar;
use skillhost_manifest::ExtensionId;
use skillhost_payload::{
    CallContext, CallError, ErrorKind, PublishedBody, PublishedDetails, PublishedDetailsRequest,
    PublishedEntry, PublishedPrompt, PublishedPromptRequest, PublishedRequest, PublishedSkills,
    PublishedUriRequest, ReviewDecision, ReviewOffer, ReviewRequest, ToolOutput, skill_interface,
};

use crate::agents::fetch_skill_generation;
use crate::error::KernelError;
use crate::instance::{Instance, PinnedInstance};
use crate::kernel::Kernel;
use crate::tools::OwnedTool;

/// A client's view of the skills that the loaded extensions publish.
///
/// Every call is sent to the provider; no result is cached.
#[derive(Clone)]
pub struct PublishedSkillClient<'k> {
    kernel: &'k Kernel,
    context: CallContext,
}

impl Kernel {
    /// Lists the tools that manifests export, as a client sees them, with the extensions that
    /// failed to list theirs.
    pub async fn exported_tools(
        &self,
        context: &CallContext,
    ) -> (Vec<OwnedTool>, Vec<(ExtensionId, CallError)>) {
        let (mut tools, failures) = self.shared.list_tools(context, |_, _| true).await;
        let state = self.shared.state.load();
        // Exports are checked per owner: another extension may offer a tool of the same name.
        tools.retain(|tool| {
            state
                .instances
                .get(&tool.extension)
                .is_some_and(|owner| is_exported(owner, &tool.spec.name))
        });
        (tools, failures)
    }

    /// Calls an exported tool with arguments as JSON text.
    ///
    /// # Errors
    /// As for [`Kernel::invoke_tool_as`]; a tool that is not exported is reported as not found.
    pub async fn invoke_exported(
        &self,
        context: CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<ToolOutput, KernelError> {
        let unknown = {
            // A loaded tool that is not exported must look like an unknown one.
            let state = self.shared.state.load();
            let exported = || state.instances.values().flat_map(|owner| &owner.manifest.mcp.tools);
            (!exported().any(|exported| exported == name))
                .then(|| suggest_similar(name, exported().map(String::as_str)))
        };
        match unknown {
            Some(similar) => {
                Err(KernelError::NotFound { what: "tool", id: name.to_owned(), similar })
            }
            None => self.invoke_tool_as(context, name, arguments).await,
        }
    }

    /// Returns the published skills as a client sees them.
    #[must_use]
    pub fn published_skills(&self, context: CallContext) -> PublishedSkillClient<'_> {
        PublishedSkillClient { kernel: self, context }
    }
}

/// Returns whether the owner of a tool exports it.
fn is_exported(owner: &Instance, tool: &str) -> bool {
    owner.manifest.mcp.tools.iter().any(|exported| exported == tool)
}

impl PublishedSkillClient<'_> {
    /// Lists the skills that the client may see; empty without a provider.
    ///
    /// # Errors
    /// The error of the provider.
    pub async fn skills(self) -> Result<PublishedSkills, CallError> {
        let request = PublishedRequest { context: self.context };
        match call_skill_provider(self.kernel, skill_interface::LIST_PUBLISHED, &request).await {
            Err(error) if error.kind == ErrorKind::Unavailable => Ok(PublishedSkills::default()),
            other => other,
        }
    }

    /// Returns a value that changes whenever the list may have changed.
    ///
    /// # Errors
    /// The error of the provider.
    pub async fn generation(self) -> Result<(u64, u64), CallError> {
        match find_skill_provider(self.kernel) {
            Some(provider) => {
                fetch_skill_generation(&provider, self.kernel.shared.limits.tool).await
            }
            None => Ok((0, 0)),
        }
    }

    /// Returns frontmatter and files of skills, without those that the client may not see.
    ///
    /// # Errors
    /// The error of the provider.
    pub async fn details(self, skill_ids: Vec<String>) -> Result<Vec<PublishedDetails>, CallError> {
        let request = PublishedDetailsRequest { context: self.context, skill_ids };
        call_skill_provider(self.kernel, skill_interface::PUBLISHED_DETAILS, &request).await
    }

    /// Returns a number that changes whenever the details of these skills may; `None` from a
    /// provider without one.
    pub async fn stamp(self, skill_ids: Vec<String>) -> Option<u64> {
        let request = PublishedDetailsRequest { context: self.context, skill_ids };
        // A provider built before stamps were added does not know the method.
        call_skill_provider(self.kernel, skill_interface::PUBLISHED_STAMP, &request)
            .await
            .unwrap_or_default()
    }

    /// Reads a file of a skill.
    ///
    /// # Errors
    /// The error of the provider.
    pub async fn read(self, uri: String) -> Result<PublishedBody, CallError> {
        let request = PublishedUriRequest { context: self.context, uri };
        call_skill_provider(self.kernel, skill_interface::READ_PUBLISHED, &request).await
    }

    /// Lists a directory of a skill.
    ///
    /// # Errors
    /// The error of the provider.
    pub async fn directory(self, uri: String) -> Result<Vec<PublishedEntry>, CallError> {
        let request = PublishedUriRequest { context: self.context, uri };
        call_skill_provider(self.kernel, skill_interface::READ_PUBLISHED_DIRECTORY, &request).await
    }

    /// Returns the prompt of a skill that a user invokes.
    ///
    /// # Errors
    /// The error of the provider.
    pub async fn prompt(
        self,
        skill_id: String,
        arguments: std::collections::BTreeMap<String, String>,
    ) -> Result<PublishedPrompt, CallError> {
        let request = PublishedPromptRequest { context: self.context, skill_id, arguments };
        call_skill_provider(self.kernel, skill_interface::PUBLISHED_PROMPT, &request).await
    }

    /// Returns a proposal for review, if it can be shown completely. The caller decides on the
    /// reviewer.
    ///
    /// # Errors
    /// The error of the provider.
    pub async fn review_offer(self, proposal: String) -> Result<Option<ReviewOffer>, CallError> {
        let request = ReviewRequest { context: self.context, proposal };
        call_skill_provider(self.kernel, skill_interface::OFFER_REVIEW, &request).await
    }

    /// Submits a person's decision on an offer; returns its outcome, for the model.
    ///
    /// # Errors
    /// The error of the provider.
    pub async fn submit_decision(
        self,
        offer: ReviewOffer,
        approve: bool,
        reason: String,
    ) -> Result<String, CallError> {
        let ReviewOffer { proposal, digest, .. } = offer;
        let context = self.context;
        let decision = ReviewDecision { context, proposal, digest, approve, reason };
        call_skill_provider(self.kernel, skill_interface::DECIDE, &decision).await
    }
}

/// Calls the skill provider.
async fn call_skill_provider<T: DeserializeOwned>(
    kernel: &Kernel,
    method: &str,
    request: &impl Serialize,
) -> Result<T, CallError> {
    let provider = find_skill_provider(kernel).ok_or_else(|| {
        CallError::new(ErrorKind::Unavailable, "no extension provides skills")
            .with_hint("see: skillhost ext doctor")
    })?;
    let request = serde_json::to_vec(request).map_err(|error| CallError::protocol_error(&error))?;
    let limit = kernel.shared.limits.tool;
    let reply = provider.call(skill_interface::NAME, method, request, limit).await?;
    serde_json::from_slice(&reply).map_err(|error| CallError::protocol_error(&error))
}

/// Returns the skill provider; the first one loaded, if there are several.
fn find_skill_provider(kernel: &Kernel) -> Option<PinnedInstance> {
    kernel.shared.pin_state(|state| {
        let mut all = state.order.iter().filter_map(|id| state.instances.get(id));
        match all.find(|instance| instance.provides(skill_interface::NAME)) {
            Some(provider) => provider.pin().map(Some),
            None => Some(None),
        }
    })
}
