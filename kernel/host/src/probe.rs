//! Tries one extension in a process that holds nothing else.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use skillhost_contract::payload::ToolSpec;

use crate::boot::{BootOptions, ExtensionLoadError};
use crate::discovery::{self, DiscoveredManifest};
use crate::kernel::{Kernel, KernelShared};
use crate::report::LoadPhase;
use crate::secrets::SecretStore;
use crate::tools::ToolTable;

/// What an extension that loads says about itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProbeReport {
    /// Version of the build.
    pub version: String,
    /// Its tools.
    pub tools: Vec<ToolSpec>,
    /// Why it was not asked for its tools: it needs another extension to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unasked: Option<String>,
}

/// Why an extension does not load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeError {
    /// Where it failed.
    pub phase: LoadPhase,
    /// Why.
    pub reason: String,
    /// What to do about it; may be empty.
    pub hint: String,
}

impl From<ExtensionLoadError> for ProbeError {
    fn from(ExtensionLoadError { phase, reason, hint }: ExtensionLoadError) -> Self {
        Self { phase, reason, hint }
    }
}

/// Loads the extension of one manifest as a kernel would, asks it for its tools and ends it. The
/// caller's process runs the extension's code: it should have no other purpose.
///
/// The home of the options is where the extension finds its data directory, and no more.
///
/// # Errors
/// [`ProbeError`] with the phase that a kernel would have rejected it in.
pub async fn probe_extension(
    options: BootOptions,
    manifest: &Path,
) -> Result<ProbeReport, ProbeError> {
    let failed = |phase, reason: String| ProbeError { phase, reason, hint: String::new() };
    let text = discovery::read_limited(manifest)
        .map_err(|error| failed(LoadPhase::Discover, format!("{}: {error}", manifest.display())))?;
    let parsed = skillhost_manifest::parse_manifest(&text)
        .map_err(|errors| failed(LoadPhase::Parse, errors.to_string()))?;
    // Only its own library is tried, never one of the installation.
    let found = DiscoveredManifest::of_sandbox(parsed, manifest.to_owned(), &text);
    if found.manifest.agent().is_some() {
        return Err(failed(LoadPhase::Parse, "an agent has no code to try".to_owned()));
    }
    let settings = options.settings.clone();
    let kernel = Kernel { shared: Arc::new(KernelShared::new(options, SecretStore::default())) };
    let instance = match kernel.load(&found, &settings).await {
        Ok(instance) => instance,
        // What it needs is not here; that it can be created is as much as can be found out.
        Err(failure) if failure.phase == LoadPhase::Start && needs_others(&found) => {
            let version = found.manifest.version.clone().unwrap_or_default();
            return Ok(ProbeReport { version, tools: Vec::new(), unasked: Some(failure.reason) });
        }
        Err(failure) => return Err(failure.into()),
    };
    let wired = ToolTable::default().add(&instance);
    let probed = ProbeReport {
        version: instance.build.version.clone(),
        tools: instance.specs.clone(),
        unasked: None,
    };
    Arc::new(instance).shutdown(&kernel.shared.limits).await;
    wired.map_err(|problems| ExtensionLoadError::from_tool_errors(&problems))?;
    Ok(probed)
}

fn needs_others(found: &DiscoveredManifest) -> bool {
    found.manifest.depends_on.iter().any(|needed| !needed.optional)
}
