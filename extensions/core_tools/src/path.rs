//! Paths that models write.

use std::fmt;

use skillhost_sdk::{ErrorKind, ExtensionError};

/// A path below the sandbox that cannot lead out of it as text.
///
/// Components are separated by `/`. Escapes are not decoded: `%2e%2e` is a name like any other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SandboxPath(String);

/// The reason why a path is rejected before any access to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SandboxPathError {
    /// The path has no characters.
    Empty,
    /// The path or one of its components is too long; holds the length in bytes.
    TooLong(usize),
    /// The path has too many components; holds their number.
    TooDeep(usize),
    /// The path has a control character, such as NUL or a line break.
    Control,
    /// The path has a backslash.
    Backslash,
    /// The path starts with `/`.
    Absolute,
    /// The path starts with a drive letter.
    Drive,
    /// The path has an empty component: a doubled or a trailing slash.
    EmptyComponent,
    /// The path has a component `.` or `..`.
    Dots,
}

impl SandboxPath {
    /// The largest length in bytes.
    pub const MAX_BYTES: usize = 1_024;
    const MAX_COMPONENT_BYTES: usize = 255;
    const MAX_COMPONENTS: usize = 32;

    /// Checks a path.
    ///
    /// # Errors
    /// Fails with the first rule the path breaks.
    pub fn new(path: &str) -> Result<Self, SandboxPathError> {
        let bytes = path.as_bytes();
        if path.is_empty() {
            return Err(SandboxPathError::Empty);
        }
        if path.len() > Self::MAX_BYTES {
            return Err(SandboxPathError::TooLong(path.len()));
        }
        if path.chars().any(char::is_control) {
            return Err(SandboxPathError::Control);
        }
        if bytes.contains(&b'\\') {
            return Err(SandboxPathError::Backslash);
        }
        if bytes[0] == b'/' {
            return Err(SandboxPathError::Absolute);
        }
        if bytes[0].is_ascii_alphabetic() && bytes.get(1) == Some(&b':') {
            return Err(SandboxPathError::Drive);
        }
        for component in path.split('/') {
            match component {
                "" => return Err(SandboxPathError::EmptyComponent),
                "." | ".." => return Err(SandboxPathError::Dots),
                _ if component.len() > Self::MAX_COMPONENT_BYTES => {
                    return Err(SandboxPathError::TooLong(component.len()));
                }
                _ => {}
            }
        }
        match path.split('/').count() {
            count if count > Self::MAX_COMPONENTS => Err(SandboxPathError::TooDeep(count)),
            _ => Ok(Self(path.to_owned())),
        }
    }

    /// Returns the path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the components.
    pub(crate) fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// Splits the path into the directories and the last name.
    pub(crate) fn split(&self) -> (impl Iterator<Item = &str>, &str) {
        let (parents, name) = self.0.rsplit_once('/').unwrap_or(("", &self.0));
        (parents.split('/').filter(|component| !component.is_empty()), name)
    }

    /// Returns the name of the parent directory, or `None` at the top.
    pub(crate) fn parent_name(&self) -> Option<&str> {
        self.0.rsplit('/').nth(1)
    }

    /// Returns whether the path equals another one or lies below it, ignoring case.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        let (mine, other) = (self.0.to_lowercase(), other.0.to_lowercase());
        mine.strip_prefix(&other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for SandboxPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for SandboxPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a path cannot be empty"),
            Self::TooLong(length) => {
                write!(f, "a path has at most 1024 bytes and 255 in a component, this has {length}")
            }
            Self::TooDeep(count) => write!(f, "a path has at most 32 components, this has {count}"),
            Self::Control => f.write_str("a path cannot contain control characters"),
            Self::Backslash => f.write_str("a path cannot contain a backslash"),
            Self::Absolute => f.write_str("a path cannot be absolute"),
            Self::Drive => f.write_str("a path cannot start with a drive"),
            Self::EmptyComponent => f.write_str("a path cannot have an empty component"),
            Self::Dots => f.write_str("a path cannot have a component `.` or `..`"),
        }
    }
}

impl From<SandboxPathError> for ExtensionError {
    fn from(fault: SandboxPathError) -> Self {
        let kind = match fault {
            SandboxPathError::Backslash
            | SandboxPathError::Absolute
            | SandboxPathError::Drive
            | SandboxPathError::Dots => ErrorKind::Denied,
            _ => ErrorKind::InvalidArgument,
        };
        Self::new(kind, fault.to_string()).with_hint(
            "give a path below the sandbox, with /, as list_directory shows it: skills/x/SKILL.md",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_rules_have_distinct_errors() {
        let (long, deep) = ("a".repeat(256), "a/".repeat(32) + "a");
        let very_long = format!("{}b", "a/".repeat(600));
        let cases = [
            ("", SandboxPathError::Empty),
            ("a\0b", SandboxPathError::Control),
            ("a\nb", SandboxPathError::Control),
            ("a\u{9b}b", SandboxPathError::Control),
            ("a\\b", SandboxPathError::Backslash),
            ("/etc/passwd", SandboxPathError::Absolute),
            ("//a", SandboxPathError::Absolute),
            ("C:/a", SandboxPathError::Drive),
            ("c:a", SandboxPathError::Drive),
            ("a//b", SandboxPathError::EmptyComponent),
            ("a/", SandboxPathError::EmptyComponent),
            (".", SandboxPathError::Dots),
            ("a/../b", SandboxPathError::Dots),
            ("a/..", SandboxPathError::Dots),
            (&long, SandboxPathError::TooLong(256)),
            (&very_long, SandboxPathError::TooLong(1_201)),
            (&deep, SandboxPathError::TooDeep(33)),
        ];
        for (path, fault) in cases {
            assert_eq!(SandboxPath::new(path), Err(fault), "{path}");
        }
        for path in ["a", "...", "..a/b", "a..", "%2e%2e/b", "~/x", "a b/ü/技能.md", "ab:c", "$X"]
        {
            assert_eq!(SandboxPath::new(path).map(|path| path.to_string()), Ok(path.to_owned()));
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
