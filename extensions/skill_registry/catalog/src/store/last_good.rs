//! The last good texts of skills whose SKILL.md was invalid when it was first read.

use std::collections::HashMap;
use std::sync::Arc;

use skill_format::SkillId;

use crate::entry::EntryContent;
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
            for entry in &container.entries {
                let EntryContent::Refused(name) = &entry.subject else { continue };
                let Ok(id) = SkillId::new(name) else { continue };
                let (root, place) = match &entry.link {
                    Some(link) => (&link.root, link.rel.to_string()),
                    None => (
                        &self.roots[usize::from(container.root)],
                        join_relative(&container.rel, name),
                    ),
                };
                broken.push(BrokenSkill { id, root: root.label.clone(), place });
            }
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
        for container in &mut state.containers {
            for entry in &mut container.entries {
                let EntryContent::Refused(name) = &entry.subject else { continue };
                let Ok(id) = SkillId::new(name) else { continue };
                let own = &self.roots[usize::from(container.root)];
                let (root, place) = match &entry.link {
                    Some(link) => (&link.root, link.rel.to_string()),
                    None => (own, join_relative(&container.rel, name)),
                };
                let key = BrokenSkill { id: id.clone(), root: root.label.clone(), place };
                let Some(bytes) = texts.get(&key) else { continue };
                let ReadOutcome::Valid(good) = parse_complete(id.as_str(), bytes) else { continue };
                let Some(whole) = good.whole else { continue };
                let place = SkillLocation {
                    root: Arc::clone(own),
                    parent: Arc::clone(&container.rel),
                    link: entry.link.clone(),
                    file: entry.file,
                };
                let (size, known) = (bytes.len() as u64, Some(whole.known));
                let skill =
                    Skill::new(id.clone(), place, good.frontmatter, size, good.estimate, known);
                self.cache.insert(&skill.cache_key(), whole.good);
                let finding = ProblemDraft::last_good(Some(whole.known.digest));
                let served = ScanProblem::for_path(skill.location(), Some(id), false, finding);
                let problems = entry.problems.iter();
                entry.problems = problems
                    .map(|problem| {
                        Arc::new(ScanProblem { skipped: false, ..ScanProblem::clone(problem) })
                    })
                    .chain([served])
                    .collect();
                entry.subject = EntryContent::Skill(Arc::new(skill));
                entry.broken = true;
            }
        }
        let opened = self.open_roots();
        self.run_scan(&mut state, &opened, ScanMode::Changes, self.clock.now());
    }
}
