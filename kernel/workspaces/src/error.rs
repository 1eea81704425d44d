//! Errors of workspaces.

use std::io;
use std::path::PathBuf;

/// The reason why a directory cannot be a workspace.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The label cannot be part of a path.
    #[error("workspace label {label:?} is not valid")]
    Label {
        /// The label.
        label: String,
    },
    /// Two workspaces have one label.
    #[error("workspace label `{label}` is used twice")]
    DuplicateLabel {
        /// The label.
        label: String,
    },
    /// The directory cannot be opened.
    #[error("workspace {}: {source}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The path leads to a file.
    #[error("workspace {}: not a directory", path.display())]
    NotDirectory {
        /// The path.
        path: PathBuf,
    },
    /// The path is not UTF-8 or has control characters.
    #[error("workspace {path:?}: the path is not printable text")]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// The directory is the root of the file system.
    #[error("workspace {}: this is the root of the file system", path.display())]
    FileSystemRoot {
        /// The directory.
        path: PathBuf,
    },
    /// The directory is the home.
    #[error("workspace {}: this is the home itself", path.display())]
    Home {
        /// The directory.
        path: PathBuf,
    },
    /// The home lies in the directory.
    #[error("workspace {}: the home {} lies in it", path.display(), home.display())]
    ContainsHome {
        /// The directory.
        path: PathBuf,
        /// The home.
        home: PathBuf,
    },
    /// The directory is one of the home that decides about code and approvals.
    #[error("workspace {}: it belongs to the home's {name}/", path.display())]
    PartOfHome {
        /// The directory.
        path: PathBuf,
        /// The directory of the home.
        name: &'static str,
    },
}

impl WorkspaceError {
    /// Returns a hint.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Label { .. } => {
                "a label has 1 to 64 lowercase letters, digits, `_` and `-`, such as project"
            }
            Self::DuplicateLabel { .. } => "give each workspace a label of its own",
            Self::Io { .. } => "check that the directory exists and may be read",
            Self::NotDirectory { .. } => "name the directory that the file lies in",
            Self::NotText { .. } => "rename the directory",
            Self::FileSystemRoot { .. } => "name the directory of one project",
            Self::Home { .. } | Self::ContainsHome { .. } => {
                "agents could change their own settings and approvals; name a directory outside of \
                 the home, or create the home elsewhere"
            }
            Self::PartOfHome { .. } => {
                "agents reach sandbox/ without a workspace; name another directory"
            }
        }
    }

    /// Returns whether a directory of this name does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
