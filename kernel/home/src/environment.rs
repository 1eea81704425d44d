//! The variables that decide which home is used.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

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
    /// `XDG_CACHE_HOME`.
    pub cache_home: Option<OsString>,
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
            cache_home: var("XDG_CACHE_HOME"),
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

    /// Returns `$XDG_CACHE_HOME/skillhost`, the directory of files that the program can restore.
    #[must_use]
    pub fn cache_dir(&self) -> Option<PathBuf> {
        self.xdg_dir(self.cache_home.as_ref(), ".cache")
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
