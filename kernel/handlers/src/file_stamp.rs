//! The state of a file, without its content.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A file that was changed within this time may change again without a new time stamp.
const UNSETTLED_TIME: Duration = Duration::from_secs(2);

/// Device, inode, size, and time of the last change in seconds and nanoseconds; `None` without a
/// file. Equal stamps mean equal content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileStamp(Option<(u64, u64, u64, i64, i64)>);

impl FileStamp {
    /// Examines a file at a time, without opening it. Returns `None` if it changed so recently that
    /// equal stamps would not prove equal content. Blocks on the disk.
    pub(crate) fn observe_at(path: &Path, now: SystemTime) -> Option<Self> {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let settled = now.saturating_sub(UNSETTLED_TIME).as_secs();
        match path.metadata() {
            // A time in the future never proves anything.
            Ok(found) if u64::try_from(found.ctime()).is_ok_and(|at| at < settled) => Some(Self(
                Some((found.dev(), found.ino(), found.len(), found.ctime(), found.ctime_nsec())),
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Self(None)),
            _ => None,
        }
    }
}
