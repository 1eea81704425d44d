//! The part of a snapshot that one audience sees; computed once.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use skill_format::{CatalogItem, RenderReport};

use crate::options::TrustLevel;
use crate::scope::{AgentScope, OwnedScope};
use crate::skill::Skill;
use crate::snapshot::Snapshot;
use crate::state::{SkillState, UnmatchedPattern};

/// The number of renderings in a view, one per budget. There is one budget per size of a model's
/// context window, so more of them are rare.
const MAX_CATALOGS: usize = 16;

/// A rendered catalog, shared by all callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedCatalog {
    /// The block for the prompt.
    pub text: Arc<str>,
    /// A report of the cuts that the budget required.
    pub report: RenderReport,
}

/// The renderings so far, each with its budget.
type CatalogCache = [OnceLock<(usize, Option<Arc<SharedCatalog>>)>; MAX_CATALOGS];

/// The skills that models of one scope see.
#[derive(Debug)]
pub struct CatalogView {
    scope: OwnedScope,
    /// The skills of the catalog: their places in the snapshot.
    listed: Vec<u32>,
    catalogs: CatalogCache,
}

/// The views so far, a chain that only grows: there are as many as agents differ in their scopes.
#[derive(Debug, Default)]
pub(crate) struct CatalogViewCache(OnceLock<Box<(CatalogView, CatalogViewCache)>>);

impl CatalogViewCache {
    /// Returns the view of a scope; creates it on the first call.
    pub(crate) fn get(&self, snapshot: &Snapshot, scope: AgentScope<'_>) -> &CatalogView {
        let mut views = self;
        loop {
            let (view, next) = &**views
                .0
                // A new view is appended to the chain, so that earlier views stay valid without a
                // lock.
                .get_or_init(|| Box::new((CatalogView::new(snapshot, scope), Self::default())));
            if view.scope.matches_scope(scope) {
                return view;
            }
            views = next;
        }
    }

    /// Returns the view of a scope if it was created before.
    pub(crate) fn get_cached(&self, scope: AgentScope<'_>) -> Option<&CatalogView> {
        let mut views = self;
        loop {
            let (view, next) = &**views.0.get()?;
            if view.scope.matches_scope(scope) {
                return Some(view);
            }
            views = next;
        }
    }
}

impl CatalogView {
    fn new(snapshot: &Snapshot, scope: AgentScope<'_>) -> Self {
        let mut view = Self {
            scope: OwnedScope::new(scope),
            listed: Vec::new(),
            catalogs: CatalogCache::default(),
        };
        let listed = snapshot.skills().iter().enumerate();
        let listed = listed.filter(|(_, skill)| view.is_listed(snapshot, skill));
        view.listed = listed.filter_map(|(at, _)| u32::try_from(at).ok()).collect();
        view
    }

    /// Returns whether a skill is offered: in the catalog, in lists and in hints.
    pub fn is_listed(&self, snapshot: &Snapshot, skill: &Skill) -> bool {
        snapshot.state(skill) <= SkillState::NameOnly
            && self.contains(snapshot, skill)
            && self.hidden_reason(skill).is_none()
    }

    /// Returns whether a skill is offered under its own id, which holds for all listed skills.
    pub fn is_listed_primary(&self, snapshot: &Snapshot, skill: &Skill) -> bool {
        let winner = snapshot.find_primary(skill.id().as_str());
        // The address identifies the skill: another root may have one with the same id.
        winner.is_some_and(|winner| std::ptr::eq(&**winner, skill))
            && self.is_listed(snapshot, skill)
    }

    /// Returns the reason why a skill of the scope is not offered, if there is one.
    pub fn hidden_reason(&self, skill: &Skill) -> Option<&str> {
        self.scope.hidden.iter().find(|hidden| hidden.is_skill(skill)).map(|hidden| &*hidden.reason)
    }

    /// Returns whether a skill is in the scope, in any state.
    pub fn contains(&self, snapshot: &Snapshot, skill: &Skill) -> bool {
        self.scope.includes(skill.id().as_str(), || self.is_bound(snapshot, skill))
    }

    /// Returns whether an id is in the scope; the skill need not exist.
    pub fn contains_id(&self, snapshot: &Snapshot, id: &str) -> bool {
        match snapshot.get(id) {
            Some(skill) => self.contains(snapshot, skill),
            // An unknown id is compared by name, so that its absence reveals no skill outside the
            // scope.
            None => self.scope.includes(id, || self.scope.bound.iter().any(|bound| bound == id)),
        }
    }

    /// Returns whether a skill is bound to the agent.
    pub fn is_bound(&self, snapshot: &Snapshot, skill: &Skill) -> bool {
        let is_it =
            |name: &String| snapshot.get(name).is_some_and(|bound| std::ptr::eq(&**bound, skill));
        self.scope.bound.iter().any(is_it)
    }

    /// Returns the places of the skills that are listed.
    pub fn listed(&self) -> &[u32] {
        &self.listed
    }

    /// Returns the skills that are listed, sorted by id.
    pub fn skills<'s>(
        &'s self,
        snapshot: &'s Snapshot,
    ) -> impl Iterator<Item = &'s Arc<Skill>> + Clone {
        self.listed.iter().map(|at| &snapshot.skills()[*at as usize])
    }

    /// Returns the ids that are bound.
    pub fn bound(&self) -> &[String] {
        &self.scope.bound
    }

    /// Returns the globs of the scope that have no effect.
    pub fn unmatched(&self, snapshot: &Snapshot) -> Vec<UnmatchedPattern> {
        self.scope.unmatched(snapshot.skills().iter().map(|skill| skill.id().as_str()))
    }

    /// Returns the catalog of all listed skills within a budget in characters, or `None` if the
    /// list is empty. Rendered once for each of the first budgets.
    pub fn catalog(&self, snapshot: &Snapshot, budget_chars: usize) -> Option<Arc<SharedCatalog>> {
        let render = || self.render(snapshot, budget_chars).map(Arc::new);
        // Slots are filled in order and never released: the first empty one ends the search.
        for slot in &self.catalogs {
            let (budget, catalog) = slot.get_or_init(|| (budget_chars, render()));
            if *budget == budget_chars {
                return catalog.clone();
            }
            // All slots are in use by other budgets.
        }
        render()
    }

    /// Returns the catalog as [`CatalogView::catalog`] does, where it was rendered before.
    pub fn cached_catalog(&self, budget_chars: usize) -> Option<&Option<Arc<SharedCatalog>>> {
        let mut rendered = self.catalogs.iter().map_while(|slot| slot.get());
        rendered.find(|(budget, _)| *budget == budget_chars).map(|(_, catalog)| catalog)
    }

    fn render(&self, snapshot: &Snapshot, budget_chars: usize) -> Option<SharedCatalog> {
        let described: Vec<(&str, Cow<'_, str>)> = self
            .skills(snapshot)
            .map(|skill| (skill.id().as_str(), snapshot.catalog_line(skill)))
            .collect();
        let items: Vec<CatalogItem<'_>> =
            described.iter().map(|(id, description)| CatalogItem { id, description }).collect();
        let catalog = skill_format::render_catalog(&items, budget_chars)?;
        Some(SharedCatalog { text: catalog.text.into(), report: catalog.report })
    }
}

impl Snapshot {
    /// Returns a skill's line in a prompt; the origin of an untrusted skill comes first.
    pub fn catalog_line<'s>(&self, skill: &'s Skill) -> Cow<'s, str> {
        let description = match self.state(skill) {
            SkillState::On => skill.description(),
            SkillState::NameOnly | SkillState::UserOnly | SkillState::Off => "",
        };
        match (self.unapproved(skill), skill.trust()) {
            (Some(created), _) => {
                format!("(unapproved, created by {}) {description}", created.author_line()).into()
            }
            (None, TrustLevel::Operator) => description.into(),
            (None, TrustLevel::Untrusted) => {
                format!("(untrusted, from {}) {description}", skill.source()).into()
            }
        }
    }
}
