//! The graph of the enabled extensions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::PlanError;
use crate::{ExtensionDependency, ExtensionId, Manifest};

/// The enabled extensions and what they depend on. Dependencies on anything else are no edges.
pub(super) struct DependencyGraph<'m> {
    manifests: BTreeMap<&'m ExtensionId, &'m Manifest>,
}

impl<'m> DependencyGraph<'m> {
    pub(super) fn new(manifests: impl Iterator<Item = &'m Manifest>) -> Self {
        Self { manifests: manifests.map(|manifest| (&manifest.id, manifest)).collect() }
    }

    /// Iterates over the manifests by id.
    pub(super) fn manifests(&self) -> impl Iterator<Item = &'m Manifest> {
        self.manifests.values().copied()
    }

    pub(super) fn contains(&self, id: &ExtensionId) -> bool {
        self.manifests.contains_key(id)
    }

    fn dependencies(&self, id: &ExtensionId) -> impl Iterator<Item = &'m ExtensionDependency> {
        let all = self.manifests.get(id).map_or(&[][..], |manifest| &manifest.depends_on);
        all.iter().filter(|dependency| self.contains(&dependency.id))
    }

    fn hard_dependencies(&self, id: &ExtensionId) -> impl Iterator<Item = &'m ExtensionDependency> {
        self.dependencies(id).filter(|dependency| !dependency.optional)
    }

    /// Finds the shortest way through hard dependencies from `from`, which counts, to the nearest
    /// extension that is a goal.
    fn shortest_path(
        &self,
        from: &'m ExtensionId,
        goal: impl Fn(&ExtensionId) -> bool,
    ) -> Option<Vec<&'m ExtensionId>> {
        let mut came_from: BTreeMap<&ExtensionId, Option<&'m ExtensionId>> =
            BTreeMap::from([(from, None)]);
        let mut queue = VecDeque::from([from]);
        while let Some(id) = queue.pop_front() {
            if goal(id) {
                let mut way: Vec<_> = std::iter::successors(Some(id), |id| came_from[id]).collect();
                way.reverse();
                return Some(way);
            }
            for dependency in self.hard_dependencies(id) {
                came_from.entry(&dependency.id).or_insert_with(|| {
                    queue.push_back(&dependency.id);
                    Some(id)
                });
            }
        }
        None
    }

    /// Finds the shortest way through hard dependencies from `id` back to itself.
    pub(super) fn cycle(&self, id: &'m ExtensionId) -> Option<Vec<ExtensionId>> {
        let ways = self
            .hard_dependencies(id)
            .filter_map(|dependency| self.shortest_path(&dependency.id, |to| to == id));
        let back = ways.min_by_key(Vec::len)?;
        Some(std::iter::once(id).chain(back).cloned().collect())
    }

    /// Finds every hard dependency on an extension that is rejected because of itself or of what
    /// it depends on. Within a cycle there are none: the cycle is the problem of all its members.
    pub(super) fn rejected_dependents(
        &self,
        has_problem: impl Fn(&ExtensionId) -> bool,
    ) -> Vec<(&'m ExtensionId, PlanError)> {
        let mut inherited = Vec::new();
        for (&id, manifest) in &self.manifests {
            for dependency in manifest.depends_on.iter().filter(|dependency| !dependency.optional) {
                if !self.contains(&dependency.id)
                    || self.shortest_path(&dependency.id, |to| to == id).is_some()
                {
                    continue;
                }
                if let Some(chain) = self.shortest_path(&dependency.id, &has_problem) {
                    let chain = chain.into_iter().cloned().collect();
                    let (direct, line) = (dependency.id.clone(), dependency.line);
                    let problem = PlanError::DependencyRejected { id: direct, chain, line };
                    inherited.push((id, problem));
                }
            }
        }
        inherited
    }

    /// Sorts the extensions that `takes_part` keeps: hard dependencies first without exception,
    /// optional ones first unless the two need each other; then those with precedence, then what
    /// they wait for, then by id.
    ///
    /// `takes_part` must keep no cycle of hard dependencies, and with an extension all its hard
    /// dependencies.
    pub(super) fn topological_order(
        &self,
        takes_part: impl Fn(&ExtensionId) -> bool,
        has_precedence: impl Fn(&ExtensionId) -> bool,
    ) -> Vec<&'m ExtensionId> {
        let needed = self.needed_by(|id| takes_part(id) && has_precedence(id));
        let rank = |id: &ExtensionId| match (has_precedence(id), needed.contains(id)) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
        let mut waiting: BTreeSet<&ExtensionId> =
            self.manifests.keys().copied().filter(|id| takes_part(id)).collect();
        let mut sorted = Vec::with_capacity(waiting.len());
        while !waiting.is_empty() {
            let free = |id: &ExtensionId| {
                self.dependencies(id).all(|dependency| !waiting.contains(&dependency.id))
            };
            let next =
                waiting.iter().copied().filter(|id| free(id)).min_by_key(|&id| (rank(id), id));
            let Some(next) = next.or_else(|| self.pick_cycle_break(&waiting)) else { break };
            waiting.remove(next);
            sorted.push(next);
        }
        sorted
    }

    /// Finds everything that the chosen extensions depend on, directly or through others.
    fn needed_by(&self, chosen: impl Fn(&ExtensionId) -> bool) -> BTreeSet<&'m ExtensionId> {
        let mut needed = BTreeSet::new();
        let mut open: Vec<_> = self.manifests.keys().copied().filter(|id| chosen(id)).collect();
        while let Some(id) = open.pop() {
            for dependency in self.dependencies(id) {
                if needed.insert(&dependency.id) {
                    open.push(&dependency.id);
                }
            }
        }
        needed
    }

    /// Picks where to break a cycle that is closed by optional dependencies: among the extensions
    /// that wait for nothing outside their own cycle, the first whose hard dependencies are met.
    fn pick_cycle_break(&self, waiting: &BTreeSet<&'m ExtensionId>) -> Option<&'m ExtensionId> {
        let reachable = |from: &'m ExtensionId| {
            let mut reached = BTreeSet::from([from]);
            let mut open = vec![from];
            while let Some(id) = open.pop() {
                for dependency in self.dependencies(id) {
                    if waiting.contains(&dependency.id) && reached.insert(&dependency.id) {
                        open.push(&dependency.id);
                    }
                }
            }
            reached
        };
        waiting.iter().copied().find(|&id| {
            self.hard_dependencies(id).all(|dependency| !waiting.contains(&dependency.id))
                && reachable(id).into_iter().all(|other| reachable(other).contains(id))
        })
    }
}
