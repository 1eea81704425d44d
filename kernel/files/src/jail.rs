//! The jail of files that others name: no path leads out of it.
//!
//! A path is first accepted or rejected as text. Then every component is opened relative to the
//! previous one, without following a link, and the descriptor that was examined is the one that is
//! read. So no directory can be replaced by a link between check and use.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Component, Path};

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use crate::fault;
use crate::synced::sync_file;

/// A path below a directory that cannot lead out of it as text.
///
/// Components are separated by `/`. Escapes are not decoded: `%2e%2e` is a name like any other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(Box<str>);

/// The reason why a path is rejected before any access to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelPathError {
    /// The path has no characters.
    #[error("a path cannot be empty")]
    Empty,
    /// The path or one of its components is too long; holds the length in bytes.
    #[error("a path has at most 1024 bytes and 255 in a component, this has {0}")]
    TooLong(usize),
    /// The path has too many components; holds their number.
    #[error("a path has at most 32 components, this has {0}")]
    TooDeep(usize),
    /// The path has a NUL.
    #[error("a path cannot contain NUL")]
    Nul,
    /// The path has a control character, such as NUL or a line break.
    #[error("a path cannot contain control characters")]
    Control,
    /// The path has a backslash.
    #[error("a path cannot contain a backslash")]
    Backslash,
    /// The path starts with `/`.
    #[error("a path cannot be absolute")]
    Absolute,
    /// The path starts with a drive letter.
    #[error("a path cannot start with a drive")]
    Drive,
    /// The path has an empty component: a doubled or a trailing slash.
    #[error("a path cannot have an empty component")]
    EmptyComponent,
    /// The path has a component `.` or `..`.
    #[error("a path cannot have a component `.` or `..`")]
    Dots,
}

impl RelPath {
    /// The largest length in bytes.
    pub const MAX_BYTES: usize = 1_024;
    const MAX_COMPONENT_BYTES: usize = 255;
    const MAX_COMPONENTS: usize = 32;

    /// Checks a path.
    ///
    /// # Errors
    /// Fails with the first rule the path breaks.
    pub fn new(path: &str) -> Result<Self, RelPathError> {
        Self::check(path, |c| c == '\0', RelPathError::Nul)
    }

    /// Checks a path as [`RelPath::new`] does, and rejects every control character in it, not only
    /// NUL: such a path is displayed on one line.
    ///
    /// # Errors
    /// Fails with the first rule the path breaks.
    pub fn new_printable(path: &str) -> Result<Self, RelPathError> {
        Self::check(path, char::is_control, RelPathError::Control)
    }

    fn check(
        path: &str,
        is_forbidden: fn(char) -> bool,
        forbidden: RelPathError,
    ) -> Result<Self, RelPathError> {
        let bytes = path.as_bytes();
        if path.is_empty() {
            return Err(RelPathError::Empty);
        }
        if path.len() > Self::MAX_BYTES {
            return Err(RelPathError::TooLong(path.len()));
        }
        if path.contains(is_forbidden) {
            return Err(forbidden);
        }
        if bytes.contains(&b'\\') {
            return Err(RelPathError::Backslash);
        }
        if bytes[0] == b'/' {
            return Err(RelPathError::Absolute);
        }
        // On Windows such a path is relative to the directory of another drive.
        if bytes[0].is_ascii_alphabetic() && bytes.get(1) == Some(&b':') {
            return Err(RelPathError::Drive);
        }
        for component in path.split('/') {
            match component {
                "" => return Err(RelPathError::EmptyComponent),
                "." | ".." => return Err(RelPathError::Dots),
                _ if component.len() > Self::MAX_COMPONENT_BYTES => {
                    return Err(RelPathError::TooLong(component.len()));
                }
                _ => {}
            }
        }
        match path.split('/').count() {
            count if count > Self::MAX_COMPONENTS => Err(RelPathError::TooDeep(count)),
            _ => Ok(Self(path.into())),
        }
    }

    /// Returns the path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the components.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// Splits the path into the directories and the last name.
    pub fn split(&self) -> (impl Iterator<Item = &str>, &str) {
        let (parents, last) = self.0.rsplit_once('/').unwrap_or(("", &self.0));
        (parents.split('/').filter(|component| !component.is_empty()), last)
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The reason why a file in the jail was not opened.
#[derive(Debug)]
pub enum JailError {
    /// No entry of that name exists.
    NotFound,
    /// A component of the path is a symbolic link.
    Link,
    /// The path leads to a directory.
    Directory,
    /// The path leads to an entry that is not a file.
    NotRegular,
    /// The system failed.
    Io(io::Error),
}

impl From<io::Error> for JailError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => {
                Self::NotFound
            }
            _ => Self::Io(error),
        }
    }
}

/// Opens a directory of the operator, in which a jail is. Links in its own path are followed.
///
/// # Errors
/// The system's error.
pub fn open_root(path: &Path) -> io::Result<Dir> {
    Dir::open_ambient_dir(path, ambient_authority())
}

/// Opens a directory of the operator by a canonical path: a link in any component is an error.
///
/// # Errors
/// [`JailError::Link`]; those of [`open_component`].
pub fn open_canonical(path: &Path) -> Result<Dir, JailError> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            Ok(dir) => return Ok(Dir::from_std_file(dir.into())),
            Err(rustix::io::Errno::LOOP) => return Err(JailError::Link),
            // An old kernel or a filter of system calls knows no such call.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
    let mut components = path.components();
    let mut dir = match components.next() {
        Some(root @ Component::RootDir) => open_root(Path::new(&root))?,
        _ => return Err(JailError::NotFound),
    };
    for component in components {
        let name = component.as_os_str().to_str().ok_or(JailError::NotFound)?;
        dir = open_component(&dir, name)?;
    }
    Ok(dir)
}

/// Opens a directory below a root, component by component; creates missing ones if `make` is set.
///
/// # Errors
/// Those of [`open_component`], or of [`open_or_create_component`] if `make` is set.
pub fn open_below(root: &Path, rel: &str, make: bool) -> Result<Dir, JailError> {
    if make {
        // Links in the root's own path are the operator's.
        std::fs::create_dir_all(root)?;
    }
    let mut dir = open_root(root)?;
    for component in rel.split('/') {
        dir = if make {
            open_or_create_component(&dir, component, |_| Ok(()))?
        } else {
            open_component(&dir, component)?
        };
    }
    Ok(dir)
}

/// Opens the parent directory of a skill's file and returns the file's name; creates missing
/// directories if `make` is set. `None` means the skill's directory itself.
///
/// # Errors
/// As [`open_below`].
pub fn open_parent<'p>(
    dir: &Dir,
    path: &'p RelPath,
    make: bool,
) -> Result<(Option<Dir>, &'p str), JailError> {
    let (parents, name) = path.split();
    let mut inner: Option<Dir> = None;
    for component in parents {
        let above = inner.as_ref().unwrap_or(dir);
        inner = Some(if make {
            open_or_create_component(above, component, |_| Ok(()))?
        } else {
            open_component(above, component)?
        });
    }
    Ok((inner, name))
}

/// Opens a regular file below a directory and examines the open file.
///
/// # Errors
/// Those of [`open_component`] and [`open_regular`].
pub fn open_file(dir: &Dir, path: &RelPath) -> Result<(File, Metadata), JailError> {
    let (inner, name) = open_parent(dir, path, false)?;
    open_regular(inner.as_ref().unwrap_or(dir), name)
}

/// Opens a regular file in a directory and examines the open file.
///
/// # Errors
/// [`JailError::Link`], [`JailError::Directory`] and [`JailError::NotRegular`] for an entry of
/// another type, [`JailError::NotFound`] without an entry, [`JailError::Io`] if the system fails.
pub fn open_regular(dir: &Dir, name: &str) -> Result<(File, Metadata), JailError> {
    let mut options = OpenOptions::new();
    // Non-blocking, because opening a FIFO would wait for a writer.
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = dir.open_with(name, &options).map_err(|error| explain(dir, name, error))?;
    // The metadata of the descriptor: the name may refer to another file by now.
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(JailError::Directory);
    }
    if !metadata.is_file() {
        return Err(JailError::NotRegular);
    }
    Ok((file, metadata))
}

/// Opens a directory in a directory; creates and syncs it if it is missing. `record` is called
/// with the parent of a directory that this call created, before anything else can fail.
///
/// # Errors
/// Those of [`open_component`], of the creation and of `record`.
pub fn open_or_create_component(
    dir: &Dir,
    component: &str,
    record: impl FnOnce(&Dir) -> io::Result<()>,
) -> Result<Dir, JailError> {
    match dir.symlink_metadata(component) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fault::failpoint("dir.create")?;
            match dir.create_dir(component) {
                Ok(()) => record(dir)?,
                // A concurrent process has created it; the open below checks its type.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
            // The new directory survives a crash only after its parent is synced.
            sync_directory(dir)?;
        }
        _ => {}
    }
    open_component(dir, component)
}

/// Syncs the entries of a directory to the disk.
///
/// # Errors
/// The system's error.
pub fn sync_directory(dir: &Dir) -> io::Result<()> {
    fault::failpoint("dir.sync")?;
    // Directories can be synced on Unix only.
    #[cfg(unix)]
    sync_file(&dir.open(".")?.into_std())?;
    Ok(())
}

/// Opens a directory in a directory without following a link.
///
/// # Errors
/// [`JailError::Link`] and [`JailError::NotRegular`] for an entry of another type,
/// [`JailError::NotFound`] without an entry and for a file, [`JailError::Io`] if the system fails.
pub fn open_component(dir: &Dir, component: &str) -> Result<Dir, JailError> {
    dir.open_dir_nofollow(component).map_err(|error| explain(dir, component, error))
}

/// Determines the reason why a component could not be opened; only the message depends on it.
fn explain(dir: &Dir, component: &str, error: io::Error) -> JailError {
    match dir.symlink_metadata(component) {
        Ok(metadata) if metadata.is_symlink() => JailError::Link,
        Ok(metadata) if metadata.is_dir() => JailError::Io(error),
        Ok(metadata) if !metadata.is_file() => JailError::NotRegular,
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_rules_have_distinct_errors() {
        let long = "a".repeat(256);
        let deep = "a/".repeat(32) + "a";
        let very_long = format!("{}b", "a/".repeat(600));
        let cases = [
            ("", RelPathError::Empty),
            ("a\0b", RelPathError::Nul),
            ("a\\b", RelPathError::Backslash),
            ("..\\b", RelPathError::Backslash),
            ("/etc/passwd", RelPathError::Absolute),
            ("//a", RelPathError::Absolute),
            ("C:/a", RelPathError::Drive),
            ("c:a", RelPathError::Drive),
            ("a//b", RelPathError::EmptyComponent),
            ("a/", RelPathError::EmptyComponent),
            (".", RelPathError::Dots),
            ("..", RelPathError::Dots),
            ("a/../b", RelPathError::Dots),
            ("a/./b", RelPathError::Dots),
            ("a/..", RelPathError::Dots),
            (&long, RelPathError::TooLong(256)),
            (&very_long, RelPathError::TooLong(1_201)),
            (&deep, RelPathError::TooDeep(33)),
        ];
        for (path, error) in cases {
            assert_eq!(RelPath::new(path), Err(error), "{path}");
            let error = if error == RelPathError::Nul { RelPathError::Control } else { error };
            assert_eq!(RelPath::new_printable(path), Err(error), "{path}");
        }
        for path in ["a\nb", "a\u{9b}b"] {
            assert!(RelPath::new(path).is_ok());
            assert_eq!(RelPath::new_printable(path), Err(RelPathError::Control));
        }
    }

    #[test]
    fn odd_but_safe_names_are_accepted() {
        for path in ["a", "...", "..a/b", "a..", "%2e%2e/b", "~/x", "a b/ü/技能.md", "ab:c", "$X"]
        {
            assert_eq!(RelPath::new(path).map(|path| path.to_string()), Ok(path.to_owned()));
        }
    }
}
