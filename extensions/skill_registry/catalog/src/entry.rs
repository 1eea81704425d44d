//! The directories that a scan listed and the skills it found in them.

use std::sync::Arc;

use crate::problem::ScanProblem;
use crate::signature::FileSignature;
use crate::skill::{LinkTarget, Skill, SkillFile};

/// A directory that was listed: a root, or one below it that is not a skill.
#[derive(Clone, Debug)]
pub(crate) struct ScannedDirectory {
    /// The index of its root.
    pub(crate) root: u16,
    /// Its path below the root; empty for the root itself.
    pub(crate) rel: Arc<str>,
    pub(crate) signature: FileSignature,
    /// `true` if the next poll has to list it again despite an unchanged stamp.
    pub(crate) unsettled: bool,
    /// `true` if all its subdirectories were listed: only then is an absence reliable.
    pub(crate) complete: bool,
    /// The skills directly below it, by name.
    pub(crate) entries: Vec<ScanEntry>,
}

impl ScannedDirectory {
    /// Creates an unlisted directory.
    pub(crate) fn empty(root: u16, rel: Arc<str>) -> Self {
        let (signature, entries) = (FileSignature::default(), Vec::new());
        Self { root, rel, signature, unsettled: false, complete: false, entries }
    }

    /// Returns the sort key of containers.
    pub(crate) fn key(&self) -> (u16, &str) {
        (self.root, &self.rel)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&ScanEntry> {
        let at = self.entries.binary_search_by(|entry| entry.name().cmp(name)).ok()?;
        Some(&self.entries[at])
    }
}

/// A directory with a SKILL.md.
#[derive(Clone, Debug)]
pub(crate) struct ScanEntry {
    pub(crate) subject: EntryContent,
    /// The `stat` result of SKILL.md at the last examination.
    pub(crate) signature: FileSignature,
    pub(crate) link: Option<Box<LinkTarget>>,
    pub(crate) problems: Box<[Arc<ScanProblem>]>,
    pub(crate) file: SkillFile,
    /// The stamp was too young to be trusted.
    pub(crate) racy: bool,
    /// `true` if the file has to be read again despite an unchanged stamp.
    pub(crate) dirty: bool,
    /// `true` if the file was absent at the last poll; a second absence removes the entry.
    pub(crate) missing: bool,
    /// The file is broken and an earlier version is served.
    pub(crate) broken: bool,
}

/// The content that an entry serves.
#[derive(Clone, Debug)]
pub(crate) enum EntryContent {
    /// A skill: the current content of the file, or its last good content.
    Skill(Arc<Skill>),
    /// An empty entry; the directory of this name was rejected.
    Refused(Box<str>),
}

impl ScanEntry {
    pub(crate) fn name(&self) -> &str {
        match &self.subject {
            EntryContent::Skill(skill) => skill.id.as_str(),
            EntryContent::Refused(name) => name,
        }
    }

    pub(crate) fn skill(&self) -> Option<&Arc<Skill>> {
        match &self.subject {
            EntryContent::Skill(skill) => Some(skill),
            EntryContent::Refused(_) => None,
        }
    }

    /// Returns whether the next poll has to examine the file despite unchanged stamps.
    pub(crate) fn needs_recheck(&self) -> bool {
        self.racy || self.dirty || self.missing
    }
}

/// Finds a container in a list sorted by [`ScannedDirectory::key`].
pub(crate) fn find_directory<'c>(
    sorted: &'c [ScannedDirectory],
    root: u16,
    rel: &str,
) -> Option<&'c ScannedDirectory> {
    let at = sorted.binary_search_by(|container| container.key().cmp(&(root, rel))).ok()?;
    Some(&sorted[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_size_is_bounded() {
        assert!(size_of::<ScanEntry>() <= 104, "{}", size_of::<ScanEntry>());
    }
}
