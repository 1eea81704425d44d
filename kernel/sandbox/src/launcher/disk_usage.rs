//! The growth of the writable directories, measured in small steps.

use std::fs::{self, ReadDir};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The bytes and entries in directories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DiskTotals {
    pub(super) bytes: u64,
    pub(super) files: u64,
}

/// A repeated measurement of directories.
#[derive(Debug)]
pub(super) struct DiskUsage {
    roots: Vec<PathBuf>,
    baseline: DiskTotals,
    current: DiskTotals,
    open: Vec<ReadDir>,
    waiting: Vec<PathBuf>,
}

impl DiskUsage {
    /// Measures the directories completely.
    pub(super) fn measure(roots: &[PathBuf]) -> Self {
        let mut usage = Self {
            roots: roots.to_owned(),
            baseline: DiskTotals::default(),
            current: DiskTotals::default(),
            open: Vec::new(),
            waiting: roots.to_owned(),
        };
        usage.advance(Duration::MAX);
        usage.baseline = usage.current;
        usage
    }

    /// Continues the measurement for a time and returns the growth that is certain by now.
    ///
    /// A completed measurement is followed by the next one.
    pub(super) fn advance(&mut self, budget: Duration) -> DiskTotals {
        let start = Instant::now();
        if self.open.is_empty() && self.waiting.is_empty() {
            self.current = DiskTotals::default();
            self.waiting.clone_from(&self.roots);
        }
        // The clock is not read for every entry.
        for count in 1_u32.. {
            if count % 64 == 0 && start.elapsed() > budget {
                break;
            }
            let Some(directory) = self.open.last_mut() else {
                let Some(path) = self.waiting.pop() else { break };
                // It may have been removed, or be a file.
                self.open.extend(fs::read_dir(path));
                continue;
            };
            match directory.next() {
                Some(Ok(entry)) => {
                    let Ok(meta) = entry.metadata() else { continue };
                    self.current.files += 1;
                    self.current.bytes += meta.blocks() * 512;
                    if meta.is_dir() {
                        self.waiting.push(entry.path());
                    }
                }
                Some(Err(_)) | None => {
                    self.open.pop();
                }
            }
        }
        DiskTotals {
            bytes: self.current.bytes.saturating_sub(self.baseline.bytes),
            files: self.current.files.saturating_sub(self.baseline.files),
        }
    }
}

#[cfg(test)]
mod tests {
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
}
