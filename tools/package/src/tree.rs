//! The files of a package, held in memory in the order in which they are written.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::Result;

/// The mode of directories and programs.
pub const EXECUTABLE_MODE: u32 = 0o755;
/// The mode of other files.
pub const FILE_MODE: u32 = 0o644;

/// A directory or a file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// The bits of `chmod`.
    pub mode: u32,
    /// The numeric id of its user and group.
    pub owner: u32,
    /// The contents of a file; `None` for a directory.
    pub contents: Option<Vec<u8>>,
}

/// The directories and files of a package by their relative paths, parents first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageTree {
    entries: BTreeMap<String, TreeEntry>,
}

impl PackageTree {
    /// Reads a directory.
    ///
    /// Modes are reduced to [`EXECUTABLE_MODE`] and [`FILE_MODE`], so that the umask of the build
    /// does not show in a package.
    ///
    /// # Errors
    /// A file cannot be read, is neither a regular file nor a directory, or has a name that is not
    /// UTF-8.
    pub fn from_directory(directory: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.read_directory(directory, "")?;
        Ok(tree)
    }

    fn read_directory(&mut self, directory: &Path, prefix: &str) -> Result<()> {
        let read =
            fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        for entry in read {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_str().ok_or_else(|| format!("{}: not UTF-8", path.display()))?;
            let relative = format!("{prefix}{name}");
            let metadata = fs::symlink_metadata(&path)?;
            if metadata.is_dir() {
                self.insert_directory(&relative, EXECUTABLE_MODE, 0);
                self.read_directory(&path, &format!("{relative}/"))?;
            } else if metadata.is_file() {
                let contents =
                    fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                let is_program = metadata.permissions().mode() & 0o100 != 0
                    && can_be_executable(&relative)
                    && metadata.size() > 0;
                let mode = if is_program { EXECUTABLE_MODE } else { FILE_MODE };
                self.insert_file(&relative, mode, contents);
            } else {
                return Err(format!("{}: not a regular file", path.display()).into());
            }
        }
        Ok(())
    }

    /// Inserts a file and the directories above it.
    pub fn insert_file(&mut self, path: &str, mode: u32, contents: impl Into<Vec<u8>>) {
        self.insert_parents(path);
        let entry = TreeEntry { mode, owner: 0, contents: Some(contents.into()) };
        self.entries.insert(path.to_owned(), entry);
    }

    /// Inserts a directory and those above it.
    pub fn insert_directory(&mut self, path: &str, mode: u32, owner: u32) {
        self.insert_parents(path);
        self.entries.insert(path.to_owned(), TreeEntry { mode, owner, contents: None });
    }

    fn insert_parents(&mut self, path: &str) {
        for (end, _) in path.match_indices('/') {
            let parent = TreeEntry { mode: EXECUTABLE_MODE, owner: 0, contents: None };
            self.entries.entry(path[..end].to_owned()).or_insert(parent);
        }
    }

    /// Inserts the files of another tree below a directory.
    pub fn insert_tree(&mut self, directory: &str, tree: &Self) {
        for (path, entry) in &tree.entries {
            let path = format!("{directory}/{path}");
            self.insert_parents(&path);
            self.entries.insert(path, entry.clone());
        }
    }

    /// Returns the contents of a file.
    #[must_use]
    pub fn contents(&self, path: &str) -> Option<&[u8]> {
        self.entries.get(path)?.contents.as_deref()
    }

    /// Returns all entries by path, parents first.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &TreeEntry)> {
        self.entries.iter().map(|(path, entry)| (&**path, entry))
    }

    /// Returns the files and their contents by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries().filter_map(|(path, entry)| Some((path, entry.contents.as_deref()?)))
    }

    /// Returns the size in KiB as Debian counts it: each file is rounded up, and a directory takes
    /// one.
    #[must_use]
    pub fn installed_kib(&self) -> u64 {
        let kib = |entry: &TreeEntry| {
            entry.contents.as_ref().map_or(1, |contents| contents.len().div_ceil(1024))
        };
        self.entries.values().map(kib).sum::<usize>() as u64
    }
}

/// Returns whether a file may be a program: those of the product, and scripts of skills. Published
/// crates contain executable scripts that nothing runs, and libraries are not programs.
fn can_be_executable(path: &str) -> bool {
    path.starts_with("bin/") || path.starts_with("share/skillhost/skills/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_normalizes_modes() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for (path, mode) in [("bin/tool", 0o700), ("lib/a.so", 0o775), ("share/text", 0o600)] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "text").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let tree = PackageTree::from_directory(root).unwrap();
        let modes: Vec<_> = tree.entries().map(|(path, entry)| (path, entry.mode)).collect();
        let expected = [
            ("bin", 0o755),
            ("bin/tool", 0o755),
            ("lib", 0o755),
            ("lib/a.so", 0o644),
            ("share", 0o755),
            ("share/text", 0o644),
        ];
        assert_eq!(modes, expected);
        assert_eq!(tree.installed_kib(), 6);
    }

    #[test]
    fn tree_with_links_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("link")).unwrap();
        let error = PackageTree::from_directory(directory.path()).unwrap_err().to_string();
        assert!(error.ends_with("link: not a regular file"), "{error}");
    }
}
