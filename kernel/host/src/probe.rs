//! Tries one extension in a process that holds nothing else.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use skillhost_contract::payload::ToolSpec;

use crate::boot::{BootOptions, LoadFailure};
use crate::discovery::{self, FoundManifest};
use crate::kernel::{Kernel, Shared};
use crate::report::Phase;
use crate::secrets::Secrets;
use crate::tools::ToolTable;

/// What an extension that loads says about itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Probed {
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
pub struct ProbeFailure {
    /// Where it failed.
    pub phase: Phase,
    /// Why.
    pub reason: String,
    /// What to do about it; may be empty.
    pub hint: String,
}

impl From<LoadFailure> for ProbeFailure {
    fn from(LoadFailure { phase, reason, hint }: LoadFailure) -> Self {
        Self { phase, reason, hint }
    }
}

/// Loads the extension of one manifest as a kernel would, asks it for its tools and ends it. The
/// caller's process runs the extension's code: it should have no other purpose.
///
/// The home of the options is where the extension finds its data directory, and no more.
///
/// # Errors
/// [`ProbeFailure`] with the phase that a kernel would have rejected it in.
pub async fn probe(options: BootOptions, manifest: &Path) -> Result<Probed, ProbeFailure> {
    let failed = |phase, reason: String| ProbeFailure { phase, reason, hint: String::new() };
    let text = discovery::read_limited(manifest)
        .map_err(|error| failed(Phase::Discover, format!("{}: {error}", manifest.display())))?;
    let parsed = skillhost_manifest::parse_manifest(&text)
        .map_err(|errors| failed(Phase::Parse, errors.to_string()))?;
    // Only its own library is tried, never one of the installation.
    let found = FoundManifest::of_sandbox(parsed, manifest.to_owned(), &text);
    if found.manifest.agent().is_some() {
        return Err(failed(Phase::Parse, "an agent has no code to try".to_owned()));
    }
    let settings = options.settings.clone();
    let kernel = Kernel { shared: Arc::new(Shared::new(options, Secrets::default())) };
    let instance = match kernel.load(&found, &settings).await {
        Ok(instance) => instance,
        // What it needs is not here; that it can be created is as much as can be found out.
        Err(failure) if failure.phase == Phase::Start && needs_others(&found) => {
            let version = found.manifest.version.clone().unwrap_or_default();
            return Ok(Probed { version, tools: Vec::new(), unasked: Some(failure.reason) });
        }
        Err(failure) => return Err(failure.into()),
    };
    let wired = ToolTable::default().add(&instance);
    let probed = Probed {
        version: instance.build.version.clone(),
        tools: instance.specs.clone(),
        unasked: None,
    };
    Arc::new(instance).end(&kernel.shared.limits).await;
    wired.map_err(|problems| LoadFailure::tools(&problems))?;
    Ok(probed)
}

fn needs_others(found: &FoundManifest) -> bool {
    found.manifest.depends_on.iter().any(|needed| !needed.optional)
}
