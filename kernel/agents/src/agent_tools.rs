//! Requests about the tools of agents to providers of skills.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use skillhost_control::AgentError;
use skillhost_core::{Instance, KernelState, PinnedInstance};
use skillhost_manifest::Manifest;
use skillhost_payload::{BindingProblem, BindingRequest, CallError, ErrorKind, skill_interface};

use crate::agent_runtime::AgentRuntime;
use crate::tool_reports::list_agent_tools;

impl AgentRuntime {
    /// Sends the tools of all agents to the providers of skills, if they have changed.
    pub(crate) async fn report_tools(
        &self,
        state: &Arc<KernelState>,
        providers: &[PinnedInstance],
    ) {
        let settings = self.extensions().settings();
        let numbers = providers.iter().map(|provider| provider.number).collect();
        let Some(agents) = self.tool_reports().find_change(state, &settings, numbers) else {
            return;
        };
        let limit = self.extensions().limits().context;
        for provider in providers {
            let method = skill_interface::SET_AGENT_TOOLS;
            match call_skills::<()>(provider, method, &agents, limit).await {
                // A provider that was built before does not know the request, and checks no tools.
                Err(error) if error.kind != ErrorKind::Protocol => {
                    let id = &provider.manifest.id;
                    tracing::warn!(%id, %error, "the tools of agents were not accepted");
                }
                _ => {}
            }
        }
    }

    /// Returns the reason why an agent cannot bind its skills: a tool that one of them requires, or
    /// a conflict between two of them.
    pub(crate) async fn find_binding_problem(
        &self,
        state: &KernelState,
        provider: Option<&Instance>,
        location: &Path,
        manifest: &Manifest,
    ) -> Option<AgentError> {
        let agent = manifest.agent()?;
        let provider = provider.filter(|_| !agent.uses_skills.is_empty())?;
        let request = BindingRequest {
            agent: list_agent_tools(state, &self.extensions().settings(), manifest)?,
            skill_ids: agent.uses_skills.iter().map(|skill| skill.value.clone()).collect(),
        };
        let limit = self.extensions().limits().context;
        let method = skill_interface::CHECK_BINDING;
        let location = location.display();
        let problems: Vec<BindingProblem> =
            match call_skills(provider, method, &request, limit).await {
                Ok(problems) => problems,
                // A provider that was built before does not know the request.
                Err(error) if error.kind == ErrorKind::Protocol => return None,
                Err(error) => {
                    let reason = format!("{location}: uses_skills: {error}");
                    return Some(AgentError { reason, hint: error.hint });
                }
            };
        let place = |id: &str| {
            let named = agent.uses_skills.iter().find(|skill| skill.value == id);
            named.map(|skill| format!(":{}:{}", skill.line, skill.column)).unwrap_or_default()
        };
        let describe = |it: &BindingProblem| {
            format!("{location}{}: uses_skills: {}", place(&it.skill_id), it.message)
        };
        let reasons: Vec<_> = problems.iter().map(describe).collect();
        let mut hints: Vec<_> = problems.iter().map(|problem| problem.hint.clone()).collect();
        hints.dedup();
        let (reason, hint) = (reasons.join("\n"), hints.join("\n"));
        (!reasons.is_empty()).then_some(AgentError { reason, hint })
    }
}

/// Calls a method of a provider of skills.
async fn call_skills<T: DeserializeOwned>(
    provider: &Instance,
    method: &str,
    request: &impl Serialize,
    limit: Duration,
) -> Result<T, CallError> {
    let request = serde_json::to_vec(request).map_err(|error| CallError::protocol_error(&error))?;
    let reply = provider.call(skill_interface::NAME, method, request, limit).await?;
    serde_json::from_slice(&reply).map_err(|error| CallError::protocol_error(&error))
}
