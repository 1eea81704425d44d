//! The files that differ between a commit and a later state of a repository.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use skillhost_sdk::ExtensionError;

use crate::git_place::{RepositoryPlace, is_within};
use crate::path::DirectoryPath;
use crate::printable::display_safe;
use crate::repository::{
    FileMode, GitError, GitIndex, ObjectId, TreeFile, diff_trees, flatten_tree,
};
use crate::roots::FileRoots;
use crate::walk::{WalkControl, WalkFilter, WalkedFile, walk_files};
use crate::worktree::{Worktree, WorktreeState};

/// The maximum number of names in a note.
const MAX_NAMES: usize = 20;

/// The two states to compare.
pub(crate) enum ChangeSources {
    /// The trees of two commits; `None` is the empty one.
    Trees { old: Option<ObjectId>, new: Option<ObjectId> },
    /// A tree and the index, or the files of the worktree that are in the index.
    Index { old: Option<ObjectId>, with_worktree: bool },
}

/// A file that differs.
#[derive(Debug)]
pub(crate) struct ChangedFile {
    /// The path in the repository.
    pub(crate) path: String,
    /// The path before, if only the path is another one.
    pub(crate) renamed_from: Option<String>,
    pub(crate) old: Option<FileSide>,
    pub(crate) new: Option<FileSide>,
}

/// One side of a change.
#[derive(Debug)]
pub(crate) struct FileSide {
    pub(crate) mode: FileMode,
    pub(crate) content: FileContent,
}

/// The content of a file.
#[derive(Debug)]
pub(crate) enum FileContent {
    Object(ObjectId),
    /// That of the file: all changed files together can be larger than the memory.
    Worktree,
}

/// All changes, sorted by path.
pub(crate) struct FoundChanges {
    pub(crate) files: Vec<ChangedFile>,
    /// What the list does not say, each without a period.
    pub(crate) notes: Vec<String>,
}

impl ChangedFile {
    /// Returns the letter for the kind of change, as git shows it.
    pub(crate) fn letter(&self) -> char {
        match (&self.renamed_from, &self.old, &self.new) {
            (Some(_), ..) => 'R',
            (None, None, _) => 'A',
            (None, Some(_), None) => 'D',
            (None, Some(_), Some(_)) => 'M',
        }
    }
}

impl From<TreeFile> for FileSide {
    fn from(file: TreeFile) -> Self {
        Self { mode: file.mode, content: FileContent::Object(file.id) }
    }
}

/// Finds the files that differ, in the part of the repository that the path names.
pub(crate) fn find_changes(
    roots: &FileRoots,
    place: &RepositoryPlace,
    sources: &ChangeSources,
    control: &WalkControl,
) -> Result<FoundChanges, ExtensionError> {
    let (mut files, notes) = match sources {
        ChangeSources::Trees { old, new } => (compare_trees(place, *old, *new)?, Vec::new()),
        ChangeSources::Index { old, with_worktree } => {
            compare_index(roots, place, *old, *with_worktree, control)?
        }
    };
    join_renames(&mut files);
    Ok(FoundChanges { files, notes })
}

fn compare_trees(
    place: &RepositoryPlace,
    old: Option<ObjectId>,
    new: Option<ObjectId>,
) -> Result<Vec<ChangedFile>, GitError> {
    let changes = diff_trees(&place.repository, old, new)?;
    let included = changes.into_iter().filter(|(path, _)| place.includes(path));
    Ok(included
        .map(|(path, (old, new))| ChangedFile {
            path,
            renamed_from: None,
            old: old.map(FileSide::from),
            new: new.map(FileSide::from),
        })
        .collect())
}

fn compare_index(
    roots: &FileRoots,
    place: &RepositoryPlace,
    old: Option<ObjectId>,
    with_worktree: bool,
    control: &WalkControl,
) -> Result<(Vec<ChangedFile>, Vec<String>), ExtensionError> {
    let mut old = flatten_tree(&place.repository, old)?;
    old.retain(|path, _| place.includes(path));
    let GitIndex { entries, written } = place.repository.index()?;
    let mut worktree = Worktree::new(place, written);
    let (mut files, mut conflicts, mut unknown) = (Vec::new(), BTreeSet::new(), Vec::new());
    let mut known = BTreeSet::new();
    for entry in &entries {
        if control.is_over() {
            return Err(GitError::TimedOut.into());
        }
        known.insert(entry.path.as_str());
        if !place.includes(&entry.path) {
            continue;
        }
        if entry.stage != 0 {
            conflicts.insert(display_safe(&entry.path));
            old.remove(&entry.path);
            continue;
        }
        let staged = TreeFile { mode: entry.mode, id: entry.id };
        let state = match with_worktree {
            true => worktree.state(entry)?,
            false => WorktreeState::Same,
        };
        let before = old.remove(&entry.path);
        let new = match state {
            WorktreeState::Same if before == Some(staged) => continue,
            WorktreeState::Same => Some(FileSide::from(staged)),
            WorktreeState::Changed(mode) => Some(FileSide { mode, content: FileContent::Worktree }),
            WorktreeState::Deleted if before.is_none() => continue,
            WorktreeState::Deleted => None,
            WorktreeState::Unknown => {
                unknown.push(display_safe(&entry.path));
                continue;
            }
        };
        let old = before.map(FileSide::from);
        files.push(ChangedFile { path: entry.path.clone(), renamed_from: None, old, new });
    }
    // What is left of the old files is not in the index.
    files.extend(old.into_iter().map(|(path, file)| ChangedFile {
        path,
        renamed_from: None,
        old: Some(file.into()),
        new: None,
    }));
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let mut notes = Vec::new();
    if !conflicts.is_empty() {
        let names: Vec<_> = conflicts.into_iter().collect();
        notes.push(format!("in conflict: {}", list_names(&names)));
    }
    if !unknown.is_empty() {
        notes.push(format!("not compared, too large or not readable: {}", list_names(&unknown)));
    }
    if with_worktree {
        let (untracked, is_partial) = find_untracked(roots, place, &known, control)?;
        if !untracked.is_empty() {
            notes.push(format!("not known to git: {}", list_names(&untracked)));
        }
        if is_partial {
            notes.push("the time was over before all files not known to git were found".to_owned());
        }
    }
    Ok((files, notes))
}

/// Finds the files of the worktree that are neither in the index nor ignored; the second value is
/// true if the time was over before all were found.
fn find_untracked(
    roots: &FileRoots,
    place: &RepositoryPlace,
    known: &BTreeSet<&str>,
    control: &WalkControl,
) -> Result<(Vec<String>, bool), ExtensionError> {
    let directory = place.prefix.strip_suffix('/');
    let directory = DirectoryPath::new(directory)?;
    let found = Mutex::new(BTreeSet::new());
    // Of the place, only these can be used on several threads.
    let (prefix, filter) = (place.prefix.as_str(), place.filter.as_str());
    let report = walk_files(roots, &directory, &WalkFilter::untracked(), control, || {
        |file: &WalkedFile<'_>| {
            let path = &file.path[prefix.len()..];
            if !known.contains(path) && is_within(filter, path) {
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.insert(display_safe(file.path));
            }
        }
    })?;
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((found.into_iter().collect(), report.timed_out))
}

fn list_names(names: &[String]) -> String {
    match names.len().checked_sub(MAX_NAMES) {
        Some(rest @ 1..) => format!("{} and {rest} more", names[..MAX_NAMES].join(", ")),
        _ => names.join(", "),
    }
}

/// Joins a file that is gone with a new one of the same content.
fn join_renames(files: &mut Vec<ChangedFile>) {
    let object = |side: &Option<FileSide>| match side.as_ref().map(|side| &side.content) {
        Some(FileContent::Object(id)) => Some(*id),
        Some(FileContent::Worktree) | None => None,
    };
    let mut gone: BTreeMap<ObjectId, String> = BTreeMap::new();
    for file in files.iter().filter(|file| file.new.is_none()) {
        if let Some(id) = object(&file.old) {
            gone.insert(id, file.path.clone());
        }
    }
    let mut joined = BTreeSet::new();
    for file in files.iter_mut().filter(|file| file.old.is_none()) {
        if let Some(from) = object(&file.new).and_then(|id| gone.remove(&id)) {
            joined.insert(from.clone());
            file.renamed_from = Some(from);
        }
    }
    files.retain(|file| file.new.is_some() || !joined.contains(&file.path));
}
