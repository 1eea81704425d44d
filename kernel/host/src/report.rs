//! What happened when the kernel started.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use skillhost_contract::payload::ErrorKind;
use skillhost_manifest::{ExtensionId, ScheduleAction};

use crate::discovery::DiscoveredManifest;
use crate::error::{CallError, KernelError};
use crate::instance::Instance;
use crate::loader::LoadTimings;

/// The steps an extension goes through, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadPhase {
    /// Its folder is found and its manifest read.
    Discover,
    /// The manifest is checked.
    Parse,
    /// An extension in the sandbox is compared with what a person approved.
    Approve,
    /// Its dependencies are put in order.
    Plan,
    /// The library, or the files of a process, are found and checked without running them.
    Probe,
    /// The library is opened and its layout checked.
    Open,
    /// The extension is created.
    New,
    /// It prepares for its first call; a process is started.
    Start,
    /// Its tools, context and interfaces are taken into the kernel's tables.
    Wire,
    /// An agent's instructions are put together.
    Resolve,
}

impl fmt::Display for LoadPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discover => "discover",
            Self::Parse => "parse",
            Self::Approve => "approve",
            Self::Plan => "plan",
            Self::Probe => "probe",
            Self::Open => "open",
            Self::New => "new",
            Self::Start => "start",
            Self::Wire => "wire",
            Self::Resolve => "resolve",
        })
    }
}

/// A library that is loaded, or a process that runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadedExtension {
    /// Its id.
    pub id: ExtensionId,
    /// The name for people.
    pub name: String,
    /// Version of the build, as it says itself.
    pub version: String,
    /// The library's file, or that of the program.
    pub library: PathBuf,
    /// The command of a process extension as its manifest has it; empty for a library.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Names of its tools.
    pub tools: Vec<String>,
    /// Its place in the context chain.
    pub context_priority: Option<i32>,
    /// Whether it has a background service.
    pub service: bool,
    /// Other interfaces it answers, such as `skill`.
    pub interfaces: Vec<String>,
    /// How long opening it took.
    pub timings: LoadTimings,
}

/// An agent whose instructions are in place.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadedAgent {
    /// Its id.
    pub id: ExtensionId,
    /// The name for people.
    pub name: String,
}

/// An extension or agent that is not in use.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadRejection {
    /// Its id, or the name of its folder where the manifest could not be read.
    pub id: String,
    /// Where it failed.
    pub phase: LoadPhase,
    /// Why; several lines where there are several reasons.
    pub reason: String,
    /// What to do about it; may be empty.
    pub hint: String,
    /// Its manifest.
    pub manifest: PathBuf,
}

/// What happened when the kernel started. One bad extension never stops the others.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LoadReport {
    /// Libraries and processes in use, in load order.
    pub loaded: Vec<LoadedExtension>,
    /// Agents in use, in load order.
    pub agents: Vec<LoadedAgent>,
    /// What is not in use, and why.
    pub rejected: Vec<LoadRejection>,
    /// The tools that rejected extensions are known to have, with the ids of their owners.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rejected_tools: BTreeMap<String, String>,
    /// Switched off by their manifests.
    pub disabled: Vec<ExtensionId>,
    /// Worth knowing, nothing failed.
    pub notes: Vec<String>,
}

impl LoadReport {
    /// Notes the tools of an extension that is rejected after it has listed them.
    pub(crate) fn note_rejected_tools(&mut self, instance: &Instance) {
        let id = instance.manifest.id.as_str();
        let names = instance.specs.iter().map(|spec| (spec.name.clone(), id.to_owned()));
        self.rejected_tools.extend(names);
    }

    /// Notes the tools that the manifests of rejected extensions name.
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

    /// Says why a tool was not found, where a rejected extension may be the reason.
    pub(crate) fn explain_tool(&self, tool: &str, error: KernelError) -> KernelError {
        if !matches!(error, KernelError::NotFound { .. }) {
            return error;
        }
        if let Some(LoadRejection { id, phase, reason, hint, .. }) = self.rejected_owner(tool) {
            let reason = reason.lines().next().unwrap_or_default();
            let message = format!(
                "the tool `{tool}` is not available: its extension `{id}` was rejected in phase \
                 {phase}: {reason}"
            );
            let error = CallError::new(ErrorKind::NotFound, message).with_hint(hint.clone());
            return error.with_extra_hint("see: skillhost ext doctor").into();
        }
        // The tools of an extension that did not come so far are known to itself alone.
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
            "the tool `forecast` is not available: its extension `weather` was rejected in phase \
             start: ended with exit code 1"
        );
        assert_eq!(hint, "install it\nsee: skillhost ext doctor");
        for tool in ["weather_now", "rss_reader_poll", "rss-reader"] {
            let (message, hint) = explained(tool);
            assert_eq!(message, format!("no tool `{tool}`"));
            assert!(hint.contains("which may have it, was rejected in phase start"), "{hint}");
        }
        let (message, hint) = explained("weatherman");
        assert_eq!((&*message, &*hint), ("no tool `weatherman`", "see: skillhost tool list"));
    }
}
