//! Providers that are called through the contract's generic call.

use std::sync::Arc;

use async_trait::async_trait;
use skillhost_payload::{
    ActivateSkillRequest, BindingRequest, ErrorKind, PublishedDetailsRequest,
    PublishedPromptRequest, PublishedRequest, PublishedUriRequest, ReviewListRequest,
    ReviewRequest, SkillGeneration, SkillProgramsRequest, SkillReport, SkillRequest,
    SkillTreeRequest, SkillVersionRequest, skill_interface,
};

use crate::codec::{from_bytes, to_bytes};
use crate::error::{ExtensionError, Result};
use crate::provider::SkillProvider;

/// An interface of an extension: a method name and bytes in, bytes out.
#[async_trait]
pub(crate) trait Interface: Send + Sync {
    fn name(&self) -> &'static str;
    async fn call(&self, method: &str, payload: &[u8]) -> Result<Vec<u8>>;
}

/// The `skill` interface of a [`SkillProvider`].
pub(crate) struct SkillInterface<T>(pub(crate) Arc<T>);

#[async_trait]
impl<T: SkillProvider> Interface for SkillInterface<T> {
    fn name(&self) -> &'static str {
        skill_interface::NAME
    }

    async fn call(&self, method: &str, payload: &[u8]) -> Result<Vec<u8>> {
        match method {
            skill_interface::GET_SKILL_CONTENT => {
                let request = parse_skill_request(payload)?;
                to_bytes(&self.0.get_skill_content(&request.skill_id).await?)
            }
            skill_interface::ACTIVATE => {
                let ActivateSkillRequest { context, skill_id } = from_bytes(payload)?;
                to_bytes(&self.0.activate(&context, &skill_id).await?)
            }
            skill_interface::GET_TREE => {
                let SkillTreeRequest { context, skill_id } = from_bytes(payload)?;
                to_bytes(&self.0.tree(&context, skill_id.as_deref()).await?)
            }
            skill_interface::SKILL_CREATED => {
                let created: SkillReport = from_bytes(payload)?;
                to_bytes(&self.0.skill_created(&created.context, &created.skill_id).await?)
            }
            skill_interface::SCRIPT_RAN => {
                let ran: SkillReport = from_bytes(payload)?;
                to_bytes(&self.0.script_ran(&ran.context, &ran.skill_id).await?)
            }
            skill_interface::LIST_PUBLISHED => {
                let request: PublishedRequest = from_bytes(payload)?;
                to_bytes(&self.0.list_published(&request.context).await?)
            }
            skill_interface::PUBLISHED_DETAILS => {
                let request: PublishedDetailsRequest = from_bytes(payload)?;
                to_bytes(&self.0.published_details(&request.context, &request.skill_ids).await?)
            }
            skill_interface::PUBLISHED_STAMP => {
                let request: PublishedDetailsRequest = from_bytes(payload)?;
                to_bytes(&self.0.published_stamp(&request.context, &request.skill_ids).await?)
            }
            skill_interface::READ_PUBLISHED => {
                let PublishedUriRequest { context, uri } = from_bytes(payload)?;
                to_bytes(&self.0.read_published(&context, &uri).await?)
            }
            skill_interface::READ_PUBLISHED_DIRECTORY => {
                let PublishedUriRequest { context, uri } = from_bytes(payload)?;
                to_bytes(&self.0.read_published_directory(&context, &uri).await?)
            }
            skill_interface::PUBLISHED_PROMPT => {
                let PublishedPromptRequest { context, skill_id, arguments } = from_bytes(payload)?;
                to_bytes(&self.0.published_prompt(&context, &skill_id, &arguments).await?)
            }
            skill_interface::OFFER_REVIEW => {
                let ReviewRequest { context, proposal } = from_bytes(payload)?;
                to_bytes(&self.0.offer_review(&context, &proposal).await?)
            }
            skill_interface::DECIDE => to_bytes(&self.0.decide(&from_bytes(payload)?).await?),
            skill_interface::LIST_REVIEWS => {
                let ReviewListRequest { known } = from_bytes(payload)?;
                to_bytes(&self.0.list_reviews(&known).await?)
            }
            skill_interface::LIST_VERSIONS => {
                let request = parse_skill_request(payload)?;
                to_bytes(&self.0.list_versions(&request.skill_id).await?)
            }
            skill_interface::READ_VERSION => {
                let SkillVersionRequest { skill_id, number } = from_bytes(payload)?;
                to_bytes(&self.0.read_version(&skill_id, number).await?)
            }
            skill_interface::LIST_PROGRAMS => {
                let SkillProgramsRequest { context, skill_id } = from_bytes(payload)?;
                to_bytes(&self.0.list_programs(&context, skill_id.as_deref()).await?)
            }
            skill_interface::SET_AGENT_TOOLS => {
                to_bytes(&self.0.set_agent_tools(from_bytes(payload)?).await?)
            }
            skill_interface::CHECK_BINDING => {
                let BindingRequest { agent, skill_ids } = from_bytes(payload)?;
                to_bytes(&self.0.check_binding(&agent, &skill_ids).await?)
            }
            skill_interface::GENERATION => {
                to_bytes(&SkillGeneration { generation: self.0.generation().await? })
            }
            other => {
                Err(ExtensionError::new(ErrorKind::Protocol, format!("unknown method `{other}`")))
            }
        }
    }
}

/// Parses a request that names a skill.
// Not `from_bytes`: the request borrows from the payload.
fn parse_skill_request(payload: &[u8]) -> Result<SkillRequest<'_>> {
    serde_json::from_slice(payload)
        .map_err(|error| ExtensionError::new(ErrorKind::Protocol, error.to_string()))
}
