//! The immutable state of the registry at one moment.

use std::sync::Arc;

use skill_format::{LARGE_SKILL, SkillId};

use crate::created::{CreatedSkill, CreatedSkills};
use crate::options::SkillRoot;
use crate::problem::{PartialScan, ScanProblem};
use crate::resolve::ShadowedSkill;
use crate::scope::{AgentScope, Audience};
use crate::skill::Skill;
use crate::state::{SkillState, SkillStates, UnmatchedPattern};

use view::CatalogViewCache;

mod view;

pub use view::{CatalogView, SharedCatalog};

/// The skills, the problems and the rendered catalogs at one moment.
///
/// A call that pins a snapshot sees one consistent state, however long it takes.
#[derive(Debug)]
pub struct Snapshot {
    generation: u64,
    roots: Arc<[Arc<SkillRoot>]>,
    skills: Vec<Arc<Skill>>,
    shadowed: Vec<ShadowedSkill>,
    copies: Vec<Arc<Skill>>,
    problems: Vec<Arc<ScanProblem>>,
    partial: Option<PartialScan>,
    created: Arc<CreatedSkills>,
    states: Arc<SkillStates>,
    views: CatalogViewCache,
}

impl Snapshot {
    pub(crate) fn new(
        generation: u64,
        roots: Arc<[Arc<SkillRoot>]>,
        skills: Vec<Arc<Skill>>,
        shadowed: Vec<ShadowedSkill>,
        problems: Vec<Arc<ScanProblem>>,
        partial: Option<PartialScan>,
    ) -> Self {
        let (copies, created, states, views) = Default::default();
        Self {
            generation,
            roots,
            skills,
            shadowed,
            copies,
            problems,
            partial,
            created,
            states,
            views,
        }
    }

    /// Adds the states from the settings.
    pub(crate) fn with_states(self, states: Arc<SkillStates>) -> Self {
        Self { states, ..self }
    }

    /// Adds the skills that are the same as the one that has their id.
    pub(crate) fn with_copies(self, copies: Vec<Arc<Skill>>) -> Self {
        Self { copies, ..self }
    }

    /// Adds the skills that agents created.
    pub(crate) fn with_created(self, created: Arc<CreatedSkills>) -> Self {
        Self { created, ..self }
    }

    /// Adopts the creation data of the previous snapshot. A skill whose text has changed loses its
    /// approval.
    pub(crate) fn carry_created_from(self, before: &Self) -> Self {
        let is_same = |id: &str| match (self.find_primary(id), before.find_primary(id)) {
            // The address changes with every new text, so it detects an edit.
            (Some(now), Some(then)) => Arc::ptr_eq(now, then),
            (now, then) => now.is_none() && then.is_none(),
        };
        let moved =
            |(id, skill): (_, &CreatedSkill)| skill.tree.is_some() && !is_same(SkillId::as_str(id));
        // Copied only if a skill has changed; most passes share the map.
        let mut created = Arc::clone(&before.created);
        if created.iter().any(moved) {
            let changed = Arc::make_mut(&mut created).iter_mut();
            changed
                .filter(|(id, _)| !is_same(id.as_str()))
                .for_each(|(_, skill)| skill.tree = None);
        }
        self.with_created(created)
    }

    /// Copies the snapshot with other data on the skills that agents created.
    pub(crate) fn with_new_created(&self, created: CreatedSkills) -> Self {
        Self {
            generation: self.generation + 1,
            roots: Arc::clone(&self.roots),
            skills: self.skills.clone(),
            shadowed: self.shadowed.clone(),
            copies: self.copies.clone(),
            problems: self.problems.clone(),
            partial: self.partial.clone(),
            created: Arc::new(created),
            states: Arc::clone(&self.states),
            views: CatalogViewCache::default(),
        }
    }

    /// Returns the skills that agents created, as set by the ledger.
    #[must_use]
    pub fn created(&self) -> &CreatedSkills {
        &self.created
    }

    /// Returns the creation data of a skill that an agent created and whose current files are not
    /// approved.
    #[must_use]
    pub fn unapproved(&self, skill: &Skill) -> Option<&CreatedSkill> {
        self.created.get(skill.id()).filter(|created| !created.is_approved())
    }

    /// Returns a number that is larger than that of every earlier snapshot of the store.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the roots in their order.
    #[must_use]
    pub fn roots(&self) -> &[Arc<SkillRoot>] {
        &self.roots
    }

    /// Returns the skills, sorted by id.
    #[must_use]
    pub fn skills(&self) -> &[Arc<Skill>] {
        &self.skills
    }

    /// Returns the skills whose id belongs to another one, sorted by their qualified name.
    #[must_use]
    pub fn shadowed(&self) -> &[ShadowedSkill] {
        &self.shadowed
    }

    /// Returns the skills that are the same in every file as the one that has their id, sorted by
    /// id; they have no other name. The list is as of the last change of anything else: an added or
    /// removed copy is not a change.
    #[must_use]
    pub fn identical_copies(&self) -> &[Arc<Skill>] {
        &self.copies
    }

    /// Returns the findings of the scan.
    #[must_use]
    pub fn problems(&self) -> &[Arc<ScanProblem>] {
        &self.problems
    }

    /// Returns the reasons why the scan is partial, if it is.
    #[must_use]
    pub fn partial(&self) -> Option<&PartialScan> {
        self.partial.as_ref()
    }

    /// Returns the state of a skill: that of the settings, limited by its SKILL.md.
    #[must_use]
    pub fn state(&self, skill: &Skill) -> SkillState {
        let set =
            self.states.state_for(skill.id.as_str()).map_or(SkillState::On, |(state, _)| state);
        // The stricter of both counts.
        let own = if skill.is_model_invocable() { SkillState::On } else { SkillState::UserOnly };
        set.max(own)
    }

    /// Returns the id or glob in the settings that defines a skill's state, or `None` if no setting
    /// matches.
    #[must_use]
    pub fn matching_setting(&self, skill: &Skill) -> Option<&str> {
        self.states.state_for(skill.id.as_str()).map(|(_, pattern)| pattern)
    }

    /// Returns the ids and globs of the settings that match no skill.
    #[must_use]
    pub fn unmatched_settings(&self) -> Vec<UnmatchedPattern> {
        self.states.unmatched(&self.skills.iter().map(|skill| skill.id.as_str()))
    }

    /// Returns the view of a scope, computed once.
    pub fn view(&self, scope: AgentScope<'_>) -> &CatalogView {
        self.views.get(self, scope)
    }

    /// Returns the same as [`Snapshot::view`] where it was found out before.
    pub fn cached_view(&self, scope: AgentScope<'_>) -> Option<&CatalogView> {
        self.views.get_cached(scope)
    }

    /// Returns the skills an audience is shown, sorted by id.
    pub fn visible<'s>(
        &'s self,
        audience: Audience<'_>,
    ) -> impl Iterator<Item = &'s Arc<Skill>> + Clone + use<'s> {
        let (all, listed) = match audience.scope() {
            None => (&*self.skills, &[][..]),
            Some(scope) => (&[][..], self.view(scope).listed()),
        };
        all.iter().chain(listed.iter().map(|at| &self.skills[*at as usize]))
    }

    /// Returns whether an audience sees a skill: in the catalog, in lists and in hints.
    #[must_use]
    pub fn is_shown(&self, audience: Audience<'_>, skill: &Skill) -> bool {
        audience.scope().is_none_or(|scope| self.view(scope).is_listed(self, skill))
    }

    /// Returns whether an audience may read a skill: it sees the skill or is bound to it.
    #[must_use]
    pub fn is_readable(&self, audience: Audience<'_>, skill: &Skill) -> bool {
        let Some(scope) = audience.scope() else { return true };
        let view = self.view(scope);
        view.is_listed(self, skill)
            || view.is_bound(self, skill)
                && self.state(skill) != SkillState::Off
                && view.hidden_reason(skill).is_none()
    }

    /// Returns the large skills, whose body has more than [`LARGE_SKILL`] tokens.
    pub fn large_skills(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.skills.iter().filter(|skill| skill.tokens().get() > LARGE_SKILL)
    }

    /// Looks a skill up by its id, or by `id@label` for the skill of another root.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Skill>> {
        self.find_primary(name).or_else(|| {
            let at = self.shadowed.binary_search_by(|shadowed| (*shadowed.name).cmp(name));
            if let Ok(at) = at {
                return Some(&self.shadowed[at].skill);
            }
            let (id, label) = name.rsplit_once('@')?;
            self.find_primary(id).filter(|skill| skill.source() == label)
        })
    }

    /// Looks a skill up by its id alone.
    #[must_use]
    pub fn find_primary(&self, id: &str) -> Option<&Arc<Skill>> {
        let at = self.skills.binary_search_by(|skill| skill.id.as_str().cmp(id)).ok()?;
        Some(&self.skills[at])
    }

    /// Returns up to three ids that look like a name, the most similar first.
    #[must_use]
    pub fn similar(&self, name: &str, audience: Audience<'_>) -> Vec<String> {
        suggest_similar(name, self.visible(audience).map(|skill| skill.id.as_str()))
    }

    /// Returns the catalog of the skills that models of a scope see, within a budget in characters,
    /// or `None` if they see no skills.
    ///
    /// Rendered once for each of the first sixteen budgets of a scope and shared from then on,
    /// without locks or allocations.
    #[must_use]
    pub fn catalog(
        &self,
        scope: AgentScope<'_>,
        budget_chars: usize,
    ) -> Option<Arc<SharedCatalog>> {
        self.view(scope).catalog(self, budget_chars)
    }

    /// Returns whether two snapshots have the same content.
    pub(crate) fn has_same_content(&self, other: &Self) -> bool {
        self.skills.len() == other.skills.len()
            // Unchanged skills keep their address, so no content has to be compared.
            && self.skills.iter().zip(&other.skills).all(|(a, b)| Arc::ptr_eq(a, b))
            && self.shadowed == other.shadowed
            && self.problems == other.problems
            && self.partial == other.partial
            && self.created == other.created
    }
}

/// Returns up to three of the candidates that look like a name, the most similar first.
pub fn suggest_similar<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Vec<String> {
    /// Below this, two words have little more in common than letters.
    const MIN_SIMILARITY: f64 = 0.72;
    let name = name.to_lowercase();
    let mut scored: Vec<(f64, &str)> = candidates
        .map(|candidate| {
            let folded = candidate.to_lowercase();
            let part = name.len() >= 3 && (folded.contains(&name) || name.contains(&folded));
            let score = strsim::jaro_winkler(&name, &folded);
            (if part { score.max(0.9) } else { score }, candidate)
        })
        .filter(|(score, _)| *score >= MIN_SIMILARITY)
        .collect();
    scored.sort_by(|(a, a_name), (b, b_name)| b.total_cmp(a).then_with(|| a_name.cmp(b_name)));
    scored.into_iter().take(3).map(|(_, candidate)| candidate.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::tests::skill;

    fn snapshot(ids: &[&str]) -> Snapshot {
        let skills = ids.iter().map(|id| skill(id, None)).collect();
        Snapshot::new(1, Arc::new([]), skills, Vec::new(), Vec::new(), None)
    }

    #[test]
    fn renderings_are_shared_per_budget() {
        let snapshot = snapshot(&["a", "b"]);
        let all = AgentScope::default();
        assert!(snapshot.cached_view(all).is_none());
        let (first, again) = (snapshot.catalog(all, 8_000), snapshot.catalog(all, 8_000));
        assert!(Arc::ptr_eq(first.as_ref().unwrap(), &again.unwrap()));
        let view = snapshot.cached_view(all).unwrap();
        assert_eq!(view.cached_catalog(8_000), Some(&first));
        assert_eq!(view.cached_catalog(90), None);
        let small = snapshot.catalog(all, 90).unwrap();
        assert_eq!(view.cached_catalog(90), Some(&Some(Arc::clone(&small))));
        assert_eq!(small.report.budget, 90);
        assert!(Arc::ptr_eq(&small, &snapshot.catalog(all, 90).unwrap()));
        // Above the limit every call renders again; the cached renderings stay.
        for budget in 100..200 {
            assert_eq!(snapshot.catalog(all, budget).unwrap().report.budget, budget);
        }
        assert!(Arc::ptr_eq(first.as_ref().unwrap(), &snapshot.catalog(all, 8_000).unwrap()));
    }

    #[test]
    fn empty_snapshot_has_no_block() {
        assert_eq!(snapshot(&[]).catalog(AgentScope::default(), 8_000), None);
    }

    #[test]
    fn names_resolve_to_skills() {
        let mut snapshot = snapshot(&["a", "b@x"]);
        snapshot.shadowed = vec![ShadowedSkill { name: "a@other".into(), skill: skill("a", None) }];
        let found = |name: &str| snapshot.get(name).map(|skill| skill.id().to_string());
        assert_eq!(found("a").as_deref(), Some("a"));
        assert_eq!(found("a@r").as_deref(), Some("a"));
        assert!(Arc::ptr_eq(snapshot.get("a@other").unwrap(), &snapshot.shadowed[0].skill));
        assert_eq!(found("b@x").as_deref(), Some("b@x"));
        assert_eq!(found("b@x@r").as_deref(), Some("b@x"));
        assert_eq!((found("b"), found("a@nowhere"), found("")), (None, None, None));
    }

    #[test]
    fn similar_names_are_few_and_sorted() {
        let ids = ["code-review", "code-reviews", "code-format", "pdf", "pdf-forms", "review"];
        let of = |name: &str| suggest_similar(name, ids.into_iter());
        assert_eq!(of("code-reveiw")[0], "code-review");
        assert_eq!(of("PDF"), ["pdf", "pdf-forms"]);
        assert_eq!(of("review"), ["review", "code-review", "code-reviews"]);
        assert_eq!(of("zzz"), Vec::<String>::new());
        assert_eq!(of(""), Vec::<String>::new());
    }
}
