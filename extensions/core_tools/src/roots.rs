//! The directories in which a tool may work: the sandbox, and the workspaces of a call.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use cap_fs_ext::MetadataExt as _;
use cap_std::fs::Dir;
use skillhost_files::jail::{self, JailError};
use skillhost_sdk::{CallContext, ErrorKind, ExtensionError, Workspace, WorkspaceAccess};

use crate::jail::{
    CreatedDirectories, EntryError, EntryPath, has_skill_file, read_identity, step, step_or_make,
};
use crate::path::{DirectoryPath, FilePath};

/// The directory of the sandbox that holds the private data of extensions.
const PRIVATE: &str = "data";

/// The directory of a repository's own files.
pub(crate) const REPOSITORY: &str = ".git";

/// The sandbox of a home, and the workspaces of a call.
#[derive(Clone)]
pub struct FileRoots {
    home: PathBuf,
    workspaces: Vec<Workspace>,
    /// A lock that serializes writers: no other tool changes an examined file.
    pub(crate) writing: Arc<Mutex<()>>,
}

/// An open sandbox or workspace, and the limits of a walk in it.
pub(crate) struct OpenRoot {
    pub(crate) dir: Dir,
    border: WalkBorder,
}

/// The entries that a walk may not reach.
#[derive(Clone, Copy)]
pub(crate) enum WalkBorder {
    /// The private directory at the top of the sandbox, by its identity.
    Sandbox { private: Option<(u64, u64)> },
    /// Other file systems, and the home wherever it appears.
    Workspace { device: u64, home: Option<(u64, u64)> },
}

impl FileRoots {
    /// Creates the roots of a home without workspaces; does not access the disk.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self { home: home.to_owned(), workspaces: Vec::new(), writing: Arc::default() }
    }

    /// Returns the roots for one call: with the workspaces that the kernel gives it.
    #[must_use]
    pub fn for_call(&self, cx: &CallContext) -> Self {
        Self { workspaces: cx.workspaces.clone(), ..self.clone() }
    }

    fn workspace(&self, label: &str) -> Result<&Workspace, ExtensionError> {
        let labels: Vec<_> =
            self.workspaces.iter().map(|it| format!("{}{}", Workspace::PREFIX, it.label)).collect();
        self.workspaces.iter().find(|it| it.label == label).ok_or_else(|| {
            ExtensionError::not_found(format!("workspace `{label}` not found")).with_hint(
                match labels.as_slice() {
                    [] => "there are no workspaces; the user can name one with --workspace DIR \
                           or in skillhost.yaml"
                        .to_owned(),
                    labels => format!("the workspaces are {}", labels.join(", ")),
                },
            )
        })
    }

    /// Opens the sandbox, or the workspace of this label.
    pub(crate) fn open_root(&self, label: Option<&str>) -> Result<OpenRoot, ExtensionError> {
        let Some(label) = label else {
            // Links in its own path are the operator's.
            let dir = jail::open_root(&self.home.join("sandbox")).map_err(|error| {
                ExtensionError::new(ErrorKind::Io, format!("the sandbox cannot be opened: {error}"))
                    .with_hint("ask the operator: the home has no usable directory `sandbox`")
            })?;
            let border = WalkBorder::Sandbox { private: read_identity(&dir, PRIVATE) };
            return Ok(OpenRoot { dir, border });
        };
        let workspace = self.workspace(label)?;
        // The path was resolved before the run, so a link in it was put there since.
        let dir = jail::open_canonical(&workspace.path).map_err(|error| {
            let reason = match error {
                JailError::Link => "its path leads through a link now".to_owned(),
                JailError::Io(error) => error.to_string(),
                _ => "the directory is missing".to_owned(),
            };
            let message = format!("workspace `{label}` cannot be opened: {reason}");
            ExtensionError::new(ErrorKind::Unavailable, message).with_hint("tell the user")
        })?;
        let device = dir.dir_metadata()?.dev();
        let home = jail::open_root(&self.home).and_then(|home| home.dir_metadata()).ok();
        let home = home.map(|metadata| (metadata.dev(), metadata.ino()));
        Ok(OpenRoot { dir, border: WalkBorder::Workspace { device, home } })
    }

    /// Opens a directory.
    pub(crate) fn open_directory(&self, path: &DirectoryPath) -> Result<Dir, ExtensionError> {
        self.open_walk(path).map(|root| root.dir)
    }

    /// Opens a directory, from which a walk goes on.
    pub(crate) fn open_walk(&self, path: &DirectoryPath) -> Result<OpenRoot, ExtensionError> {
        let mut root = self.open_root(path.workspace())?;
        let Some(path) = path.inner() else { return Ok(root) };
        for (depth, component) in path.components().enumerate() {
            root.border.check(&root.dir, component, path.as_str(), depth == 0)?;
            root.dir = step(&root.dir, component).map_err(|fault| fault.with_path(path))?;
        }
        Ok(root)
    }

    /// Opens the parent directory of a path, which must exist.
    pub(crate) fn open_entry(&self, path: &FilePath) -> Result<EntryPath, ExtensionError> {
        self.walk(path, &mut |dir, component| step(dir, component))
    }

    /// Opens the parent directory of a path; creates missing directories and returns them.
    pub(crate) fn open_entry_creating(
        &self,
        path: &FilePath,
        made: &mut CreatedDirectories,
    ) -> Result<EntryPath, ExtensionError> {
        self.walk(path, &mut |dir, component| step_or_make(dir, component, made))
    }

    fn walk(
        &self,
        path: &FilePath,
        step: &mut dyn FnMut(&Dir, &str) -> Result<Dir, EntryError>,
    ) -> Result<EntryPath, ExtensionError> {
        let OpenRoot { mut dir, border } = self.open_root(path.workspace())?;
        let (parents, name) = path.split();
        let mut is_top = true;
        for component in parents {
            // Checked before the step, so that the private directory is never opened.
            border.check(&dir, component, path.as_str(), is_top)?;
            dir = step(&dir, component).map_err(|fault| fault.with_path(path))?;
            is_top = false;
        }
        // The last component is not opened here, but a tool could rename or delete it.
        border.check(&dir, name, path.as_str(), is_top)?;
        Ok(EntryPath { dir, name: name.to_owned() })
    }

    /// Rejects a path that no tool may change: private data, the files of a skill, and in a
    /// workspace the files of version control, or all. Missing directories above it are allowed.
    pub(crate) fn check_mutable(&self, path: &FilePath) -> Result<(), ExtensionError> {
        if let Some(label) = path.workspace() {
            check_access(self.workspace(label)?, path)?;
        }
        let mut above = path.workspace().map_or_else(String::new, |label| {
            // The label is part of the path that the error names.
            format!("{}{label}", Workspace::PREFIX)
        });
        let mut missing = false;
        let walked = self.walk(path, &mut |dir, component| {
            let inner = match step(dir, component) {
                Err(EntryError::NotFound) => {
                    // The rest of the path does not exist, so it cannot be part of a skill.
                    missing = true;
                    return Err(EntryError::NotFound);
                }
                stepped => stepped?,
            };
            above =
                // The topmost skill directory is reported, which is the one to propose a change
                // for.
                if above.is_empty() { component.into() } else { format!("{above}/{component}") };
            match has_skill_file(&inner)? {
                true => Err(EntryError::Skill(above.clone())),
                false => Ok(inner),
            }
        });
        match walked {
            Err(_) if missing => Ok(()),
            walked => walked.map(drop),
        }
    }
}

/// Rejects a change in a workspace that is read-only, and of the files of version control, which
/// decide what its commands run.
fn check_access(workspace: &Workspace, path: &FilePath) -> Result<(), ExtensionError> {
    if workspace.access == WorkspaceAccess::Read {
        let message = format!("workspace `{}` is read-only", workspace.label);
        return Err(ExtensionError::new(ErrorKind::Denied, message)
            .with_hint("the user can permit changes with --access write, or in skillhost.yaml"));
    }
    if path.components().any(|component| component.eq_ignore_ascii_case(REPOSITORY)) {
        return Err(ExtensionError::new(
            ErrorKind::Denied,
            format!("`{path}` belongs to the repository itself"),
        )
        .with_hint("change the files next to it"));
    }
    Ok(())
}

impl OpenRoot {
    pub(crate) fn border(&self) -> WalkBorder {
        self.border
    }
}

impl WalkBorder {
    /// Rejects an entry of a directory that is behind the border. `path` is the one in the error.
    pub(crate) fn check(
        self,
        dir: &Dir,
        name: &str,
        path: &str,
        is_top: bool,
    ) -> Result<(), ExtensionError> {
        match self {
            Self::Sandbox { private } => {
                // The name counts in any case: on some file systems `Data` is the same directory.
                let is_named = is_top && is_private(name);
                // A bind mount or a case-folding file system can show the directory under another
                // name.
                if is_named || private.is_some() && read_identity(dir, name) == private {
                    return Err(denied(path, "is private data")
                        .with_hint("sandbox/data belongs to the extensions; use their tools"));
                }
            }
            Self::Workspace { device, home } => {
                let Ok(metadata) = dir.symlink_metadata(name) else { return Ok(()) };
                if home == Some((metadata.dev(), metadata.ino())) {
                    return Err(denied(path, "is or lies in the home of skillhost")
                        .with_hint("the sandbox has paths without `workspace:`"));
                }
                if metadata.dev() != device {
                    return Err(denied(path, "is or lies in another file system, mounted there")
                        .with_hint("the user can name that directory as a workspace of its own"));
                }
            }
        }
        Ok(())
    }

    /// Returns whether a walk may enter an open directory.
    pub(crate) fn admits(self, dev: u64, ino: u64) -> bool {
        match self {
            Self::Sandbox { private } => private != Some((dev, ino)),
            Self::Workspace { device, home } => dev == device && home != Some((dev, ino)),
        }
    }

    /// Returns whether a name at the top is that of the private directory.
    pub(crate) fn is_private(self, name: &str) -> bool {
        matches!(self, Self::Sandbox { .. }) && is_private(name)
    }
}

fn denied(path: &str, state: &str) -> ExtensionError {
    ExtensionError::new(ErrorKind::Denied, format!("`{path}` {state}"))
}

/// Returns whether an entry at the top of the sandbox is the private directory.
pub(crate) fn is_private(name: &str) -> bool {
    name.eq_ignore_ascii_case(PRIVATE)
}
