//! The protected names in the writable directories at one time.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags, fstat};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::git_directory::{PROTECTED_GIT_NAMES, is_git_directory};
use super::open_directory::{
    FileIdentity, MAX_DEPTH, OpenDirectory, PinnedEntry, is_of_other_user,
};

/// Names that are protected in every directory.
const PROTECTED_NAMES: [&str; 18] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".gitconfig",
    ".gitmodules",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".claude",
    ".agents",
    "SKILL.md",
];

/// The number of descriptors that the launcher uses at most, where the system permits it.
const MAX_DESCRIPTORS: u64 = 8_192;

/// A file or directory with a protected name.
#[derive(Debug)]
pub(super) struct FoundName {
    identity: FileIdentity,
    /// The time of the last change of its facts.
    changed: (i64, i64),
    /// The directory that contains it.
    parent: FileIdentity,
    /// The directory that contains its `.git`.
    work_tree: Option<FileIdentity>,
    /// Makes sure that no other file gets the same number.
    handle: Option<OwnedFd>,
}

/// Whether a file is one that existed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SameFile {
    Yes,
    No,
    /// The number may have been given to another file.
    Unknown,
}

impl FoundName {
    /// Compares it with a later file.
    pub(super) fn compare(&self, later: &Self) -> SameFile {
        if self.identity != later.identity {
            return SameFile::No;
        }
        match self.handle.is_some() || self.changed == later.changed {
            true => SameFile::Yes,
            false => SameFile::Unknown,
        }
    }

    /// Tests whether it is obeyed for the same directory as before, which may have another path.
    pub(super) fn has_same_place(&self, later: &Self) -> bool {
        self.parent == later.parent && self.work_tree == later.work_tree
    }
}

/// The protected names at one time.
#[derive(Debug, Default)]
pub(super) struct FoundNames {
    pub(super) paths: BTreeMap<PathBuf, FoundName>,
    /// The directories of repositories.
    pub(super) repositories: BTreeMap<PathBuf, FileIdentity>,
    /// The directories that could not be entered.
    pub(super) unknown: BTreeMap<PathBuf, FileIdentity>,
    /// The directories that were made readable.
    unreadable: BTreeSet<FileIdentity>,
}

/// A directory whose subdirectories are entered.
struct EnteredDirectory {
    directory: OpenDirectory,
    path: PathBuf,
    waiting: Vec<CString>,
}

impl FoundNames {
    /// Finds the names below directories, except for these directories. Those that only a run has
    /// made unreadable since `before` remain readable.
    pub(super) fn scan(roots: &[PathBuf], before: Option<&Self>) -> Self {
        let mut found = Self::default();
        for root in roots {
            // It may be a file, or be unreadable for this user, and so for the run.
            let Ok(directory) = OpenDirectory::open_root(root) else { continue };
            let mut entered: Vec<EnteredDirectory> = Vec::new();
            entered.extend(found.enter(directory, root.clone(), None, roots, before));
            while let Some(above) = entered.last_mut() {
                let Some(name) = above.waiting.pop() else {
                    entered.pop();
                    continue;
                };
                let path = above.path.join(OsStr::from_bytes(name.as_bytes()));
                let depth = entered.len();
                let Some(above) = entered.last() else { break };
                let opened = match depth < MAX_DEPTH {
                    true => OpenDirectory::open_in(above.directory.as_fd(), &name),
                    false => Err(std::io::Error::other("too deep")),
                };
                let below = match opened {
                    Ok(below) => {
                        found.enter(below, path, Some(above.directory.identity), roots, before)
                    }
                    Err(_) => {
                        // It may have been removed in the meantime, and a run cannot create a
                        // directory of another user.
                        if let Ok(meta) = above.directory.stat(&name)
                            && FileType::from_raw_mode(meta.st_mode) == FileType::Directory
                            && !is_of_other_user(&meta)
                        {
                            found.unknown.insert(path, FileIdentity::of(&meta));
                        }
                        None
                    }
                };
                entered.extend(below);
            }
        }
        found
    }

    /// Adds the names in one directory.
    fn enter(
        &mut self,
        mut directory: OpenDirectory,
        path: PathBuf,
        above: Option<FileIdentity>,
        roots: &[PathBuf],
        before: Option<&Self>,
    ) -> Option<EnteredDirectory> {
        if directory.was_unreadable() {
            match before.is_some_and(|before| !before.unreadable.contains(&directory.identity)) {
                true => directory.leave_readable(),
                false => {
                    self.unreadable.insert(directory.identity);
                }
            }
        }
        let Ok(entries) = directory.entries() else {
            self.unknown.insert(path, directory.identity);
            return None;
        };
        let names: BTreeSet<OsString> =
            entries.iter().map(|entry| entry.os_name().to_owned()).collect();
        let in_git = is_git_directory(&path, &names);
        let is_named_git = path.file_name().is_some_and(|name| name == ".git");
        let mut waiting = Vec::new();
        for entry in entries {
            let name = entry.os_name();
            let is_in = |names: &[&str]| names.iter().any(|protected| name == *protected);
            let protected = is_in(&PROTECTED_NAMES)
                || (in_git && is_in(&PROTECTED_GIT_NAMES))
                // It names a repository elsewhere.
                || (name == ".git" && !entry.is_directory);
            let path = path.join(name);
            if protected && !roots.contains(&path) {
                if let Ok(meta) = directory.stat(&entry.name) {
                    let found = FoundName {
                        identity: FileIdentity::of(&meta),
                        changed: change_time(&meta),
                        parent: directory.identity,
                        work_tree: is_named_git.then_some(above.unwrap_or_default()),
                        handle: None,
                    };
                    self.paths.insert(path, found);
                }
            } else if entry.is_directory {
                waiting.push(entry.name);
            }
        }
        if in_git {
            self.repositories.insert(path.clone(), directory.identity);
        }
        Some(EnteredDirectory { directory, path, waiting })
    }

    /// Keeps the numbers of the files from being given to others. Those beyond the limit of
    /// descriptors are compared by the time of their last change.
    pub(super) fn hold(&mut self, roots: &[PathBuf]) {
        let limit = getrlimit(Resource::Nofile);
        let most = limit.maximum.unwrap_or(MAX_DESCRIPTORS).min(MAX_DESCRIPTORS);
        let current = limit.current.map_or(most, |current| current.max(most));
        let raised = Rlimit { current: Some(current), maximum: limit.maximum };
        // With the former limit fewer are held.
        let usable = match setrlimit(Resource::Nofile, raised) {
            Ok(()) => current,
            Err(_) => limit.current.unwrap_or_default(),
        };
        let usable = usize::try_from(usable.min(MAX_DESCRIPTORS) / 2).unwrap_or_default();
        for (path, name) in self.paths.iter_mut().take(usable) {
            let handle = PinnedEntry::open(roots, path, false)
                .and_then(|entry| entry.open_file(OFlags::PATH));
            let Ok(handle) = handle else { continue };
            // The program has started already.
            let is_same = fstat(&handle).is_ok_and(|meta| {
                (FileIdentity::of(&meta), change_time(&meta)) == (name.identity, name.changed)
            });
            name.handle = is_same.then_some(handle);
        }
    }

    /// Returns the earlier path of a file that was moved: one that has another file now, or none.
    pub(super) fn find_moved<'a>(
        &'a self,
        later: &FoundName,
        present: &Self,
    ) -> Option<(&'a Path, &'a FoundName, SameFile)> {
        self.paths.iter().find_map(|(path, known)| {
            let same = known.compare(later);
            let is_elsewhere =
                || present.paths.get(path).is_none_or(|other| other.identity != known.identity);
            (same != SameFile::No && is_elsewhere()).then_some((path.as_path(), known, same))
        })
    }

    /// Tests whether a directory of a repository was one before, at any path.
    pub(super) fn has_repository(&self, identity: FileIdentity) -> bool {
        self.repositories.values().any(|known| *known == identity)
    }

    /// Tests whether a directory could not be entered before, at any path.
    pub(super) fn has_unknown(&self, identity: FileIdentity) -> bool {
        self.unknown.values().any(|known| *known == identity)
    }
}

fn change_time(meta: &rustix::fs::Stat) -> (i64, i64) {
    (meta.st_ctime, i64::try_from(meta.st_ctime_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Some file systems give the number of a removed file to the next one.
    #[test]
    fn number_of_held_file_is_not_reused() {
        let base = tempfile::tempdir().unwrap();
        let roots = [base.path().to_owned()];
        let path = base.path().join(".mcp.json");
        fs::write(&path, "own").unwrap();
        let mut before = FoundNames::scan(&roots, None);
        let compare = |before: &FoundNames| {
            let after = FoundNames::scan(&roots, None);
            before.paths[&path].compare(&after.paths[&path])
        };
        assert_eq!(compare(&before), SameFile::Yes);
        before.hold(&roots);
        assert!(before.paths[&path].handle.is_some());
        for _ in 0..50 {
            fs::remove_file(&path).unwrap();
            fs::write(&path, "own").unwrap();
            assert_eq!(compare(&before), SameFile::No);
        }
        // Without a descriptor the number alone is not sufficient.
        let mut before = FoundNames::scan(&roots, None);
        before.paths.get_mut(&path).unwrap().changed = (1, 0);
        assert_eq!(compare(&before), SameFile::Unknown);
    }
}
