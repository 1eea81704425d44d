//! The responses of a kernel about itself: tools, agents and extension health.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use skillhost_manifest::{AgentCatalog, AgentLimits, ExtensionId};
use skillhost_payload::CallError;

use crate::agent::{Agent, AgentError, InstructionLayer};
use crate::error::KernelError;
use crate::kernel::Kernel;
use crate::report::LoadReport;
use crate::tools::OwnedTool;

/// A list of tools, with the extensions that failed to list theirs.
#[derive(Debug, Serialize, Deserialize)]
pub struct ToolListing {
    /// The tools, by name.
    pub tools: Vec<OwnedTool>,
    /// Extensions whose tools are missing.
    pub failed: Vec<FailedListing>,
}

/// An extension that did not list its tools.
#[derive(Debug, Serialize, Deserialize)]
pub struct FailedListing {
    /// The extension.
    pub extension: ExtensionId,
    /// The error it returned.
    pub error: CallError,
}

/// The status of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    /// Its instructions are complete, so it can take a turn.
    Ready,
    /// Its instructions are incomplete; see the problem.
    Error,
}

/// An agent in a list.
#[derive(Debug, Serialize, Deserialize)]
pub struct AgentSummary {
    /// The agent's id.
    pub id: ExtensionId,
    /// The display name.
    pub name: String,
    /// True if it can take a turn.
    pub state: AgentStatus,
    /// The reason for the error state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<AgentError>,
    /// The skills bound to it, as the manifest names them.
    pub uses_skills: Vec<String>,
    /// The tools, and the extensions whose tools, it may call.
    pub uses_tools: Vec<String>,
    /// The estimated tokens of its instructions.
    pub tokens: u32,
}

/// An agent with the layers of its instructions.
#[derive(Debug, Serialize, Deserialize)]
pub struct AgentDetails {
    /// The entry of the list.
    #[serde(flatten)]
    pub summary: AgentSummary,
    /// The path of its manifest.
    pub manifest: PathBuf,
    /// The layers in order; empty in the error state.
    pub layers: Vec<InstructionLayer>,
    /// The names of the tools it may call.
    pub tools: Vec<String>,
    /// The model; `None` if the manifest names none.
    pub model: Option<String>,
    /// The scope of its skill catalog.
    pub catalog: AgentCatalog,
    /// The limits of one invocation.
    pub limits: AgentLimits,
}

/// The state of all extensions and of event delivery.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExtensionDiagnosis {
    /// True if no extension was rejected, every library is healthy and events are delivered.
    pub healthy: bool,
    /// The load report of the start, with later reloads.
    pub report: LoadReport,
    /// The health of each library.
    pub health: BTreeMap<ExtensionId, ExtensionHealth>,
    /// The reason why the running kernel delivers no events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<CallError>,
}

/// The health of a library, as it reports it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExtensionHealth {
    /// True if the library can work.
    pub ok: bool,
    /// The error of an unhealthy library.
    pub error: Option<CallError>,
}

impl AgentSummary {
    fn from_agent(agent: &Agent) -> Self {
        let (resolved, settings) = (agent.instructions(), agent.agent_manifest());
        Self {
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
        summaries.push(AgentSummary::from_agent(
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
        summary: AgentSummary::from_agent(&agent),
        manifest: agent.path.clone(),
        layers: agent.instructions().layers.clone(),
        tools: tools.into_iter().map(|tool| tool.spec.name).collect(),
        model: settings.model.clone(),
        catalog: settings.catalog.clone(),
        limits: settings.limits,
    })
}

pub(super) async fn diagnose_extensions(kernel: &Kernel) -> ExtensionDiagnosis {
    let health: BTreeMap<_, _> = kernel
        .extensions()
        .check_health()
        .await
        .into_iter()
        .map(|(id, result)| (id, ExtensionHealth { ok: result.is_ok(), error: result.err() }))
        .collect();
    let report = LoadReport::clone(&kernel.report());
    let delivery = kernel.delivery_problem();
    let healthy =
        report.rejected.is_empty() && delivery.is_none() && health.values().all(|health| health.ok);
    ExtensionDiagnosis { healthy, report, health, delivery }
}
