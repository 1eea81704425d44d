//! The decision which directories are workspaces.

use std::fs;
use std::path::{Path, PathBuf};

use skillhost_home::Home;
use skillhost_payload::Workspace;

use crate::error::WorkspaceError;
use crate::identity::{DirectoryId, read_identity};

/// The largest number of characters in a label.
const MAX_LABEL: usize = 64;

/// Directories of a home that no workspace may reach: they decide which code runs.
const PROTECTED: [&str; 2] = ["sandbox", "manifests"];

/// A workspace with its canonical directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedWorkspace {
    /// The workspace; its path is canonical.
    pub workspace: Workspace,
    /// The path as it was given, if it leads through a link.
    pub link: Option<PathBuf>,
}

/// The workspaces of a run, and the reasons why others are not available.
#[derive(Debug, Default)]
pub struct WorkspaceResolution {
    /// The usable workspaces, in the given order.
    pub workspaces: Vec<Workspace>,
    /// A line for each workspace that is not available, and for each that is behind a link.
    pub notes: Vec<String>,
}

/// Checks a directory and resolves it to its canonical path; a relative path starts at the home.
///
/// # Errors
/// [`WorkspaceError`].
pub fn resolve_workspace(
    home: &Home,
    asked: &Workspace,
) -> Result<ResolvedWorkspace, WorkspaceError> {
    if !is_label(&asked.label) {
        return Err(WorkspaceError::Label { label: asked.label.clone() });
    }
    let given = home.root().join(&asked.path);
    let is_printable = |path: &Path| path.to_str().is_some_and(|it| !it.contains(char::is_control));
    if !is_printable(&given) {
        return Err(WorkspaceError::NotText { path: given });
    }
    let io_error = |source| WorkspaceError::Io { path: given.clone(), source };
    let path = fs::canonicalize(&given).map_err(io_error)?;
    if !is_printable(&path) {
        return Err(WorkspaceError::NotText { path });
    }
    if !fs::metadata(&path).map_err(io_error)?.is_dir() {
        return Err(WorkspaceError::NotDirectory { path });
    }
    check_place(home.root(), &path)?;
    let is_link = given.ancestors().any(Path::is_symlink);
    let workspace = Workspace { path, ..asked.clone() };
    Ok(ResolvedWorkspace { workspace, link: is_link.then_some(given) })
}

/// Rejects the home, all that contains it, and what decides about code in it. Directories are
/// compared by identity, so that a bind mount or a link is no way around.
fn check_place(home: &Path, path: &Path) -> Result<(), WorkspaceError> {
    let owned = || path.to_owned();
    let id = read_identity(path);
    let is_same = |other: &Path| id.is_some() && read_identity(other) == id;
    if path.parent().is_none() || is_same(Path::new("/")) {
        return Err(WorkspaceError::FileSystemRoot { path: owned() });
    }
    if is_same(home) {
        return Err(WorkspaceError::Home { path: owned() });
    }
    if home.ancestors().any(is_same) {
        return Err(WorkspaceError::ContainsHome { path: owned(), home: home.to_owned() });
    }
    let above: Vec<DirectoryId> = path.ancestors().filter_map(read_identity).collect();
    for name in PROTECTED {
        if read_identity(&home.join(name)).is_some_and(|id| above.contains(&id)) {
            return Err(WorkspaceError::PartOfHome { path: owned(), name });
        }
    }
    Ok(())
}

/// Resolves the workspaces of a run. One that is not available is left out and named in a note; of
/// two with one label the first counts.
#[must_use]
pub fn resolve_workspaces(home: &Home, asked: &[Workspace]) -> WorkspaceResolution {
    let mut resolution = WorkspaceResolution::default();
    for asked in asked {
        let resolved = match resolution.workspaces.iter().any(|it| it.label == asked.label) {
            true => Err(WorkspaceError::DuplicateLabel { label: asked.label.clone() }),
            false => resolve_workspace(home, asked),
        };
        match resolved {
            Ok(ResolvedWorkspace { workspace, link }) => {
                if let Some(link) = link {
                    let (label, path) = (&workspace.label, workspace.path.display());
                    resolution.notes.push(format!(
                        "workspace `{label}` is {path}, which {} leads to",
                        link.display()
                    ));
                }
                resolution.workspaces.push(workspace);
            }
            Err(error) => {
                let label = &asked.label;
                resolution.notes.push(format!("workspace `{label}` is not available: {error}"));
            }
        }
    }
    resolution
}

/// Adds workspaces to others, whose labels take precedence.
#[must_use]
pub fn merge_workspaces(
    mut first: Vec<Workspace>,
    others: impl IntoIterator<Item = Workspace>,
) -> Vec<Workspace> {
    let own = first.len();
    for other in others {
        // Two of the others with one label are both kept, so that the second is reported.
        if first[..own].iter().all(|it| it.label != other.label) {
            first.push(other);
        }
    }
    first
}

fn is_label(label: &str) -> bool {
    let is_valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    let starts_well = label.starts_with(|c: char| c.is_ascii_alphanumeric());
    starts_well && label.len() <= MAX_LABEL && label.chars().all(is_valid)
}

/// Derives a label from the last name of a path: `My Project` becomes `my-project`.
#[must_use]
pub fn derive_label(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let mut label = String::new();
    for c in name.chars().map(|c| c.to_ascii_lowercase()) {
        match c {
            'a'..='z' | '0'..='9' | '_' => label.push(c),
            _ if label.ends_with('-') => {}
            _ => label.push('-'),
        }
    }
    let label: String = label.trim_matches(['-', '_']).chars().take(MAX_LABEL).collect();
    if label.is_empty() { "workspace".to_owned() } else { label }
}

#[cfg(test)]
mod tests {
    use skillhost_home::HomeSource;
    use skillhost_payload::WorkspaceAccess;

    use super::*;

    /// Creates `base/home` as a home, and `base/project`.
    fn fixture() -> (tempfile::TempDir, Home, PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(temp.path()).unwrap();
        for dir in ["home/sandbox/data", "home/manifests", "home/docs", "project/src"] {
            fs::create_dir_all(base.join(dir)).unwrap();
        }
        let home = Home::open(&base.join("home"), HomeSource::Argument).unwrap();
        (temp, home, base)
    }

    fn asked(label: &str, path: impl Into<PathBuf>) -> Workspace {
        Workspace { label: label.into(), path: path.into(), access: WorkspaceAccess::Write }
    }

    #[test]
    fn home_and_root_are_refused() {
        let (_temp, home, base) = fixture();
        let refusal = |path: PathBuf| {
            let error = resolve_workspace(&home, &asked("x", path)).unwrap_err();
            assert!(!error.hint().is_empty());
            error.to_string().replace(&base.display().to_string(), "BASE")
        };
        let cases = [
            (PathBuf::from("/"), "workspace /: this is the root of the file system"),
            (base.join("home"), "workspace BASE/home: this is the home itself"),
            (PathBuf::from("."), "workspace BASE/home: this is the home itself"),
            (base.clone(), "workspace BASE: the home BASE/home lies in it"),
            (
                base.join("home/sandbox"),
                "workspace BASE/home/sandbox: it belongs to the home's sandbox/",
            ),
            (
                base.join("home/sandbox/data"),
                "workspace BASE/home/sandbox/data: it belongs to the home's sandbox/",
            ),
            (
                base.join("home/manifests"),
                "workspace BASE/home/manifests: it belongs to the home's manifests/",
            ),
        ];
        for (path, message) in cases {
            assert_eq!(refusal(path), message);
        }
        let missing = resolve_workspace(&home, &asked("x", base.join("none"))).unwrap_err();
        assert!(missing.is_not_found());
        fs::write(base.join("file"), "x").unwrap();
        assert_eq!(refusal(base.join("file")), "workspace BASE/file: not a directory");
        assert!(resolve_workspace(&home, &asked("x", "docs")).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn link_is_resolved_and_stated() {
        use std::os::unix::fs::symlink;
        let (_temp, home, base) = fixture();
        symlink(base.join("project"), base.join("link")).unwrap();
        symlink(base.join("home"), base.join("alias")).unwrap();
        let found = resolve_workspaces(
            &home,
            &[
                asked("p", base.join("link/src")),
                asked("h", base.join("alias")),
                asked("s", base.join("alias/sandbox/data")),
                asked("p", base.join("project")),
                asked("Q", base.join("project")),
            ],
        );
        let expected = Workspace { path: base.join("project/src"), ..asked("p", "") };
        assert_eq!(found.workspaces, [expected]);
        let notes: Vec<_> = found
            .notes
            .iter()
            .map(|note| note.replace(&base.display().to_string(), "BASE"))
            .collect();
        assert_eq!(
            notes,
            [
                "workspace `p` is BASE/project/src, which BASE/link/src leads to",
                "workspace `h` is not available: workspace BASE/home: this is the home itself",
                "workspace `s` is not available: workspace BASE/home/sandbox/data: it belongs to \
                 the home's sandbox/",
                "workspace `p` is not available: workspace label `p` is used twice",
                "workspace `Q` is not available: workspace label \"Q\" is not valid",
            ]
        );
    }

    #[test]
    fn labels_are_derived_from_names() {
        let cases = [
            ("/x/My Project", "my-project"),
            ("/x/skillhost", "skillhost"),
            ("/x/.config", "config"),
            ("/x/日本", "workspace"),
            ("/", "workspace"),
            ("/x/a__b--c.rs", "a__b-c-rs"),
        ];
        for (path, label) in cases {
            assert_eq!(derive_label(Path::new(path)), label);
            assert!(is_label(label));
        }
        for label in ["", "-a", "a/b", "A", "a b", &"a".repeat(65)] {
            assert!(!is_label(label), "{label}");
        }
    }
}
