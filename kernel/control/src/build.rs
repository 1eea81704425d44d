//! The outcomes of builds, rollbacks and reloads of extensions.

use serde::{Deserialize, Serialize};
use skillhost_manifest::ExtensionId;
use skillhost_sandbox::IsolationReport;

/// An extension that was built and installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildOutcome {
    /// The extension.
    pub id: ExtensionId,
    /// Version of the build.
    pub version: String,
    /// sha256 of the library, or of the files of a process extension; hexadecimal.
    pub sha256: String,
    /// Names of its tools.
    pub tools: Vec<String>,
    /// The compiler's warnings; may be empty.
    pub warnings: String,
    /// The isolation of the build and of the trial; `None` for an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationReport>,
    /// The running kernel uses the build. Otherwise the next start does.
    pub active: bool,
}

/// A build as presented to the person who approves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildPreview {
    /// The extension.
    pub id: ExtensionId,
    /// The digest of exactly these files: the argument of
    /// [`ControlRequest::Build`](crate::ControlRequest::Build).
    pub sha256: String,
    /// The files. Untrusted text.
    pub details: String,
}

/// The result of a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollbackOutcome {
    /// The extension.
    pub id: ExtensionId,
    /// sha256 of the replaced library.
    pub from: String,
    /// sha256 of the restored library.
    pub to: String,
    /// The build is approved. Otherwise the other files have changed since its approval, and a
    /// person has to approve it again before it is used.
    #[serde(default)]
    pub approved: bool,
    /// The running kernel uses the build. Otherwise the next start does.
    pub active: bool,
}

/// The result of a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadOutcome {
    /// The extension.
    pub id: String,
    /// The version of the previous build; empty if none was loaded.
    pub from: String,
    /// The version of the new build.
    pub to: String,
    /// Milliseconds until the new build replied to calls.
    pub switched_ms: u64,
    /// Milliseconds until the previous build had shut down.
    pub drained_ms: u64,
}
