//! The responses of a kernel about itself: tools, agents and extension health.

use std::collections::BTreeMap;

use skillhost_control::{
    AgentDetails, AgentStatus, AgentSummary, ExtensionDiagnosis, ExtensionHealth, FailedListing,
    KernelNotices, LoadReport, ToolListing, UnresolvedModel, find_containment_problems,
};
use skillhost_conversation::ModelError;
use skillhost_core::{Agent, KernelError, spawn_blocking};
use skillhost_payload::{CallError, ErrorKind};

use crate::kernel::Kernel;

fn summarize_agent(agent: &Agent) -> AgentSummary {
    let (resolved, settings) = (agent.instructions(), agent.agent_manifest());
    AgentSummary {
        id: agent.manifest.id.clone(),
        name: agent.manifest.name.clone(),
        state: match resolved.problem {
            Some(_) => AgentStatus::Error,
            None => AgentStatus::Ready,
        },
        problem: resolved.problem.clone(),
        uses_skills: settings.uses_skills.iter().map(|s| s.value.clone()).collect(),
        uses_tools: settings.uses_tools.iter().map(|t| t.value.clone()).collect(),
        tokens: resolved.layers.iter().map(|layer| layer.tokens).sum(),
    }
}

pub(super) async fn list_tools(
    kernel: &Kernel,
    agent: Option<&str>,
) -> Result<ToolListing, KernelError> {
    let (tools, failed) = kernel.agents().list_tools(agent).await?;
    let failed = failed.into_iter().map(|(extension, error)| FailedListing { extension, error });
    Ok(ToolListing { tools, failed: failed.collect() })
}

pub(super) async fn list_agents(kernel: &Kernel) -> Result<Vec<AgentSummary>, KernelError> {
    let mut summaries = Vec::new();
    for agent in kernel.agents().list_agents() {
        summaries.push(summarize_agent(
            &*kernel.agents().refresh_agent(agent.manifest.id.as_str()).await?,
        ));
    }
    Ok(summaries)
}

pub(super) async fn describe_agent(kernel: &Kernel, id: &str) -> Result<AgentDetails, KernelError> {
    let agent = kernel.agents().refresh_agent(id).await?;
    let (tools, _) = kernel.agents().list_tools(Some(id)).await?;
    let settings = agent.agent_manifest();
    Ok(AgentDetails {
        summary: summarize_agent(&agent),
        manifest: agent.path.clone(),
        layers: agent.instructions().layers.clone(),
        tools: tools.into_iter().map(|tool| tool.spec.name).collect(),
        model: settings.model.clone(),
        catalog: settings.catalog.clone(),
        limits: settings.limits,
    })
}

pub(super) async fn diagnose_extensions(kernel: &Kernel) -> ExtensionDiagnosis {
    // First: it may load and remove agents.
    let notices = kernel.current_notices().await;
    let report = LoadReport::clone(&kernel.report());
    let health: BTreeMap<_, _> = kernel
        .extensions()
        .check_health()
        .await
        .into_iter()
        .map(|(id, result)| (id, ExtensionHealth { ok: result.is_ok(), error: result.err() }))
        .collect();
    let delivery = kernel.delivery_problem();
    let KernelNotices { invalid_settings, pending, .. } = notices;
    // Settings that are not valid are a pending change.
    let containment = match &invalid_settings {
        Some(_) => Vec::new(),
        None => diagnose_containment(kernel).await,
    };
    let pending: Vec<_> = invalid_settings.into_iter().chain(pending).collect();
    let models = unresolved_models(kernel);
    let healthy = report.rejected.is_empty()
        && delivery.is_none()
        && models.is_empty()
        && pending.is_empty()
        && containment.is_empty()
        && health.values().all(|health| health.ok);
    ExtensionDiagnosis { healthy, report, health, pending, delivery, containment, models }
}

/// Returns the errors of the operator's policy, as the next run would find them.
async fn diagnose_containment(kernel: &Kernel) -> Vec<CallError> {
    let home = kernel.extensions().home().clone();
    let problems = spawn_blocking(move || find_containment_problems(&home)).await;
    problems.unwrap_or_else(|error| {
        vec![CallError::new(ErrorKind::Io, error.to_string()).with_hint("try again")]
    })
}

/// Returns the agents whose models cannot be used. Agents with another error are reported with it.
fn unresolved_models(kernel: &Kernel) -> Vec<UnresolvedModel> {
    let agents = kernel.agents().list_agents().into_iter();
    let agents = agents.filter(|agent| agent.instructions().problem.is_none());
    let unresolved = agents.filter_map(|agent| {
        let ModelError { model, message, hint, .. } =
            kernel.agents().resolve_model(&agent, None).err()?;
        Some(UnresolvedModel { agent: agent.manifest.id.clone(), model, message, hint })
    });
    unresolved.collect()
}
