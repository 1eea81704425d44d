//! Paths next to a file.

use std::path::{Path, PathBuf};

/// Returns a path with a suffix appended to its file name: `a/b.db` and `-wal` give `a/b.db-wal`.
#[must_use]
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
