//! The directory of a client: exported skills in it, and the writes to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use skill_catalog::{Audience, Snapshot, Store};
use skill_format::Digest;
use skill_service::read_published;
use skillhost_files::temporary::{TEMPORARY_PREFIX, temporary_name};
use skillhost_files::{sync_directory, sync_tree, write_new_file};
use skillhost_terminal::{CliError, exit};

use super::tree::{self, ExportSource, FileMap, TargetContents};
use crate::wording::registry_error;

/// The file that records the exported skills of a directory and their digests.
const RECORD: &str = ".skillhost-export.json";

/// The format version of that file.
const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportLog {
    schema_version: u32,
    skills: BTreeMap<String, WrittenSkill>,
}

/// The recorded contents of one skill; during a replacement, both the old and the new ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenSkill {
    /// Digests of copies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    copies: Vec<Digest>,
    /// Targets of links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<PathBuf>,
}

impl WrittenSkill {
    /// Adds the contents about to be written.
    fn add(&mut self, source: &ExportSource) {
        match source {
            ExportSource::Copy(files) => self.copies.push(tree::digest(files)),
            ExportSource::Link(target) => self.links.push(target.clone()),
        }
    }

    /// Reduces the record to the contents found, or returns `None` if export did not write them.
    fn matching(&self, found: &TargetContents) -> Option<Self> {
        match found {
            TargetContents::Copy(files) => {
                let digest = tree::digest(files);
                let ours = self.copies.contains(&digest);
                ours.then(|| Self { copies: vec![digest], links: Vec::new() })
            }
            TargetContents::Link(target) => {
                let ours = self.links.contains(target);
                ours.then(|| Self { copies: Vec::new(), links: vec![target.clone()] })
            }
            TargetContents::Nothing | TargetContents::Other => None,
        }
    }
}

/// The state of a skill in the directory, compared with the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetStatus {
    /// The contents are equal.
    Current,
    /// The directory does not hold the skill.
    Missing,
    /// The skill is as exported, and the registry's has changed since.
    Outdated,
    /// The skill was exported and has been edited since.
    Edited,
    /// The skill was never exported.
    Foreign,
}

/// A directory of skills.
#[derive(Debug)]
pub(super) struct TargetDirectory {
    path: PathBuf,
    recorded: ExportLog,
    /// A lock that excludes other exports while the directory is open.
    _lock: Option<File>,
}

impl TargetDirectory {
    /// Opens a directory; creates it unless `check` is set.
    pub(super) fn open(path: PathBuf, check: bool) -> Result<Self, CliError> {
        // A check writes no file, so it takes no lock and leaves leftovers in place.
        let lock = if check { None } else { Some(lock_directory(&path)?) };
        if lock.is_some() {
            sweep(&path);
        }
        let file = path.join(RECORD);
        let empty = || ExportLog { schema_version: VERSION, skills: BTreeMap::new() };
        let recorded = match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .ok()
                .filter(|recorded: &ExportLog| recorded.schema_version == VERSION),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(empty()),
            Err(error) => return Err(CliError::io(&file, &error)),
        };
        // A record that this version cannot read is never overwritten: it protects user edits.
        let recorded = recorded.ok_or_else(|| {
            let message = format!("{} is not a record of this version", file.display());
            CliError::new(exit::CONFLICT, message)
                .with_hint("move it away; earlier exports then count as foreign")
        })?;
        Ok(Self { path, recorded, _lock: lock })
    }

    pub(super) fn path(&self, id: &str) -> PathBuf {
        self.path.join(id)
    }

    pub(super) fn into_path(self) -> PathBuf {
        self.path
    }

    /// Returns the exported skills that still exist and are not among `names`.
    pub(super) fn stale_exports(&self, names: &BTreeSet<&str>) -> Vec<String> {
        let others = self.recorded.skills.keys().filter(|id| !names.contains(id.as_str()));
        others.filter(|id| self.path(id).symlink_metadata().is_ok()).cloned().collect()
    }

    /// Reads the current contents of a skill.
    pub(super) fn inspect(&self, id: &str) -> io::Result<TargetContents> {
        TargetContents::inspect(&self.path(id))
    }

    /// Compares the current contents with the planned ones.
    pub(super) fn status(
        &self,
        id: &str,
        found: &TargetContents,
        source: &ExportSource,
    ) -> TargetStatus {
        if *found == TargetContents::Nothing {
            return TargetStatus::Missing;
        }
        if found.matches(source) {
            return TargetStatus::Current;
        }
        match self.recorded.skills.get(id) {
            Some(written) if written.matching(found).is_some() => TargetStatus::Outdated,
            Some(_) => TargetStatus::Edited,
            None => TargetStatus::Foreign,
        }
    }

    /// Records the planned contents next to the current ones, for skills that may be written.
    pub(super) fn record_planned<'s>(
        &mut self,
        planned: impl Iterator<Item = (&'s str, &'s ExportSource)>,
    ) -> Result<(), CliError> {
        let before = self.recorded.clone();
        for (id, source) in planned {
            let found = self.inspect(id).map_err(|error| CliError::io(&self.path(id), &error))?;
            if !matches!(
                self.status(id, &found, source),
                TargetStatus::Missing | TargetStatus::Outdated
            ) {
                continue;
            }
            self.recorded.skills.entry(id.to_owned()).or_default().add(source);
        }
        if self.recorded == before { Ok(()) } else { self.record() }
    }

    /// Records the contents actually written; removed skills leave the record.
    pub(super) fn record_written(&mut self) -> Result<(), CliError> {
        let before = self.recorded.clone();
        for (id, written) in std::mem::take(&mut self.recorded.skills) {
            // An edited or unreadable skill keeps its record, so that it stays an edited export.
            let kept = match self.inspect(&id) {
                Ok(TargetContents::Nothing) => continue,
                Ok(found) => written.matching(&found).unwrap_or(written),
                Err(_) => written,
            };
            self.recorded.skills.insert(id, kept);
        }
        if self.recorded == before { Ok(()) } else { self.record() }
    }

    fn record(&self) -> Result<(), CliError> {
        let file = self.path.join(RECORD);
        // A rename replaces the record atomically; a crash leaves the old one.
        let temporary = self.temporary_path(RECORD, "new");
        let mut text = serde_json::to_vec_pretty(&self.recorded).map_err(io::Error::from)?;
        text.push(b'\n');
        let written = write_new_file(&temporary, &text, None)
            .and_then(|()| fs::rename(&temporary, &file))
            .and_then(|()| sync_directory(&self.path))
            .map_err(|error| CliError::io(&file, &error));
        if written.is_err() {
            // The write error is reported; a leftover file would only add to it.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Writes a copy of a skill under a temporary name and moves it into place.
    pub(super) fn copy(
        &self,
        store: &Store,
        snapshot: &Snapshot,
        id: &str,
        files: &FileMap,
        found: &TargetContents,
    ) -> Result<(), CliError> {
        let temporary = self.temporary_path(id, "new");
        let failed = |error: io::Error| CliError::io(&temporary, &error);
        fs::create_dir(&temporary).map_err(failed)?;
        let written = files.iter().try_for_each(|(path, (digest, executable))| {
            let bytes = read_published(store, snapshot, Audience::Operator, id, path)
                .map_err(registry_error)?;
            // The record names the planned digest, so other bytes would count as a foreign edit.
            if Digest::compute(&bytes) != *digest {
                let message = format!("{path} changed while it was copied");
                return Err(CliError::new(exit::CONFLICT, message).with_hint("export it again"));
            }
            let to = temporary.join(path);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).map_err(failed)?;
            }
            write_new_file(&to, &bytes, executable.then_some(0o777)).map_err(failed)
        });
        // Synced before the rename: after a crash the final name must not show a partial copy.
        let written = written.and_then(|()| sync_tree(&temporary).map_err(failed));
        let placed = written.and_then(|()| self.replace_entry(&temporary, id, found));
        if placed.is_err() {
            // The copy error is reported; a leftover directory would only add to it.
            let _ = fs::remove_dir_all(&temporary);
        }
        placed
    }

    /// Creates a link to a skill and moves it into place.
    pub(super) fn link(
        &self,
        id: &str,
        target: &Path,
        found: &TargetContents,
    ) -> Result<(), CliError> {
        let temporary = self.temporary_path(id, "new");
        symlink(target, &temporary).map_err(|error| CliError::io(&temporary, &error))?;
        let placed = self.replace_entry(&temporary, id, found);
        if placed.is_err() {
            // The link error is reported; a leftover link would only add to it.
            let _ = fs::remove_file(&temporary);
        }
        placed
    }

    /// Replaces the contents found by new ones.
    fn replace_entry(&self, new: &Path, id: &str, found: &TargetContents) -> Result<(), CliError> {
        let (place, old) = (self.path(id), self.temporary_path(id, "old"));
        let failed = |error: io::Error| CliError::io(&place, &error);
        if *found == TargetContents::Nothing {
            let placed = fs::rename(new, &place).and_then(|()| sync_directory(&self.path));
            return placed.map_err(failed);
        }
        // A directory cannot be replaced by a rename unless it is empty, so the old one moves
        // first.
        fs::rename(&place, &old).map_err(failed)?;
        // A user may have edited the skill between the comparison and the rename.
        let same = TargetContents::inspect(&old).is_ok_and(|now| now == *found);
        let moved = if same {
            fs::rename(new, &place).map_err(failed)
        } else {
            Err(CliError::new(exit::CONFLICT, "it changed while it was replaced")
                .with_hint("export it again"))
        };
        if moved.is_err() {
            // If even this rename fails, the edit survives under the temporary name.
            let _ = fs::rename(&old, &place);
            return moved;
        }
        sync_directory(&self.path).map_err(failed)?;
        let removed = if matches!(found, TargetContents::Link(_)) {
            fs::remove_file(&old)
        } else {
            fs::remove_dir_all(&old)
        };
        removed.map_err(|error| CliError::io(&old, &error))
    }

    /// Returns a temporary path in the directory that no client reads as a skill.
    fn temporary_path(&self, id: &str, what: &str) -> PathBuf {
        self.path.join(temporary_name(&format!("{what}-{id}")))
    }
}

/// Removes the unfinished copies and links of killed exports; the directory's lock excludes running
/// ones. Contents that an export moved away stay: they may be the only copy of an edit.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(TEMPORARY_PREFIX));
        let token = rest.and_then(|rest| rest.split_once('-'));
        // Only unfinished new entries; old ones may hold an edit.
        if !token.is_some_and(|(_, rest)| rest.starts_with("new-")) {
            continue;
        }
        // A leftover entry has a name that no client reads.
        let _ = match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => fs::remove_dir_all(entry.path()),
            false => fs::remove_file(entry.path()),
        };
    }
}

/// Creates a directory and locks it against other exports.
fn lock_directory(path: &Path) -> Result<File, CliError> {
    fs::create_dir_all(path).map_err(|error| CliError::io(path, &error))?;
    let file = path.join(".skillhost-export.lock");
    // The lock file stays: removing it would let two exports lock different files.
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&file);
    let lock = lock.map_err(|error| CliError::io(&file, &error))?;
    lock.lock().map_err(|error| CliError::io(&file, &error))?;
    Ok(lock)
}

#[cfg(unix)]
fn symlink(target: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
fn symlink(target: &Path, at: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_dir(target, at)
}
