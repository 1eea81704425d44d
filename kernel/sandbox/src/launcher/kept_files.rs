//! The contents of protected files before a run.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fchmod};

use super::open_directory::{DirectoryEntry, MAX_DEPTH, OpenDirectory, PinnedEntry};

/// The files and bytes that are kept to be restored.
const MAX_KEPT_FILES: usize = 256;
const MAX_KEPT_BYTES: u64 = 4 << 20;

/// The files of protected paths: each path with the files below it, relative to it.
#[derive(Debug, Default)]
pub(super) struct KeptFiles {
    trees: BTreeMap<PathBuf, BTreeMap<PathBuf, KeptContent>>,
    files: usize,
    bytes: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum KeptContent {
    File {
        content: Vec<u8>,
        mode: u32,
    },
    Link(CString),
    /// A pipe, a socket, or a file that this user cannot read.
    Other,
}

impl KeptFiles {
    /// Reads a protected file, or all files in a protected directory.
    ///
    /// # Errors
    /// They are too large.
    pub(super) fn add(&mut self, roots: &[PathBuf], path: &Path) -> io::Result<()> {
        let mut tree = BTreeMap::new();
        for below in list_files(roots, path)? {
            let file = join_below(path, &below);
            let kept = read_content(roots, &file)?;
            if let KeptContent::File { content, .. } = &kept {
                self.bytes = self.bytes.saturating_add(content.len() as u64);
            }
            self.files += 1;
            if self.files > MAX_KEPT_FILES || self.bytes > MAX_KEPT_BYTES {
                return Err(io::Error::other("too large to be protected at this level"));
            }
            tree.insert(below, kept);
        }
        self.trees.insert(path.to_owned(), tree);
        Ok(())
    }

    /// Restores a protected path at its present place, and returns the files that had changed and
    /// whether each is as before now. The second list has those that were removed.
    pub(super) fn restore(
        &self,
        roots: &[PathBuf],
        path: &Path,
        place: &Path,
    ) -> (Vec<RestoredFile>, Vec<RestoredFile>) {
        let (mut restored, mut removed) = (Vec::new(), Vec::new());
        let Some(kept) = self.trees.get(path) else { return (restored, removed) };
        for below in list_files(roots, place).unwrap_or_default() {
            if !kept.contains_key(&below) {
                let path = join_below(place, &below);
                let result = PinnedEntry::open(roots, &path, false).and_then(|new| new.remove());
                removed.push(RestoredFile { path, is_done: result.is_ok() });
            }
        }
        for (below, content) in kept {
            let path = join_below(place, below);
            let present = read_content(roots, &path);
            if *content == KeptContent::Other || present.is_ok_and(|present| present == *content) {
                continue;
            }
            let is_done = restore_file(roots, &path, content).is_ok();
            restored.push(RestoredFile { path, is_done });
        }
        (restored, removed)
    }

    /// Tests whether a path has the content that was kept.
    pub(super) fn is_unchanged(&self, roots: &[PathBuf], path: &Path) -> bool {
        let Some(kept) = self.trees.get(path) else { return false };
        let same = |(below, content): (&PathBuf, &KeptContent)| {
            let present = read_content(roots, &join_below(path, below));
            present.is_ok_and(|present| present == *content)
        };
        list_files(roots, path).is_ok_and(|files| files.iter().all(|file| kept.contains_key(file)))
            && kept.iter().all(same)
    }
}

/// A file that differed from the kept one.
pub(super) struct RestoredFile {
    pub(super) path: PathBuf,
    pub(super) is_done: bool,
}

fn join_below(path: &Path, below: &Path) -> PathBuf {
    // An empty path would add a separator.
    if below.as_os_str().is_empty() { path.to_owned() } else { path.join(below) }
}

/// Lists a file, or all files and links in a directory, relative to it. A directory that cannot be
/// entered is listed itself.
fn list_files(roots: &[PathBuf], path: &Path) -> io::Result<Vec<PathBuf>> {
    let entry = PinnedEntry::open(roots, path, false)?;
    if FileType::from_raw_mode(entry.stat()?.st_mode) != FileType::Directory {
        return Ok(vec![PathBuf::new()]);
    }
    let Some(top) = ListedDirectory::read(entry.open_directory(), PathBuf::new()) else {
        return Ok(vec![PathBuf::new()]);
    };
    let mut files = Vec::new();
    let mut entered = vec![top];
    while let Some(above) = entered.last_mut() {
        let Some(entry) = above.waiting.pop() else {
            entered.pop();
            continue;
        };
        let path = above.path.join(OsStr::from_bytes(entry.name.as_bytes()));
        let opened = OpenDirectory::open_in(above.directory.as_fd(), &entry.name);
        let enters = entry.is_directory && entered.len() < MAX_DEPTH;
        match enters.then(|| ListedDirectory::read(opened, path.clone())).flatten() {
            Some(below) => entered.push(below),
            None => files.push(path),
        }
        if files.len() > MAX_KEPT_FILES * 4 {
            return Err(io::Error::other("too many files to be protected at this level"));
        }
    }
    Ok(files)
}

struct ListedDirectory {
    directory: OpenDirectory,
    path: PathBuf,
    waiting: Vec<DirectoryEntry>,
}

impl ListedDirectory {
    fn read(opened: io::Result<OpenDirectory>, path: PathBuf) -> Option<Self> {
        let directory = opened.ok()?;
        let waiting = directory.entries().ok()?;
        Some(Self { directory, path, waiting })
    }
}

/// Reads a file or a link; what cannot be read is not an error.
fn read_content(roots: &[PathBuf], path: &Path) -> io::Result<KeptContent> {
    let entry = PinnedEntry::open(roots, path, false)?;
    let meta = entry.stat()?;
    match FileType::from_raw_mode(meta.st_mode) {
        FileType::Symlink => Ok(KeptContent::Link(entry.read_link()?)),
        FileType::RegularFile => {
            let Ok(file) = entry.open_file(OFlags::RDONLY) else { return Ok(KeptContent::Other) };
            let mut content = Vec::new();
            File::from(file).take(MAX_KEPT_BYTES + 1).read_to_end(&mut content)?;
            Ok(KeptContent::File { content, mode: meta.st_mode & 0o777 })
        }
        _ => Ok(KeptContent::Other),
    }
}

fn restore_file(roots: &[PathBuf], path: &Path, kept: &KeptContent) -> io::Result<()> {
    let entry = PinnedEntry::open(roots, path, true)?;
    if entry.stat().is_ok() {
        entry.remove()?;
    }
    match kept {
        KeptContent::File { content, mode } => {
            let mode = Mode::from_raw_mode(*mode);
            let mut file = File::from(entry.create_file(mode)?);
            let written = file.write_all(content).and_then(|()| Ok(fchmod(&file, mode)?));
            if written.is_err() {
                // On a full disk: a part of a file could mean something else.
                let _ = entry.remove();
            }
            written
        }
        KeptContent::Link(target) => entry.create_link(target),
        KeptContent::Other => Ok(()),
    }
}
