//! The kernel's own tools, by which agents work with other agents and with the kernel.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use skillhost_home::KERNEL_OWNER;
use skillhost_manifest::{ExtensionId, Manifest};
use skillhost_payload::{
    ApprovalPolicy, CallContext, CallError, ErrorKind, ToolAudience, ToolOutput, ToolSpec,
};

use super::session::RunSession;
use super::{configure_extension, extensions_doctor, request_restart, request_secure_input};
use crate::error::KernelError;
use crate::kernel::Kernel;

/// The length limit of a description in a list, in characters.
const DESCRIPTION: usize = 200;

const LIST: &str = "list_agents";
const DELEGATE: &str = "delegate_task";
pub(super) const CREATE: &str = "create_agent";

/// Returns the owner of the kernel's tools, as named in `uses_tools`.
pub(crate) fn kernel_tools_owner() -> ExtensionId {
    ExtensionId::new(KERNEL_OWNER).expect("the id is valid")
}

/// Returns the specs of the kernel's tools.
pub(crate) fn kernel_tool_specs() -> Vec<ToolSpec> {
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

/// Returns the spec of an agent with `integration_mode: tool`, which other agents call as a tool.
pub(crate) fn agent_alias_spec(manifest: &Manifest) -> ToolSpec {
    let about = match manifest.description.as_str() {
        "" => &manifest.name,
        description => description,
    };
    new_spec(
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
    )
}

pub(super) fn new_spec(name: &str, description: &str, input_schema: serde_json::Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema,
        output_schema: None,
        read_only: false,
        destructive: false,
        needs_approval: ApprovalPolicy::Never,
        audience: ToolAudience::Agent,
    }
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

#[derive(Deserialize)]
struct AliasTaskArgs {
    task: String,
}

impl Kernel {
    /// Executes one of the kernel's tools on behalf of a run.
    pub(super) async fn call_kernel_tool(
        &self,
        session: Option<Arc<RunSession>>,
        context: &CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<ToolOutput, KernelError> {
        let session = session.ok_or_else(no_run_error)?;
        match name {
            LIST => Ok(text_output(self.list_agents(&session))),
            DELEGATE => {
                let DelegateTaskArgs { agent_id, task } = parse_args(arguments)?;
                Ok(self.delegate(session, context, &agent_id, task).await)
            }
            request_restart::NAME => Ok(text_output(
                self.request_restart_from_run(&session, parse_args(arguments)?).await?,
            )),
            extensions_doctor::NAME => Ok(text_output(self.extensions_doctor().await)),
            configure_extension::NAME => {
                Ok(text_output(self.configure_extension(parse_args(arguments)?).await?))
            }
            request_secure_input::NAME => {
                Ok(text_output(self.request_secure_input(&session, parse_args(arguments)?).await?))
            }
            other => Err(KernelError::NotFound {
                what: "tool",
                id: other.to_owned(),
                similar: Vec::new(),
            }),
        }
    }

    /// Delegates a task to the agent that a tool is named after.
    pub(super) async fn call_alias(
        &self,
        session: Option<Arc<RunSession>>,
        context: &CallContext,
        agent_id: &str,
        arguments: &str,
    ) -> Result<ToolOutput, KernelError> {
        let session = session.ok_or_else(no_run_error)?;
        let AliasTaskArgs { task } = parse_args(arguments)?;
        Ok(self.delegate(session, context, agent_id, task).await)
    }

    fn list_agents(&self, session: &RunSession) -> String {
        let mut lines = Vec::new();
        for agent in self.agents() {
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
            let about = super::arguments::truncate(&about.join(" "), DESCRIPTION);
            lines.push(format!("- {} ({state}): {}. {about}{skills}", manifest.id, manifest.name));
        }
        match lines.as_slice() {
            [] => "There are no other agents.".to_owned(),
            lines => lines.join("\n"),
        }
    }
}

pub(super) fn text_output(text: String) -> ToolOutput {
    ToolOutput { text, structured: None, is_error: false, skill: None }
}

pub(super) fn no_run_error() -> CallError {
    CallError::new(ErrorKind::Unavailable, "tool requires a running agent")
}

pub(super) fn parse_args<T: DeserializeOwned>(arguments: &str) -> Result<T, CallError> {
    serde_json::from_str(arguments)
        .map_err(|error| CallError::new(ErrorKind::InvalidArgument, format!("arguments: {error}")))
}
