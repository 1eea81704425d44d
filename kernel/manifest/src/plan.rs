//! The load order of extensions.

mod graph;

use std::collections::BTreeMap;

use graph::DependencyGraph;

use crate::parse::fields::suggest_name;
use crate::{ExtensionId, Manifest};

/// The result of [`plan_load_order`] for a set of manifests.
///
/// Every id is in exactly one of `order`, `rejected` and `disabled`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadPlan {
    /// The extensions to load, dependencies first; among equals by id.
    pub order: Vec<ExtensionId>,
    /// The extensions that cannot be loaded, with all reasons, by id.
    pub rejected: Vec<(ExtensionId, Vec<PlanError>)>,
    /// The disabled extensions, by id.
    pub disabled: Vec<ExtensionId>,
    /// Optional dependencies that are not loaded before their dependents, by id.
    pub unmet: Vec<UnmetDependency>,
}

/// A reason that an extension cannot be loaded. Displays as a fragment that reads after its id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Several enabled manifests have its id.
    #[error("has more than one manifest")]
    DuplicateId,
    /// It depends on itself through others.
    #[error("depends on itself: {}", format_path(path))]
    Cycle {
        /// The shortest path from the extension back to itself, both ends included.
        path: Vec<ExtensionId>,
    },
    /// It depends on an extension that does not exist.
    #[error(
        "depends on `{id}` (line {line}), which does not exist{}",
        format_suggestion(nearest.as_ref())
    )]
    Missing {
        /// The unknown id.
        id: ExtensionId,
        /// The most similar id that exists.
        nearest: Option<ExtensionId>,
        /// The line of the manifest that names it.
        line: u32,
    },
    /// It depends on an extension that is disabled.
    #[error("depends on `{id}` (line {line}), which is disabled")]
    Disabled {
        /// The disabled extension.
        id: ExtensionId,
        /// The line of the manifest that names it.
        line: u32,
    },
    /// It depends on an extension that is rejected.
    #[error(
        "depends on `{id}` (line {line}), which cannot be loaded{}",
        format_dependency_chain(chain)
    )]
    DependencyRejected {
        /// The direct dependency.
        id: ExtensionId,
        /// The path from the direct dependency to an extension with an error of its own, both ends
        /// included; only the direct dependency if the error is its own.
        chain: Vec<ExtensionId>,
        /// The line of the manifest that names the direct dependency.
        line: u32,
    },
}

/// An optional dependency that is not loaded before its dependent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("optionally depends on `{dependency}`, which {reason}")]
pub struct UnmetDependency {
    /// The dependent, which is loaded nevertheless.
    pub id: ExtensionId,
    /// The optional dependency.
    pub dependency: ExtensionId,
    /// The reason that it is not loaded before.
    pub reason: UnmetReason,
}

/// A reason that an optional dependency is not loaded before its dependent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnmetReason {
    /// No extension has the id.
    #[error("does not exist")]
    Missing,
    /// The dependency is disabled.
    #[error("is disabled")]
    Disabled,
    /// The dependency is rejected.
    #[error("cannot be loaded")]
    Rejected,
    /// The two depend on each other, so one must be loaded first.
    #[error("is loaded later, because it needs this one")]
    Later,
}

fn format_path(path: &[ExtensionId]) -> String {
    path.iter().map(ExtensionId::as_str).collect::<Vec<_>>().join(" → ")
}

fn format_suggestion(nearest: Option<&ExtensionId>) -> String {
    nearest.map_or_else(String::new, |id| format!("; did you mean `{id}`?"))
}

fn format_dependency_chain(chain: &[ExtensionId]) -> String {
    if chain.len() > 1 { format!(" ({})", format_path(chain)) } else { String::new() }
}

/// Plans the load order of a set of manifests.
///
/// The result depends only on the set of manifests, not on their order. All errors of all
/// extensions are reported together. An extension that depends on a rejected one is rejected as
/// well; an optional dependency never prevents loading, it only affects the order if possible.
/// Disabled manifests are not planned and cause no error.
///
/// ```
/// use skillhost_manifest::{parse_manifest, plan};
///
/// let agent = parse_manifest("id: guide\nname: Guide\nagent: {}\ndepends_on: [echo]\n")?;
/// let library = parse_manifest("id: echo\nname: Echo\nentrypoint: echo\n")?;
/// let plan = plan::plan_load_order(&[&agent, &library]);
/// assert_eq!(plan.order, ["echo", "guide"]);
/// # Ok::<(), skillhost_manifest::ManifestErrors>(())
/// ```
pub fn plan_load_order(manifests: &[&Manifest]) -> LoadPlan {
    order_with_precedence(manifests, |_| true)
}

/// Plans the load order like [`plan_load_order`], with precedence for some extensions.
///
/// If dependencies leave a choice, extensions with precedence are loaded before those without, so
/// that they win conflicts over names. Their own dependencies still precede them.
pub fn order_with_precedence(
    manifests: &[&Manifest],
    has_precedence: impl Fn(&ExtensionId) -> bool,
) -> LoadPlan {
    // Disabled manifests leave an empty entry: their id is known, but is no node of the graph.
    let mut by_id: BTreeMap<&ExtensionId, Vec<&Manifest>> = BTreeMap::new();
    for &manifest in manifests {
        let enabled = by_id.entry(&manifest.id).or_default();
        if manifest.enabled {
            enabled.push(manifest);
        }
    }
    let is_disabled = |id: &ExtensionId| by_id.get(id).is_some_and(Vec::is_empty);
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
            if is_disabled(&id) {
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
    // Computed from the extensions' own errors only, so that each chain ends at a root cause.
    let inherited = graph.rejected_dependents(|id| problems.contains_key(id));
    for (id, problem) in inherited {
        problems.entry(id).or_default().push(problem);
    }

    let order = graph.topological_order(|id| !problems.contains_key(id), has_precedence);
    // An optional dependency counts as met only if it precedes its dependent.
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
                None if is_disabled(&dependency.id) => UnmetReason::Disabled,
                None => UnmetReason::Missing,
            };
            let (id, dependency) = (manifest.id.clone(), dependency.id.clone());
            unmet.push(UnmetDependency { id, dependency, reason });
        }
    }
    LoadPlan {
        order: order.into_iter().cloned().collect(),
        disabled: by_id.keys().filter(|id| is_disabled(id)).map(|&id| id.clone()).collect(),
        rejected: problems.into_iter().map(|(id, problems)| (id.clone(), problems)).collect(),
        unmet,
    }
}

#[cfg(test)]
mod tests;
