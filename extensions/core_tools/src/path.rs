//! Paths that models write.

use std::fmt;

use skillhost_files::jail::{RelPath, RelPathError};
use skillhost_sdk::{ErrorKind, ExtensionError};

/// A path below the sandbox that cannot lead out of it as text.
///
/// Components are separated by `/`. Escapes are not decoded: `%2e%2e` is a name like any other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SandboxPath(RelPath);

impl SandboxPath {
    /// Checks a path.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for a path that leads out of the sandbox,
    /// [`ErrorKind::InvalidArgument`] for another that is not allowed.
    pub fn new(path: &str) -> Result<Self, ExtensionError> {
        RelPath::new_printable(path).map(Self).map_err(to_extension_error)
    }

    /// Returns the path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the components.
    pub(crate) fn components(&self) -> impl Iterator<Item = &str> {
        self.0.components()
    }

    /// Splits the path into the directories and the last name.
    pub(crate) fn split(&self) -> (impl Iterator<Item = &str>, &str) {
        self.0.split()
    }

    /// Returns the name of the parent directory, or `None` at the top.
    pub(crate) fn parent_name(&self) -> Option<&str> {
        self.as_str().rsplit('/').nth(1)
    }

    /// Returns whether the path equals another one or lies below it, ignoring case.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        let (mine, other) = (self.as_str().to_lowercase(), other.as_str().to_lowercase());
        mine.strip_prefix(&other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for SandboxPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
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
            let error = SandboxPath::new(path).unwrap_err();
            assert_eq!((error.kind(), error.message()), (kind, &*message), "{path}");
            assert!(error.hint().starts_with("give a path below the sandbox"), "{path}");
        }
        for path in ["a", "...", "..a/b", "a..", "%2e%2e/b", "~/x", "a b/ü/技能.md", "ab:c", "$X"]
        {
            assert_eq!(SandboxPath::new(path).unwrap().to_string(), path);
        }
    }

    #[test]
    fn path_containment_ignores_case() {
        let path = |path| SandboxPath::new(path).unwrap();
        assert!(path("a/b/c").is_within(&path("A/B")));
        assert!(path("a/b").is_within(&path("a/b")));
        assert!(!path("a/bc").is_within(&path("a/b")));
        assert_eq!((path("a/b/c").parent_name(), path("a").parent_name()), (Some("b"), None));
    }
}
