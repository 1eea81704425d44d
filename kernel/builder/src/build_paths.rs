//! The paths of builds. All of them are private to the kernel and outside of the file tools' jail.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use skillhost_files::TreeFile;
use skillhost_home::Home;

use crate::error::BuildError;

/// The paths of one extension's builds.
#[derive(Debug, Clone)]
pub(crate) struct BuildPaths {
    pub(crate) home: Home,
    pub(crate) id: String,
}

impl BuildPaths {
    pub(crate) fn new(home: &Home, id: &str) -> Self {
        Self { home: home.clone(), id: id.to_owned() }
    }

    /// Returns cargo's target directory, which all extensions of the home share.
    pub(crate) fn target(home: &Home) -> PathBuf {
        // An extension id cannot start with a dot, so the name cannot collide with one.
        builds_dir(home).join(".target")
    }

    /// Returns the directory of the extension, which its author writes.
    pub(crate) fn source_dir(&self) -> PathBuf {
        self.home.extensions_dir().join(&self.id)
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        self.source_dir().join("manifest.yaml")
    }

    pub(crate) fn private_dir(&self) -> PathBuf {
        builds_dir(&self.home).join(&self.id)
    }

    /// Returns the directory of the source copy of a plan.
    pub(crate) fn sources(&self, digest: &str) -> PathBuf {
        self.private_dir().join(format!("src-{}", &digest[..16]))
    }

    /// Returns the directory of the texts that were approved, named by their sha256.
    pub(crate) fn approved_texts(&self) -> PathBuf {
        self.private_dir().join("approved")
    }

    /// Returns the home of a trial.
    pub(crate) fn trial(&self) -> PathBuf {
        self.private_dir().join("trial")
    }

    /// Returns the path of the library to install.
    pub(crate) fn staged(&self) -> PathBuf {
        self.private_dir().join("staged")
    }

    /// Returns the path of the intent of an active installation.
    pub(crate) fn intent(&self) -> PathBuf {
        self.private_dir().join("install.json")
    }

    /// Returns the paths of the previous library and of its metadata.
    pub(crate) fn previous(&self) -> (PathBuf, PathBuf) {
        (self.private_dir().join("previous"), self.private_dir().join("previous.json"))
    }

    /// Returns the paths of the backups of an active installation: the library, the previous
    /// library and its metadata.
    pub(crate) fn replaced(&self) -> [PathBuf; 3] {
        ["replaced", "replaced-previous", "replaced-previous.json"]
            .map(|name| self.private_dir().join(name))
    }

    /// Returns the paths that are garbage without an active installation.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        self.replaced().into_iter().chain([self.staged()]).collect()
    }

    /// Creates the private directory.
    pub(crate) fn create_private_dir(&self) -> Result<(), BuildError> {
        create_private(&self.private_dir())
    }
}

/// Returns the ids of all extensions with builds.
pub(crate) fn built_ids(home: &Home) -> Vec<String> {
    let entries = fs::read_dir(builds_dir(home)).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// A lock on the builds of a home, across processes.
pub(crate) struct BuildLock {
    _file: File,
}

impl BuildLock {
    /// Acquires the lock without waiting.
    ///
    /// # Errors
    /// [`BuildError::Busy`] while another process builds for the home.
    pub(crate) fn acquire(home: &Home) -> Result<Self, BuildError> {
        create_private(&builds_dir(home))?;
        let path = builds_dir(home).join(".lock");
        let failed = BuildError::io(&path);
        let opened = OpenOptions::new().create(true).write(true).truncate(false).open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) => return Err(failed(error)),
        };
        // The operating system releases the lock when the process ends, even after a crash.
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(BuildError::Busy),
            Err(error) => Err(failed(error.into())),
        }
    }
}

fn builds_dir(home: &Home) -> PathBuf {
    home.data_dir("kernel").join("builds")
}

/// Creates a directory that only the owner may access.
pub(crate) fn create_private(path: &Path) -> Result<(), BuildError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(BuildError::io(path))
}

/// Removes a directory with its contents, if it exists.
pub(crate) fn remove_directory(path: &Path) -> Result<(), BuildError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(BuildError::io(path)(error)),
        _ => Ok(()),
    }
}

/// Writes files to a new private directory.
pub(crate) fn write_files(directory: &Path, files: &[TreeFile]) -> Result<(), BuildError> {
    // Files of an interrupted build must not become a part of this one.
    remove_directory(directory)?;
    create_private(directory)?;
    for file in files {
        let path = directory.join(&file.path);
        create_private(path.parent().unwrap_or(directory))?;
        let mode = if file.executable { 0o700 } else { 0o600 };
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)
            .and_then(|mut created| created.write_all(&file.bytes))
            .map_err(BuildError::io(&path))?;
    }
    Ok(())
}
