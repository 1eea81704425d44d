//! The files of a skill's directory: listed for `read_skill`, compared for identity.

use std::io::{self, Read};

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, Metadata};
use skillhost_files::jail::{self, RelPath};
use skillhost_files::temporary::{is_leftover, is_temporary};

use crate::skill::Skill;

/// The limit on the entries of a skill's directory.
const MAX_ENTRIES: usize = 5_000;

/// The limit on the depth of a skill's directory.
const MAX_DEPTH: usize = 8;

/// The limit on the compared bytes of two skills; larger ones count as different.
const MAX_COMPARED: u64 = 64 << 20;

/// The regular files of a directory tree.
#[derive(Debug, Default)]
pub struct FileTree {
    /// Paths relative to the directory, sorted.
    pub files: Vec<String>,
    /// Entries that are neither regular files nor directories, and names that are not UTF-8.
    pub others: usize,
    /// `true` if the tree exceeds the limits.
    pub cut: bool,
}

impl FileTree {
    /// Lists a tree. Links are not followed; `.git` and `node_modules` are not entered. Temporary
    /// files of this program and of editors are left out.
    ///
    /// # Errors
    /// Fails if a directory that could be opened cannot be listed.
    pub fn list(dir: &Dir) -> io::Result<Self> {
        let mut tree = Self::default();
        let mut seen = 0;
        tree.enter(dir, "", 0, &mut seen)?;
        tree.files.sort_unstable();
        Ok(tree)
    }

    fn enter(&mut self, dir: &Dir, prefix: &str, depth: usize, seen: &mut usize) -> io::Result<()> {
        for entry in dir.entries()? {
            let entry = entry?;
            *seen += 1;
            if *seen > MAX_ENTRIES {
                self.cut = true;
                return Ok(());
            }
            let Ok(name) = entry.file_name().into_string() else {
                self.others += 1;
                continue;
            };
            let kind = entry.file_type()?;
            if is_temporary(&name) || !kind.is_dir() && is_leftover(&name) {
                continue;
            }
            let path = format!("{prefix}{name}");
            if kind.is_file() {
                self.files.push(path);
            } else if !kind.is_dir() || name == ".git" || name == "node_modules" {
                self.others += 1;
            } else if depth >= MAX_DEPTH {
                self.cut = true;
            } else {
                match dir.open_dir_nofollow(&name) {
                    Ok(below) => self.enter(&below, &format!("{path}/"), depth + 1, seen)?,
                    Err(_) => self.others += 1,
                }
            }
        }
        Ok(())
    }
}

/// Returns whether two skills are the same in every file: path, executable bit and content.
///
/// A tree that exceeds the limits counts as different.
pub(crate) fn are_identical(a: &Skill, b: &Skill) -> bool {
    if a.size() != b.size()
        || (a.digest().is_some() && b.digest().is_some() && a.digest() != b.digest())
    {
        return false;
    }
    compare(a, b).unwrap_or(false)
}

fn compare(a: &Skill, b: &Skill) -> Option<bool> {
    let (a, b) = (a.open_directory().ok()?, b.open_directory().ok()?);
    let (left, right) = (FileTree::list(&a).ok()?, FileTree::list(&b).ok()?);
    let whole = |tree: &FileTree| tree.others == 0 && !tree.cut;
    if !whole(&left) || !whole(&right) || left.files != right.files {
        return Some(false);
    }
    let mut budget = MAX_COMPARED;
    for path in &left.files {
        let path = RelPath::new(path).ok()?;
        let (left, of_left) = jail::open_file(&a, &path).ok()?;
        let (right, of_right) = jail::open_file(&b, &path).ok()?;
        let size = of_left.len();
        if size != of_right.len() || executable(&of_left) != executable(&of_right) {
            return Some(false);
        }
        budget = budget.checked_sub(size)?;
        if !same_bytes(left.take(size), right.take(size)).ok()? {
            return Some(false);
        }
    }
    Some(true)
}

fn same_bytes(mut left: impl Read, mut right: impl Read) -> io::Result<bool> {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    loop {
        a.clear();
        b.clear();
        left.by_ref().take(64 << 10).read_to_end(&mut a)?;
        right.by_ref().take(64 << 10).read_to_end(&mut b)?;
        if a != b || a.is_empty() {
            return Ok(a == b);
        }
    }
}

#[cfg(unix)]
fn executable(metadata: &Metadata) -> bool {
    use cap_std::fs::MetadataExt;
    metadata.mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn executable(_: &Metadata) -> bool {
    false
}
