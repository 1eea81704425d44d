//! The settings of workspaces.

use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use skillhost_payload::{Workspace, WorkspaceAccess};

/// A directory outside of the home that agents may work in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceSettings {
    /// The name in paths, such as `project` in `workspace:project/src`: lowercase letters, digits,
    /// `_` and `-`.
    pub label: String,
    /// The directory; a relative path starts at the home.
    pub path: PathBuf,
    /// `read`, the default, or `write`.
    #[serde(default)]
    #[schemars(schema_with = "access_schema")]
    pub access: WorkspaceAccess,
}

/// Returns the schema of the words for an access.
fn access_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["read", "write"], "default": "read"})
}

impl From<&WorkspaceSettings> for Workspace {
    fn from(settings: &WorkspaceSettings) -> Self {
        let WorkspaceSettings { label, path, access } = settings.clone();
        Self { label, path, access }
    }
}
