//! The configuration by agents, each change approved by a person: a layer between the manifests'
//! `config` and the settings, which take precedence.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind as Kind};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use skillhost_files::{LinkPolicy, read_limited, write_atomically};

use super::error::SettingsError;

/// The largest file of the layer that is read, in bytes.
const LIMIT: u64 = 1024 * 1024;

/// By extension id: keys that override the manifest's `config`.
pub type ConfigOverrides = BTreeMap<String, Map<String, Value>>;

/// Returns the path of a home's layer.
#[must_use]
pub fn overrides_path(home: &Path) -> PathBuf {
    home.join("sandbox/data/kernel/configured.json")
}

/// Reads the layer; a missing file is an empty one.
///
/// # Errors
/// [`SettingsError`] if it cannot be read or decoded.
pub fn load_overrides(path: &Path) -> Result<ConfigOverrides, SettingsError> {
    decode(path, read_limited(path, LIMIT, LinkPolicy::Follow))
}

/// Decodes the layer from the result of reading its file.
pub(super) fn decode(
    path: &Path,
    read: io::Result<Vec<u8>>,
) -> Result<ConfigOverrides, SettingsError> {
    let text = match read {
        Ok(text) => text,
        // A home whose data directory is not a directory has no configuration, and still runs.
        Err(error) if matches!(error.kind(), Kind::NotFound | Kind::NotADirectory) => {
            return Ok(ConfigOverrides::new());
        }
        Err(source) => return Err(SettingsError::Io { path: path.to_owned(), source }),
    };
    serde_json::from_slice(&text).map_err(|error| SettingsError::Invalid {
        path: path.to_owned(),
        line: error.line(),
        column: error.column(),
        message: error.to_string(),
        nearest: None,
    })
}

/// Replaces the layer.
///
/// # Errors
/// The system's error; the file is then unchanged.
pub fn store_overrides(path: &Path, values: &ConfigOverrides) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut text = serde_json::to_vec_pretty(values)?;
    text.push(b'\n');
    write_atomically(path, &text)
}
