//! The order in which extensions are loaded.

mod graph;

use std::collections::BTreeMap;

use graph::DependencyGraph;

use crate::parse::fields::suggest_name;
use crate::{ExtensionId, Manifest};

/// What [`plan_load_order`] decided about a set of manifests.
///
/// Every id is in exactly one of `order`, `rejected` and `disabled`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadPlan {
    /// What to load, dependencies first; among equals by id.
    pub order: Vec<ExtensionId>,
    /// What cannot be loaded and every reason why, by id.
    pub rejected: Vec<(ExtensionId, Vec<PlanError>)>,
    /// What is switched off, by id.
    pub disabled: Vec<ExtensionId>,
    /// Optional dependencies that are not loaded before their dependents, by id.
    pub unmet: Vec<UnmetDependency>,
}

/// Why an extension cannot be loaded. Displays as a fragment that reads after its id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// More than one enabled manifest has its id.
    #[error("has more than one manifest")]
    DuplicateId,
    /// It needs itself through others.
    #[error("depends on itself: {}", arrows(path))]
    Cycle {
        /// The shortest way from the extension back to itself, both ends included.
        path: Vec<ExtensionId>,
    },
    /// It needs an extension that does not exist.
    #[error("depends on `{id}` (line {line}), which does not exist{}", suggestion(nearest.as_ref()))]
    Missing {
        /// The id that nothing has.
        id: ExtensionId,
        /// The most similar id that exists.
        nearest: Option<ExtensionId>,
        /// The line of the manifest that names it.
        line: u32,
    },
    /// It needs an extension that is switched off.
    #[error("depends on `{id}` (line {line}), which is disabled")]
    Disabled {
        /// The extension that is switched off.
        id: ExtensionId,
        /// The line of the manifest that names it.
        line: u32,
    },
    /// It needs an extension that is rejected itself.
    #[error(
        "depends on `{id}` (line {line}), which cannot be loaded{}",
        format_dependency_chain(chain)
    )]
    DependencyRejected {
        /// The direct dependency.
        id: ExtensionId,
        /// The way from the direct dependency to an extension with a problem of its own, both
        /// ends included; the direct dependency alone if it has one.
        chain: Vec<ExtensionId>,
        /// The line of the manifest that names the direct dependency.
        line: u32,
    },
}

/// An optional dependency that is not loaded before its dependent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("would like `{dependency}`, which {reason}")]
pub struct UnmetDependency {
    /// The dependent; this does not keep it from being loaded.
    pub id: ExtensionId,
    /// What it would have liked.
    pub dependency: ExtensionId,
    /// Why it is not there.
    pub reason: UnmetReason,
}

/// Why an optional dependency is not loaded before its dependent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnmetReason {
    /// No extension has the id.
    #[error("does not exist")]
    Missing,
    /// It is switched off.
    #[error("is disabled")]
    Disabled,
    /// It is rejected.
    #[error("cannot be loaded")]
    Rejected,
    /// The two need each other, so one has to go first.
    #[error("is loaded later, because it needs this one")]
    Later,
}

fn arrows(path: &[ExtensionId]) -> String {
    path.iter().map(ExtensionId::as_str).collect::<Vec<_>>().join(" → ")
}

fn suggestion(nearest: Option<&ExtensionId>) -> String {
    nearest.map_or_else(String::new, |id| format!("; did you mean `{id}`?"))
}

fn format_dependency_chain(chain: &[ExtensionId]) -> String {
    if chain.len() > 1 { format!(" ({})", arrows(chain)) } else { String::new() }
}

/// Decides what is loaded and in which order.
///
/// The result depends on the set of manifests alone, not on their order. All problems of all
/// extensions are reported together. An extension that needs a rejected one is rejected with it;
/// an optional dependency never keeps an extension from being loaded, it only decides the order
/// where that is possible. Disabled manifests are not planned, and nothing is wrong with them.
///
/// ```
/// use skillhost_manifest::{parse_manifest, plan};
///
/// let agent = parse_manifest("id: guide\nname: Guide\nagent: {}\ndepends_on: [skill_registry]\n")?;
/// let registry = parse_manifest("id: skill_registry\nname: Skills\nentrypoint: skill_registry\n")?;
/// let plan = plan::plan_load_order(&[&agent, &registry]);
/// assert_eq!(plan.order, ["skill_registry", "guide"]);
/// # Ok::<(), skillhost_manifest::ManifestErrors>(())
/// ```
pub fn plan_load_order(manifests: &[&Manifest]) -> LoadPlan {
    order_with_precedence(manifests, |_| true)
}

/// As [`plan_load_order`]; where dependencies leave a choice, extensions with precedence are loaded before
/// those without, so that names which both want are theirs. What an extension with precedence depends
/// on comes before it all the same.
pub fn order_with_precedence(
    manifests: &[&Manifest],
    has_precedence: impl Fn(&ExtensionId) -> bool,
) -> LoadPlan {
    let mut by_id: BTreeMap<&ExtensionId, Vec<&Manifest>> = BTreeMap::new();
    for &manifest in manifests {
        let enabled = by_id.entry(&manifest.id).or_default();
        if manifest.enabled {
            enabled.push(manifest);
        }
    }
    let switched_off = |id: &ExtensionId| by_id.get(id).is_some_and(Vec::is_empty);
    let graph = DependencyGraph::new(by_id.values().filter_map(|enabled| enabled.first().copied()));

    let mut problems: BTreeMap<&ExtensionId, Vec<PlanError>> = BTreeMap::new();
    for manifest in graph.manifests() {
        let mut own = Vec::new();
        if by_id[&manifest.id].len() > 1 {
            own.push(PlanError::DuplicateId);
        }
        if let Some(path) = graph.cycle(&manifest.id) {
            own.push(PlanError::Cycle { path });
        }
        for dependency in manifest.depends_on.iter().filter(|dependency| !dependency.optional) {
            let (id, line) = (dependency.id.clone(), dependency.line);
            if switched_off(&id) {
                own.push(PlanError::Disabled { id, line });
            } else if !graph.contains(&id) {
                let ids = by_id.keys().map(|id| id.as_str()).filter(|id| manifest.id != *id);
                let nearest =
                    suggest_name(id.as_str(), ids).and_then(|id| ExtensionId::new(id).ok());
                own.push(PlanError::Missing { id, nearest, line });
            }
        }
        if !own.is_empty() {
            problems.insert(&manifest.id, own);
        }
    }
    let inherited = graph.rejected_dependents(|id| problems.contains_key(id));
    for (id, problem) in inherited {
        problems.entry(id).or_default().push(problem);
    }

    let order = graph.topological_order(|id| !problems.contains_key(id), has_precedence);
    let position: BTreeMap<&ExtensionId, usize> =
        order.iter().enumerate().map(|(position, id)| (*id, position)).collect();
    let mut unmet = Vec::new();
    for manifest in graph.manifests() {
        let Some(own_position) = position.get(&manifest.id) else { continue };
        for dependency in manifest.depends_on.iter().filter(|dependency| dependency.optional) {
            let reason = match position.get(&dependency.id) {
                Some(position) if position < own_position => continue,
                Some(_) => UnmetReason::Later,
                None if problems.contains_key(&dependency.id) => UnmetReason::Rejected,
                None if switched_off(&dependency.id) => UnmetReason::Disabled,
                None => UnmetReason::Missing,
            };
            let (id, dependency) = (manifest.id.clone(), dependency.id.clone());
            unmet.push(UnmetDependency { id, dependency, reason });
        }
    }
    LoadPlan {
        order: order.into_iter().cloned().collect(),
        disabled: by_id.keys().filter(|id| switched_off(id)).map(|&id| id.clone()).collect(),
        rejected: problems.into_iter().map(|(id, problems)| (id.clone(), problems)).collect(),
        unmet,
    }
}

#[cfg(test)]
mod tests;
