//! The identity of a directory, which all of its names share.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The device and inode of a directory: equal for a link, a bind mount and another spelling.
pub(crate) type DirectoryId = (u64, u64);

/// Returns the identity of the directory or file that a path leads to, through links.
pub(crate) fn read_identity(path: &Path) -> Option<DirectoryId> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}
