//! The resolution of an id that several directories claim.

use std::collections::HashMap;
use std::sync::Arc;

use skill_format::SkillId;

use crate::entry::ScannedDirectory;
use crate::problem::{ProblemDraft, ScanProblem};
use crate::skill::Skill;
use crate::tree;

/// A skill whose id belongs to another one.
#[derive(Clone, Debug)]
pub struct ShadowedSkill {
    /// The name it is reachable by: `id@label`, with `#2` and so on where its root has several.
    pub name: Box<str>,
    /// The skill.
    pub skill: Arc<Skill>,
}

impl PartialEq for ShadowedSkill {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.skill, &other.skill)
    }
}

/// A cache of skills that are the same in every file, so that each pair is compared once.
///
/// The keys are the addresses of the two skills; the value keeps both alive, so that an address is
/// not reused.
pub(crate) type CopyCache = HashMap<(usize, usize), CopyCheck>;

/// The result of comparing two skills file by file.
#[derive(Debug)]
pub(crate) struct CopyCheck {
    identical: bool,
    _of: [Arc<Skill>; 2],
}

/// The resolved ids.
#[derive(Debug, Default)]
pub(crate) struct ResolvedIds {
    /// Sorted by id.
    pub(crate) skills: Vec<Arc<Skill>>,
    /// Sorted by name.
    pub(crate) shadowed: Vec<ShadowedSkill>,
    /// The copies of the winner, sorted by id.
    pub(crate) copies: Vec<Arc<Skill>>,
    pub(crate) problems: Vec<Arc<ScanProblem>>,
}

/// Decides for every id: the earlier root wins, in one root the directory nearer to it, then the
/// path that sorts first.
pub(crate) fn resolve_ids(
    containers: &[ScannedDirectory],
    verdicts: &mut CopyCache,
) -> ResolvedIds {
    let mut found: Vec<(&Arc<Skill>, u16, usize)> = Vec::new();
    for container in containers {
        let depth = match &*container.rel {
            "" => 0,
            rel => 1 + rel.matches('/').count(),
        };
        let skills = container.entries.iter().filter_map(|entry| entry.skill());
        found.extend(skills.map(|skill| (skill, container.root, depth)));
    }
    found.sort_by(|(a, a_root, a_depth), (b, b_root, b_depth)| {
        (&a.id, a_root, a_depth, &a.parent).cmp(&(&b.id, b_root, b_depth, &b.parent))
    });
    let mut index =
        ResolvedIds { skills: Vec::with_capacity(found.len()), ..ResolvedIds::default() };
    let mut used = CopyCache::new();
    for group in found.chunk_by(|(a, ..), (b, ..)| a.id == b.id) {
        let skills: Vec<&Arc<Skill>> = group.iter().map(|(skill, ..)| *skill).collect();
        index.group(&skills, verdicts, &mut used);
    }
    *verdicts = used;
    index.shadowed.sort_by(|a, b| a.name.cmp(&b.name));
    index.skills.shrink_to_fit();
    index.case_collisions();
    index
}

impl ResolvedIds {
    /// Adds all skills with one id, the winner first.
    fn group(&mut self, group: &[&Arc<Skill>], known: &mut CopyCache, used: &mut CopyCache) {
        let Some((winner, others)) = group.split_first() else { return };
        self.skills.push(Arc::clone(winner));
        let mut different: Vec<&Arc<Skill>> = Vec::new();
        for other in others {
            let pair = (Arc::as_ptr(winner).addr(), Arc::as_ptr(other).addr());
            let verdict = known.remove(&pair).unwrap_or_else(|| CopyCheck {
                identical: tree::are_identical(winner, other),
                _of: [Arc::clone(winner), Arc::clone(other)],
            });
            if verdict.identical {
                self.copies.push(Arc::clone(other));
            } else {
                different.push(other);
            }
            used.insert(pair, verdict);
        }
        for (at, skill) in different.iter().enumerate() {
            let label = skill.source();
            let earlier = different[..at].iter().chain([winner]);
            let nth = 1 + earlier.filter(|skill| skill.source() == label).count();
            let mut name = format!("{}@{label}", skill.id);
            if nth > 1 {
                name.push_str(&format!("#{nth}"));
            }
            let message = format!(
                "the id is taken by {}; this skill is reachable as `{name}`",
                winner.location().display()
            );
            self.report(
                skill,
                ProblemDraft::warning("id.duplicate", message, "rename the directory"),
            );
            self.shadowed.push(ShadowedSkill { name: name.into(), skill: Arc::clone(skill) });
        }
        if let Some(first) = different.first() {
            let message = format!(
                "it is used for `{}` instead of {}{}",
                winner.id,
                first.location().display(),
                match different.len() {
                    1 => String::new(),
                    count => format!(" and {} more", count - 1),
                }
            );
            self.report(winner, ProblemDraft::note("id.duplicate", message, ""));
        }
    }

    /// Reports ids that differ only in case: on some file systems they are one.
    fn case_collisions(&mut self) {
        let upper = |id: &SkillId| id.as_str().chars().any(char::is_uppercase);
        if !self.skills.iter().any(|skill| upper(&skill.id)) {
            return;
        }
        let mut folded: Vec<(String, &Arc<Skill>)> =
            self.skills.iter().map(|skill| (skill.id.as_str().to_lowercase(), skill)).collect();
        folded.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut findings = Vec::new();
        for group in folded.chunk_by(|(a, _), (b, _)| a == b).filter(|group| group.len() > 1) {
            for (_, skill) in group {
                let others: Vec<String> = group
                    .iter()
                    .filter(|(_, other)| other.id != skill.id)
                    .map(|(_, other)| format!("`{}`", other.id))
                    .collect();
                let message = format!("the id differs only in case from {}", others.join(", "));
                findings.push((Arc::clone(skill), message));
            }
        }
        for (skill, message) in findings {
            self.report(&skill, ProblemDraft::warning("id.case", message, "rename one directory"));
        }
    }

    fn report(&mut self, skill: &Skill, finding: ProblemDraft) {
        let id = Some(skill.id.clone());
        self.problems.push(ScanProblem::for_path(skill.location(), id, false, finding));
    }
}
