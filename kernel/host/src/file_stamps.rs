//! The state of the files that a running kernel follows, without their contents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use skillhost_home::Home;

/// A file that was changed within this time may change again without a new time stamp.
const UNSETTLED_TIME: Duration = Duration::from_secs(2);

/// The most entries that are examined; further ones are not followed.
const MAX_ENTRIES: usize = 10_000;

/// The deepest directory below that of an agent that is followed.
const MAX_DEPTH: usize = 4;

/// The identity and the times of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    mode: u32,
}

impl FileStamp {
    fn new(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            mode: found.mode(),
        }
    }
}

/// The stamps of the files of a home that settings, agents and extensions come from.
#[derive(Debug, Clone, Default)]
pub(crate) struct HomeStamps {
    files: BTreeMap<PathBuf, FileStamp>,
    /// A file was changed so recently that its stamp proves nothing.
    unsettled: bool,
}

impl HomeStamps {
    /// Examines the files of a home; opens none. `agents` are the directories of known agents, all
    /// of whose files count.
    pub(crate) fn observe(home: &Home, agents: &BTreeSet<PathBuf>) -> Self {
        let mut stamps = Self::default();
        let kernel = home.data_dir("kernel");
        for path in [
            home.settings_file(),
            home.root().join(".env"),
            kernel.join("configured.json"),
            kernel.join("approvals.jsonl"),
        ] {
            stamps.add(&path);
        }
        for directory in [home.manifests_dir(), home.extensions_dir()] {
            for extension in sorted_entries(&directory) {
                match agents.contains(&extension) {
                    true => stamps.add_tree(&extension, 0),
                    false => drop(stamps.add(&extension.join("manifest.yaml"))),
                }
            }
        }
        stamps
    }

    /// Returns whether nothing has changed since an earlier observation, as far as the stamps can
    /// tell.
    pub(crate) fn is_same(&self, earlier: &Self) -> bool {
        !self.unsettled && !earlier.unsettled && self.files == earlier.files
    }

    /// Returns whether a file below a directory differs from an earlier observation, or may differ.
    pub(crate) fn has_change_below(&self, earlier: &Self, directory: &Path) -> bool {
        self.unsettled || earlier.unsettled || self.has_other_stamp_below(earlier, directory)
    }

    /// Returns whether a stamp differs below a directory; a change within the resolution of the
    /// clock may be missed.
    pub(crate) fn has_other_stamp_below(&self, earlier: &Self, directory: &Path) -> bool {
        let below = |stamps: &Self| -> BTreeMap<PathBuf, FileStamp> {
            let from = stamps.files.range(directory.to_owned()..);
            let own = from.take_while(|(path, _)| path.starts_with(directory));
            own.map(|(path, stamp)| (path.clone(), *stamp)).collect()
        };
        below(self) != below(earlier)
    }

    /// Adds the stamp of an entry; returns its metadata if it exists.
    fn add(&mut self, path: &Path) -> Option<Metadata> {
        if self.files.len() >= MAX_ENTRIES {
            return None;
        }
        // Links of operators are followed, as when the file is read.
        let found = fs::metadata(path).ok()?;
        let is_recent = found.modified().is_ok_and(|time| {
            // A time in the future is as unreliable as a recent one.
            SystemTime::now().duration_since(time).map_or(true, |age| age < UNSETTLED_TIME)
        });
        self.unsettled |= is_recent && found.is_file();
        self.files.insert(path.to_owned(), FileStamp::new(&found));
        Some(found)
    }

    fn add_tree(&mut self, directory: &Path, depth: usize) {
        for path in sorted_entries(directory) {
            let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
            // A link below an agent's directory is never read.
            if is_hidden || path.is_symlink() {
                continue;
            }
            let found = self.add(&path);
            if depth < MAX_DEPTH && found.is_some_and(|found| found.is_dir()) {
                self.add_tree(&path, depth + 1);
            }
        }
    }
}

/// Returns the entries of a directory; one that cannot be read has none.
fn sorted_entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).take(MAX_ENTRIES).collect();
    paths.sort();
    paths
}
