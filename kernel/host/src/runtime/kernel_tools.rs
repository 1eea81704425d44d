//! The kernel's own tools: what agents can do with agents.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use skillhost_contract::payload::{
    ApprovalPolicy, CallContext, ErrorKind, ToolAudience, ToolOutput, ToolSpec,
};
use skillhost_manifest::{ExtensionId, Manifest};

use super::session::RunSession;
use super::{configure_extension, extensions_doctor, request_restart, request_secure_input};
use crate::error::{CallError, KernelError};
use crate::kernel::Kernel;

/// The owner's id; no extension may have it.
pub(crate) const OWNER: &str = "kernel";

/// Characters of a description that a list shows.
const DESCRIPTION: usize = 200;

const LIST: &str = "list_agents";
const DELEGATE: &str = "delegate_task";
pub(super) const CREATE: &str = "create_agent";

/// The owner of the kernel's tools, as `uses_tools` names it.
pub(crate) fn kernel_tools_owner() -> ExtensionId {
    ExtensionId::new(OWNER).expect("the id is valid")
}

/// The kernel's tools.
pub(crate) fn kernel_tool_specs() -> Vec<ToolSpec> {
    let text =
        |description: &str| json!({"type": "string", "minLength": 1, "description": description});
    let list = |description: &str| json!({"type": "array", "items": {"type": "string"}, "description": description});
    vec![
        new_spec(
            LIST,
            "Lists the other agents: what each is for, which skills it has, and whether it is free.",
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
        )
        .into_read_only(),
        new_spec(
            DELEGATE,
            "Hands a task to another agent and waits for its answer. The agent sees nothing of this \
             conversation: say everything that it needs to know.",
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
                "Creates a new agent, which can then be given tasks with delegate_task. Asks a person \
                 first. The new agent can have only tools that you have.",
                json!({
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,63}$",
                               "description": "A new id, such as release_notes_agent."},
                        "name": text("The name for people, on one line."),
                        "description": text("What the agent is for, in a sentence or two."),
                        "instructions": text("What the agent is told about its work."),
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

/// The tool that an agent with `integration_mode: tool` is to other agents.
pub(crate) fn agent_alias_spec(manifest: &Manifest) -> ToolSpec {
    let about = match manifest.description.as_str() {
        "" => &manifest.name,
        description => description,
    };
    new_spec(
        manifest.id.as_str(),
        &format!("Hands a task to the agent `{}` and waits for its answer. {about}", manifest.id),
        json!({
            "type": "object",
            "properties": {"task": {
                "type": "string", "minLength": 1,
                "description": "The task, complete in itself: the agent sees nothing of this \
                                conversation."
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
    /// Does what one of the kernel's tools is for, on behalf of a run.
    pub(super) async fn call_kernel_tool(
        &self,
        session: Option<Arc<RunSession>>,
        context: &CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<ToolOutput, KernelError> {
        let session = session.ok_or_else(no_run_error)?;
        match name {
            LIST => Ok(text(self.list_agents(&session))),
            DELEGATE => {
                let DelegateTaskArgs { agent_id, task } = read(arguments)?;
                Ok(self.delegate(session, context, &agent_id, task).await)
            }
            request_restart::NAME => {
                Ok(text(self.request_restart_from_run(&session, read(arguments)?).await?))
            }
            extensions_doctor::NAME => Ok(text(self.extensions_doctor().await)),
            configure_extension::NAME => {
                Ok(text(self.configure_extension(read(arguments)?).await?))
            }
            request_secure_input::NAME => {
                Ok(text(self.request_secure_input(&session, read(arguments)?).await?))
            }
            other => Err(KernelError::NotFound {
                what: "tool",
                id: other.to_owned(),
                similar: Vec::new(),
            }),
        }
    }

    /// Hands a task to the agent whose name the tool has.
    pub(super) async fn call_alias(
        &self,
        session: Option<Arc<RunSession>>,
        context: &CallContext,
        agent_id: &str,
        arguments: &str,
    ) -> Result<ToolOutput, KernelError> {
        let session = session.ok_or_else(no_run_error)?;
        let AliasTaskArgs { task } = read(arguments)?;
        Ok(self.delegate(session, context, agent_id, task).await)
    }

    fn list_agents(&self, session: &RunSession) -> String {
        let mut lines = Vec::new();
        for agent in self.agents() {
            let (manifest, resolved) = (&agent.manifest, agent.instructions());
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
            // Agents can be made by agents, so what they say of themselves stays on one line.
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

pub(super) fn text(text: String) -> ToolOutput {
    ToolOutput { text, structured: None, is_error: false, skill: None }
}

pub(super) fn no_run_error() -> CallError {
    CallError::new(ErrorKind::Unavailable, "only an agent that runs can call this tool")
}

pub(super) fn read<T: DeserializeOwned>(arguments: &str) -> Result<T, CallError> {
    serde_json::from_str(arguments)
        .map_err(|error| CallError::new(ErrorKind::InvalidArgument, format!("arguments: {error}")))
}
