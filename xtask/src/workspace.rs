//! The repository: its directories, and the result of its commands.

use std::fs;
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

/// Returns a directory that later runs of a command use again. A missing one is filled under another
/// name and renamed, so that it is complete.
pub(crate) fn create_once(
    directory: &Path,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    if !directory.is_dir() {
        let new = directory.with_added_extension("new");
        if new.exists() {
            fs::remove_dir_all(&new)?;
        }
        fill(&new)?;
        fs::rename(&new, directory)?;
    }
    Ok(directory.to_owned())
}
