//! Directories that only their owner may read.

use std::fs;
use std::io;
use std::path::Path;

/// Creates a directory and its parents; only the owner may read them.
///
/// # Errors
/// The system's error.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}
