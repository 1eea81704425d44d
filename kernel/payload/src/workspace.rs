//! Directories of the user that agents may work in.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A directory of the user that tools reach as `workspace:LABEL`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// The name in paths, unique among the workspaces of a call.
    pub label: String,
    /// The directory. In a call context it is canonical: no component of it is a link.
    pub path: PathBuf,
    /// The permitted access.
    #[serde(default)]
    pub access: WorkspaceAccess,
}

/// The permitted access to a workspace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceAccess {
    /// Tools only read.
    #[default]
    Read,
    /// Tools read and, with an approval, write.
    Write,
}

impl Workspace {
    /// The beginning of every path in a workspace; the label follows.
    pub const PREFIX: &'static str = "workspace:";
}

impl fmt::Display for WorkspaceAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "read and write",
        })
    }
}
