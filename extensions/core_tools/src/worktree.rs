//! The files of a repository's worktree, compared with the index.

use std::io::Read as _;

use cap_std::fs::{Dir, MetadataExt as _};
use skillhost_files::jail::{self, RelPath};

use crate::git_place::RepositoryPlace;
use crate::repository::{FileMode, GitError, IndexEntry, modified_time};

/// The largest file that is compared, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// The state of a file of the index in the worktree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WorktreeState {
    /// It is the file of the index.
    Same,
    /// It has another content or mode; the content is read when it is shown.
    Changed(FileMode),
    Deleted,
    /// It is too large, or cannot be read.
    Unknown,
}

/// A reader of the worktree. The files are asked for in the order of their paths, so the directory of
/// the last one is kept open.
pub(crate) struct Worktree<'p> {
    place: &'p RepositoryPlace,
    /// When the index was written: files that changed at that moment are compared by content.
    written: (i64, u32),
    parent: Option<(String, ParentDirectory)>,
}

/// The directory of a file of the index.
enum ParentDirectory {
    Open(Dir),
    Missing,
    /// It is private data, the home or on another device: an index can name any path.
    OutOfReach,
}

impl<'p> Worktree<'p> {
    pub(crate) fn new(place: &'p RepositoryPlace, written: (i64, u32)) -> Self {
        Self { place, written, parent: None }
    }

    /// Compares a file with its entry of the index.
    pub(crate) fn state(&mut self, entry: &IndexEntry) -> Result<WorktreeState, GitError> {
        if entry.is_skipped || entry.mode == FileMode::Submodule {
            return Ok(WorktreeState::Same);
        }
        let Ok(path) = RelPath::new(&entry.path) else { return Ok(WorktreeState::Unknown) };
        let (_, name) = path.split();
        // Copied: the directory borrows the whole reader.
        let (place, written) = (self.place, self.written);
        let dir = match self.parent(&entry.path)? {
            ParentDirectory::Open(dir) => dir,
            ParentDirectory::Missing => return Ok(WorktreeState::Deleted),
            ParentDirectory::OutOfReach => return Ok(WorktreeState::Unknown),
        };
        let Ok(metadata) = dir.symlink_metadata(name) else { return Ok(WorktreeState::Deleted) };
        if metadata.dev() != place.device {
            return Ok(WorktreeState::Unknown);
        }
        let mode = match &metadata {
            metadata if metadata.is_symlink() => FileMode::Link,
            metadata if metadata.is_file() && metadata.mode() & 0o100 != 0 => FileMode::Executable,
            metadata if metadata.is_file() => FileMode::Regular,
            // A directory or a device in its place.
            _ => return Ok(WorktreeState::Deleted),
        };
        let modified = modified_time(&metadata);
        // Some systems store no fractions of a second in the index.
        let is_same_time = modified.0 == entry.modified.0
            && (entry.modified.1 == 0 || modified.1 == entry.modified.1);
        let is_same_size = metadata.len() & 0xffff_ffff == u64::from(entry.size);
        if mode == entry.mode && is_same_time && is_same_size && modified < written {
            return Ok(WorktreeState::Same);
        }
        if metadata.len() > MAX_FILE {
            return Ok(WorktreeState::Unknown);
        }
        let Some(content) = read_content(dir, name, mode)? else {
            return Ok(WorktreeState::Unknown);
        };
        let stored = match place.repository.blob(entry.id) {
            Ok(stored) => stored,
            Err(GitError::TooLarge(_) | GitError::NoObject(_)) => {
                return Ok(WorktreeState::Unknown);
            }
            Err(error) => return Err(error),
        };
        Ok(match mode == entry.mode && stored == content {
            true => WorktreeState::Same,
            false => WorktreeState::Changed(mode),
        })
    }

    /// Reads the content of a file that has changed; `None` if that is no longer possible.
    pub(crate) fn read(&mut self, path: &str, mode: FileMode) -> Result<Option<Vec<u8>>, GitError> {
        let Ok(path) = RelPath::new(path) else { return Ok(None) };
        match self.parent(path.as_str())? {
            ParentDirectory::Open(dir) => read_content(dir, path.split().1, mode),
            ParentDirectory::Missing | ParentDirectory::OutOfReach => Ok(None),
        }
    }

    fn parent(&mut self, path: &str) -> Result<&ParentDirectory, GitError> {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let known = match self.parent.take() {
            Some((known, dir)) if known == parent => dir,
            _ => self.open_parent(parent)?,
        };
        Ok(&self.parent.insert((parent.to_owned(), known)).1)
    }

    fn open_parent(&self, parent: &str) -> Result<ParentDirectory, GitError> {
        let mut dir = self.place.worktree.try_clone()?;
        for component in parent.split('/').filter(|component| !component.is_empty()) {
            // By identity, as the worktree need not be the whole sandbox.
            if self.place.border.check(&dir, component, parent, false).is_err() {
                return Ok(ParentDirectory::OutOfReach);
            }
            dir = match jail::open_component(&dir, component) {
                Ok(inner) => inner,
                Err(_) => return Ok(ParentDirectory::Missing),
            };
        }
        Ok(ParentDirectory::Open(dir))
    }
}

fn read_content(dir: &Dir, name: &str, mode: FileMode) -> Result<Option<Vec<u8>>, GitError> {
    if mode == FileMode::Link {
        let target = dir.read_link_contents(name).ok();
        return Ok(target.map(|target| target.to_string_lossy().into_owned().into_bytes()));
    }
    let Ok((file, _)) = jail::open_regular(dir, name) else { return Ok(None) };
    let mut content = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut content)?;
    Ok(Some(content))
}
