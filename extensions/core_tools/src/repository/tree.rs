//! Directories of commits, and their differences.

use std::collections::BTreeMap;

use super::database::Repository;
use super::error::GitError;
use super::file::{MAX_PATH, MAX_PATHS};
use super::file_mode::FileMode;
use super::object_id::ObjectId;

/// The largest number of entries of all directories that one comparison reads. A directory that
/// occurs several times counts each time: a few objects can describe any number of files.
const MAX_ENTRIES: usize = 1_000_000;

/// The number of entries that take as long to read as opening a directory.
const DIRECTORY_COST: usize = 10;

/// The deepest directory.
const MAX_DEPTH: usize = 64;

/// A file of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreeFile {
    pub(crate) mode: FileMode,
    pub(crate) id: ObjectId,
}

/// An entry of a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TreeEntry {
    Directory(ObjectId),
    File(TreeFile),
}

fn parse_tree(bytes: &[u8]) -> Option<BTreeMap<Vec<u8>, TreeEntry>> {
    let mut entries = BTreeMap::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let space = rest.iter().position(|byte| *byte == b' ')?;
        let mode = std::str::from_utf8(&rest[..space]).ok()?;
        let mode = u32::from_str_radix(mode, 8).ok()?;
        rest = &rest[space + 1..];
        let end = rest.iter().position(|byte| *byte == 0)?;
        let name = &rest[..end];
        let id = ObjectId::from_slice(rest.get(end + 1..)?)?;
        rest = &rest[end + 1 + ObjectId::LENGTH..];
        let entry = match FileMode::from_bits(mode) {
            Some(mode) => TreeEntry::File(TreeFile { mode, id }),
            None if mode & 0o170_000 == 0o040_000 => TreeEntry::Directory(id),
            None => return None,
        };
        entries.insert(name.to_vec(), entry);
    }
    Some(entries)
}

impl Repository {
    fn entries(&self, tree: ObjectId) -> Result<BTreeMap<Vec<u8>, TreeEntry>, GitError> {
        parse_tree(&self.tree(tree)?).ok_or(GitError::Damaged("a directory is malformed"))
    }
}

/// The files that differ, by path: the old file and the new one.
pub(crate) type TreeChanges = BTreeMap<String, (Option<TreeFile>, Option<TreeFile>)>;

/// A collector of the differences of two trees.
struct TreeDiff<'r> {
    repository: &'r Repository,
    changes: TreeChanges,
    /// The number of entries that were read.
    entries: usize,
    /// The bytes of the paths of the changes.
    path_bytes: usize,
}

/// Returns the files that differ between two trees.
pub(crate) fn diff_trees(
    repository: &Repository,
    old: Option<ObjectId>,
    new: Option<ObjectId>,
) -> Result<TreeChanges, GitError> {
    let mut diff = TreeDiff { repository, changes: BTreeMap::new(), entries: 0, path_bytes: 0 };
    diff.compare(old, new, "", 0)?;
    Ok(diff.changes)
}

/// Returns all files of a tree by path.
pub(crate) fn flatten_tree(
    repository: &Repository,
    tree: Option<ObjectId>,
) -> Result<BTreeMap<String, TreeFile>, GitError> {
    let files = diff_trees(repository, None, tree)?;
    Ok(files.into_iter().filter_map(|(path, (_, new))| Some((path, new?))).collect())
}

/// Returns the id of the file or directory at a path of a tree.
pub(crate) fn find_in_tree(
    repository: &Repository,
    tree: Option<ObjectId>,
    path: &str,
) -> Result<Option<ObjectId>, GitError> {
    let mut at = tree;
    let mut components = path.split('/').peekable();
    while let (Some(tree), Some(name)) = (at, components.next()) {
        at = match repository.entries(tree)?.get(name.as_bytes()) {
            Some(TreeEntry::Directory(id)) => Some(*id),
            Some(TreeEntry::File(file)) if components.peek().is_none() => return Ok(Some(file.id)),
            Some(TreeEntry::File(_)) | None => None,
        };
    }
    Ok(at)
}

impl TreeDiff<'_> {
    fn compare(
        &mut self,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
        prefix: &str,
        depth: usize,
    ) -> Result<(), GitError> {
        if old == new {
            return Ok(());
        }
        if depth > MAX_DEPTH {
            return Err(GitError::Damaged("directories are nested too deeply"));
        }
        let read = |tree: Option<ObjectId>| match tree {
            Some(tree) => self.repository.entries(tree),
            None => Ok(BTreeMap::new()),
        };
        let (mut old, new) = (read(old)?, read(new)?);
        self.entries += DIRECTORY_COST + old.len() + new.len();
        if self.entries > MAX_ENTRIES {
            return Err(GitError::Unsupported("more than a million files and directories"));
        }
        for (name, entry) in new {
            let before = old.remove(&name);
            if before != Some(entry) {
                self.compare_entries(before, Some(entry), prefix, &name, depth)?;
            }
        }
        for (name, entry) in old {
            self.compare_entries(Some(entry), None, prefix, &name, depth)?;
        }
        Ok(())
    }

    fn compare_entries(
        &mut self,
        old: Option<TreeEntry>,
        new: Option<TreeEntry>,
        prefix: &str,
        name: &[u8],
        depth: usize,
    ) -> Result<(), GitError> {
        let path = format!("{prefix}{}", String::from_utf8_lossy(name));
        if path.len() > MAX_PATH {
            return Err(GitError::Damaged("a path is too long"));
        }
        let split = |entry| match entry {
            Some(TreeEntry::Directory(id)) => (Some(id), None),
            Some(TreeEntry::File(file)) => (None, Some(file)),
            None => (None, None),
        };
        let ((old_tree, old_file), (new_tree, new_file)) = (split(old), split(new));
        if old_file.is_some() || new_file.is_some() {
            self.path_bytes += path.len();
            if self.path_bytes > MAX_PATHS {
                return Err(GitError::Unsupported("paths of more than 64 MiB"));
            }
            self.changes.insert(path.clone(), (old_file, new_file));
        }
        self.compare(old_tree, new_tree, &(path + "/"), depth + 1)
    }
}
