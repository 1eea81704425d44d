//! Files in writable directories that other programs of the user would execute or obey.
//!
//! Existing ones are read-only mounts; without mounts they are restored after the run. New ones
//! are removed after the run. A run may move a directory with protected files; what existed before
//! is not removed. All is reported. In a repository that the run has created, harmless files of
//! git remain.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::error::SetupError;
use super::found_names::{FoundNames, SameFile};
use super::git_directory::{is_harmless, links_harmless_repository};
use super::kept_files::KeptFiles;
use super::open_directory::PinnedEntry;
use crate::isolation::{RefusalKind, RevertAction, RevertedFile};
use crate::protocol::LaunchRequest;

/// The protected files and directories before a run.
#[derive(Debug, Default)]
pub(super) struct ProtectedNames {
    roots: Vec<PathBuf>,
    /// The denied paths that did not exist.
    absent: Vec<PathBuf>,
    /// The names before the run.
    found: FoundNames,
    /// The contents, as far as they can be kept.
    kept: KeptFiles,
    /// Whether the run could not change the files, because they are read-only mounts.
    is_mounted: bool,
}

/// The changes to protected names that a run has left.
#[derive(Default)]
struct NameChanges {
    /// Each name before that still exists, and its present path.
    places: BTreeMap<PathBuf, PathBuf>,
    /// Each name before that exists at a place where it was not obeyed.
    displaced: Vec<(PathBuf, PathBuf)>,
    /// The names of which it is not known whether they existed.
    doubtful: BTreeSet<PathBuf>,
    /// The new names.
    new: BTreeSet<PathBuf>,
    reverted: Vec<RevertedFile>,
}

impl NameChanges {
    fn report(&mut self, action: RevertAction, path: &Path, from: Option<&Path>) {
        let from = from.map(|path| path.display().to_string());
        self.reverted.push(RevertedFile { path: path.display().to_string(), action, from });
    }
}

impl ProtectedNames {
    /// Finds the protected names in the writable directories. A name that the policy lists exactly
    /// is not protected.
    pub(super) fn find(request: &LaunchRequest) -> Self {
        let files = &request.policy.filesystem;
        let absent = files.deny_write.iter().filter(|path| path.symlink_metadata().is_err());
        Self {
            roots: files.allow_write.clone(),
            absent: absent.cloned().collect(),
            found: FoundNames::scan(&files.allow_write, None),
            ..Self::default()
        }
    }

    /// Returns the existing paths.
    pub(super) fn existing(&self) -> impl Iterator<Item = &PathBuf> {
        self.found.paths.keys()
    }

    /// Reads the contents of the existing ones, to be restored after the run.
    ///
    /// # Errors
    /// They are too large, and are not read-only mounts.
    pub(super) fn keep_contents(&mut self, is_mounted: bool) -> Result<(), SetupError> {
        self.is_mounted = is_mounted;
        self.kept = KeptFiles::default();
        for path in self.found.paths.keys() {
            match self.kept.add(&self.roots, path) {
                Ok(()) => {}
                Err(_) if is_mounted => break,
                Err(error) => {
                    let message = format!("{}: {error}", path.display());
                    return Err(SetupError::new(
                        RefusalKind::Isolation,
                        "protected names",
                        message,
                    ));
                }
            }
        }
        Ok(())
    }

    /// Makes the existing ones recognizable after the run. The program must not inherit what this
    /// opens, so it has started already.
    pub(super) fn hold(&mut self) {
        self.found.hold(&self.roots);
    }

    /// Removes new files and restores changed ones; returns what was done.
    pub(super) fn revert(&self) -> Vec<RevertedFile> {
        let present = FoundNames::scan(&self.roots, Some(&self.found));
        let mut changes = self.compare(&present);
        for path in std::mem::take(&mut changes.new) {
            self.remove(&path, &mut changes);
        }
        for path in std::mem::take(&mut changes.doubtful) {
            self.set_aside(&path, &path, &mut changes);
        }
        for (from, path) in std::mem::take(&mut changes.displaced) {
            let entry = PinnedEntry::open(&self.roots, &path, false);
            let moved = entry
                .and_then(|entry| entry.move_to(&PinnedEntry::open(&self.roots, &from, true)?));
            match moved {
                Ok(()) => {
                    changes.report(RevertAction::MovedBack, &from, Some(&path));
                    changes.places.insert(from.clone(), from);
                }
                Err(_) => self.set_aside(&path, &from, &mut changes),
            }
        }
        for path in self.found.paths.keys() {
            self.restore(path, &present, &mut changes);
        }
        changes.reverted.sort_by(|one, other| one.path.cmp(&other.path));
        changes.reverted.dedup_by(|one, other| one.path == other.path);
        changes.reverted
    }

    /// Compares the names after the run with those before.
    fn compare(&self, present: &FoundNames) -> NameChanges {
        let mut changes = NameChanges::default();
        let mut other = Vec::new();
        for (path, now) in &present.paths {
            let before = self.found.paths.get(path).map_or(SameFile::No, |b| b.compare(now));
            let moved = || self.found.find_moved(now, present);
            match (before, moved()) {
                (SameFile::Yes, _) => {
                    changes.places.insert(path.clone(), path.clone());
                }
                (SameFile::Unknown, _) | (_, Some((.., SameFile::Unknown))) => {
                    other.push((path, now));
                }
                (_, Some((from, known, _))) if is_same_name(from, path) => {
                    if known.has_same_place(now) {
                        changes.places.insert(from.to_owned(), path.clone());
                        changes.report(RevertAction::Moved, path, Some(from));
                    } else {
                        changes.displaced.push((from.to_owned(), path.clone()));
                    }
                }
                (_, Some((from, ..))) => changes.displaced.push((from.to_owned(), path.clone())),
                (SameFile::No, None) => other.push((path, now)),
            }
        }
        let is_displaced = |path: &PathBuf| {
            changes.displaced.iter().any(|(from, _)| from == path)
                || changes.places.get(path).is_some_and(|place| place != path)
        };
        let (mut new, mut doubtful) = (BTreeSet::new(), BTreeSet::new());
        for (path, now) in other {
            let is_known = self.found.paths.contains_key(path);
            if is_known && !is_displaced(path) {
                // Replaced: its content is compared below.
                continue;
            }
            if self.found.paths.values().any(|known| known.compare(now) == SameFile::Unknown) {
                doubtful.insert(path.clone());
            } else if !self.remains(path, present) {
                new.insert(path.clone());
            }
        }
        let unknown = present.unknown.iter().filter(|(_, id)| !self.found.has_unknown(**id));
        new.extend(unknown.map(|(path, _)| path.clone()));
        let denied = |path: &&PathBuf| path.symlink_metadata().is_ok();
        new.extend(self.absent.iter().filter(denied).cloned());
        changes.new = new;
        changes.doubtful = doubtful;
        changes
    }

    /// Tests whether a new name is harmless.
    fn remains(&self, path: &Path, present: &FoundNames) -> bool {
        if path.file_name().is_some_and(|name| name == ".git") {
            return links_harmless_repository(path, &|directory| {
                present.repositories.contains_key(directory)
            });
        }
        let repository = path.parent().and_then(|parent| present.repositories.get(parent));
        repository.is_some_and(|id| !self.found.has_repository(*id)) && is_harmless(path)
    }

    fn remove(&self, path: &Path, changes: &mut NameChanges) {
        let removed = PinnedEntry::open(&self.roots, path, false).and_then(|entry| entry.remove());
        let action = if removed.is_ok() { RevertAction::Removed } else { RevertAction::Failed };
        changes.report(action, path, None);
    }

    fn set_aside(&self, path: &Path, from: &Path, changes: &mut NameChanges) {
        let set = PinnedEntry::open(&self.roots, path, false).and_then(|entry| entry.set_aside());
        let action = if set.is_ok() { RevertAction::SetAside } else { RevertAction::Failed };
        changes.report(action, path, (from != path).then_some(from));
    }

    /// Restores the content of a name that existed.
    fn restore(&self, path: &Path, present: &FoundNames, changes: &mut NameChanges) {
        let place = match changes.places.get(path) {
            // A run could not change it, so another program has changed it.
            Some(_) if self.is_mounted => return,
            Some(place) => place.clone(),
            None if self.is_mounted => {
                // A run could not remove it either. Another program may have replaced it.
                if !present.paths.contains_key(path) || self.kept.is_unchanged(&self.roots, path) {
                    return;
                }
                self.set_aside(path, path, changes);
                path.to_owned()
            }
            None => path.to_owned(),
        };
        let (restored, removed) = self.kept.restore(&self.roots, path, &place);
        for (files, done) in [(restored, RevertAction::Restored), (removed, RevertAction::Removed)]
        {
            for file in files {
                let action = if file.is_done { done } else { RevertAction::Failed };
                changes.report(action, &file.path, None);
            }
        }
    }
}

fn is_same_name(one: &Path, other: &Path) -> bool {
    one.file_name() == other.file_name()
}
