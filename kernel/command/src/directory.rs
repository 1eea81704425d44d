//! The directory of a command.

use std::path::{Path, PathBuf};

use skillhost_files::jail::{self, JailError, RelPath, RelPathError};
use skillhost_home::Home;
use skillhost_payload::{CallError, ErrorKind, Workspace, WorkspaceAccess};

/// The name of the sandbox as a directory.
const SANDBOX: &str = "sandbox";

/// The directory of the sandbox with the private data of extensions.
const PRIVATE: &str = "data";

/// A directory in which commands may run.
pub(crate) struct CommandDirectory {
    /// The name by which the agent knows it.
    pub(crate) name: String,
    /// The absolute path.
    pub(crate) path: PathBuf,
    /// The directory that the command may change: the workspace, or the directory in the sandbox.
    pub(crate) writable: PathBuf,
}

/// Resolves a directory that a model names: one of a writable workspace, or of the sandbox.
pub(crate) fn resolve_directory(
    home: &Home,
    workspaces: &[Workspace],
    name: &str,
) -> Result<CommandDirectory, CallError> {
    let trimmed = name.strip_suffix('/').unwrap_or(name);
    let (root, inner) = match trimmed.strip_prefix(Workspace::PREFIX) {
        Some(rest) => {
            let (label, inner) = rest.split_once('/').map_or((rest, None), |(l, i)| (l, Some(i)));
            (find_workspace(workspaces, label)?.path.clone(), inner)
        }
        None => match trimmed.split_once('/').map_or((trimmed, None), |(s, i)| (s, Some(i))) {
            (SANDBOX, inner) => (home.sandbox_dir(), inner),
            _ => {
                let message = "a command runs in a workspace or in the sandbox";
                return Err(CallError::new(ErrorKind::InvalidArgument, message).with_hint(
                    "name workspace:LABEL, workspace:LABEL/src, sandbox or sandbox/notes",
                ));
            }
        },
    };
    let inner =
        inner.map(RelPath::new_printable).transpose().map_err(|error| path_error(&error))?;
    let is_sandbox = !trimmed.starts_with(Workspace::PREFIX);
    let path = open_inner(&root, inner.as_ref(), is_sandbox)?;
    let writable = if is_sandbox { path.clone() } else { root };
    Ok(CommandDirectory { name: trimmed.to_owned(), path, writable })
}

fn find_workspace<'w>(
    workspaces: &'w [Workspace],
    label: &str,
) -> Result<&'w Workspace, CallError> {
    let found = workspaces.iter().find(|workspace| workspace.label == label);
    let found = found.ok_or_else(|| {
        let label: String = label.chars().take(64).collect();
        let message = format!("workspace {label:?} not found");
        CallError::new(ErrorKind::NotFound, message)
            .with_hint("the system prompt names the workspaces; the user can add one")
    })?;
    if found.access == WorkspaceAccess::Read {
        // Nothing keeps a command from writing, so a permission to read is not enough.
        let message = format!("workspace `{label}` is read-only, and a command could write to it");
        return Err(CallError::new(ErrorKind::Denied, message)
            .with_hint("the user can permit changes with --access write, or in skillhost.yaml"));
    }
    Ok(found)
}

fn path_error(error: &RelPathError) -> CallError {
    let kind = match error {
        RelPathError::Dots | RelPathError::Absolute | RelPathError::Backslash => ErrorKind::Denied,
        _ => ErrorKind::InvalidArgument,
    };
    CallError::new(kind, error.to_string())
}

/// Opens the directory through the jail, so that the path that is shown leads through no link.
fn open_inner(
    root: &Path,
    inner: Option<&RelPath>,
    is_sandbox: bool,
) -> Result<PathBuf, CallError> {
    let failed = |error: JailError| match error {
        JailError::Link => CallError::new(ErrorKind::Denied, "the directory is behind a link"),
        JailError::Io(error) => CallError::new(ErrorKind::Io, error.to_string()),
        _ => CallError::new(ErrorKind::NotFound, "directory not found"),
    };
    let mut dir = match is_sandbox {
        // Links in its own path are the operator's.
        true => jail::open_root(root).map_err(|error| failed(error.into()))?,
        false => jail::open_canonical(root).map_err(failed)?,
    };
    let mut path = root.to_owned();
    for component in inner.into_iter().flat_map(RelPath::components) {
        if is_sandbox && path == root && component.eq_ignore_ascii_case(PRIVATE) {
            return Err(CallError::new(ErrorKind::Denied, "sandbox/data is private data"));
        }
        dir = jail::open_component(&dir, component).map_err(failed)?;
        path.push(component);
    }
    Ok(path)
}
