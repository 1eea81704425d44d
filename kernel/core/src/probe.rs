//! The trial of one extension in a process of its own.

use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use skillhost_home::{DiscoveredManifest, LoadPhase, read_manifest_text};
use skillhost_payload::ToolSpec;
use skillhost_sandbox::IsolationReport;

use crate::extension_host::ExtensionHost;
use crate::load_error::ExtensionLoadError;

/// The properties of an extension that loads.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProbeReport {
    /// Version of the build.
    pub version: String,
    /// Its tools.
    pub tools: Vec<ToolSpec>,
    /// The reason why its tools were not listed: it requires another extension to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unasked: Option<String>,
    /// The isolation of its process, or of the trial of a library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationReport>,
}

/// The reason why an extension does not load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeError {
    /// The failed phase.
    pub phase: LoadPhase,
    /// The reason.
    pub reason: String,
    /// A hint; may be empty.
    pub hint: String,
}

impl From<ExtensionLoadError> for ProbeError {
    fn from(ExtensionLoadError { phase, reason, hint }: ExtensionLoadError) -> Self {
        Self { phase, reason, hint }
    }
}

/// Loads the extension of one manifest as a kernel would, lists its tools and shuts it down. The
/// extension's code runs in the caller's process, which should have no other purpose.
///
/// The host has loaded no extension. Its home contains the extension's data directory, and is not
/// used otherwise.
///
/// # Errors
/// [`ProbeError`] with the phase in which a kernel would have rejected it.
pub fn probe_extension<'a>(
    host: &'a Arc<ExtensionHost>,
    manifest: &'a Path,
) -> BoxFuture<'a, Result<ProbeReport, ProbeError>> {
    Box::pin(async move {
        let failed = |phase, reason: String| ProbeError { phase, reason, hint: String::new() };
        let text = read_manifest_text(manifest).map_err(|error| {
            failed(LoadPhase::Discover, format!("{}: {error}", manifest.display()))
        })?;
        let parsed = skillhost_manifest::parse_manifest(&text)
            .map_err(|errors| failed(LoadPhase::Parse, errors.to_string()))?;
        // Only the extension's own library is tried, never one of the installation.
        let found = DiscoveredManifest::of_sandbox(parsed, manifest.to_owned(), &text);
        if found.manifest.agent().is_some() {
            return Err(failed(LoadPhase::Parse, "an agent has no code to try".to_owned()));
        }
        let settings = host.settings();
        let instance = match host.load(&found, &settings).await {
            Ok(instance) => instance,
            // Its dependencies are missing here; a trial can only show that it can be created.
            Err(failure) if failure.phase == LoadPhase::Start && needs_others(&found) => {
                let version = found.manifest.version.clone().unwrap_or_default();
                return Ok(ProbeReport {
                    version,
                    tools: Vec::new(),
                    unasked: Some(failure.reason),
                    isolation: None,
                });
            }
            Err(failure) => return Err(failure.into()),
        };
        // A table of its own: clashes with other extensions are the kernel's to report.
        let wired = host.builtin_tools().add(&instance);
        let probed = ProbeReport {
            version: instance.build.version.clone(),
            tools: instance.specs.clone(),
            unasked: None,
            isolation: instance.isolation().cloned(),
        };
        Arc::new(instance).shutdown(&host.limits).await;
        wired.map_err(|problems| ExtensionLoadError::from_tool_errors(&problems))?;
        Ok(probed)
    })
}

fn needs_others(found: &DiscoveredManifest) -> bool {
    found.manifest.depends_on.iter().any(|needed| !needed.optional)
}
