//! Files of a repository, other than packs and objects.

use std::io::Read as _;

use cap_std::fs::Dir;
use skillhost_files::jail::{self, JailError, RelPath};

use super::error::GitError;

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// Reads a file of the repository; `None` if it does not exist.
pub(super) fn read_file(git: &Dir, path: &str) -> Result<Option<Vec<u8>>, GitError> {
    let Ok(path) = RelPath::new_printable(path) else { return Ok(None) };
    let (file, metadata) = match jail::open_file(git, &path) {
        Ok(opened) => opened,
        Err(JailError::NotFound | JailError::Directory) => return Ok(None),
        Err(JailError::Io(error)) => return Err(error.into()),
        Err(JailError::Link | JailError::NotRegular) => {
            return Err(GitError::Unsupported("links or special files"));
        }
    };
    if metadata.len() > MAX_FILE {
        return Err(GitError::TooLarge(metadata.len()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}
