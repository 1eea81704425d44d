//! What the kernel offers to clients that are no agents of its own: tools that manifests export, and
//! the skills that a provider publishes.

use serde::Serialize;
use serde::de::DeserializeOwned;
use skillhost_contract::payload::{
    CallContext, ErrorKind, PublishedBody, PublishedDetails, PublishedDetailsRequest,
    PublishedEntry, PublishedPrompt, PublishedPromptRequest, PublishedRequest, PublishedSkills,
    PublishedUriRequest, ReviewDecision, ReviewOffer, ReviewRequest, ToolOutput, skill_interface,
};
use skillhost_manifest::ExtensionId;

use crate::agents::fetch_skill_generation;
use crate::error::{CallError, KernelError, suggest_similar};
use crate::instance::{Instance, PinnedInstance};
use crate::kernel::Kernel;
use crate::tools::OwnedTool;

/// The skills that the loaded extensions publish, as one client sees them.
///
/// Every call asks the provider; nothing is kept.
#[derive(Clone)]
pub struct PublishedSkillClient<'k> {
    kernel: &'k Kernel,
    context: CallContext,
}

impl Kernel {
    /// Lists the tools that manifests export, as a client sees them, and what failed to answer.
    pub async fn exported_tools(
        &self,
        context: &CallContext,
    ) -> (Vec<OwnedTool>, Vec<(ExtensionId, CallError)>) {
        let (mut tools, failures) = self.shared.list_tools(context, |_, _| true).await;
        let state = self.shared.state.load();
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
    /// As for [`Kernel::invoke_tool_as`]; a tool that is not exported does not exist.
    pub async fn invoke_exported(
        &self,
        context: CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<ToolOutput, KernelError> {
        let unknown = {
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

    /// Looks at the published skills on behalf of a client.
    #[must_use]
    pub fn published_skills(&self, context: CallContext) -> PublishedSkillClient<'_> {
        PublishedSkillClient { kernel: self, context }
    }
}

/// Whether the owner of a tool exports it.
fn is_exported(owner: &Instance, tool: &str) -> bool {
    owner.manifest.mcp.tools.iter().any(|exported| exported == tool)
}

impl PublishedSkillClient<'_> {
    /// Lists the skills the client may see. Without a provider there are none.
    ///
    /// # Errors
    /// The provider's.
    pub async fn skills(self) -> Result<PublishedSkills, CallError> {
        let request = PublishedRequest { context: self.context };
        match call(self.kernel, skill_interface::LIST_PUBLISHED, &request).await {
            Err(error) if error.kind == ErrorKind::Unavailable => Ok(PublishedSkills::default()),
            other => other,
        }
    }

    /// Returns what changes whenever the list may have changed.
    ///
    /// # Errors
    /// The provider's.
    pub async fn generation(self) -> Result<(u64, u64), CallError> {
        match find_skill_provider(self.kernel) {
            Some(provider) => {
                fetch_skill_generation(&provider, self.kernel.shared.limits.tool).await
            }
            None => Ok((0, 0)),
        }
    }

    /// Returns frontmatter and files of skills; those that the client does not see are left out.
    ///
    /// # Errors
    /// The provider's.
    pub async fn details(self, skill_ids: Vec<String>) -> Result<Vec<PublishedDetails>, CallError> {
        let request = PublishedDetailsRequest { context: self.context, skill_ids };
        call(self.kernel, skill_interface::PUBLISHED_DETAILS, &request).await
    }

    /// Returns a number that changes whenever the details of these skills may; `None` from a provider
    /// that has none.
    pub async fn stamp(self, skill_ids: Vec<String>) -> Option<u64> {
        let request = PublishedDetailsRequest { context: self.context, skill_ids };
        // One that was built before there were stamps does not know the method.
        call(self.kernel, skill_interface::PUBLISHED_STAMP, &request).await.unwrap_or_default()
    }

    /// Reads a file of a skill.
    ///
    /// # Errors
    /// The provider's.
    pub async fn read(self, uri: String) -> Result<PublishedBody, CallError> {
        let request = PublishedUriRequest { context: self.context, uri };
        call(self.kernel, skill_interface::READ_PUBLISHED, &request).await
    }

    /// Lists a directory of a skill.
    ///
    /// # Errors
    /// The provider's.
    pub async fn directory(self, uri: String) -> Result<Vec<PublishedEntry>, CallError> {
        let request = PublishedUriRequest { context: self.context, uri };
        call(self.kernel, skill_interface::READ_PUBLISHED_DIRECTORY, &request).await
    }

    /// Returns the prompt that a skill becomes when a person invokes it.
    ///
    /// # Errors
    /// The provider's.
    pub async fn prompt(
        self,
        skill_id: String,
        arguments: std::collections::BTreeMap<String, String>,
    ) -> Result<PublishedPrompt, CallError> {
        let request = PublishedPromptRequest { context: self.context, skill_id, arguments };
        call(self.kernel, skill_interface::PUBLISHED_PROMPT, &request).await
    }

    /// Returns a proposal as a person is to see it, if all of it can be shown. Who may be asked is
    /// the caller's to decide.
    ///
    /// # Errors
    /// The provider's.
    pub async fn review_offer(self, proposal: String) -> Result<Option<ReviewOffer>, CallError> {
        let request = ReviewRequest { context: self.context, proposal };
        call(self.kernel, skill_interface::OFFER_REVIEW, &request).await
    }

    /// Hands on what a person decided about an offer; returns what came of it, for the model.
    ///
    /// # Errors
    /// The provider's.
    pub async fn submit_decision(
        self,
        offer: ReviewOffer,
        approve: bool,
        reason: String,
    ) -> Result<String, CallError> {
        let ReviewOffer { proposal, digest, .. } = offer;
        let context = self.context;
        let decision = ReviewDecision { context, proposal, digest, approve, reason };
        call(self.kernel, skill_interface::DECIDE, &decision).await
    }
}

/// Asks the provider of skills.
async fn call<T: DeserializeOwned>(
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

/// The provider of skills; the first that was loaded where there are several.
fn find_skill_provider(kernel: &Kernel) -> Option<PinnedInstance> {
    kernel.shared.pin_state(|state| {
        let mut all = state.order.iter().filter_map(|id| state.instances.get(id));
        match all.find(|instance| instance.provides(skill_interface::NAME)) {
            Some(provider) => provider.pin().map(Some),
            None => Some(None),
        }
    })
}
