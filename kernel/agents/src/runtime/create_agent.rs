//! The tool by which an agent creates another one: a manifest in `sandbox/extensions`, loaded at
//! once.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use skillhost_control::{LoadReport, LoadedAgent};
use skillhost_core::mistakes::did_you_mean;
use skillhost_core::{Agent, KernelState, spawn_blocking};
use skillhost_files::{TreeFile, write_atomically};
use skillhost_home::{
    ApprovalDetails, ApprovalRecord, Approvals, Approver, DiscoveredManifest, Home, MANIFEST,
    PrivateDirectory, RESERVED_IDS, approval_details, copies_of,
};
use skillhost_manifest::{ExtensionId, Manifest};
use skillhost_payload::{CallContext, CallError, ErrorKind};

use super::session::RunSession;
use crate::agent_runtime::AgentRuntime;

/// The arguments of the tool: the new agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateAgentArgs {
    id: String,
    name: String,
    description: String,
    instructions: String,
    #[serde(default)]
    uses_tools: Vec<String>,
    #[serde(default)]
    uses_skills: Vec<String>,
}

#[derive(Serialize)]
struct AgentManifestYaml<'a> {
    id: &'a str,
    name: &'a str,
    description: &'a str,
    agent: AgentSectionYaml<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    depends_on: Vec<String>,
}

#[derive(Serialize)]
struct AgentSectionYaml<'a> {
    instructions: &'a str,
    uses_tools: &'a [String],
    uses_skills: &'a [String],
}

/// An agent that may be created: the approved text is the one that is written.
pub(super) struct AgentPlan {
    id: ExtensionId,
    manifest: Manifest,
    files: Vec<TreeFile>,
    /// The text for the approval. Untrusted.
    pub(super) details: String,
}

impl AgentRuntime {
    /// Validates a new agent before its approval is requested; writes no file.
    pub(super) async fn plan_agent(
        &self,
        session: &RunSession,
        context: &CallContext,
        new: CreateAgentArgs,
    ) -> Result<AgentPlan, CallError> {
        let id =
            ExtensionId::new(&new.id).map_err(|error| invalid_agent_error(error.to_string()))?;
        let creator = self.refresh_agent(session.agent.as_str()).await?;
        self.check_tools(&creator, context, &new.uses_tools).await?;
        let state = self.extensions().state();
        self.check_free(&state, &id)?;
        let provider = self.skill_provider(&creator.manifest).map(|p| p.manifest.id.clone());
        let provider = provider.filter(|_| !new.uses_skills.is_empty());
        let text = manifest_text(&new, provider.as_ref())?;
        let manifest = skillhost_manifest::parse_manifest(&text).map_err(|errors| {
            let lines: Vec<_> = errors.iter().map(|error| error.kind.to_string()).collect();
            invalid_agent_error(lines.join("\n"))
        })?;
        let path = self.extensions().home().extensions_dir().join(id.as_str()).join(MANIFEST);
        let found = DiscoveredManifest::of_sandbox(manifest.clone(), path, &text);
        let resolved = self.resolve(&state, &found).await;
        if let Some(problem) = &resolved.problem {
            // The position refers to a file that does not exist yet.
            let reason =
                problem.reason.rsplit_once("uses_").map_or(&*problem.reason, |(_, end)| end);
            return Err(
                invalid_agent_error(format!("uses_{reason}")).with_hint(problem.hint.clone())
            );
        }
        let file =
            TreeFile { path: MANIFEST.to_owned(), bytes: text.into_bytes(), executable: false };
        let files = vec![file];
        // Text that a person cannot see cannot be approved.
        let ApprovalDetails { text: details, hidden } = approval_details(&manifest, &files, &[]);
        match hidden.as_slice() {
            [] => Ok(AgentPlan { id, manifest, files, details }),
            hidden => Err(invalid_agent_error(hidden.join("\n"))),
        }
    }

    /// Writes, approves and loads an agent with a person's approval.
    pub(super) async fn create_agent(
        &self,
        creator: &ExtensionId,
        plan: AgentPlan,
    ) -> Result<String, CallError> {
        let AgentPlan { id, manifest, files, .. } = plan;
        // The id is checked again below, as another change may have run during the approval.
        let _alone = self.extensions().lock_changes().await;
        let state = self.extensions().state();
        self.check_free(&state, &id)?;
        let directory = self.extensions().home().extensions_dir().join(id.as_str());
        let approver = Approver::for_agent(creator.as_str());
        let record = ApprovalRecord::approve(&manifest, &files, None, &approver);
        let path = directory.join(MANIFEST);
        let text = String::from_utf8_lossy(&files[0].bytes).into_owned();
        let home = self.extensions().home().clone();
        let storing = {
            let (id, manifest, record) = (id.clone(), manifest.clone(), record.clone());
            spawn_blocking(move || store_agent(&home, &id, &manifest, &files, &record))
        };
        let found = DiscoveredManifest {
            copy: Some(Arc::new(storing.await??)),
            approval: Some(Arc::new(record)),
            ..DiscoveredManifest::of_sandbox(manifest, path, &text)
        };
        let resolved = self.resolve(&state, &found).await;
        let mut next = KernelState::clone(&state);
        let mut report = LoadReport::clone(&state.report);
        report.agents.push(LoadedAgent { id: id.clone(), name: found.manifest.name.clone() });
        next.agents.insert(id.clone(), Arc::new(Agent::new(&found, resolved)));
        let mut added = BTreeSet::clone(&next.added);
        added.insert(id.clone());
        next.added = Arc::new(added);
        next.report = Arc::new(report);
        self.extensions().replace_state(next);
        Ok(format!("Agent `{id}` is loaded. Give it a task with delegate_task."))
    }

    fn check_free(&self, state: &KernelState, id: &ExtensionId) -> Result<(), CallError> {
        let directory = self.extensions().home().extensions_dir().join(id.as_str());
        // A directory without a manifest also holds its id: its files belong to someone else.
        match self.is_taken(state, id) || fs::symlink_metadata(&directory).is_ok() {
            false => Ok(()),
            true => {
                Err(CallError::new(ErrorKind::Conflict, format!("id `{id}` is already in use"))
                    .with_hint("choose another id, or delegate the task to the agent that has it"))
            }
        }
    }

    /// Rejects tools that the creator itself does not have: an agent cannot extend its own rights.
    async fn check_tools(
        &self,
        creator: &Agent,
        context: &CallContext,
        tool_names: &[String],
    ) -> Result<(), CallError> {
        let (tools, _) = self.list_agent_tools(creator, context).await;
        let names: BTreeSet<_> = tools.iter().map(|tool| tool.spec.name.as_str()).collect();
        let unknown = tool_names.iter().filter(|name| !names.contains(name.as_str()));
        let lines: Vec<_> = unknown
            .map(|name| {
                let name = skillhost_core::mistakes::truncate(name, 100);
                let meant = did_you_mean(&name, names.iter().copied());
                format!("uses_tools: tool `{name}` is not available to you{meant}")
            })
            .collect();
        match lines.as_slice() {
            [] => Ok(()),
            lines => Err(invalid_agent_error(lines.join("\n"))
                .with_hint("list only tools that you have yourself")),
        }
    }

    fn is_taken(&self, state: &KernelState, id: &ExtensionId) -> bool {
        let rejected = |rejection: &skillhost_home::LoadRejection| rejection.id == id.as_str();
        RESERVED_IDS.contains(&id.as_str())
            || state.agents.contains_key(id)
            || state.instances.contains_key(id)
            || state.report.disabled.contains(id)
            || state.report.rejected.iter().any(rejected)
            || state.tools.usable_names().contains(id.as_str())
    }
}

fn manifest_text(
    new: &CreateAgentArgs,
    provider: Option<&ExtensionId>,
) -> Result<String, CallError> {
    let manifest = AgentManifestYaml {
        id: &new.id,
        name: &new.name,
        description: &new.description,
        agent: AgentSectionYaml {
            instructions: &new.instructions,
            uses_tools: &new.uses_tools,
            uses_skills: &new.uses_skills,
        },
        depends_on: provider.into_iter().map(ToString::to_string).collect(),
    };
    serde_yaml::to_string(&manifest).map_err(|error| invalid_agent_error(error.to_string()))
}

fn invalid_agent_error(message: String) -> CallError {
    CallError::new(ErrorKind::InvalidArgument, message)
}

/// Writes the manifest, a private copy of it and the approval. Without an approval no file stays.
fn store_agent(
    home: &Home,
    id: &ExtensionId,
    manifest: &Manifest,
    files: &[TreeFile],
    record: &ApprovalRecord,
) -> Result<PrivateDirectory, CallError> {
    let directory = home.extensions_dir().join(id.as_str());
    let path = directory.join(MANIFEST);
    let written = fs::create_dir_all(&directory)
        .and_then(|()| write_atomically(&path, &files[0].bytes))
        .map_err(|error| write_error(id, &error));
    let written = written.and_then(|()| {
        // The copy keeps the approved bytes, whichever program changes the directory later.
        let copy = PrivateDirectory::with_files(files, &copies_of(home, manifest))
            .map_err(|error| CallError::new(ErrorKind::Io, error.to_string()))?;
        Approvals::append(home, record).map_err(|error| {
            CallError::new(ErrorKind::Io, error.to_string()).with_hint(error.hint())
        })?;
        Ok(copy)
    });
    written.inspect_err(|_| {
        // Without an approval the file is inactive; if it cannot be removed, it waits for one.
        let _ = fs::remove_file(&path).and_then(|()| fs::remove_dir(&directory));
    })
}

fn write_error(id: &ExtensionId, error: &io::Error) -> CallError {
    CallError::new(ErrorKind::Io, format!("manifest of `{id}` could not be written: {error}"))
}
