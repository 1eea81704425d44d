//! The kernel's own tools, by which agents work with other agents and with the kernel.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use skillhost_core::{BuildPlan, KernelError, NamedObject, Plugin, PreparedCall, ToolTable};
use skillhost_home::KERNEL_OWNER;
use skillhost_manifest::ExtensionId;
use skillhost_payload::{ApprovalPolicy, CallContext, CallError, ToolOutput, ToolSpec};

use super::create_agent::AgentPlan;
use super::parked_calls::DELEGATE;
use super::session::RunSession;
use super::tool_spec::{new_spec, no_run_error, parse_args, shutdown_error, text_output};
use super::{
    build_extension, configure_extension, extensions_doctor, request_restart, request_secure_input,
};
use crate::agent_runtime::{AgentRuntime, WeakAgentRuntime};

/// The length limit of a description in a list, in characters.
const DESCRIPTION: usize = 200;

const LIST: &str = "list_agents";
const CREATE: &str = "create_agent";

/// Returns the specs of the kernel's tools.
fn kernel_tool_specs() -> Vec<ToolSpec> {
    let text =
        |description: &str| json!({"type": "string", "minLength": 1, "description": description});
    let list = |description: &str| json!({"type": "array", "items": {"type": "string"}, "description": description});
    vec![
        new_spec(
            LIST,
            "Lists the other agents: the purpose, skills and state of each.",
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
        )
        .into_read_only(),
        new_spec(
            DELEGATE,
            "Delegates a task to another agent and waits for its reply. The agent sees no message of \
             this thread: include everything that it needs.",
            json!({
                "type": "object",
                "properties": {
                    "agent_id": text("The agent, as list_agents names it."),
                    "task": text("The task, complete in itself.")
                },
                "required": ["agent_id", "task"],
                "additionalProperties": false
            }),
        ),
        ToolSpec {
            needs_approval: ApprovalPolicy::Always,
            ..new_spec(
                CREATE,
                "Creates a new agent, which can then be given tasks with delegate_task. Asks for approval \
                 first. The new agent can have only tools that you have.",
                json!({
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,63}$",
                               "description": "A new id, such as release_notes_agent."},
                        "name": text("The name for people, on one line."),
                        "description": text("The agent's purpose, in a sentence or two."),
                        "instructions": text("The agent's instructions."),
                        "uses_tools": list("The names of its tools."),
                        "uses_skills": list("The ids of the skills that it always carries.")
                    },
                    "required": ["id", "name", "description", "instructions"],
                    "additionalProperties": false
                }),
            )
        },
        request_restart::tool_spec(),
        extensions_doctor::tool_spec(),
        configure_extension::tool_spec(),
        request_secure_input::tool_spec(),
        super::build_extension::tool_spec(),
    ]
}

trait ReadOnlySpec {
    fn into_read_only(self) -> Self;
}

impl ReadOnlySpec for ToolSpec {
    fn into_read_only(self) -> Self {
        Self { read_only: true, ..self }
    }
}

#[derive(Deserialize)]
struct DelegateTaskArgs {
    agent_id: String,
    task: String,
}

/// A call of one of the kernel's tools, as prepared before its approval.
struct KernelCall {
    /// The run that made the call.
    session: Option<Arc<RunSession>>,
    work: PlannedWork,
}

/// The planned work of a call, shown with its approval.
enum PlannedWork {
    /// Given by the arguments alone.
    None,
    Build(Box<BuildPlan>),
    Agent(Box<AgentPlan>),
}

impl PlannedWork {
    fn details(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Build(plan) => Some(plan.details.clone()),
            Self::Agent(plan) => Some(plan.details.clone()),
        }
    }
}

/// The kernel's own tools.
struct KernelTools {
    agents: WeakAgentRuntime,
}

/// Returns the table of the kernel's own tools.
pub fn kernel_tool_table(agents: &AgentRuntime) -> ToolTable {
    let owner = ExtensionId::new(KERNEL_OWNER).expect("the id is valid");
    let plugin: Arc<dyn Plugin> = Arc::new(KernelTools { agents: agents.downgrade() });
    let mut table = ToolTable::default();
    let added = table.add_builtin(&owner, &plugin, &kernel_tool_specs());
    added.expect("the kernel's tools have valid names and schemas");
    table
}

#[async_trait]
impl Plugin for KernelTools {
    async fn tools(&self, _: &CallContext) -> Result<Vec<ToolSpec>, CallError> {
        Ok(kernel_tool_specs())
    }

    async fn prepare(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<PreparedCall, CallError> {
        let agents = self.agents.upgrade().ok_or_else(shutdown_error)?;
        let session = agents.session_for(context);
        let work = match name {
            build_extension::NAME => {
                PlannedWork::Build(Box::new(agents.plan_from_args(arguments).await?))
            }
            CREATE => {
                let session = session.as_ref().ok_or_else(no_run_error)?;
                let new = parse_args(arguments)?;
                PlannedWork::Agent(Box::new(agents.plan_agent(session, context, new).await?))
            }
            _ => PlannedWork::None,
        };
        let details = work.details();
        let plan = Box::new(KernelCall { session, work });
        Ok(PreparedCall { details, plan: Some(plan), ..PreparedCall::default() })
    }

    async fn invoke(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &str,
        prepared: PreparedCall,
    ) -> Result<ToolOutput, CallError> {
        let agents = self.agents.upgrade().ok_or_else(shutdown_error)?;
        let call = prepared.plan.and_then(|plan| plan.downcast::<KernelCall>().ok());
        let KernelCall { session, work } = *call.ok_or_else(no_run_error)?;
        match work {
            PlannedWork::Build(plan) => agents.build_for_agent(context, *plan).await,
            PlannedWork::Agent(plan) => {
                let session = session.ok_or_else(no_run_error)?;
                Ok(text_output(agents.create_agent(&session.agent, *plan).await?))
            }
            PlannedWork::None => agents.call_kernel_tool(session, context, name, arguments).await,
        }
    }
}

impl AgentRuntime {
    /// Executes a tool whose arguments are all of its work, on behalf of a run.
    async fn call_kernel_tool(
        &self,
        session: Option<Arc<RunSession>>,
        context: &CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<ToolOutput, CallError> {
        let session = session.ok_or_else(no_run_error)?;
        match name {
            LIST => Ok(text_output(self.describe_agents(&session))),
            DELEGATE => {
                let DelegateTaskArgs { agent_id, task } = parse_args(arguments)?;
                Ok(self.delegate(session, context, &agent_id, task).await)
            }
            request_restart::NAME => Ok(text_output(
                self.request_restart_from_run(&session, parse_args(arguments)?).await?,
            )),
            extensions_doctor::NAME => Ok(text_output(self.extensions_doctor().await)),
            configure_extension::NAME => {
                let change = parse_args(arguments)?;
                Ok(text_output(self.configure_extension(&session, context.call_id, change).await?))
            }
            request_secure_input::NAME => {
                let input = parse_args(arguments)?;
                Ok(text_output(self.request_secure_input(&session, context.call_id, input).await?))
            }
            other => Err(KernelError::NotFound {
                what: NamedObject::Tool,
                id: other.to_owned(),
                similar: Vec::new(),
            }
            .into()),
        }
    }

    fn describe_agents(&self, session: &RunSession) -> String {
        let mut lines = Vec::new();
        for agent in self.list_agents() {
            let (manifest, resolved) = (&agent.manifest, agent.instructions());
            // A run cannot delegate to its own agent.
            if manifest.id == session.agent {
                continue;
            }
            let state = match &resolved.problem {
                Some(_) => "in the error state",
                None if session.delegation_chain.is_busy(&manifest.id) => "busy",
                None => "free",
            };
            let skills: Vec<_> =
                agent.agent_manifest().uses_skills.iter().map(|skill| skill.as_str()).collect();
            let skills = match skills.as_slice() {
                [] => String::new(),
                ids => format!(" Skills: {}.", ids.join(", ")),
            };
            // Agents can be created by agents, so their descriptions are kept on one line.
            let about: Vec<_> = manifest.description.split_whitespace().collect();
            let about = skillhost_core::mistakes::truncate(&about.join(" "), DESCRIPTION);
            lines.push(format!("- {} ({state}): {}. {about}{skills}", manifest.id, manifest.name));
        }
        match lines.as_slice() {
            [] => "There are no other agents.".to_owned(),
            lines => lines.join("\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skillhost_core::schema_error;

    #[test]
    fn kernel_tools_have_valid_schemas() {
        for spec in kernel_tool_specs() {
            assert_eq!(schema_error(&spec), None, "{}", spec.name);
        }
    }
}
