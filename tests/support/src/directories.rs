//! Copies of directories.

use std::fs;
use std::path::Path;

/// Copies a directory with all that is below it; a link to a directory becomes a directory.
///
/// # Panics
/// If a file cannot be read or written.
pub fn copy_directory(from: &Path, to: &Path) {
    let fail = |path: &Path, error| -> ! { panic!("{}: {error}", path.display()) };
    fs::create_dir_all(to).unwrap_or_else(|error| fail(to, error));
    for entry in fs::read_dir(from).unwrap_or_else(|error| fail(from, error)) {
        let source = entry.unwrap_or_else(|error| fail(from, error)).path();
        let target = to.join(source.file_name().expect("an entry has a name"));
        match source.is_dir() {
            true => copy_directory(&source, &target),
            false => drop(fs::copy(&source, target).unwrap_or_else(|error| fail(&source, error))),
        }
    }
}
