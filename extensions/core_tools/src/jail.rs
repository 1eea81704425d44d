//! The steps of a walk in the jail: no path leads out of it, into private data or into a skill.
//!
//! Every component of a path is opened as [`skillhost_files::jail`] does it: relative to the
//! previous one and without following a link. Between two steps `roots` looks whether the next
//! directory may be entered at all.

use std::io::{self, ErrorKind as IoKind};

use cap_fs_ext::MetadataExt;
use cap_std::fs::{Dir, File, Metadata};
use skillhost_files::jail::{self, JailError};
use skillhost_sdk::{ErrorKind, ExtensionError};

use crate::path::{DirectoryPath, FilePath};

/// The file that makes a directory a skill.
const SKILL_FILE: &str = "skill.md";

/// An entry that may or may not exist.
pub(crate) struct EntryPath {
    /// The directory it lies in.
    pub(crate) dir: Dir,
    /// Its name there.
    pub(crate) name: String,
}

/// The directories that a call has created, each with its parent.
#[derive(Default)]
pub(crate) struct CreatedDirectories(Vec<(Dir, String)>);

impl CreatedDirectories {
    /// Removes the created directories, the last first, if they are empty.
    pub(crate) fn undo(self) {
        // In reverse order: a parent is empty only after its child is removed.
        for (dir, name) in self.0.into_iter().rev() {
            // A concurrent process may have added a file to it; then it stays.
            let _ = dir.remove_dir(name);
        }
    }
}

impl EntryPath {
    /// Returns the metadata of the entry itself, or `None` if it does not exist.
    pub(crate) fn metadata(&self) -> io::Result<Option<Metadata>> {
        // `symlink_metadata` describes a link itself instead of its target.
        match self.dir.symlink_metadata(&self.name) {
            Ok(metadata) => Ok(Some(metadata)),
            Err(error) if error.kind() == IoKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the entry, a regular file, and examines the open file.
    pub(crate) fn open_file(&self) -> Result<(File, Metadata), EntryError> {
        Ok(jail::open_regular(&self.dir, &self.name)?)
    }

    /// Opens the entry, a directory.
    pub(crate) fn open_dir(&self) -> Result<Dir, EntryError> {
        step(&self.dir, &self.name)
    }
}

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileEntryKind {
    File,
    Directory,
    Link,
    Special,
}

impl FileEntryKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Link => "symbolic link",
            Self::Special => "special file",
        }
    }
}

/// Returns the type of an entry.
pub(crate) fn classify_entry(metadata: &Metadata) -> FileEntryKind {
    match metadata {
        metadata if metadata.is_symlink() => FileEntryKind::Link,
        metadata if metadata.is_dir() => FileEntryKind::Directory,
        metadata if metadata.is_file() => FileEntryKind::File,
        _ => FileEntryKind::Special,
    }
}

/// The reason why an entry was not opened.
#[derive(Debug)]
pub(crate) enum EntryError {
    NotFound,
    /// The entry has another type than required.
    Not {
        is: FileEntryKind,
    },
    /// The entry is part of the skill in this directory.
    Skill(String),
    Io(io::Error),
}

impl From<JailError> for EntryError {
    fn from(error: JailError) -> Self {
        match error {
            JailError::NotFound => Self::NotFound,
            JailError::Link => Self::Not { is: FileEntryKind::Link },
            JailError::Directory => Self::Not { is: FileEntryKind::Directory },
            JailError::NotRegular => Self::Not { is: FileEntryKind::Special },
            JailError::Io(error) => Self::Io(error),
        }
    }
}

impl From<io::Error> for EntryError {
    fn from(error: io::Error) -> Self {
        JailError::from(error).into()
    }
}

impl EntryError {
    /// Converts the reason into an error about a directory.
    pub(crate) fn with_directory(self, path: &DirectoryPath) -> ExtensionError {
        match path.inner() {
            Some(path) => self.with_path(path),
            // A root itself is opened without these errors.
            None => ExtensionError::not_found("directory not found"),
        }
    }

    /// Converts the reason into an error about a path.
    pub(crate) fn with_path(self, path: &FilePath) -> ExtensionError {
        match self {
            Self::NotFound => {
                let place = if path.workspace().is_some() { "" } else { " in the sandbox" };
                ExtensionError::not_found(format!("`{path}` not found{place}"))
                    .with_hint(not_found_hint(path))
            }
            Self::Not { is: FileEntryKind::Link } => ExtensionError::new(
                ErrorKind::Denied,
                format!("`{path}` is or passes through a symbolic link"),
            )
            .with_hint("links are not followed; name the target if it is inside"),
            Self::Not { is } => {
                ExtensionError::invalid_argument(format!("`{path}` is a {}", is.as_str()))
                    .with_hint("list_directory shows the kind of each entry")
            }
            Self::Skill(dir) => read_only_skill_error(path, &dir),
            Self::Io(error) => ExtensionError::new(ErrorKind::Io, format!("`{path}`: {error}"))
                .with_hint("try again; if it persists, report it to the operator"),
        }
    }
}

/// Creates the error of a change to a skill's file.
pub(crate) fn read_only_skill_error(path: &FilePath, dir: &str) -> ExtensionError {
    let id = dir.rsplit('/').next().unwrap_or(dir);
    let hint = match path.workspace() {
        // The registry may not know it, and a proposal would not apply to it.
        Some(_) => "describe the change to the user, who makes it".to_owned(),
        None => format!("propose the change: propose_skill_update with skill_id `{id}`"),
    };
    ExtensionError::new(
        ErrorKind::Denied,
        format!("`{path}` belongs to the skill `{id}`, which is read-only"),
    )
    .with_hint(hint)
}

fn not_found_hint(path: &FilePath) -> String {
    match path.as_str().strip_prefix("sandbox/") {
        Some(rest) => format!("paths start below the sandbox: `{rest}`"),
        None => "list_directory lists the entries; a path is taken literally".to_owned(),
    }
}

/// Returns the identity of the directory that a name refers to.
pub(crate) fn read_identity(dir: &Dir, name: &str) -> Option<(u64, u64)> {
    let metadata = dir.symlink_metadata(name).ok()?;
    metadata.is_dir().then(|| (metadata.dev(), metadata.ino()))
}

/// Returns whether a file of this name makes its directory a skill, on any file system.
pub(crate) fn is_skill_file(name: &str) -> bool {
    name.eq_ignore_ascii_case(SKILL_FILE)
}

/// Returns whether a directory is that of a skill.
pub(crate) fn has_skill_file(dir: &Dir) -> io::Result<bool> {
    for name in ["SKILL.md", "skill.md"] {
        match dir.symlink_metadata(name) {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == IoKind::NotFound => {}
            // An error other than a missing file must not pass as the absence of a skill.
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

pub(crate) fn step(dir: &Dir, component: &str) -> Result<Dir, EntryError> {
    jail::open_component(dir, component).map_err(|error| explain(error, dir, component))
}

pub(crate) fn step_or_make(
    dir: &Dir,
    component: &str,
    made: &mut CreatedDirectories,
) -> Result<Dir, EntryError> {
    let record = |dir: &Dir| {
        made.0.push((dir.try_clone()?, component.to_owned()));
        Ok(())
    };
    jail::open_or_create_component(dir, component, record)
        .map_err(|error| explain(error, dir, component))
}

/// Names a file where a directory was expected. The jail reports the directory as missing, and a
/// model would create it.
fn explain(error: JailError, dir: &Dir, component: &str) -> EntryError {
    let is_file = || dir.symlink_metadata(component).is_ok_and(|metadata| metadata.is_file());
    match error {
        JailError::NotFound if is_file() => EntryError::Not { is: FileEntryKind::File },
        error => error.into(),
    }
}
