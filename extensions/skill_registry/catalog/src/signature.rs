//! The stamp of a file, by which a change is detected without reading it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The minimum age of a stamp that is trusted: a second write within it may leave an equal stamp.
const RACY: Duration = Duration::from_secs(2);

/// A `stat` result, reduced to the fields that change with the content or the access.
///
/// Compared for equality only: time stamps may be wrong in both directions. The default value means
/// a file that could not be examined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSignature {
    /// The device.
    pub dev: u64,
    /// The number of the inode.
    pub ino: u64,
    /// The size in bytes.
    pub size: u64,
    /// The time of the last write, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// The time of the last change, in nanoseconds since 1970; 0 where the platform has none.
    pub ctime_ns: i64,
    /// The type and the permissions.
    pub mode: u32,
}

impl FileSignature {
    /// Returns whether the stamp is too young, at `now`, to be trusted.
    ///
    /// The change time decides if there is one, because programs cannot set it. A stamp further in
    /// the future comes from a wrong clock and is left to the full pass.
    pub fn is_racy(&self, now: SystemTime) -> bool {
        let stamp = if self.ctime_ns == 0 { self.mtime_ns } else { self.ctime_ns };
        let now = match now.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
            Err(_) => 0,
        };
        now.abs_diff(stamp) < RACY.as_nanos() as u64
    }

    /// Returns whether both are the same file with the same content, in any directory.
    ///
    /// A rename updates the change time on some file systems, so the change time is ignored.
    pub(crate) fn same_content(&self, other: &Self) -> bool {
        (self.dev, self.ino, self.size, self.mtime_ns)
            == (other.dev, other.ino, other.size, other.mtime_ns)
            && *self != Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_change_time_makes_stamp_racy() {
        let at = |s: u64| UNIX_EPOCH + Duration::from_secs(s);
        let stamp = FileSignature {
            mtime_ns: 9_000_000_000_000_000_000,
            ctime_ns: 100_000_000_000,
            ..FileSignature::default()
        };
        let racy: Vec<u64> = (95..106).filter(|&s| stamp.is_racy(at(s))).collect();
        assert_eq!(racy, [99, 100, 101]);
        let no_ctime = FileSignature { mtime_ns: 100_000_000_000, ..FileSignature::default() };
        assert!(no_ctime.is_racy(at(101)) && !no_ctime.is_racy(at(102)));
    }

    #[test]
    fn unexamined_files_are_never_equal() {
        let unknown = FileSignature::default();
        assert!(!unknown.same_content(&unknown));
        let file = FileSignature { ino: 7, ctime_ns: 1, ..unknown };
        assert!(file.same_content(&FileSignature { ctime_ns: 2, mode: 3, ..file }));
        assert!(!file.same_content(&FileSignature { size: 1, ..file }));
    }
}
