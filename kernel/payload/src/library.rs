//! The description and the start of a library.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The build information of a library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildInfo {
    /// The Cargo package name.
    pub package: String,
    /// The Cargo package version.
    pub version: String,
}

/// The argument of `ExtensionModule::create`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExtensionInit {
    /// The id in the manifest.
    pub id: String,
    /// The home directory.
    pub home: PathBuf,
    /// The extension's private directory; created on first use.
    pub data_dir: PathBuf,
    /// The shared directory of an installed copy, `<prefix>/share/skillhost`.
    #[serde(default)]
    pub share_dir: Option<PathBuf>,
    /// The manifest's `config` with the overrides of the settings.
    pub config: serde_json::Value,
    /// The manifest's `depends_on`.
    pub depends_on: Vec<String>,
}
