//! The state of the settings of a home, without their contents.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

use skillhost_home::Home;

/// A file that was changed within this time may change again without a new time stamp.
const UNSETTLED_TIME: Duration = Duration::from_secs(2);

/// The identity, the size and the times of the files with settings; equal stamps mean equal settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingsStamp([Option<FileStamp>; 2]);

/// Device, inode, size, and time of the last change in seconds and nanoseconds.
type FileStamp = (u64, u64, u64, i64, i64);

impl SettingsStamp {
    /// Examines the settings; opens nothing. Returns `None` if they changed so recently that a stamp
    /// proves nothing. Blocks on the disk.
    pub(crate) fn observe(home: &Home) -> Option<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let settled = now.saturating_sub(UNSETTLED_TIME).as_secs();
        let files = [home.settings_file(), home.data_dir("kernel").join("configured.json")];
        let mut stamps = [None, None];
        for (path, stamp) in files.iter().zip(&mut stamps) {
            match path.metadata() {
                // A time in the future never proves anything.
                Ok(found) if u64::try_from(found.ctime()).is_ok_and(|at| at < settled) => {
                    *stamp = Some(to_stamp(&found));
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                _ => return None,
            }
        }
        Some(Self(stamps))
    }
}

fn to_stamp(found: &Metadata) -> FileStamp {
    (found.dev(), found.ino(), found.len(), found.ctime(), found.ctime_nsec())
}
