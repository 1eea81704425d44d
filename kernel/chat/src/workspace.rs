//! The workspaces of `ask`, `chat` and `run`: named by arguments, or offered for the working
//! directory.

use std::io::{self, IsTerminal as _};

use skillhost_home::Home;
use skillhost_payload::{Workspace, WorkspaceAccess};
use skillhost_terminal::{BOLD, CliContext, CliError, display_safe, exit};
use skillhost_workspaces::{ResolvedWorkspace, WorkspaceError, derive_label, resolve_workspace};

use crate::workspace_arguments::WorkspaceArgs;

/// The maximum length of an answer, in bytes.
const MAX_ANSWER: usize = 256;

/// Resolves the directories of `--workspace`, and states each that a link leads to.
///
/// # Errors
/// A directory does not exist, or cannot be a workspace.
pub fn resolve_workspace_args(
    session: &CliContext,
    home: &Home,
    args: &WorkspaceArgs,
) -> Result<Vec<Workspace>, CliError> {
    let mut workspaces: Vec<Workspace> = Vec::new();
    for directory in &args.directories {
        let path = session.environment.current_dir.join(&directory.path);
        let label = match &directory.label {
            Some(label) => label.clone(),
            // The directory's own name, also for `.` and for a link.
            None => derive_label(&path.canonicalize().unwrap_or_else(|_| path.clone())),
        };
        let access = args.access.map_or(WorkspaceAccess::Read, WorkspaceAccess::from);
        let asked = Workspace { label, path, access };
        let ResolvedWorkspace { workspace, link } =
            resolve_workspace(home, &asked).map_err(|error| workspace_error(&error))?;
        if workspaces.iter().any(|known| known.label == workspace.label) {
            let error = WorkspaceError::DuplicateLabel { label: workspace.label };
            return Err(workspace_error(&error).with_hint("write LABEL=DIR"));
        }
        if let Some(link) = link {
            let (label, path) = (&workspace.label, workspace.path.display());
            session.output.print_note(format!(
                "workspace `{label}` is {path}, which {} leads to",
                link.display()
            ));
        }
        workspaces.push(workspace);
    }
    Ok(workspaces)
}

/// Offers the working directory as a workspace, on a terminal and outside of the home only: a
/// script gives no access that its command line does not name.
pub(crate) fn offer_working_directory(
    session: &CliContext,
    home: &Home,
) -> Result<Option<Workspace>, CliError> {
    let output = session.output;
    if output.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(None);
    }
    let path = session.environment.current_dir.clone();
    let asked = Workspace { label: derive_label(&path), path, access: WorkspaceAccess::Read };
    // The home, a parent of it and the like are not offered.
    let Ok(ResolvedWorkspace { workspace, .. }) = resolve_workspace(home, &asked) else {
        return Ok(None);
    };
    let settings = session.settings(home)?.settings;
    let mut known = settings.workspaces.iter().map(Workspace::from);
    let covers = |known: Workspace| {
        resolve_workspace(home, &known)
            .is_ok_and(|known| workspace.path.starts_with(&known.workspace.path))
    };
    if workspace.path.starts_with(home.root()) || known.any(covers) {
        return Ok(None);
    }
    let shown = display_safe(&workspace.path.display().to_string());
    output.print_progress(format!(
        "{BOLD}May the agent see the files in {shown}?{BOLD:#} (`--no-workspace` does not ask)\n\
         [r] read them, [w] read and change them, each change with your approval, [N]o"
    ));
    // `io::stdin` would buffer bytes after the line, which the line editor needs.
    let mut answer = [0; MAX_ANSWER];
    let read = rustix::io::read(io::stdin(), &mut answer).map_err(io::Error::from)?;
    let answer = String::from_utf8_lossy(&answer[..read]).trim().to_ascii_lowercase();
    Ok(match answer.as_str() {
        "r" | "read" => Some(workspace),
        "w" | "write" => Some(Workspace { access: WorkspaceAccess::Write, ..workspace }),
        _ => None,
    })
}

/// Converts the error of a directory that the command line names.
fn workspace_error(error: &WorkspaceError) -> CliError {
    let code = match error {
        error if error.is_not_found() => exit::NOT_FOUND,
        WorkspaceError::Io { .. } => exit::IO,
        _ => exit::USAGE,
    };
    CliError::new(code, error.to_string()).with_hint(error.hint())
}
