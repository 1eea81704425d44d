//! The growth of the writable directories, measured in small steps.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::open_directory::{
    DirectoryEntry, FileIdentity, MAX_DEPTH, OpenDirectory, is_of_other_user,
};

/// The bytes and entries in directories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DiskTotals {
    pub(super) bytes: u64,
    pub(super) files: u64,
    /// The directories that could not be measured.
    pub(super) unmeasured: u64,
}

/// A repeated measurement of directories.
#[derive(Debug)]
pub(super) struct DiskUsage {
    roots: Vec<PathBuf>,
    baseline: DiskTotals,
    current: DiskTotals,
    /// The directories that could not be measured before.
    known: BTreeSet<FileIdentity>,
    waiting: Vec<PathBuf>,
    /// The directories that are being measured, each in the one before.
    entered: Vec<MeasuredDirectory>,
}

#[derive(Debug)]
struct MeasuredDirectory {
    directory: OpenDirectory,
    waiting: Vec<DirectoryEntry>,
}

impl DiskUsage {
    /// Measures the directories completely.
    pub(super) fn measure(roots: &[PathBuf]) -> Self {
        let mut usage = Self {
            roots: roots.to_owned(),
            baseline: DiskTotals::default(),
            current: DiskTotals::default(),
            known: BTreeSet::new(),
            waiting: roots.to_owned(),
            entered: Vec::new(),
        };
        usage.measure_for(Duration::MAX, true);
        usage.baseline = usage.current;
        usage
    }

    /// Returns the measured directories.
    pub(super) fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Continues the measurement for a time and returns the growth that is certain by now.
    ///
    /// A completed measurement is followed by the next one.
    pub(super) fn advance(&mut self, budget: Duration) -> DiskTotals {
        if self.entered.is_empty() && self.waiting.is_empty() {
            self.current = DiskTotals::default();
            self.waiting.clone_from(&self.roots);
        }
        self.measure_for(budget, false);
        DiskTotals {
            bytes: self.current.bytes.saturating_sub(self.baseline.bytes),
            files: self.current.files.saturating_sub(self.baseline.files),
            unmeasured: self.current.unmeasured,
        }
    }

    fn measure_for(&mut self, budget: Duration, is_baseline: bool) {
        let start = Instant::now();
        // The clock is not read for every entry.
        for count in 1_u32.. {
            if count % 64 == 0 && start.elapsed() > budget {
                break;
            }
            let depth = self.entered.len();
            let Some(above) = self.entered.last_mut() else {
                let Some(path) = self.waiting.pop() else { break };
                // It may have been removed, or be a file.
                self.entered.extend(OpenDirectory::open_root(&path).and_then(read_entries));
                continue;
            };
            let Some(entry) = above.waiting.pop() else {
                self.entered.pop();
                continue;
            };
            let Ok(meta) = above.directory.stat(&entry.name) else { continue };
            self.current.files += 1;
            self.current.bytes += u64::try_from(meta.st_blocks).unwrap_or_default() * 512;
            if !entry.is_directory {
                continue;
            }
            let opened = match depth < MAX_DEPTH {
                true => OpenDirectory::open_in(above.directory.as_fd(), &entry.name),
                false => Err(io::Error::other("too deep")),
            };
            match opened.and_then(read_entries) {
                Ok(below) => self.entered.push(below),
                // It was removed or replaced in the meantime.
                Err(error) if was_replaced(&error) => {}
                Err(_) if is_baseline => {
                    self.known.insert(FileIdentity::of(&meta));
                }
                Err(_) if self.known.contains(&FileIdentity::of(&meta)) => {}
                // A run cannot create a directory of another user.
                Err(_) if is_of_other_user(&meta) => {}
                Err(_) => self.current.unmeasured += 1,
            }
        }
    }
}

fn was_replaced(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP))
}

fn read_entries(directory: OpenDirectory) -> io::Result<MeasuredDirectory> {
    let waiting = directory.entries()?;
    Ok(MeasuredDirectory { directory, waiting })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{Mode, OFlags, mkdirat, openat};

    use super::*;

    #[test]
    fn growth_is_counted_without_links() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("w");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/old"), vec![1; 100_000]).unwrap();
        let mut usage = DiskUsage::measure(std::slice::from_ref(&root));
        assert_eq!(usage.advance(Duration::MAX), DiskTotals::default());
        fs::write(root.join("a/b/new"), vec![1; 50_000]).unwrap();
        std::os::unix::fs::symlink("/usr", root.join("link")).unwrap();
        let grown = usage.advance(Duration::MAX);
        assert_eq!(grown.files, 2);
        assert!((50_000..70_000).contains(&grown.bytes), "{grown:?}");
    }

    /// The paths are longer than the system accepts.
    #[test]
    fn nested_and_unreadable_directories_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let mut usage = DiskUsage::measure(&[directory.path().to_owned()]);
        let mut place = std::os::fd::OwnedFd::from(fs::File::open(directory.path()).unwrap());
        let name = "n".repeat(200);
        for _ in 0..30 {
            mkdirat(&place, &*name, Mode::RWXU).unwrap();
            place = openat(&place, &*name, OFlags::RDONLY, Mode::empty()).unwrap();
        }
        let file = openat(&place, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
        rustix::io::write(&file, &vec![1; 50_000]).unwrap();
        rustix::fs::fchmod(&place, Mode::from_raw_mode(0o311)).unwrap();
        let grown = usage.advance(Duration::MAX);
        assert_eq!((grown.files, grown.unmeasured), (31, 0));
        assert!(grown.bytes >= 50_000, "{grown:?}");
        assert_eq!(rustix::fs::fstat(&place).unwrap().st_mode & 0o777, 0o311, "as the run wants");
        for _ in 0..MAX_DEPTH {
            mkdirat(&place, &*name, Mode::RWXU).unwrap();
            place = openat(&place, &*name, OFlags::RDONLY, Mode::empty()).unwrap();
        }
        usage.advance(Duration::MAX);
        assert_eq!(usage.advance(Duration::MAX).unmeasured, 1, "too deep");
    }
}
