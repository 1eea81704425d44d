//! Entries that stay in the scan although a pass did not list them.
//!
//! An entry is removed only after its absence was observed twice, in a complete listing of the
//! directory above it. A missing root, an unreadable directory and everything beyond a limit keep
//! their earlier entries.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::sync::Arc;

use skill_format::Digest;

use crate::cache::TextCache;
use crate::entry::{ScanEntry, ScannedDirectory, find_directory};
use crate::problem::{PartialReason, ProblemDraft, ScanProblem};
use crate::roots::RootStatus;
use crate::signature::FileSignature;
use crate::skill::{Skill, join_relative};

use super::pass::RootScanner;

/// Retains a removed entry of a directory for one more pass.
pub(super) fn keep_missing(
    found: &mut ScannedDirectory,
    before: &ScannedDirectory,
    cache: &TextCache,
) {
    let mut kept = Vec::new();
    for entry in &before.entries {
        if found.find(entry.name()).is_some() {
            continue;
        }
        // An incomplete listing is no evidence of an absence.
        let gone = found.complete;
        if gone && entry.missing {
            forget(entry, cache);
        } else {
            kept.push(ScanEntry { missing: gone, ..entry.clone() });
        }
    }
    if !kept.is_empty() {
        // Lookups use a binary search by name.
        found.entries.extend(kept);
        found.entries.sort_by(|a, b| a.name().cmp(b.name()));
    }
}

fn forget(entry: &ScanEntry, cache: &TextCache) {
    if let Some(skill) = entry.skill() {
        cache.remove(&skill.cache_key());
    }
}

impl RootScanner<'_> {
    /// Records a root that cannot be opened; its earlier entries stay.
    pub(super) fn record_missing_root(&mut self, index: usize, error: &std::io::Error) {
        let opened = &self.setting.roots[index];
        let (label, path) = (opened.root.label.clone(), opened.root.path.clone());
        // A root that never had skills may simply not exist yet; a lost one is an error.
        let had_skills = self.before(index).any(|container| !container.entries.is_empty());
        let finding = if had_skills {
            let path = path.clone();
            let finding = root_vanished(&label, &error.to_string());
            self.walked.partial.push(PartialReason::RootVanished { label, path });
            finding
        } else if opened.status() == RootStatus::Missing {
            ProblemDraft::warning(
                "root.missing",
                format!("root `{label}` does not exist"),
                "create the directory; it is picked up as soon as it appears",
            )
        } else {
            let (path, message) = (path.clone(), error.to_string());
            self.walked.partial.push(PartialReason::Unreadable { path, message });
            ProblemDraft::error(
                "root.unreadable",
                format!("root `{label}` cannot be opened: {error}"),
                "make it a directory that the process may read",
            )
        };
        self.walked.problems.push(ScanProblem::for_path(path, None, true, finding));
        self.carry_all(index);
    }

    /// Retains the earlier entries of directories of a root that this pass did not list.
    ///
    /// `start` is the index of the root's first container; `unvisited` are directories that were
    /// found but not listed because a limit was reached.
    pub(super) fn carry_over(&mut self, index: usize, start: usize, unvisited: &HashSet<Arc<str>>) {
        if self.is_unmounted(index, start) {
            let opened = &self.setting.roots[index];
            let (label, path) = (opened.root.label.clone(), opened.root.path.clone());
            let finding =
                root_vanished(&label, "an empty directory of another disk is in its place");
            self.walked.problems.push(ScanProblem::for_path(path.clone(), None, true, finding));
            self.walked.partial.push(PartialReason::RootVanished { label, path });
            // The empty directory of the mount point must not replace the earlier containers.
            self.walked.containers.truncate(start);
            self.carry_all(index);
            // The disk comes back with the very stamps it went with.
            for kept in &mut self.walked.containers[start..] {
                kept.unsettled = true;
            }
            return;
        }
        // `find_directory` below uses a binary search.
        self.walked.containers[start..].sort_by(|a, b| a.key().cmp(&b.key()));
        let listed = &self.walked.containers[start..];
        let mut kept = Vec::new();
        for before in self.before(index) {
            if find_directory(listed, before.root, &before.rel).is_some() {
                continue;
            }
            if !is_gone(listed, unvisited, before) {
                kept.push(self.copy_unvisited(index, before));
                continue;
            }
            // All that is left of the directory are entries that wait to be removed.
            let mut remains =
                ScannedDirectory { entries: Vec::new(), complete: true, ..before.clone() };
            keep_missing(&mut remains, before, self.setting.cache);
            if !remains.entries.is_empty() {
                kept.push(remains);
            }
        }
        self.walked.containers.extend(kept);
    }

    /// Drops entries that wait for their removal and whose content was found elsewhere: they were
    /// renamed or moved, so no second pass is needed.
    pub(super) fn forget_renamed(&mut self) {
        let mut fresh = NewSkills::new(std::mem::take(&mut self.walked.fresh));
        for container in &mut self.walked.containers {
            container.entries.retain(|entry| {
                let Some(old) = entry.skill().filter(|_| entry.missing) else { return true };
                // The old skill gets the digest, by which its removal and the addition pair up as a
                // rename.
                let Some(new) = fresh.take(old, &entry.signature) else { return true };
                if let Some(known) = new.text_facts() {
                    old.set_text_facts(known);
                }
                forget(entry, self.setting.cache);
                false
            });
        }
    }

    /// Returns whether a root that had skills is now an empty directory of another file system, as
    /// an unmounted disk leaves it.
    fn is_unmounted(&self, index: usize, start: usize) -> bool {
        fn device<'c>(mut containers: impl Iterator<Item = &'c ScannedDirectory>) -> Option<u64> {
            containers.find(|container| container.rel.is_empty()).map(|root| root.signature.dev)
        }
        let here = &self.walked.containers[start..];
        let empty =
            here.iter().all(|container| container.entries.iter().all(|entry| entry.missing));
        let had = self.before(index).any(|container| !container.entries.is_empty());
        // A root that was not listed because of a limit shows no device.
        let Some(now) = device(here.iter()) else { return false };
        empty && had && device(self.before(index)) != Some(now)
    }

    /// Copies the earlier entries of a directory that was not visited. An entry that cannot be
    /// examined gets the stamp of this state, so that the next poll does not report the obstacle as
    /// a change.
    pub(super) fn copy_unvisited(
        &self,
        index: usize,
        before: &ScannedDirectory,
    ) -> ScannedDirectory {
        // Its listing is old, so it must not be evidence of an absence.
        let mut kept = ScannedDirectory { complete: false, ..before.clone() };
        let Ok(dir) = &self.setting.roots[index].dir else { return kept };
        kept.signature = dir.stat(&kept.rel).map(|stat| stat.signature).unwrap_or_default();
        // A linked entry is outside of this directory, so its stamp does not belong here.
        for entry in kept.entries.iter_mut().filter(|entry| entry.link.is_none()) {
            let rel = join_relative(&join_relative(&before.rel, entry.name()), entry.file.name());
            if dir.stat(&rel).is_err_and(|error| error.kind() != ErrorKind::NotFound) {
                entry.signature = FileSignature::default();
            }
        }
        kept
    }

    fn carry_all(&mut self, index: usize) {
        let kept: Vec<ScannedDirectory> = self.before(index).cloned().collect();
        self.walked.containers.extend(kept);
    }

    /// Returns the containers of a root from the previous pass.
    fn before(&self, index: usize) -> impl Iterator<Item = &ScannedDirectory> {
        let root = index as u16;
        self.setting.previous.iter().filter(move |container| container.root == root)
    }
}

fn root_vanished(label: &str, reason: &str) -> ProblemDraft {
    ProblemDraft::error(
        "root.vanished",
        format!("root `{label}` vanished ({reason}); its skills are kept as they were"),
        "mount or restore it, or remove it from the settings and restart",
    )
}

/// Returns whether a directory was removed: the nearest listed directory above it was listed
/// completely.
fn is_gone(
    listed: &[ScannedDirectory],
    unvisited: &HashSet<Arc<str>>,
    before: &ScannedDirectory,
) -> bool {
    let mut rel: &str = &before.rel;
    loop {
        if unvisited.contains(rel) {
            return false;
        }
        if let Some(container) = find_directory(listed, before.root, rel) {
            return container.complete;
        }
        rel = match rel.rsplit_once('/') {
            Some((above, _)) => above,
            None if !rel.is_empty() => "",
            // Not even the root was listed.
            None => return false,
        };
    }
}

/// The skills in places where there was none before, by their content.
struct NewSkills {
    by_digest: HashMap<Digest, Vec<Arc<Skill>>>,
    by_file: HashMap<(u64, u64), (Arc<Skill>, FileSignature)>,
}

impl NewSkills {
    fn new(skills: Vec<(Arc<Skill>, FileSignature)>) -> Self {
        let mut fresh = Self { by_digest: HashMap::new(), by_file: HashMap::new() };
        for (skill, signature) in skills {
            if let Some(digest) = skill.digest() {
                fresh.by_digest.entry(digest).or_default().push(Arc::clone(&skill));
            }
            // Device and inode identify a file that was renamed without being read.
            fresh.by_file.insert((signature.dev, signature.ino), (skill, signature));
        }
        fresh
    }

    /// Removes a skill that has the content of an old one. If the old text was never read, the file
    /// must have the same identity.
    fn take(&mut self, old: &Skill, signature: &FileSignature) -> Option<Arc<Skill>> {
        let Some(digest) = old.digest() else {
            let (new, of_new) = self.by_file.get(&(signature.dev, signature.ino))?;
            return signature.same_content(of_new).then(|| Arc::clone(new));
        };
        // Each new skill replaces one old one, so two copies need two renames.
        self.by_digest.get_mut(&digest)?.pop()
    }
}
