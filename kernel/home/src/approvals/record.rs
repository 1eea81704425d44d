//! One decision about an extension, and its comparison with the current files.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skillhost_files::{TreeFile, files_digest, sha256_hex};
use skillhost_manifest::{ExtensionKind, IntegrationMode, Manifest};
use skillhost_payload::ToolSpec;
use skillhost_policy::IsolationLevel;

use crate::installation::library_file_name;
use crate::timestamp::now_ms;

/// The version of the records of extensions.
pub(super) const VERSION: u32 = 1;

/// The most changed files or tools that a reason names.
const MAX_NAMED: usize = 5;

/// The kind of an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalKind {
    /// A native library.
    Library,
    /// A process that speaks the Model Context Protocol.
    Process,
    /// A declarative agent.
    Agent,
}

/// The decision of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAction {
    /// The extension may be used as it was.
    Approve,
    /// The extension may not be used any longer.
    Revoke,
}

/// The interface where a person decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalSurface {
    /// A prompt of a command at a terminal.
    Terminal,
    /// A question during an agent's run.
    Channel,
    /// An argument of a command, without a prompt.
    CommandLine,
}

/// The person or program that decided, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approver {
    /// The name, such as `operator`, or `agent builder_agent` for an approval that a person gave
    /// that agent.
    pub by: String,
    /// The interface.
    pub surface: ApprovalSurface,
}

/// A file that an approval covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovedFile {
    /// The path within the extension's directory.
    pub path: String,
    /// `755` for an executable file, else `644`.
    pub mode: String,
    /// sha256 of its bytes; hexadecimal.
    pub sha256: String,
}

/// The facts about an approved agent that are not in its texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentFacts {
    /// The tools and extensions that it may call.
    pub uses_tools: Vec<String>,
    /// The skills that it carries.
    pub uses_skills: Vec<String>,
    /// `standalone` or `tool`.
    pub integration_mode: String,
}

/// One line of the journal. Only `digest` and `tools` decide; the other fields document the
/// decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    /// The version of this format.
    pub version: u32,
    /// The extension.
    pub id: String,
    /// Its kind.
    pub kind: ApprovalKind,
    /// The decision.
    pub action: ApprovalAction,
    /// sha256 of path, mode and content of every file; see [`files_digest`].
    pub digest: String,
    /// sha256 of the library among the files; hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library_sha256: Option<String>,
    /// The files, by path.
    pub files: Vec<ApprovedFile>,
    /// The tools that it listed in its trial; absent for an agent, and for a library that requires
    /// other extensions and therefore was not queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolSpec>>,
    /// The facts about an agent; absent for other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_facts: Option<AgentFacts>,
    /// The manifest's schedules.
    #[serde(default)]
    pub schedules: Vec<Value>,
    /// The manifest's subscriptions.
    #[serde(default)]
    pub subscriptions: Vec<Value>,
    /// Tools that are offered to clients of the MCP server.
    #[serde(default)]
    pub exports: Vec<String>,
    /// Secrets that it may request.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// The isolation level of its build, trial or process at the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationLevel>,
    /// The name of the approver.
    pub approved_by: String,
    /// The interface of the decision.
    pub surface: ApprovalSurface,
    /// The time of the decision, in milliseconds since 1970.
    pub at_ms: u64,
}

impl ApprovalKind {
    /// Returns the kind of a manifest.
    #[must_use]
    pub fn of_manifest(manifest: &Manifest) -> Self {
        match manifest.kind {
            ExtensionKind::Library { .. } => Self::Library,
            ExtensionKind::Process { .. } => Self::Process,
            ExtensionKind::Agent(_) => Self::Agent,
        }
    }
}

impl fmt::Display for ApprovalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Library => "library",
            Self::Process => "process",
            Self::Agent => "agent",
        })
    }
}

impl fmt::Display for ApprovalSurface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminal => "terminal",
            Self::Channel => "channel",
            Self::CommandLine => "command line",
        })
    }
}

impl Approver {
    /// Returns the operator as the approver.
    #[must_use]
    pub fn operator(surface: ApprovalSurface) -> Self {
        Self { by: "operator".to_owned(), surface }
    }

    /// Returns a person who allowed an agent's call as the approver.
    #[must_use]
    pub fn for_agent(agent: &str) -> Self {
        Self { by: format!("agent {agent}"), surface: ApprovalSurface::Channel }
    }
}

impl ApprovalRecord {
    /// Creates an approval of exactly these files and tools.
    #[must_use]
    pub fn approve(
        manifest: &Manifest,
        files: &[TreeFile],
        tools: Option<Vec<ToolSpec>>,
        approver: &Approver,
    ) -> Self {
        let library = manifest.entrypoint().map(library_file_name);
        let library = files.iter().find(|file| Some(&file.path) == library.as_ref());
        let json = |value: serde_json::Result<Value>| value.unwrap_or_default();
        let agent_facts = manifest.agent().map(|agent| AgentFacts {
            uses_tools: agent.uses_tools.iter().map(|tool| tool.value.clone()).collect(),
            uses_skills: agent.uses_skills.iter().map(|skill| skill.value.clone()).collect(),
            integration_mode: match agent.integration_mode {
                IntegrationMode::Standalone => "standalone".to_owned(),
                IntegrationMode::Tool => "tool".to_owned(),
            },
        });
        Self {
            version: VERSION,
            id: manifest.id.to_string(),
            kind: ApprovalKind::of_manifest(manifest),
            action: ApprovalAction::Approve,
            digest: files_digest(files),
            library_sha256: library.map(|library| sha256_hex(&library.bytes)),
            files: files.iter().map(to_approved_file).collect(),
            tools,
            agent_facts,
            schedules: manifest.schedules.iter().map(|s| json(serde_json::to_value(s))).collect(),
            subscriptions: manifest
                .events
                .subscribes
                // A subscription without a handler has no effect that needs an approval.
                .iter()
                .filter(|entry| entry.handler.is_some())
                .map(|entry| json(serde_json::to_value(entry)))
                .collect(),
            exports: manifest.mcp.tools.clone(),
            secrets: manifest.secrets.clone(),
            isolation: None,
            approved_by: approver.by.clone(),
            surface: approver.surface,
            at_ms: now_ms(),
        }
    }

    /// Returns the record that revokes this approval.
    #[must_use]
    pub fn revoked(&self, approver: &Approver) -> Self {
        Self {
            action: ApprovalAction::Revoke,
            approved_by: approver.by.clone(),
            surface: approver.surface,
            at_ms: now_ms(),
            ..self.clone()
        }
    }

    /// Returns the approved sha256 of a file.
    #[must_use]
    pub fn file_sha256(&self, path: &str) -> Option<&str> {
        let file = self.files.iter().find(|file| file.path == path);
        file.map(|file| file.sha256.as_str())
    }

    /// Returns whether the record covers exactly these files.
    #[must_use]
    pub fn covers(&self, files: &[TreeFile]) -> bool {
        self.action == ApprovalAction::Approve && self.digest == files_digest(files)
    }
}

fn to_approved_file(file: &TreeFile) -> ApprovedFile {
    ApprovedFile {
        path: file.path.clone(),
        mode: if file.executable { "755" } else { "644" }.to_owned(),
        sha256: sha256_hex(&file.bytes),
    }
}

/// Lists the files that differ from the approved ones, such as `changed server.py, new more.py`.
pub fn changed_files(record: &ApprovalRecord, files: &[TreeFile]) -> String {
    let before: BTreeMap<_, _> = record.files.iter().map(|file| (&*file.path, file)).collect();
    let now: Vec<_> = files.iter().map(to_approved_file).collect();
    let mut changes = Vec::new();
    for file in &now {
        match before.get(&*file.path) {
            None => changes.push(format!("new {}", file.path)),
            Some(was) if was.sha256 != file.sha256 => {
                changes.push(format!("changed {}", file.path));
            }
            Some(was) if was.mode != file.mode => {
                changes
                    .push(format!("mode of {} was {} and is {}", file.path, was.mode, file.mode));
            }
            Some(_) => {}
        }
    }
    let is_there = |path: &str| now.iter().any(|file| file.path == path);
    let gone = record.files.iter().filter(|file| !is_there(&file.path));
    changes.extend(gone.map(|file| format!("removed {}", file.path)));
    join_changes(changes)
}

/// Lists the tools that differ from the approved ones; empty if none does. The schemas and
/// descriptions of a library may depend on its configuration, and its code was approved: only names
/// and annotations of its tools are compared.
pub fn changed_tools(record: &ApprovalRecord, tools: &[ToolSpec]) -> String {
    let Some(approved) = &record.tools else { return String::new() };
    let before: BTreeMap<_, _> = approved.iter().map(|spec| (&*spec.name, spec)).collect();
    let compare_all = record.kind == ApprovalKind::Process;
    let mut changes = Vec::new();
    for spec in tools {
        let Some(was) = before.get(&*spec.name) else {
            changes.push(format!("`{}` is new", spec.name));
            continue;
        };
        let same_annotations = was.read_only == spec.read_only
            && was.destructive == spec.destructive
            && was.needs_approval == spec.needs_approval
            && was.audience == spec.audience
            // Records of earlier kernels have no effect.
            && was.effect.is_none_or(|was| was == spec.call_effect());
        if !same_annotations {
            changes.push(format!("`{}` has other annotations", spec.name));
        } else if compare_all && was.description != spec.description {
            changes.push(format!("`{}` has another description", spec.name));
        } else if compare_all
            && (was.input_schema != spec.input_schema || was.output_schema != spec.output_schema)
        {
            changes.push(format!("`{}` has another schema", spec.name));
        }
    }
    let is_there = |name: &str| tools.iter().any(|spec| spec.name == name);
    let gone = approved.iter().filter(|spec| !is_there(&spec.name));
    changes.extend(gone.map(|spec| format!("`{}` is gone", spec.name)));
    join_changes(changes)
}

fn join_changes(mut changes: Vec<String>) -> String {
    let more = changes.len().saturating_sub(MAX_NAMED);
    changes.truncate(MAX_NAMED);
    let text = changes.join(", ");
    if more == 0 { text } else { format!("{text} and {more} more") }
}
