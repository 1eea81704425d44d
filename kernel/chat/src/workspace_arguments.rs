//! The arguments for workspaces.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use skillhost_payload::WorkspaceAccess;

/// The directories that agents may work in, for one run of the program.
#[derive(Debug, Clone, Default, Args)]
pub struct WorkspaceArgs {
    /// Directory that agents may work in, as DIR or LABEL=DIR; may be repeated
    #[arg(long = "workspace", value_name = "DIR", value_parser = workspace_directory)]
    pub directories: Vec<WorkspaceDirectory>,
    /// Access to the directories of --workspace [default: read]
    #[arg(long, value_name = "ACCESS", requires = "directories")]
    pub access: Option<AccessArg>,
}

/// A directory of `--workspace`.
#[derive(Debug, Clone)]
pub struct WorkspaceDirectory {
    /// The label; `None` for the one that the directory's name gives.
    pub label: Option<String>,
    /// The directory, as it was given.
    pub path: PathBuf,
}

/// The access to a workspace.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum AccessArg {
    /// Tools only read
    Read,
    /// Tools read and, with your approval, write
    Write,
}

impl From<AccessArg> for WorkspaceAccess {
    fn from(access: AccessArg) -> Self {
        match access {
            AccessArg::Read => Self::Read,
            AccessArg::Write => Self::Write,
        }
    }
}

fn workspace_directory(text: &str) -> Result<WorkspaceDirectory, String> {
    // A path with `=` is written as ./a=b.
    let (label, path) = match text.split_once('=') {
        Some((label, path)) if !label.contains(['/', '.']) => (Some(label.to_owned()), path),
        _ => (None, text),
    };
    if path.is_empty() {
        return Err("a workspace is given as DIR or LABEL=DIR, such as project=../project".into());
    }
    Ok(WorkspaceDirectory { label, path: path.into() })
}
