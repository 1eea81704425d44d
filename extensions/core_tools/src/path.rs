//! Paths that models write.

use std::fmt;

use skillhost_files::jail::{RelPath, RelPathError};
use skillhost_sdk::{ErrorKind, ExtensionError, Workspace};

use crate::printable::display_safe;

/// A path below the sandbox, or below a workspace if it begins with `workspace:LABEL/`, that cannot
/// lead out of it as text.
///
/// Components are separated by `/`. Escapes are not decoded: `%2e%2e` is a name like any other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath {
    /// The complete text, with the label.
    text: Box<str>,
    workspace: Option<Box<str>>,
    below: RelPath,
}

/// The path of a directory: also the sandbox or a workspace itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirectoryPath {
    workspace: Option<Box<str>>,
    inner: Option<FilePath>,
}

impl FilePath {
    /// Checks a path.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for a path that leads out of the sandbox or the workspace,
    /// [`ErrorKind::InvalidArgument`] for another that is not allowed.
    pub fn new(path: &str) -> Result<Self, ExtensionError> {
        let Some(rest) = path.strip_prefix(Workspace::PREFIX) else {
            let below = RelPath::new_printable(path).map_err(to_extension_error)?;
            return Ok(Self { text: path.into(), workspace: None, below });
        };
        let Some((label, below)) = rest.split_once('/') else {
            let message = format!("`{}` is the workspace itself", display_safe(path));
            return Err(ExtensionError::invalid_argument(message)
                .with_hint("name an entry in it, such as workspace:LABEL/README.md"));
        };
        let below = RelPath::new_printable(below).map_err(to_extension_error)?;
        Ok(Self { text: path.into(), workspace: Some(check_label(label)?), below })
    }

    /// Returns the path as text, with the label of its workspace.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the label of its workspace, or `None` in the sandbox.
    pub(crate) fn workspace(&self) -> Option<&str> {
        self.workspace.as_deref()
    }

    /// Returns the components below the sandbox or the workspace.
    pub(crate) fn components(&self) -> impl Iterator<Item = &str> {
        self.below.components()
    }

    /// Splits the path into the directories and the last name.
    pub(crate) fn split(&self) -> (impl Iterator<Item = &str>, &str) {
        self.below.split()
    }

    /// Returns the name of the parent directory, or `None` at the top.
    pub(crate) fn parent_name(&self) -> Option<&str> {
        self.below.as_str().rsplit('/').nth(1)
    }

    /// Returns whether the path equals another one or lies below it, ignoring case.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        let (mine, other) = (self.as_str().to_lowercase(), other.as_str().to_lowercase());
        mine.strip_prefix(&other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl DirectoryPath {
    /// Checks a path; `None` is the sandbox itself and `workspace:LABEL` a workspace itself.
    ///
    /// # Errors
    /// Those of [`FilePath::new`].
    pub(crate) fn new(path: Option<&str>) -> Result<Self, ExtensionError> {
        let Some(path) = path else { return Ok(Self::default()) };
        if let Some(label) = path.strip_prefix(Workspace::PREFIX) {
            // Models often end the path of a directory with a slash.
            let label = label.strip_suffix('/').unwrap_or(label);
            if !label.contains('/') {
                return Ok(Self { workspace: Some(check_label(label)?), inner: None });
            }
        }
        FilePath::new(path).map(Self::from)
    }

    /// Returns the sandbox or the workspace that a path is in.
    pub(crate) fn root_of(path: &Self) -> Self {
        Self { workspace: path.workspace.clone(), inner: None }
    }

    /// Returns the label of its workspace, or `None` in the sandbox.
    pub(crate) fn workspace(&self) -> Option<&str> {
        self.workspace.as_deref()
    }

    /// Returns the path below the sandbox or the workspace, or `None` for that directory itself.
    pub(crate) fn inner(&self) -> Option<&FilePath> {
        self.inner.as_ref()
    }

    /// Returns the path as text, or `None` for the sandbox itself.
    pub(crate) fn to_text(&self) -> Option<String> {
        match (&self.inner, &self.workspace) {
            (Some(path), _) => Some(path.to_string()),
            (None, Some(label)) => Some(format!("{}{label}", Workspace::PREFIX)),
            (None, None) => None,
        }
    }

    /// Returns the beginning of the paths in this directory: empty for the sandbox, otherwise it
    /// ends with a slash.
    pub(crate) fn entry_prefix(&self) -> String {
        self.to_text().map(|text| text + "/").unwrap_or_default()
    }

    /// Returns whether the directory is the sandbox itself.
    pub(crate) fn is_sandbox(&self) -> bool {
        self.workspace.is_none() && self.inner.is_none()
    }
}

impl From<FilePath> for DirectoryPath {
    fn from(path: FilePath) -> Self {
        Self { workspace: path.workspace.clone(), inner: Some(path) }
    }
}

/// Checks that a label can be one: it is shown in messages.
fn check_label(label: &str) -> Result<Box<str>, ExtensionError> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !label.is_empty() && label.len() <= 64 && label.chars().all(is_valid) {
        return Ok(label.into());
    }
    let message = format!("{:?} is not the label of a workspace", display_safe(label));
    Err(ExtensionError::invalid_argument(message)
        .with_hint("a path in a workspace is workspace:LABEL/PATH"))
}

fn to_extension_error(error: RelPathError) -> ExtensionError {
    let kind = match error {
        RelPathError::Backslash
        | RelPathError::Absolute
        | RelPathError::Drive
        | RelPathError::Dots => ErrorKind::Denied,
        _ => ErrorKind::InvalidArgument,
    };
    ExtensionError::new(kind, error.to_string()).with_hint(
        "give a path below the sandbox, with /, as list_directory shows it: skills/x/SKILL.md",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_rules_have_distinct_errors() {
        let (long, deep) = ("a".repeat(256), "a/".repeat(32) + "a");
        let very_long = format!("{}b", "a/".repeat(600));
        let (denied, invalid) = (ErrorKind::Denied, ErrorKind::InvalidArgument);
        let length = "a path has at most 1024 bytes and 255 in a component, this has ";
        let controls = "a path cannot contain control characters";
        let cases = [
            ("", invalid, "a path cannot be empty".to_owned()),
            ("a\0b", invalid, controls.to_owned()),
            ("a\nb", invalid, controls.to_owned()),
            ("a\u{9b}b", invalid, controls.to_owned()),
            ("a\\b", denied, "a path cannot contain a backslash".to_owned()),
            ("/etc/passwd", denied, "a path cannot be absolute".to_owned()),
            ("//a", denied, "a path cannot be absolute".to_owned()),
            ("C:/a", denied, "a path cannot start with a drive".to_owned()),
            ("c:a", denied, "a path cannot start with a drive".to_owned()),
            ("a//b", invalid, "a path cannot have an empty component".to_owned()),
            ("a/", invalid, "a path cannot have an empty component".to_owned()),
            (".", denied, "a path cannot have a component `.` or `..`".to_owned()),
            ("a/../b", denied, "a path cannot have a component `.` or `..`".to_owned()),
            ("a/..", denied, "a path cannot have a component `.` or `..`".to_owned()),
            (&long, invalid, format!("{length}256")),
            (&very_long, invalid, format!("{length}1201")),
            (&deep, invalid, "a path has at most 32 components, this has 33".to_owned()),
        ];
        for (path, kind, message) in cases {
            let error = FilePath::new(path).unwrap_err();
            assert_eq!((error.kind(), error.message()), (kind, &*message), "{path}");
            assert!(error.hint().starts_with("give a path below the sandbox"), "{path}");
        }
        for path in ["a", "...", "..a/b", "a..", "%2e%2e/b", "~/x", "a b/ü/技能.md", "ab:c", "$X"]
        {
            assert_eq!(FilePath::new(path).unwrap().to_string(), path);
        }
    }

    #[test]
    fn path_containment_ignores_case() {
        let path = |path| FilePath::new(path).unwrap();
        assert!(path("a/b/c").is_within(&path("A/B")));
        assert!(path("a/b").is_within(&path("a/b")));
        assert!(!path("a/bc").is_within(&path("a/b")));
        assert_eq!((path("a/b/c").parent_name(), path("a").parent_name()), (Some("b"), None));
    }

    #[test]
    fn workspace_paths_have_label() {
        let path = FilePath::new("workspace:p/src/lib.rs").unwrap();
        assert_eq!((path.workspace(), path.as_str()), (Some("p"), "workspace:p/src/lib.rs"));
        assert_eq!(path.components().collect::<Vec<_>>(), ["src", "lib.rs"]);
        assert_eq!(
            (path.parent_name(), FilePath::new("workspace:p/x").unwrap().parent_name()),
            (Some("src"), None)
        );
        for text in ["workspace:p", "workspace:p/"] {
            let directory = DirectoryPath::new(Some(text)).unwrap();
            assert_eq!((directory.workspace(), directory.inner()), (Some("p"), None));
            assert_eq!(directory.entry_prefix(), "workspace:p/");
        }
        assert!(DirectoryPath::new(None).unwrap().is_sandbox());
        let cases = [
            ("workspace:p", ErrorKind::InvalidArgument),
            ("workspace:/x", ErrorKind::InvalidArgument),
            ("workspace:a b/x", ErrorKind::InvalidArgument),
            ("workspace:p/", ErrorKind::InvalidArgument),
            ("workspace:p//etc", ErrorKind::Denied),
            ("workspace:p/../x", ErrorKind::Denied),
            ("workspace:../x", ErrorKind::InvalidArgument),
        ];
        for (path, kind) in cases {
            assert_eq!(FilePath::new(path).unwrap_err().kind(), kind, "{path}");
        }
    }
}
