//! The agents that other agents call as tools.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use skillhost_core::{Plugin, PreparedCall};
use skillhost_manifest::Manifest;
use skillhost_payload::{CallContext, CallError, TaskSupport, ToolOutput, ToolSpec};

use super::session::RunSession;
use super::tool_spec::{new_spec, no_run_error, parse_args, shutdown_error};
use crate::agent_runtime::{AgentRuntime, WeakAgentRuntime};

#[derive(Deserialize)]
struct AliasTaskArgs {
    task: String,
}

/// The agents that other agents call as tools: each tool has the name of its agent.
struct AgentAliases {
    agents: WeakAgentRuntime,
}

/// Returns the spec of an agent with `integration_mode: tool`, which other agents call as a tool.
///
/// A run of an agent takes minutes and may ask a person: a client of the MCP server has to poll it.
pub(crate) fn agent_alias_spec(manifest: &Manifest) -> ToolSpec {
    let about = match manifest.description.as_str() {
        "" => &manifest.name,
        description => description,
    };
    let spec = new_spec(
        manifest.id.as_str(),
        &format!(
            "Delegates a task to the agent `{}` and waits for its reply. {about}",
            manifest.id
        ),
        json!({
            "type": "object",
            "properties": {"task": {
                "type": "string", "minLength": 1,
                "description": "The task, complete in itself: the agent sees no message of this \
                                thread."
            }},
            "required": ["task"],
            "additionalProperties": false
        }),
    );
    ToolSpec { task: TaskSupport::Must, ..spec }
}

/// Returns the task in the arguments of a tool that is an agent.
pub(crate) fn parse_alias_task(arguments: &str) -> Result<String, CallError> {
    parse_args(arguments).map(|AliasTaskArgs { task }| task)
}

/// Returns the plugin of the tools that are agents.
pub(crate) fn agent_alias_plugin(agents: &AgentRuntime) -> Arc<dyn Plugin> {
    Arc::new(AgentAliases { agents: agents.downgrade() })
}

#[async_trait]
impl Plugin for AgentAliases {
    async fn tools(&self, _: &CallContext) -> Result<Vec<ToolSpec>, CallError> {
        Ok(Vec::new())
    }

    async fn prepare(
        &self,
        context: &CallContext,
        _: &str,
        _: &str,
    ) -> Result<PreparedCall, CallError> {
        let agents = self.agents.upgrade().ok_or_else(shutdown_error)?;
        let plan = Box::new(agents.session_for(context));
        Ok(PreparedCall { plan: Some(plan), ..PreparedCall::default() })
    }

    /// Delegates a task to the agent that the tool is named after.
    async fn invoke(
        &self,
        context: &CallContext,
        agent_id: &str,
        arguments: &str,
        prepared: PreparedCall,
    ) -> Result<ToolOutput, CallError> {
        let agents = self.agents.upgrade().ok_or_else(shutdown_error)?;
        let session =
            prepared.plan.and_then(|plan| plan.downcast::<Option<Arc<RunSession>>>().ok());
        let session = session.and_then(|session| *session).ok_or_else(no_run_error)?;
        let task = parse_alias_task(arguments)?;
        Ok(agents.delegate(session, context, agent_id, task).await)
    }
}
