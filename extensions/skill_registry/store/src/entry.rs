//! What a scan remembers of the directories it listed and the skills it found there.

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
    /// The next poll has to list it again whatever its stamp says.
    pub(crate) unsettled: bool,
    /// Whether all its subdirectories were seen: only then is absence a fact.
    pub(crate) complete: bool,
    /// The skills directly below it, by name.
    pub(crate) entries: Vec<ScanEntry>,
}

impl ScannedDirectory {
    /// Makes a directory of which nothing is known.
    pub(crate) fn empty(root: u16, rel: Arc<str>) -> Self {
        let (signature, entries) = (FileSignature::default(), Vec::new());
        Self { root, rel, signature, unsettled: false, complete: false, entries }
    }

    /// Returns what containers are sorted by.
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
    /// What `stat` said of SKILL.md when it was last looked at.
    pub(crate) signature: FileSignature,
    pub(crate) link: Option<Box<LinkTarget>>,
    pub(crate) problems: Box<[Arc<ScanProblem>]>,
    pub(crate) file: SkillFile,
    /// The stamp was too young to be trusted.
    pub(crate) racy: bool,
    /// The file has to be read again whatever its stamp says.
    pub(crate) dirty: bool,
    /// The file was not there at the last look; it goes if it is still gone at the next.
    pub(crate) missing: bool,
    /// The file is broken and an earlier version is served.
    pub(crate) broken: bool,
}

/// What an entry serves.
#[derive(Clone, Debug)]
pub(crate) enum EntryContent {
    /// A skill: what the file says now or what it said when it was last good.
    Skill(Arc<Skill>),
    /// Nothing; the directory of this name was refused.
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

    /// Tells whether the next poll has to look closer even if no stamp moved.
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
    fn an_entry_is_small() {
        assert!(size_of::<ScanEntry>() <= 104, "{}", size_of::<ScanEntry>());
    }
}
