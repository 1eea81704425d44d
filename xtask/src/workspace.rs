//! The repository: its directories, and the result of its commands.

use std::path::{Path, PathBuf};

/// The result of a command; the error is printed for the user as it is.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap_or(folder).to_owned()
}

/// Returns the directory that cargo builds to.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |dir| root().join(dir))
}
