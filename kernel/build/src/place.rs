//! What lies where while an extension is built. All of it is private to the kernel: no file tool
//! reaches it.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use skillhost_kernel::{Home, PlannedFile};

use crate::error::BuildError;

/// The folders of one extension's builds.
#[derive(Debug, Clone)]
pub(crate) struct BuildPaths {
    pub(crate) home: Home,
    pub(crate) id: String,
}

impl BuildPaths {
    pub(crate) fn new(home: &Home, id: &str) -> Self {
        Self { home: home.clone(), id: id.to_owned() }
    }

    /// What is built with, for all extensions of the home, and what is built.
    pub(crate) fn target(home: &Home) -> PathBuf {
        // No extension has such an id, and so none has this folder.
        all(home).join(".target")
    }

    /// The folder that the extension's author writes to.
    pub(crate) fn source_dir(&self) -> PathBuf {
        self.home.extensions_dir().join(&self.id)
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        self.source_dir().join("manifest.yaml")
    }

    pub(crate) fn private_dir(&self) -> PathBuf {
        all(&self.home).join(&self.id)
    }

    /// The copy that a plan is built from.
    pub(crate) fn sources(&self, digest: &str) -> PathBuf {
        self.private_dir().join(format!("src-{}", &digest[..16]))
    }

    /// The home of a trial.
    pub(crate) fn trial(&self) -> PathBuf {
        self.private_dir().join("trial")
    }

    /// What is to be installed.
    pub(crate) fn staged(&self) -> PathBuf {
        self.private_dir().join("staged")
    }

    /// What an installation under way is to do.
    pub(crate) fn intent(&self) -> PathBuf {
        self.private_dir().join("install.json")
    }

    /// The library before the present one, and what is known of it.
    pub(crate) fn previous(&self) -> (PathBuf, PathBuf) {
        (self.private_dir().join("previous"), self.private_dir().join("previous.json"))
    }

    /// What an installation under way replaces: library, library before it, what is known of that.
    pub(crate) fn replaced(&self) -> [PathBuf; 3] {
        ["replaced", "replaced-previous", "replaced-previous.json"]
            .map(|name| self.private_dir().join(name))
    }

    /// What is of no use without an installation under way.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        self.replaced().into_iter().chain([self.staged()]).collect()
    }

    /// Makes the private folder.
    pub(crate) fn make(&self) -> Result<(), BuildError> {
        private_folder(&self.private_dir())
    }
}

/// Every id that something was built for.
pub(crate) fn built_ids(home: &Home) -> Vec<String> {
    let entries = fs::read_dir(all(home)).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Held while something is built for a home.
pub(crate) struct BuildLock {
    _file: File,
}

impl BuildLock {
    /// # Errors
    /// [`BuildError::Busy`] while another process builds for the home.
    pub(crate) fn acquire(home: &Home) -> Result<Self, BuildError> {
        private_folder(&all(home))?;
        let path = all(home).join(".lock");
        let failed = BuildError::io(&path);
        let opened = OpenOptions::new().create(true).write(true).truncate(false).open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) => return Err(failed(error)),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(BuildError::Busy),
            Err(error) => Err(failed(error.into())),
        }
    }
}

fn all(home: &Home) -> PathBuf {
    home.data_dir("kernel").join("builds")
}

pub(crate) fn private_folder(path: &Path) -> Result<(), BuildError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(BuildError::io(path))
}

/// Removes a folder with everything in it; one that is not there is none.
pub(crate) fn remove_folder(path: &Path) -> Result<(), BuildError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(BuildError::io(path)(error)),
        _ => Ok(()),
    }
}

/// Writes files into a new folder that is the owner's alone.
pub(crate) fn write_all(folder: &Path, files: &[PlannedFile]) -> Result<(), BuildError> {
    remove_folder(folder)?;
    private_folder(folder)?;
    for file in files {
        let path = folder.join(&file.path);
        private_folder(path.parent().unwrap_or(folder))?;
        let mode = if file.executable { 0o700 } else { 0o600 };
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)
            .and_then(|mut made| made.write_all(&file.bytes))
            .map_err(BuildError::io(&path))?;
    }
    Ok(())
}

/// The file name of a library with this base name.
pub(crate) fn library_name(entrypoint: &str) -> String {
    format!("{DLL_PREFIX}{entrypoint}{DLL_SUFFIX}")
}
