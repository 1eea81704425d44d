//! The dependency graph of the enabled extensions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::PlanError;
use crate::{ExtensionDependency, ExtensionId, Manifest};

/// The enabled extensions and their dependencies. Other dependencies are not part of the graph.
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

    /// Finds the shortest path through hard dependencies from `from`, inclusive, to a goal.
    fn shortest_path(
        &self,
        from: &'m ExtensionId,
        goal: impl Fn(&ExtensionId) -> bool,
    ) -> Option<Vec<&'m ExtensionId>> {
        // Breadth first, which finds the shortest path; recursion would overflow on long chains.
        let mut predecessor: BTreeMap<&ExtensionId, Option<&'m ExtensionId>> =
            BTreeMap::from([(from, None)]);
        let mut queue = VecDeque::from([from]);
        while let Some(id) = queue.pop_front() {
            if goal(id) {
                let mut path: Vec<_> =
                    std::iter::successors(Some(id), |id| predecessor[id]).collect();
                path.reverse();
                return Some(path);
            }
            for dependency in self.hard_dependencies(id) {
                predecessor.entry(&dependency.id).or_insert_with(|| {
                    queue.push_back(&dependency.id);
                    Some(id)
                });
            }
        }
        None
    }

    /// Finds the shortest path through hard dependencies from `id` back to itself.
    pub(super) fn cycle(&self, id: &'m ExtensionId) -> Option<Vec<ExtensionId>> {
        let paths = self
            .hard_dependencies(id)
            .filter_map(|dependency| self.shortest_path(&dependency.id, |to| to == id));
        let back = paths.min_by_key(Vec::len)?;
        Some(std::iter::once(id).chain(back).cloned().collect())
    }

    /// Finds every hard dependency on an extension that is rejected.
    ///
    /// Dependencies within a cycle are omitted: each member reports the cycle itself.
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

    /// Sorts the extensions that `is_included` selects.
    ///
    /// Hard dependencies always come first, optional ones unless the two depend on each other; then
    /// extensions with precedence, then their dependencies, then all others, each by id.
    ///
    /// The selection must have no cycle of hard dependencies and must contain all hard dependencies
    /// of its members.
    pub(super) fn topological_order(
        &self,
        is_included: impl Fn(&ExtensionId) -> bool,
        has_precedence: impl Fn(&ExtensionId) -> bool,
    ) -> Vec<&'m ExtensionId> {
        let needed = self.needed_by(|id| is_included(id) && has_precedence(id));
        // Dependencies of extensions with precedence rank second: they unblock those.
        let rank = |id: &ExtensionId| match (has_precedence(id), needed.contains(id)) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
        let mut waiting: BTreeSet<&ExtensionId> =
            self.manifests.keys().copied().filter(|id| is_included(id)).collect();
        let mut sorted = Vec::with_capacity(waiting.len());
        while !waiting.is_empty() {
            let is_ready = |id: &ExtensionId| {
                self.dependencies(id).all(|dependency| !waiting.contains(&dependency.id))
            };
            let next =
                waiting.iter().copied().filter(|id| is_ready(id)).min_by_key(|&id| (rank(id), id));
            // No extension is ready only within a cycle that an optional dependency closes.
            let Some(next) = next.or_else(|| self.pick_cycle_break(&waiting)) else { break };
            waiting.remove(next);
            sorted.push(next);
        }
        sorted
    }

    /// Finds all direct and indirect dependencies of the chosen extensions.
    fn needed_by(&self, chosen: impl Fn(&ExtensionId) -> bool) -> BTreeSet<&'m ExtensionId> {
        let mut needed = BTreeSet::new();
        let mut pending: Vec<_> = self.manifests.keys().copied().filter(|id| chosen(id)).collect();
        while let Some(id) = pending.pop() {
            for dependency in self.dependencies(id) {
                if needed.insert(&dependency.id) {
                    pending.push(&dependency.id);
                }
            }
        }
        needed
    }

    /// Picks the extension at which to break a cycle that optional dependencies close.
    ///
    /// It is the first whose hard dependencies are met, among the extensions whose unmet
    /// dependencies all lie within their own cycle.
    fn pick_cycle_break(&self, waiting: &BTreeSet<&'m ExtensionId>) -> Option<&'m ExtensionId> {
        let reachable = |from: &'m ExtensionId| {
            let mut reached = BTreeSet::from([from]);
            let mut pending = vec![from];
            while let Some(id) = pending.pop() {
                for dependency in self.dependencies(id) {
                    if waiting.contains(&dependency.id) && reached.insert(&dependency.id) {
                        pending.push(&dependency.id);
                    }
                }
            }
            reached
        };
        // Every extension that `id` reaches also reaches `id`: the two are in one cycle.
        waiting.iter().copied().find(|&id| {
            self.hard_dependencies(id).all(|dependency| !waiting.contains(&dependency.id))
                && reachable(id).into_iter().all(|other| reachable(other).contains(id))
        })
    }
}
