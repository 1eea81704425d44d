//! Tools as a kernel lists them.

use serde::{Deserialize, Serialize};
use skillhost_manifest::ExtensionId;
use skillhost_payload::{CallError, ToolSpec};

/// A tool and the extension it belongs to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OwnedTool {
    /// The extension.
    pub extension: ExtensionId,
    /// The skill whose program the tool runs. It is listed while the operator's approval covers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// The description of the tool.
    #[serde(flatten)]
    pub spec: ToolSpec,
}

/// A list of tools, with the extensions that failed to list theirs.
#[derive(Debug, Serialize, Deserialize)]
pub struct ToolListing {
    /// The tools, by name.
    pub tools: Vec<OwnedTool>,
    /// Extensions whose tools are missing.
    pub failed: Vec<FailedListing>,
}

/// An extension that did not list its tools.
#[derive(Debug, Serialize, Deserialize)]
pub struct FailedListing {
    /// The extension.
    pub extension: ExtensionId,
    /// The error it returned.
    pub error: CallError,
}
