//! The home directory: its location, its trust and its layout.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::trust::{self, HomeChange};

/// The variables and the directory that decide which home is used; injected in tests.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// The working directory.
    pub current_dir: PathBuf,
    /// `SKILLHOST_HOME`.
    pub skillhost_home: Option<OsString>,
    /// `XDG_DATA_HOME`.
    pub data_home: Option<OsString>,
    /// `XDG_STATE_HOME`.
    pub state_home: Option<OsString>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<OsString>,
    /// `HOME`.
    pub user_home: Option<OsString>,
}

impl Environment {
    /// Reads the process's environment.
    ///
    /// # Errors
    /// The working directory does not exist.
    pub fn from_process() -> io::Result<Self> {
        let var = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Ok(Self {
            current_dir: std::env::current_dir()?,
            skillhost_home: var("SKILLHOST_HOME"),
            data_home: var("XDG_DATA_HOME"),
            state_home: var("XDG_STATE_HOME"),
            runtime_dir: var("XDG_RUNTIME_DIR"),
            user_home: var("HOME"),
        })
    }

    /// Returns `$XDG_DATA_HOME/skillhost`, the home that is used if no other is named.
    #[must_use]
    pub fn default_home(&self) -> Option<PathBuf> {
        self.xdg_dir(self.data_home.as_ref(), ".local/share")
    }

    /// Returns `$XDG_STATE_HOME/skillhost`, the directory of the record of trusted homes.
    #[must_use]
    pub fn state_dir(&self) -> Option<PathBuf> {
        self.xdg_dir(self.state_home.as_ref(), ".local/state")
    }

    /// Returns the socket directory of a running kernel: `$XDG_RUNTIME_DIR/skillhost`, else a
    /// directory below the state.
    #[must_use]
    pub fn socket_dir(&self) -> Option<PathBuf> {
        match &self.runtime_dir {
            Some(dir) => Some(Path::new(dir).join("skillhost")),
            None => self.state_dir().map(|state| state.join("run")),
        }
    }

    fn xdg_dir(&self, variable: Option<&OsString>, below_home: &str) -> Option<PathBuf> {
        // The XDG specification requires that relative paths are ignored.
        let named = variable.map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || self.user_home.as_ref().map(|home| Path::new(home).join(below_home));
        named.or_else(home).map(|base| base.join("skillhost"))
    }
}

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

/// The reason why a home is missing or unusable.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// No home is named, and none was found.
    #[error(
        "home not found: neither --home nor SKILLHOST_HOME is set, and no directory here or above has a sandbox/"
    )]
    NotFound,
    /// The named directory does not exist.
    #[error("{}: no such directory", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// The named directory is not a home.
    #[error("{}: not a home, it has no sandbox/ directory", path.display())]
    NoSandbox {
        /// The directory.
        path: PathBuf,
    },
    /// Extensions of this home may not be loaded.
    #[error("{}: this home is not trusted, so none of its extensions are loaded", path.display())]
    Untrusted {
        /// The home.
        path: PathBuf,
    },
    /// The home was trusted, but has changed.
    #[error("{}: this home is not trusted any longer: {change}", path.display())]
    Changed {
        /// The home.
        path: PathBuf,
        /// The change.
        change: HomeChange,
    },
    /// Every user may write to the home.
    #[error("{}: every user may write to this home, so it cannot be trusted", path.display())]
    WorldWritable {
        /// The home.
        path: PathBuf,
    },
    /// Another user may have written the record of trusted homes.
    #[error("{}: this record of trusted homes does not count: {problem}", path.display())]
    UnsafeRecord {
        /// The record.
        path: PathBuf,
        /// The reason.
        problem: &'static str,
    },
    /// A line of the record of trusted homes is not valid.
    #[error("{}:{line}: this line is not a record of a trusted home", path.display())]
    DamagedRecord {
        /// The record.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A directory of an untrusted home is a link.
    #[error("{}: a symbolic link, which is not followed in a home that is not trusted", path.display())]
    LinkedDirectory {
        /// The home.
        home: PathBuf,
        /// The directory.
        path: PathBuf,
    },
    /// The record of trusted homes, or the home itself, could not be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Neither `XDG_STATE_HOME` nor `HOME` names a directory for the record of trusted homes.
    #[error("neither XDG_STATE_HOME nor HOME is set, so trust cannot be recorded")]
    NoStateDir,
    /// A path with a line break cannot be recorded.
    #[error("{}: a path with a line break cannot be trusted", path.display())]
    Unrecordable {
        /// The home.
        path: PathBuf,
    },
}

impl HomeError {
    /// Returns a hint.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NotFound => "create one: skillhost init DIR".to_owned(),
            Self::Missing { path } | Self::NoSandbox { path } => {
                format!("make it one: skillhost init {}", path.display())
            }
            Self::Untrusted { path } => format!(
                "review its manifests and extensions, then: skillhost trust {} (or --trust-home for this call)",
                path.display()
            ),
            Self::Changed { path, .. } => format!(
                "review its manifests and extensions again, then: skillhost trust {0}; \
                 or remove it: skillhost trust --remove {0}",
                path.display()
            ),
            Self::WorldWritable { path } => {
                format!("remove that permission: chmod o-w {}", path.display())
            }
            Self::UnsafeRecord { path, .. } => format!(
                "check that each line is yours, then: chmod go-w {0}; or remove the file \
                 and trust each home again",
                path.display()
            ),
            Self::DamagedRecord { .. } => {
                "remove the line, then trust that home again: skillhost trust DIR".to_owned()
            }
            Self::LinkedDirectory { home, .. } => format!(
                "replace it with a directory; or look where it leads, then: skillhost trust {}",
                home.display()
            ),
            Self::Io { .. } => "check that it exists and may be read and written".to_owned(),
            Self::NoStateDir => "set HOME, or use --trust-home".to_owned(),
            Self::Unrecordable { .. } => "rename the directory, or use --trust-home".to_owned(),
        }
    }
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

    /// Rejects a home without trust, and one that has changed since it was trusted. The user's own
    /// home is always trusted, unless another user owns it or every user may write to it.
    ///
    /// # Errors
    /// [`HomeError::Untrusted`], [`HomeError::Changed`]; [`HomeError::UnsafeRecord`],
    /// [`HomeError::DamagedRecord`] and [`HomeError::Io`] for an unusable record.
    pub fn require_trust(&self, environment: &Environment) -> Result<(), HomeError> {
        trust::require_trust(self, environment)
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
