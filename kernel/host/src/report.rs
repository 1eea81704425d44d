//! The report of a kernel's start.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use skillhost_home::{DiscoveredManifest, LoadRejection};
use skillhost_manifest::{ExtensionId, ScheduleAction};
use skillhost_payload::{CallError, ErrorKind, ToolSpec};

use crate::error::KernelError;
use crate::loader::LoadTimings;

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
    pub(crate) fn note_rejected_tools(&mut self, id: &ExtensionId, specs: &[ToolSpec]) {
        let names = specs.iter().map(|spec| (spec.name.clone(), id.to_string()));
        self.rejected_tools.extend(names);
    }

    /// Records the tools that the manifests of rejected extensions name.
    pub(crate) fn note_declared_tools(
        &mut self,
        manifests: &BTreeMap<ExtensionId, DiscoveredManifest>,
    ) {
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

    /// Returns the rejection of the extension that a tool belongs to.
    pub(crate) fn rejected_owner(&self, tool: &str) -> Option<&LoadRejection> {
        let owner = self.rejected_tools.get(tool)?;
        self.rejected.iter().find(|rejection| rejection.id == *owner)
    }

    /// Adds the rejection of its extension to the error of a missing tool.
    pub(crate) fn explain_tool(&self, tool: &str, error: KernelError) -> KernelError {
        if !matches!(error, KernelError::NotFound { .. }) {
            return error;
        }
        if let Some(LoadRejection { id, phase, reason, hint, .. }) = self.rejected_owner(tool) {
            let reason = reason.lines().next().unwrap_or_default();
            let message = format!(
                "tool `{tool}` is not available: its extension `{id}` was rejected in phase \
                 {phase}: {reason}"
            );
            let error = CallError::new(ErrorKind::NotFound, message).with_hint(hint.clone());
            return error.with_extra_hint("see: skillhost ext doctor").into();
        }
        // Tools of an extension that was rejected before it listed them are unknown; only their
        // prefix can match.
        let word = |id: &str| id.replace('-', "_");
        let likely = self.rejected.iter().find(|rejection| {
            let id = word(&rejection.id);
            word(tool)
                .strip_prefix(&id)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        });
        let Some(LoadRejection { id, phase, .. }) = likely else { return error };
        let more = format!(
            "the extension `{id}`, which may have it, was rejected in phase {phase}; \
             see: skillhost ext doctor"
        );
        let hint = error.hint();
        let error = CallError::new(ErrorKind::NotFound, error.to_string()).with_hint(hint);
        error.with_extra_hint(&more).into()
    }
}

#[cfg(test)]
mod tests {
    use skillhost_home::LoadPhase;

    use super::*;

    fn report() -> LoadReport {
        let rejection = |id: &str| LoadRejection {
            id: id.to_owned(),
            phase: LoadPhase::Start,
            reason: "ended with exit code 1\nlast words".to_owned(),
            hint: "install it".to_owned(),
            manifest: PathBuf::new(),
        };
        LoadReport {
            rejected: vec![rejection("weather"), rejection("rss-reader")],
            rejected_tools: BTreeMap::from([("forecast".to_owned(), "weather".to_owned())]),
            ..LoadReport::default()
        }
    }

    fn explained(tool: &str) -> (String, String) {
        let missing =
            KernelError::NotFound { what: "tool", id: tool.to_owned(), similar: Vec::new() };
        let error = report().explain_tool(tool, missing);
        assert_eq!(error.kind(), ErrorKind::NotFound);
        (error.to_string(), error.hint())
    }

    #[test]
    fn missing_tool_names_rejected_owner() {
        let (message, hint) = explained("forecast");
        assert_eq!(
            message,
            "tool `forecast` is not available: its extension `weather` was rejected in phase \
             start: ended with exit code 1"
        );
        assert_eq!(hint, "install it\nsee: skillhost ext doctor");
        for tool in ["weather_now", "rss_reader_poll", "rss-reader"] {
            let (message, hint) = explained(tool);
            assert_eq!(message, format!("tool `{tool}` not found"));
            assert!(hint.contains("which may have it, was rejected in phase start"), "{hint}");
        }
        let (message, hint) = explained("weatherman");
        assert_eq!(
            (&*message, &*hint),
            ("tool `weatherman` not found", "see: skillhost tool list")
        );
    }
}
