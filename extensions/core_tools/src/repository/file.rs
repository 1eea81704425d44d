//! Files of a repository, other than packs and objects.

use std::io::Read as _;

use cap_std::fs::Dir;
use skillhost_files::jail::{self, JailError, RelPath};

use super::error::GitError;

/// The largest file of a repository as a whole, such as its index, in bytes.
pub(super) const MAX_FILE: u64 = 64 << 20;

/// The largest number of bytes of a path in a repository, and of all paths of a list.
pub(super) const MAX_PATH: usize = 4_096;
pub(super) const MAX_PATHS: usize = 64 << 20;

/// Reads a file of the repository of at most `limit` bytes; `None` if it does not exist.
pub(super) fn read_file(git: &Dir, path: &str, limit: u64) -> Result<Option<Vec<u8>>, GitError> {
    let Ok(path) = RelPath::new_printable(path) else { return Ok(None) };
    let (file, metadata) = match jail::open_file(git, &path) {
        Ok(opened) => opened,
        Err(JailError::NotFound | JailError::Directory) => return Ok(None),
        Err(JailError::Io(error)) => return Err(error.into()),
        Err(JailError::Link | JailError::NotRegular) => {
            return Err(GitError::Unsupported("links or special files"));
        }
    };
    if metadata.len() > limit {
        return Err(GitError::TooLarge(metadata.len()));
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}
