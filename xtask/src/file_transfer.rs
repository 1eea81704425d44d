//! Copies of files and links to them.

use std::fs;
use std::path::Path;

use crate::workspace::Result;

/// The way in which programs, libraries and vendored crates are installed.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum FileTransfer {
    /// The installation has its own files.
    Copy,
    /// The files are hard links where the file system permits it. Tests make dozens of
    /// installations, and thousands of new files take seconds each time. Neither a build nor an
    /// installation writes into a file that exists: both replace it.
    Link,
}

impl FileTransfer {
    /// Creates `to`, which must not exist.
    pub(crate) fn create(self, from: &Path, to: &Path) -> Result<()> {
        if self == Self::Copy || fs::hard_link(from, to).is_err() {
            fs::copy(from, to).map_err(|error| {
                format!("{} is not copied to {}: {error}", from.display(), to.display())
            })?;
        }
        Ok(())
    }
}
