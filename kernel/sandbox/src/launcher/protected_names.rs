//! Files in writable directories that other programs of the user would execute or obey.
//!
//! Existing ones are read-only mounts; without mounts they are restored after the run. New ones
//! are removed after the run. Both are reported. In a repository that the run has created,
//! harmless files of git remain.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::error::SetupError;
use super::git_directory::{PROTECTED_GIT_NAMES, is_git_directory, is_harmless};
use super::policy_paths::open_place;
use crate::isolation::RefusalKind;
use crate::protocol::LaunchRequest;

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

/// The files and bytes that are kept to be restored.
const MAX_KEPT_FILES: usize = 256;
const MAX_KEPT_BYTES: u64 = 4 << 20;

/// The protected files and directories before a run.
#[derive(Debug, Default)]
pub(super) struct ProtectedNames {
    roots: Vec<PathBuf>,
    /// The denied paths that did not exist.
    absent: Vec<PathBuf>,
    /// The names before the run.
    found: FoundNames,
    /// The contents, if they have to be restored.
    kept: Option<KeptFiles>,
}

/// The protected names at one time.
#[derive(Debug, Default)]
struct FoundNames {
    /// The identity of each: its device and number.
    paths: BTreeMap<PathBuf, (u64, u64)>,
    /// The directories of repositories.
    repositories: BTreeSet<PathBuf>,
}

#[derive(Debug, Default)]
struct KeptFiles {
    files: BTreeMap<PathBuf, (Vec<u8>, u32)>,
    /// Links and pipes, which are not read.
    others: BTreeSet<PathBuf>,
    bytes: u64,
}

impl ProtectedNames {
    /// Finds the protected names in the writable directories. A name that the policy lists exactly
    /// is not protected.
    pub(super) fn find(request: &LaunchRequest) -> Self {
        let files = &request.policy.filesystem;
        let absent = files.deny_write.iter().filter(|path| path.symlink_metadata().is_err());
        let mut names = Self {
            roots: files.allow_write.clone(),
            absent: absent.cloned().collect(),
            ..Self::default()
        };
        names.found = names.scan();
        names
    }

    /// Returns the existing paths.
    pub(super) fn existing(&self) -> impl Iterator<Item = &PathBuf> {
        self.found.paths.keys()
    }

    /// Reads the contents of the existing ones, to be restored after the run.
    ///
    /// # Errors
    /// They are too large.
    pub(super) fn keep_contents(&mut self) -> Result<(), SetupError> {
        let mut kept = KeptFiles::default();
        for path in self.found.paths.keys() {
            kept.add(path).map_err(|error| {
                let message = format!("{}: {error}", path.display());
                SetupError::new(RefusalKind::Isolation, "protected names", message)
            })?;
        }
        self.kept = Some(kept);
        Ok(())
    }

    /// Removes new files and restores changed ones; returns their paths.
    pub(super) fn revert(&self) -> Vec<String> {
        let mut reverted = BTreeSet::new();
        let present = self.scan();
        let is_new = |(path, id): &(&PathBuf, &(u64, u64))| {
            // Without mounts a file may have been replaced; its content is compared below.
            let known = self.found.paths.get(*path);
            known.is_none_or(|known| self.kept.is_none() && known != *id)
        };
        let remains = |path: &PathBuf| {
            let repository = path.parent().filter(|parent| present.repositories.contains(*parent));
            repository.is_some_and(|path| !self.found.repositories.contains(path))
                && is_harmless(path)
        };
        let denied = self.absent.iter().filter(|path| path.symlink_metadata().is_ok());
        let new = present.paths.iter().filter(is_new).map(|(path, _)| path);
        let new = new.filter(|path| !remains(path)).chain(denied);
        for path in new {
            // What cannot be removed is reported as well.
            let _ = remove(path);
            reverted.insert(path.display().to_string());
        }
        if let Some(kept) = &self.kept {
            reverted.extend(kept.restore(self.found.paths.keys()));
        }
        reverted.into_iter().collect()
    }

    fn scan(&self) -> FoundNames {
        let mut found = FoundNames::default();
        let mut waiting = self.roots.clone();
        while let Some(directory) = waiting.pop() {
            // It may be a file, or be unreadable for this user, and then nobody else's.
            let entries: Vec<_> =
                fs::read_dir(&directory).into_iter().flatten().flatten().collect();
            let names: BTreeSet<_> = entries.iter().map(fs::DirEntry::file_name).collect();
            let in_git = is_git_directory(&directory, &names);
            if in_git {
                found.repositories.insert(directory);
            }
            for entry in entries {
                let (name, path) = (entry.file_name(), entry.path());
                let is_in = |names: &[&str]| names.iter().any(|protected| name == *protected);
                let protected = is_in(&PROTECTED_NAMES) || (in_git && is_in(&PROTECTED_GIT_NAMES));
                if protected && !self.roots.contains(&path) {
                    if let Ok(meta) = entry.metadata() {
                        found.paths.insert(path, (meta.dev(), meta.ino()));
                    }
                } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    waiting.push(path);
                }
            }
        }
        found
    }
}

impl KeptFiles {
    fn add(&mut self, path: &Path) -> io::Result<()> {
        for (path, meta) in list_files(path)? {
            if !meta.is_file() {
                self.others.insert(path);
                continue;
            }
            self.bytes = self.bytes.saturating_add(meta.len());
            if self.files.len() >= MAX_KEPT_FILES || self.bytes > MAX_KEPT_BYTES {
                return Err(io::Error::other("too large to be protected at this level"));
            }
            let mut content = Vec::new();
            File::open(&path)?.take(MAX_KEPT_BYTES).read_to_end(&mut content)?;
            self.files.insert(path, (content, meta.mode()));
        }
        Ok(())
    }

    /// Restores the files below the protected paths, and returns those that had changed.
    fn restore<'a>(&self, roots: impl Iterator<Item = &'a PathBuf>) -> Vec<String> {
        let mut changed = Vec::new();
        for root in roots {
            for (path, _) in list_files(root).unwrap_or_default() {
                if !self.files.contains_key(&path) && !self.others.contains(&path) {
                    let _ = remove(&path);
                    changed.push(path.display().to_string());
                }
            }
        }
        for (path, (content, mode)) in &self.files {
            if read_regular_file(path).is_ok_and(|present| present == *content) {
                continue;
            }
            // What cannot be restored is reported as well.
            let _ = restore_file(path, content, *mode);
            changed.push(path.display().to_string());
        }
        changed
    }
}

/// Lists a file, or all files and links in a directory; links are not followed.
fn list_files(path: &Path) -> io::Result<Vec<(PathBuf, fs::Metadata)>> {
    let mut files = Vec::new();
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        let meta = path.symlink_metadata()?;
        if meta.is_dir() {
            for entry in fs::read_dir(&path)? {
                waiting.push(entry?.path());
            }
        } else {
            files.push((path, meta));
        }
        if files.len() > MAX_KEPT_FILES * 4 {
            return Err(io::Error::other("too many files to be protected at this level"));
        }
    }
    Ok(files)
}

fn read_regular_file(path: &Path) -> io::Result<Vec<u8>> {
    if !path.symlink_metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut content = Vec::new();
    File::open(path)?.take(MAX_KEPT_BYTES).read_to_end(&mut content)?;
    Ok(content)
}

/// Returns a path to an entry whose directory was opened without following links, so that a
/// concurrent run cannot redirect it.
fn pin_entry(path: &Path) -> io::Result<(std::os::fd::OwnedFd, PathBuf)> {
    let missing = || io::Error::from(io::ErrorKind::InvalidInput);
    let directory = open_place(path.parent().ok_or_else(missing)?)?;
    let name = path.file_name().ok_or_else(missing)?;
    let pinned = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
    Ok((directory, pinned))
}

fn remove(path: &Path) -> io::Result<()> {
    let (_directory, pinned) = pin_entry(path)?;
    match pinned.symlink_metadata()?.is_dir() {
        true => fs::remove_dir_all(pinned),
        false => fs::remove_file(pinned),
    }
}

fn restore_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
        fs::create_dir_all(parent)?;
    }
    if path.symlink_metadata().is_ok() {
        remove(path)?;
    }
    let (_directory, pinned) = pin_entry(path)?;
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode & 0o777).open(pinned)?;
    file.write_all(content)?;
    file.set_permissions(fs::Permissions::from_mode(mode & 0o777))
}
