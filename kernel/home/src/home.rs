//! The home directory: its location, its trust and its layout.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::environment::Environment;
use crate::error::HomeError;

/// The way in which a home was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HomeSource {
    /// `--home`.
    Argument,
    /// `SKILLHOST_HOME`.
    Variable,
    /// The nearest ancestor of the working directory with a `sandbox/`.
    Ancestor,
    /// `$XDG_DATA_HOME/skillhost`.
    Default,
}

/// A home directory, which contains a `sandbox/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
    source: HomeSource,
    untrusted: bool,
}

impl Home {
    /// Finds the home: the argument, else the variable, else the nearest ancestor of the working
    /// directory with a `sandbox/`, else the user's own.
    ///
    /// # Errors
    /// [`HomeError`] if none is found, or the named one is not a home.
    pub fn find(argument: Option<&Path>, environment: &Environment) -> Result<Self, HomeError> {
        if let Some(path) = argument {
            return Self::open(&environment.current_dir.join(path), HomeSource::Argument);
        }
        if let Some(path) = &environment.skillhost_home {
            return Self::open(&environment.current_dir.join(path), HomeSource::Variable);
        }
        let ancestor = environment.current_dir.ancestors().find(|dir| dir.join("sandbox").is_dir());
        if let Some(path) = ancestor {
            return Self::open(path, HomeSource::Ancestor);
        }
        match environment.default_home().filter(|path| path.join("sandbox").is_dir()) {
            Some(path) => Self::open(&path, HomeSource::Default),
            None => Err(HomeError::NotFound),
        }
    }

    /// Opens a directory as a home.
    ///
    /// # Errors
    /// The directory does not exist or has no `sandbox/`.
    pub fn open(path: &Path, source: HomeSource) -> Result<Self, HomeError> {
        // Trust is recorded for the canonical path, so that a link cannot replace another home.
        let root = match fs::canonicalize(path) {
            Ok(root) => root,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(HomeError::Missing { path: path.to_owned() });
            }
            Err(source) => return Err(HomeError::Io { path: path.to_owned(), source }),
        };
        if !root.join("sandbox").is_dir() {
            return Err(HomeError::NoSandbox { path: root });
        }
        Ok(Self { root, source, untrusted: false })
    }

    /// Marks the home as untrusted: only its regular files are read, links are not followed, and no
    /// file is written.
    #[must_use]
    pub fn into_untrusted(self) -> Self {
        Self { untrusted: true, ..self }
    }

    /// Returns whether the home is marked as untrusted.
    #[must_use]
    pub fn is_untrusted(&self) -> bool {
        self.untrusted
    }

    /// Rejects an untrusted home in which a directory of the sandbox is a link, because the files
    /// behind it are not the home's. `directory` is one directly below `sandbox/`.
    ///
    /// # Errors
    /// [`HomeError::LinkedDirectory`].
    pub fn check_links(&self, directory: &str) -> Result<(), HomeError> {
        let sandbox = self.sandbox_dir();
        let linked = [sandbox.join(directory), sandbox].into_iter().find(|path| path.is_symlink());
        match linked {
            Some(path) if self.untrusted => {
                Err(HomeError::LinkedDirectory { home: self.root.clone(), path })
            }
            _ => Ok(()),
        }
    }

    /// Returns the canonical path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the way in which the home was found.
    #[must_use]
    pub fn source(&self) -> HomeSource {
        self.source
    }

    /// Returns `sandbox/`.
    #[must_use]
    pub fn sandbox_dir(&self) -> PathBuf {
        self.root.join("sandbox")
    }

    /// Returns `manifests/`, the directory of shipped manifests.
    #[must_use]
    pub fn manifests_dir(&self) -> PathBuf {
        self.root.join("manifests")
    }

    /// Returns `sandbox/extensions/`, the directory of extensions that operators and agents add.
    #[must_use]
    pub fn extensions_dir(&self) -> PathBuf {
        self.root.join("sandbox/extensions")
    }

    /// Returns `skillhost.yaml`.
    #[must_use]
    pub fn settings_file(&self) -> PathBuf {
        self.root.join("skillhost.yaml")
    }

    /// Returns `sandbox/data/<extension>/`.
    #[must_use]
    pub fn data_dir(&self, extension: &str) -> PathBuf {
        self.root.join("sandbox/data").join(extension)
    }

    /// Returns the log file of the kernel, next to its rotated predecessors.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        self.data_dir("kernel").join("logs/kernel.log")
    }

    /// Returns the home directory of a process extension: its caches outlive the process.
    #[must_use]
    pub fn process_home(&self, id: &str) -> PathBuf {
        self.data_dir("kernel").join("homes").join(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(root: &Path) -> Environment {
        Environment {
            current_dir: root.join("work/deep"),
            data_home: Some(root.join("data").into()),
            state_home: Some(root.join("state").into()),
            ..Environment::default()
        }
    }

    #[test]
    fn home_lookup_follows_documented_order() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        let mut environment = environment(&root);
        fs::create_dir_all(root.join("work/deep")).unwrap();
        assert!(matches!(Home::find(None, &environment), Err(HomeError::NotFound)));

        fs::create_dir_all(root.join("data/skillhost/sandbox")).unwrap();
        let found = Home::find(None, &environment).unwrap();
        assert_eq!(
            (found.root(), found.source()),
            (&*root.join("data/skillhost"), HomeSource::Default)
        );

        fs::create_dir_all(root.join("work/sandbox")).unwrap();
        let found = Home::find(None, &environment).unwrap();
        assert_eq!((found.root(), found.source()), (&*root.join("work"), HomeSource::Ancestor));

        environment.skillhost_home = Some(root.join("elsewhere").into());
        assert!(matches!(Home::find(None, &environment), Err(HomeError::Missing { .. })));
        fs::create_dir_all(root.join("elsewhere")).unwrap();
        assert!(matches!(Home::find(None, &environment), Err(HomeError::NoSandbox { .. })));
        let named = Home::find(Some(Path::new("..")), &environment).unwrap();
        assert_eq!((named.root(), named.source()), (&*root.join("work"), HomeSource::Argument));
    }
}
