//! The home directory: where it is, whether it is trusted, what lies where in it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::write::write_atomically;

/// The variables and directory that decide which home is meant; injected in tests.
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
    /// When the working directory is gone.
    pub fn read() -> io::Result<Self> {
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

    /// `$XDG_DATA_HOME/skillhost`, the home used where no other is named.
    #[must_use]
    pub fn default_home(&self) -> Option<PathBuf> {
        self.base(self.data_home.as_ref(), ".local/share")
    }

    /// `$XDG_STATE_HOME/skillhost`, where trusted homes are recorded.
    #[must_use]
    pub fn state_dir(&self) -> Option<PathBuf> {
        self.base(self.state_home.as_ref(), ".local/state")
    }

    /// Where a running kernel listens: `$XDG_RUNTIME_DIR/skillhost`, else below the state.
    #[must_use]
    pub fn socket_dir(&self) -> Option<PathBuf> {
        match &self.runtime_dir {
            Some(folder) => Some(Path::new(folder).join("skillhost")),
            None => self.state_dir().map(|state| state.join("run")),
        }
    }

    fn base(&self, variable: Option<&OsString>, below_home: &str) -> Option<PathBuf> {
        // The XDG specification: a relative path is to be ignored.
        let named = variable.map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || self.user_home.as_ref().map(|home| Path::new(home).join(below_home));
        named.or_else(home).map(|base| base.join("skillhost"))
    }
}

/// How a home was found.
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

/// A home directory; it has a `sandbox/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
    source: HomeSource,
}

/// Why there is no home, or it may not be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Nothing was named and nothing was found.
    #[error(
        "no home: neither --home nor SKILLHOST_HOME is given, and no folder here or above has a sandbox/"
    )]
    NotFound,
    /// The folder named does not exist.
    #[error("{}: no such directory", path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// The folder named is no home.
    #[error("{}: not a home, it has no sandbox/ directory", path.display())]
    NoSandbox {
        /// The folder.
        path: PathBuf,
    },
    /// Extensions of this home may not be loaded.
    #[error("{}: this home is not trusted, so none of its extensions are loaded", path.display())]
    Untrusted {
        /// The home.
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
    /// Neither `XDG_STATE_HOME` nor `HOME` says where to record trust.
    #[error("neither XDG_STATE_HOME nor HOME is set, so there is nowhere to record trust")]
    NoStateDir,
    /// A path with a line break cannot be recorded.
    #[error("{}: a path with a line break cannot be trusted", path.display())]
    Unrecordable {
        /// The home.
        path: PathBuf,
    },
}

impl HomeError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NotFound => "create one: skillhost init DIR".to_owned(),
            Self::Missing { path } | Self::NoSandbox { path } => {
                format!("make it one: skillhost init {}", path.display())
            }
            Self::Untrusted { path } => format!(
                "look at its manifests and extensions, then: skillhost trust {} (or --trust-home for this call)",
                path.display()
            ),
            Self::Io { .. } => "check that it exists and may be read and written".to_owned(),
            Self::NoStateDir => "set HOME, or use --trust-home".to_owned(),
            Self::Unrecordable { .. } => "rename the folder, or use --trust-home".to_owned(),
        }
    }
}

impl Home {
    /// Finds the home: the argument, else the variable, else the nearest ancestor of the working
    /// directory with a `sandbox/`, else the user's own.
    ///
    /// # Errors
    /// [`HomeError`] when there is none, or the one named is not a home.
    pub fn find(argument: Option<&Path>, environment: &Environment) -> Result<Self, HomeError> {
        if let Some(path) = argument {
            return Self::at(&environment.current_dir.join(path), HomeSource::Argument);
        }
        if let Some(path) = &environment.skillhost_home {
            return Self::at(&environment.current_dir.join(path), HomeSource::Variable);
        }
        let ancestor = environment.current_dir.ancestors().find(|dir| dir.join("sandbox").is_dir());
        if let Some(path) = ancestor {
            return Self::at(path, HomeSource::Ancestor);
        }
        match environment.default_home().filter(|path| path.join("sandbox").is_dir()) {
            Some(path) => Self::at(&path, HomeSource::Default),
            None => Err(HomeError::NotFound),
        }
    }

    /// Takes a folder as a home.
    ///
    /// # Errors
    /// When it does not exist or has no `sandbox/`.
    pub fn at(path: &Path, source: HomeSource) -> Result<Self, HomeError> {
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
        Ok(Self { root, source })
    }

    /// The canonical path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// How it was found.
    #[must_use]
    pub fn source(&self) -> HomeSource {
        self.source
    }

    /// `sandbox/`.
    #[must_use]
    pub fn sandbox(&self) -> PathBuf {
        self.root.join("sandbox")
    }

    /// `manifests/`: what ships with the product.
    #[must_use]
    pub fn manifests(&self) -> PathBuf {
        self.root.join("manifests")
    }

    /// `sandbox/extensions/`: what operators and agents add.
    #[must_use]
    pub fn extensions(&self) -> PathBuf {
        self.root.join("sandbox/extensions")
    }

    /// `skillhost.yaml`.
    #[must_use]
    pub fn settings_file(&self) -> PathBuf {
        self.root.join("skillhost.yaml")
    }

    /// `sandbox/data/<extension>/`.
    #[must_use]
    pub fn data_dir(&self, extension: &str) -> PathBuf {
        self.root.join("sandbox/data").join(extension)
    }

    /// Refuses a home that nobody has trusted. The user's own home is trusted by itself.
    ///
    /// # Errors
    /// [`HomeError::Untrusted`], or [`HomeError::Io`] when the record cannot be read.
    pub fn require_trust(&self, environment: &Environment) -> Result<(), HomeError> {
        let own = environment.default_home().and_then(|path| fs::canonicalize(path).ok());
        if own.as_deref() == Some(&*self.root) || trusted(environment)?.contains(&self.root) {
            Ok(())
        } else {
            Err(HomeError::Untrusted { path: self.root.clone() })
        }
    }
}

const RECORD: &str = "trusted-homes";

/// Lists the homes that were trusted, in the order in which they were.
///
/// # Errors
/// [`HomeError::Io`] when the record cannot be read.
pub fn trusted(environment: &Environment) -> Result<Vec<PathBuf>, HomeError> {
    let Some(path) = environment.state_dir().map(|state| state.join(RECORD)) else {
        return Ok(Vec::new());
    };
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().filter(|line| !line.is_empty()).map(PathBuf::from).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(HomeError::Io { path, source }),
    }
}

/// Records a home as trusted; says whether it was new.
///
/// # Errors
/// When the record cannot be written.
pub fn trust(home: &Home, environment: &Environment) -> Result<bool, HomeError> {
    let state = environment.state_dir().ok_or(HomeError::NoStateDir)?;
    let mut homes = trusted(environment)?;
    if homes.contains(&home.root) {
        return Ok(false);
    }
    let unrecordable = || HomeError::Unrecordable { path: home.root.clone() };
    let text = home.root.to_str().filter(|text| !text.contains(['\n', '\r']));
    homes.push(PathBuf::from(text.ok_or_else(unrecordable)?));
    let lines: Vec<_> = homes.iter().filter_map(|path| path.to_str()).collect();
    let path = state.join(RECORD);
    let io = |source| HomeError::Io { path: path.clone(), source };
    fs::create_dir_all(&state).map_err(io)?;
    write_atomically(&path, format!("{}\n", lines.join("\n")).as_bytes()).map_err(io)?;
    Ok(true)
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
    fn the_home_is_looked_for_in_the_documented_order() {
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

    #[test]
    fn a_home_is_trusted_once_recorded_and_the_users_own_always() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        let environment = environment(&root);
        fs::create_dir_all(root.join("work/sandbox")).unwrap();
        fs::create_dir_all(root.join("data/skillhost/sandbox")).unwrap();
        let home = Home::at(&root.join("work"), HomeSource::Argument).unwrap();
        assert!(matches!(home.require_trust(&environment), Err(HomeError::Untrusted { .. })));
        assert!(trust(&home, &environment).unwrap());
        assert!(!trust(&home, &environment).unwrap());
        home.require_trust(&environment).unwrap();
        assert_eq!(trusted(&environment).unwrap(), [root.join("work")]);
        let own = Home::at(&root.join("data/skillhost"), HomeSource::Argument).unwrap();
        own.require_trust(&environment).unwrap();
    }
}
