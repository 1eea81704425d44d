//! The last good texts of skills whose SKILL.md was invalid when it was first read.

use std::collections::HashMap;
use std::sync::Arc;

use skill_format::SkillId;

use crate::entry::{EntryContent, ScanEntry, ScannedDirectory};
use crate::options::SkillRoot;
use crate::problem::{ProblemDraft, ScanProblem};
use crate::reading::{ReadOutcome, parse_complete};
use crate::skill::{Skill, SkillLocation, join_relative};
use crate::walk::ScanMode;

use super::Store;

/// A skill that is not served because its SKILL.md is broken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BrokenSkill {
    /// The id that it would have.
    pub id: SkillId,
    /// The label of the root its directory lies in.
    pub root: String,
    /// Its directory below that root.
    pub place: String,
}

/// The last good text of an invalid skill.
#[derive(Clone, Debug)]
pub struct LastGoodText {
    /// The skill.
    pub skill: BrokenSkill,
    /// The bytes of its SKILL.md.
    pub bytes: Arc<[u8]>,
}

impl Store {
    /// Returns the skills that are not served because their SKILL.md is broken.
    pub fn broken_skills(&self) -> Vec<BrokenSkill> {
        let state = self.lock();
        let mut broken = Vec::new();
        for container in &state.containers {
            let entries = container.entries.iter();
            broken.extend(entries.filter_map(|entry| {
                to_broken_skill(&self.roots, container.root, &container.rel, entry)
            }));
        }
        broken
    }

    /// Serves the last good texts of invalid skills, with the diagnostic, until their files are
    /// repaired.
    pub fn serve_last_good(&self, texts: &[LastGoodText]) {
        if texts.is_empty() {
            return;
        }
        let texts: HashMap<&BrokenSkill, &[u8]> =
            texts.iter().map(|text| (&text.skill, &*text.bytes)).collect();
        let mut state = self.lock();
        for ScannedDirectory { root, rel, entries, .. } in &mut state.containers {
            for entry in entries {
                let Some(skill) = to_broken_skill(&self.roots, *root, rel, entry) else { continue };
                let Some(bytes) = texts.get(&skill) else { continue };
                let place = SkillLocation {
                    root: Arc::clone(&self.roots[usize::from(*root)]),
                    parent: Arc::clone(rel),
                    link: entry.link.clone(),
                    file: entry.file,
                };
                self.serve_text(entry, skill.id, place, bytes);
            }
        }
        // The served skills get into a snapshot as every other change does: by a pass.
        let opened = self.open_roots();
        self.run_scan(&mut state, &opened, ScanMode::Changes, self.clock.now());
    }

    /// Lets an entry serve a text, if that is still valid.
    fn serve_text(&self, entry: &mut ScanEntry, id: SkillId, place: SkillLocation, bytes: &[u8]) {
        let ReadOutcome::Valid(good) = parse_complete(id.as_str(), bytes) else { return };
        let Some(whole) = good.whole else { return };
        let (size, known) = (bytes.len() as u64, Some(whole.known));
        let skill = Skill::new(id.clone(), place, good.frontmatter, size, good.estimate, known);
        self.cache.insert(&skill.cache_key(), whole.good);
        let finding = ProblemDraft::last_good(Some(whole.known.digest));
        let served = ScanProblem::for_path(skill.location(), Some(id), false, finding);
        let not_skipped = |problem: &Arc<ScanProblem>| {
            Arc::new(ScanProblem { skipped: false, ..ScanProblem::clone(problem) })
        };
        entry.problems = entry.problems.iter().map(not_skipped).chain([served]).collect();
        entry.subject = EntryContent::Skill(Arc::new(skill));
        entry.broken = true;
    }
}

/// Returns the skill that an entry would serve if its file were not broken; `None` if the entry
/// serves one, or if its directory's name is not an id.
fn to_broken_skill(
    roots: &[Arc<SkillRoot>],
    root: u16,
    parent: &str,
    entry: &ScanEntry,
) -> Option<BrokenSkill> {
    let EntryContent::Refused(name) = &entry.subject else { return None };
    let id = SkillId::new(name).ok()?;
    let (root, place) = match &entry.link {
        // The files of a linked skill lie in its target, which other links may lead to as well.
        Some(link) => (&link.root, link.rel.to_string()),
        None => (&roots[usize::from(root)], join_relative(parent, name)),
    };
    Some(BrokenSkill { id, root: root.label.clone(), place })
}
