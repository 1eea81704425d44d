//! What a kernel says about itself: tools, agents, its state.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use skillhost_manifest::{AgentCatalog, AgentLimits, ExtensionId};

use crate::agents::{Agent, AgentError, InstructionLayer};
use crate::error::{CallError, KernelError};
use crate::kernel::Kernel;
use crate::report::LoadReport;
use crate::tools::OwnedTool;

/// Tools, and what did not list its own.
#[derive(Debug, Serialize, Deserialize)]
pub struct ToolListing {
    /// By name.
    pub tools: Vec<OwnedTool>,
    /// Extensions whose tools are missing.
    pub failed: Vec<FailedListing>,
}

/// An extension that did not list its tools.
#[derive(Debug, Serialize, Deserialize)]
pub struct FailedListing {
    /// The extension.
    pub extension: ExtensionId,
    /// What it answered.
    pub error: CallError,
}

/// Whether an agent can take a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    /// Its instructions are in place.
    Ready,
    /// They are not; see the problem.
    Error,
}

/// An agent on one line.
#[derive(Debug, Serialize, Deserialize)]
pub struct AgentSummary {
    /// Its id.
    pub id: ExtensionId,
    /// The name for people.
    pub name: String,
    /// Whether it can take a turn.
    pub state: AgentStatus,
    /// Why it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<AgentError>,
    /// Skills bound to it, as the manifest names them.
    pub uses_skills: Vec<String>,
    /// Tools, and extensions whose tools, it may call.
    pub uses_tools: Vec<String>,
    /// Estimated tokens of its instructions.
    pub tokens: u32,
}

/// An agent with the layers of its instructions.
#[derive(Debug, Serialize, Deserialize)]
pub struct AgentDetails {
    /// What a list shows.
    #[serde(flatten)]
    pub summary: AgentSummary,
    /// Its manifest's file.
    pub manifest: PathBuf,
    /// The layers in order; empty in the error state.
    pub layers: Vec<InstructionLayer>,
    /// Names of the tools it may call.
    pub tools: Vec<String>,
    /// The model, where the manifest names one.
    pub model: Option<String>,
    /// Which skills its catalog lists.
    pub catalog: AgentCatalog,
    /// What one invocation may use up.
    pub limits: AgentLimits,
}

/// What is loaded, and whether it can work.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExtensionDiagnosis {
    /// Whether nothing was rejected, every library is well and events are delivered.
    pub healthy: bool,
    /// What happened at the start, and since then at reloads.
    pub report: LoadReport,
    /// What each library says about itself.
    pub health: BTreeMap<ExtensionId, ExtensionHealth>,
    /// Why the running kernel does not deliver events just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<CallError>,
}

/// What a library says about itself.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExtensionHealth {
    /// Whether it can do its work.
    pub ok: bool,
    /// Why it cannot.
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
    let (tools, failed) = kernel.list_tools(agent).await?;
    let failed = failed.into_iter().map(|(extension, error)| FailedListing { extension, error });
    Ok(ToolListing { tools, failed: failed.collect() })
}

pub(super) async fn list_agents(kernel: &Kernel) -> Result<Vec<AgentSummary>, KernelError> {
    let mut summaries = Vec::new();
    for agent in kernel.agents() {
        summaries.push(AgentSummary::from_agent(
            &*kernel.refresh_agent(agent.manifest.id.as_str()).await?,
        ));
    }
    Ok(summaries)
}

pub(super) async fn describe_agent(kernel: &Kernel, id: &str) -> Result<AgentDetails, KernelError> {
    let agent = kernel.refresh_agent(id).await?;
    let (tools, _) = kernel.list_tools(Some(id)).await?;
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

pub(super) async fn diagnose(kernel: &Kernel) -> ExtensionDiagnosis {
    let health: BTreeMap<_, _> = kernel
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
