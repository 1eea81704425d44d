//! The jail of the sandbox's files: no path leads out of it, into private data or into a skill.
//!
//! Every component of a path is opened as [`skillhost_files::jail`] does it: relative to the
//! previous one and without following a link. Between two steps this module looks whether the next
//! directory may be entered at all.

use std::io::{self, ErrorKind as IoKind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use cap_fs_ext::MetadataExt;
use cap_std::fs::{Dir, File, Metadata};
use skillhost_files::jail::{self, JailError};
use skillhost_sdk::{ErrorKind, ExtensionError};

use crate::path::SandboxPath;

/// The directory of the sandbox that holds the private data of extensions.
const PRIVATE: &str = "data";

/// The file that makes a directory a skill.
const SKILL_FILE: &str = "skill.md";

/// The directory in which a tool may read and write.
pub struct Sandbox {
    root: PathBuf,
    /// A lock that serializes writers: no other tool changes an examined file.
    pub(crate) writing: Mutex<()>,
}

/// An entry of the sandbox that may or may not exist.
pub(crate) struct EntryPath {
    /// The directory it lies in.
    pub(crate) dir: Dir,
    /// Its name there.
    pub(crate) name: String,
}

impl Sandbox {
    /// Creates the sandbox of a home; does not access the disk.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self { root: home.join("sandbox"), writing: Mutex::new(()) }
    }

    /// Opens the sandbox itself. Links in its own path are the operator's.
    pub(crate) fn open_root(&self) -> Result<Dir, ExtensionError> {
        jail::open_root(&self.root).map_err(|error| {
            ExtensionError::new(ErrorKind::Io, format!("the sandbox cannot be opened: {error}"))
                .with_hint("ask the operator: the home has no usable directory `sandbox`")
        })
    }

    /// Opens a directory.
    pub(crate) fn open_directory(&self, path: Option<&SandboxPath>) -> Result<Dir, ExtensionError> {
        let mut dir = self.open_root()?;
        let Some(path) = path else { return Ok(dir) };
        // The identity is taken once, before the walk, and compared with every component.
        let private = read_identity(&dir, PRIVATE);
        for (depth, component) in path.components().enumerate() {
            refuse_private(&private, &dir, component, path, depth == 0)?;
            dir = step(&dir, component).map_err(|fault| fault.with_path(path))?;
        }
        Ok(dir)
    }

    /// Opens the parent directory of a path, which must exist.
    pub(crate) fn open_entry(&self, path: &SandboxPath) -> Result<EntryPath, ExtensionError> {
        self.walk(path, &mut |dir, component| step(dir, component))
    }

    /// Opens the parent directory of a path; creates missing directories and returns them.
    pub(crate) fn open_entry_creating(
        &self,
        path: &SandboxPath,
        made: &mut CreatedDirectories,
    ) -> Result<EntryPath, ExtensionError> {
        self.walk(path, &mut |dir, component| step_or_make(dir, component, made))
    }

    fn walk(
        &self,
        path: &SandboxPath,
        step: &mut dyn FnMut(&Dir, &str) -> Result<Dir, EntryError>,
    ) -> Result<EntryPath, ExtensionError> {
        let mut dir = self.open_root()?;
        let private = read_identity(&dir, PRIVATE);
        let (parents, name) = path.split();
        let mut is_top = true;
        for component in parents {
            // Checked before the step, so that the private directory is never opened.
            refuse_private(&private, &dir, component, path, is_top)?;
            dir = step(&dir, component).map_err(|fault| fault.with_path(path))?;
            is_top = false;
        }
        // The last component is not opened here, but a tool could rename or delete it.
        refuse_private(&private, &dir, name, path, is_top)?;
        Ok(EntryPath { dir, name: name.to_owned() })
    }

    /// Rejects a path that no tool may change: private data and the files of a skill. Missing
    /// directories above it are allowed.
    pub(crate) fn check_mutable(&self, path: &SandboxPath) -> Result<(), ExtensionError> {
        let mut above = String::new();
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
    /// Converts the reason into an error about a path.
    pub(crate) fn with_path(self, path: &SandboxPath) -> ExtensionError {
        match self {
            Self::NotFound => {
                ExtensionError::not_found(format!("`{path}` not found in the sandbox"))
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
pub(crate) fn read_only_skill_error(path: &SandboxPath, dir: &str) -> ExtensionError {
    let id = dir.rsplit('/').next().unwrap_or(dir);
    ExtensionError::new(
        ErrorKind::Denied,
        format!("`{path}` belongs to the skill `{id}`, which is read-only"),
    )
    .with_hint(format!("propose the change: propose_skill_update with skill_id `{id}`"))
}

fn not_found_hint(path: &SandboxPath) -> String {
    match path.as_str().strip_prefix("sandbox/") {
        Some(rest) => format!("paths start below the sandbox: `{rest}`"),
        None => "list_directory lists the entries; a path is taken literally".to_owned(),
    }
}

/// Rejects the private directory by its name in any case, and by its identity.
fn refuse_private(
    private: &Option<(u64, u64)>,
    dir: &Dir,
    component: &str,
    path: &SandboxPath,
    is_top: bool,
) -> Result<(), ExtensionError> {
    // The name counts in any case: on some file systems `Data` is the same directory.
    let is_named = is_top && component.eq_ignore_ascii_case(PRIVATE);
    // A bind mount or a case-folding file system can show the directory under another name.
    if is_named || private.is_some() && read_identity(dir, component) == *private {
        return Err(ExtensionError::new(ErrorKind::Denied, format!("`{path}` is private data"))
            .with_hint("sandbox/data belongs to the extensions; use their tools"));
    }
    Ok(())
}

/// Returns the identity of the directory that a name refers to.
fn read_identity(dir: &Dir, name: &str) -> Option<(u64, u64)> {
    let metadata = dir.symlink_metadata(name).ok()?;
    metadata.is_dir().then(|| (metadata.dev(), metadata.ino()))
}

/// Returns whether an entry at the top of the sandbox is the private directory.
pub(crate) fn is_private(name: &str) -> bool {
    name.eq_ignore_ascii_case(PRIVATE)
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

fn step(dir: &Dir, component: &str) -> Result<Dir, EntryError> {
    jail::open_component(dir, component).map_err(|error| explain(error, dir, component))
}

fn step_or_make(
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
