//! The report of a kernel's start.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use skillhost_home::{DiscoveredManifest, LoadRejection};
use skillhost_manifest::{ExtensionId, ScheduleAction};
use skillhost_payload::ToolSpec;
use skillhost_sandbox::IsolationReport;

/// The durations of the steps of opening a library.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct LoadTimings {
    /// The private copy, in microseconds.
    pub copy_us: u64,
    /// The header check, in microseconds.
    pub elf_us: u64,
    /// The optional sha256, in microseconds; 0 without a pin in the manifest.
    pub sha256_us: u64,
    /// dlopen, version probe and layout check, in microseconds.
    pub open_us: u64,
}

impl LoadTimings {
    /// Returns the duration of all steps, in microseconds.
    #[must_use]
    pub fn total_us(self) -> u64 {
        self.copy_us + self.elf_us + self.sha256_us + self.open_us
    }
}

/// A loaded library, or a running process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadedExtension {
    /// Its id.
    pub id: ExtensionId,
    /// The name for people.
    pub name: String,
    /// The version of the build, as reported by it.
    pub version: String,
    /// The file of the library or of the program.
    pub library: PathBuf,
    /// Its code is part of the program.
    #[serde(default)]
    pub bundled: bool,
    /// The isolation of a process extension; the level is `none` if it is not contained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationReport>,
    /// The command of a process extension as its manifest has it; empty for a library.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Names of its tools.
    pub tools: Vec<String>,
    /// Its priority in the context chain.
    pub context_priority: Option<i32>,
    /// It has a background service.
    pub service: bool,
    /// Its other interfaces, such as `skill`.
    pub interfaces: Vec<String>,
    /// The durations of the steps of opening it.
    pub timings: LoadTimings,
}

/// An agent with resolved instructions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadedAgent {
    /// Its id.
    pub id: ExtensionId,
    /// The name for people.
    pub name: String,
}

/// The report of a kernel's start. A failed extension never stops the others.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LoadReport {
    /// Libraries and processes in use, in load order.
    pub loaded: Vec<LoadedExtension>,
    /// Agents in use, in load order.
    pub agents: Vec<LoadedAgent>,
    /// Extensions and agents that could not be loaded.
    pub rejected: Vec<LoadRejection>,
    /// The known tools of rejected extensions, with the ids of their owners.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rejected_tools: BTreeMap<String, String>,
    /// The extensions that their manifests disable.
    pub disabled: Vec<ExtensionId>,
    /// Notes without an error.
    pub notes: Vec<String>,
}

impl LoadReport {
    /// Records the tools of an extension that is rejected after it has listed them.
    pub fn note_rejected_tools(&mut self, id: &ExtensionId, specs: &[ToolSpec]) {
        let names = specs.iter().map(|spec| (spec.name.clone(), id.to_string()));
        self.rejected_tools.extend(names);
    }

    /// Records the tools that the manifests of rejected extensions name.
    pub fn note_declared_tools(&mut self, manifests: &BTreeMap<ExtensionId, DiscoveredManifest>) {
        for rejection in &self.rejected {
            let Some(found) = manifests.get(rejection.id.as_str()) else { continue };
            let manifest = &found.manifest;
            let scheduled = manifest.schedules.iter().filter_map(|it| match &it.action {
                ScheduleAction::Tool { name, .. } => Some(name),
                ScheduleAction::Task(_) | ScheduleAction::Prompt(_) => None,
            });
            let named = manifest.mcp.tools.iter().chain(manifest.tools.rename.values());
            for name in named.chain(scheduled) {
                let id = || rejection.id.clone();
                self.rejected_tools.entry(name.clone()).or_insert_with(id);
            }
        }
    }
}
