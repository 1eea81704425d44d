//! The dependency graph of skills: missing skills, conflicts, cycles and the load order.
//!
//! A skill needs the skills in its `requires` and in the dependencies of its [`SkillComposition`].
//! Their order:
//! - Skills in `requires` come before the skill, because they are loaded first.
//! - Dependencies come before the skill, too, unless `executionOrder` is `before` (the skill comes
//!   before its dependencies) or `independent` (no order). The field applies to the skill's own
//!   dependencies only.
//! - A skill in both fields counts as a dependency.
//! - An existing optional dependency counts like any other; a missing one is not an error.
//!
//! Every pass is a loop over edges without recursion, so that long chains need no deep stack.

mod cycles;
mod mermaid;

use std::collections::HashMap;

use serde::Serialize;

use crate::extended::{ExecutionOrder, SkillComposition};

pub use mermaid::render_mermaid;

/// The data of a skill that the graph needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphSkill {
    /// Its id.
    pub id: String,
    /// The ids in its `requires`.
    pub requires: Vec<String>,
    /// Its declarations about other skills.
    pub composition: SkillComposition,
}

/// The dependency graph of a set of skills.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SkillGraph {
    /// The loadable skills by level, each level sorted by id: all predecessors of a skill are in
    /// earlier levels. Skills in a cycle, and their successors, have no level.
    pub levels: Vec<Vec<String>>,
    /// The missing skills, sorted by the skill that needs them.
    pub missing: Vec<MissingSkill>,
    /// The existing skills that conflict, each pair once, sorted.
    pub conflicts: Vec<SkillConflict>,
    /// Cycles as paths in which each skill comes after the next; the first, which has the smallest
    /// id, is repeated at the end. Every skill in a cycle is in at least one path, and no path is
    /// repeated.
    pub cycles: Vec<Vec<String>>,
    /// The number of skills in cycles beyond the 100 reported ones.
    pub more_in_cycles: usize,
    /// The skills that come after a cycle without being in one, sorted.
    pub behind_cycles: Vec<String>,
    /// The ids of more than one skill, sorted; the first skill of each id counts.
    pub duplicates: Vec<String>,
    /// The edges between existing skills, sorted by skill.
    pub edges: Vec<DependencyEdge>,
}

/// The maximum number of reported cycles.
const MAX_CYCLES: usize = 100;

/// A needed skill that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MissingSkill {
    /// The skill that needs it.
    pub skill: String,
    /// The id of the missing skill.
    pub needs: String,
    /// Whether the skill works without it.
    pub optional: bool,
}

/// A pair of skills that conflict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SkillConflict {
    /// The skill with the smaller id.
    pub skill: String,
    /// The other skill.
    pub with: String,
}

/// An edge between existing skills: one needs the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DependencyEdge {
    /// The skill that needs the other one.
    pub skill: String,
    /// The needed skill.
    pub needs: String,
    /// Whether the skill works without it.
    pub optional: bool,
    /// The position of the skill relative to the needed one.
    pub order: ExecutionOrder,
}

impl SkillGraph {
    /// Returns `true` if there is a missing required skill, a conflict or a cycle.
    #[must_use]
    pub fn has_problems(&self) -> bool {
        self.missing.iter().any(|missing| !missing.optional)
            || !self.conflicts.is_empty()
            || !self.cycles.is_empty()
    }

    /// Returns the load order of the skills: the levels, one after the other.
    pub fn load_order(&self) -> impl Iterator<Item = &str> {
        self.levels.iter().flatten().map(String::as_str)
    }
}

/// Builds the graph of a set of skills.
#[must_use]
pub fn build_graph(skills: &[GraphSkill]) -> SkillGraph {
    let mut sorted: Vec<&GraphSkill> = skills.iter().collect();
    // The sort is stable: of equal ids the first one stays first and survives the dedup.
    sorted.sort_by(|a, b| a.id.cmp(&b.id));
    let mut graph = SkillGraph::default();
    for pair in sorted.windows(2).filter(|pair| pair[0].id == pair[1].id) {
        if graph.duplicates.last() != Some(&pair[0].id) {
            graph.duplicates.push(pair[0].id.clone());
        }
    }
    sorted.dedup_by(|later, earlier| later.id == earlier.id);
    let index: HashMap<&str, usize> =
        sorted.iter().enumerate().map(|(index, skill)| (skill.id.as_str(), index)).collect();
    // The predecessors of each skill.
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); sorted.len()];
    for (own, skill) in sorted.iter().enumerate() {
        for need in skill_requirements(skill) {
            let Some(&other) = index.get(need.id) else {
                let (skill, needs) = (skill.id.clone(), need.id.to_owned());
                graph.missing.push(MissingSkill { skill, needs, optional: need.optional });
                continue;
            };
            match need.order {
                ExecutionOrder::After => before[own].push(other),
                ExecutionOrder::Before => before[other].push(own),
                ExecutionOrder::Independent => {}
            }
            graph.edges.push(DependencyEdge {
                skill: skill.id.clone(),
                needs: need.id.to_owned(),
                optional: need.optional,
                order: need.order,
            });
        }
        // A conflict with a missing skill has no effect.
        for other in skill.composition.conflicts.iter().filter(|id| index.contains_key(id.as_str()))
        {
            // Both sides may declare the conflict; the fixed order makes the pairs equal.
            let (a, b) = if *other < skill.id { (other, &skill.id) } else { (&skill.id, other) };
            graph.conflicts.push(SkillConflict { skill: a.clone(), with: b.clone() });
        }
    }
    graph.missing.sort();
    graph.conflicts.sort();
    graph.conflicts.dedup();
    // The same edge can come from both skills, as `before` of one and `after` of the other.
    for list in &mut before {
        list.sort_unstable();
        list.dedup();
    }
    let name = |index: usize| sorted[index].id.clone();
    let (levels, unplaced) = sort_into_levels(&before);
    graph.levels = levels.iter().map(|level| level.iter().copied().map(name).collect()).collect();
    let found = cycles::find_cycles(&before, &unplaced, MAX_CYCLES);
    graph.cycles =
        found.paths.iter().map(|path| path.iter().copied().map(name).collect()).collect();
    graph.more_in_cycles = found.more;
    graph.behind_cycles =
        unplaced.iter().filter(|&&index| !found.cyclic[index]).map(|&index| name(index)).collect();
    graph
}

/// A skill that another one needs.
struct SkillRequirement<'a> {
    id: &'a str,
    optional: bool,
    order: ExecutionOrder,
}

/// Returns the requirements of a skill, each id once: dependencies, then the rest of `requires`.
fn skill_requirements(skill: &GraphSkill) -> Vec<SkillRequirement<'_>> {
    let order = skill.composition.execution_order.unwrap_or(ExecutionOrder::After);
    let mut place: HashMap<&str, usize> = HashMap::new();
    let mut needs: Vec<SkillRequirement<'_>> = Vec::new();
    for dependency in &skill.composition.dependencies {
        let id = dependency.skill_name.as_str();
        match place.get(id) {
            // Of repeated declarations, one that is required decides.
            Some(&index) => needs[index].optional &= dependency.optional,
            None => {
                place.insert(id, needs.len());
                needs.push(SkillRequirement { id, optional: dependency.optional, order });
            }
        }
    }
    for id in &skill.requires {
        match place.get(id.as_str()) {
            // `requires` has no optional entries.
            Some(&index) => needs[index].optional = false,
            None => {
                place.insert(id, needs.len());
                needs.push(SkillRequirement { id, optional: false, order: ExecutionOrder::After });
            }
        }
    }
    needs
}

/// Sorts skills into levels (Kahn's algorithm). Also returns the skills in or behind cycles; both
/// are sorted by index.
fn sort_into_levels(before: &[Vec<usize>]) -> (Vec<Vec<usize>>, Vec<usize>) {
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); before.len()];
    let mut pending: Vec<usize> = before.iter().map(Vec::len).collect();
    for (own, list) in before.iter().enumerate() {
        list.iter().for_each(|&first| after[first].push(own));
    }
    let mut levels = Vec::new();
    let mut ready: Vec<usize> = (0..before.len()).filter(|&index| pending[index] == 0).collect();
    while !ready.is_empty() {
        let mut next = Vec::new();
        for &done in &ready {
            for &successor in &after[done] {
                pending[successor] -= 1;
                if pending[successor] == 0 {
                    next.push(successor);
                }
            }
        }
        next.sort_unstable();
        levels.push(std::mem::replace(&mut ready, next));
    }
    let unplaced = (0..before.len()).filter(|&index| pending[index] > 0).collect();
    (levels, unplaced)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::extended::SkillDependency;

    fn skill(id: &str, requires: &[&str]) -> GraphSkill {
        GraphSkill {
            id: id.to_owned(),
            requires: requires.iter().map(|&id| id.to_owned()).collect(),
            composition: SkillComposition::default(),
        }
    }

    fn composed(id: &str, order: Option<ExecutionOrder>, needs: &[(&str, bool)]) -> GraphSkill {
        let dependency = |&(name, optional): &(&str, bool)| SkillDependency {
            skill_name: name.to_owned(),
            reason: String::new(),
            optional,
        };
        GraphSkill {
            composition: SkillComposition {
                dependencies: needs.iter().map(dependency).collect(),
                conflicts: Vec::new(),
                execution_order: order,
            },
            ..skill(id, &[])
        }
    }

    fn order(skills: &[GraphSkill]) -> String {
        build_graph(skills).load_order().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn required_skills_come_first() {
        let skills =
            [skill("deploy", &["test", "build"]), skill("test", &["build"]), skill("build", &[])];
        let found = build_graph(&skills);
        assert_eq!(found.levels, [["build"], ["test"], ["deploy"]]);
        assert!(!found.has_problems());
        assert_eq!(order(&[skill("c", &[]), skill("a", &["d"]), skill("d", &[])]), "c d a");
    }

    #[test]
    fn execution_order_decides_position() {
        let with = |order| [composed("a", order, &[("b", false)]), skill("b", &[])];
        assert_eq!(order(&with(None)), "b a");
        assert_eq!(order(&with(Some(ExecutionOrder::After))), "b a");
        assert_eq!(order(&with(Some(ExecutionOrder::Before))), "a b");
        let independent = build_graph(&with(Some(ExecutionOrder::Independent)));
        assert_eq!(independent.levels, [["a", "b"]]);
        // In both: the dependency's order, and needed for good.
        let mut both = composed("b", Some(ExecutionOrder::Before), &[("a", true), ("x", true)]);
        both.requires = vec!["a".to_owned(), "x".to_owned()];
        let both = build_graph(&[both, skill("a", &[])]);
        assert_eq!(both.levels, [["b"], ["a"]]);
        assert!(both.has_problems() && !both.missing[0].optional);
    }

    #[test]
    fn problems_are_reported_once() {
        let mut rude = composed("rude", None, &[("gone", true), ("gone", true), ("lost", false)]);
        rude.composition.conflicts =
            ["polite", "polite", "absent", "rude"].map(String::from).into();
        let mut polite = skill("polite", &[]);
        polite.composition.conflicts = vec!["rude".to_owned()];
        let found = build_graph(&[rude, polite.clone(), polite]);
        let missing = |needs: &str, optional| MissingSkill {
            skill: "rude".to_owned(),
            needs: needs.to_owned(),
            optional,
        };
        let conflict = |a: &str, b: &str| SkillConflict { skill: a.to_owned(), with: b.to_owned() };
        assert_eq!(found.missing, [missing("gone", true), missing("lost", false)]);
        assert_eq!(found.conflicts, [conflict("polite", "rude"), conflict("rude", "rude")]);
        assert_eq!(found.duplicates, ["polite"]);
        assert!(found.has_problems());
        let optional = build_graph(&[composed("a", None, &[("gone", true)])]);
        assert!(!optional.has_problems());
        assert_eq!(optional.levels, [["a"]]);
    }

    #[test]
    fn cycles_are_reported_as_paths() {
        let skills = [
            skill("c", &["b"]),
            skill("b", &["a"]),
            skill("a", &["c", "free"]),
            skill("self", &["self"]),
            skill("late", &["a"]),
            skill("free", &[]),
            skill("x", &["y"]),
            composed("y", None, &[("x", false)]),
        ];
        let found = build_graph(&skills);
        assert_eq!(
            found.cycles,
            [vec!["a", "c", "b", "a"], vec!["self", "self"], vec!["x", "y", "x"]]
        );
        assert_eq!(
            (found.levels, found.behind_cycles),
            (vec![vec!["free".into()]], vec!["late".into()])
        );
        assert_eq!(found.more_in_cycles, 0);
    }

    #[test]
    fn large_graphs_need_no_deep_stack() {
        const MANY: usize = 10_000;
        let id = |n: usize| format!("s{n:05}");
        let chain = |close: bool| -> Vec<GraphSkill> {
            let needs = |n: usize| match n {
                0 if close => vec![id(MANY - 1)],
                0 => Vec::new(),
                n => vec![id(n - 1)],
            };
            (0..MANY)
                .map(|n| GraphSkill { id: id(n), requires: needs(n), ..GraphSkill::default() })
                .collect()
        };
        let open = build_graph(&chain(false));
        assert_eq!((open.levels.len(), open.cycles.len()), (MANY, 0));
        let closed = build_graph(&chain(true));
        assert_eq!((closed.levels.len(), closed.cycles.len()), (0, 1));
        assert_eq!(closed.cycles[0].len(), MANY + 1);
        // A hub in a small cycle with each of the others.
        let mut star = vec![skill("hub", &[])];
        for n in 0..MANY {
            star.push(skill(&id(n), &["hub"]));
            star[0].requires.push(id(n));
        }
        let star = build_graph(&star);
        assert_eq!((star.cycles.len(), star.more_in_cycles), (MAX_CYCLES, MANY - MAX_CYCLES));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn random_graph_keeps_invariants(
            edges in proptest::collection::vec((0_usize..9, 0_usize..9), 0..20),
        ) {
            let id = |n: usize| format!("s{n}");
            let mut skills: Vec<GraphSkill> =
                (0..9).map(|n| GraphSkill { id: id(n), ..GraphSkill::default() }).collect();
            for &(from, to) in &edges {
                skills[from].requires.push(id(to));
            }
            let found = build_graph(&skills);
            // Reachability the slow way.
            let mut reach = [[false; 9]; 9];
            edges.iter().for_each(|&(from, to)| reach[from][to] = true);
            for (via, from, to) in (0..729).map(|n| (n / 81, n / 9 % 9, n % 9)) {
                reach[from][to] |= reach[from][via] && reach[via][to];
            }
            let placed: Vec<&str> = found.load_order().collect();
            let place = |n: usize| placed.iter().position(|it| *it == id(n));
            for n in 0..9 {
                let behind = (0..9).any(|other| reach[n][other] && reach[other][other]);
                let in_a_path = found.cycles.iter().any(|path| path.contains(&id(n)));
                prop_assert_eq!(in_a_path, reach[n][n]);
                prop_assert_eq!(place(n).is_none(), reach[n][n] || behind);
                prop_assert_eq!(found.behind_cycles.contains(&id(n)), behind && !reach[n][n]);
            }
            for &(from, to) in &edges {
                if let Some(at) = place(from) {
                    prop_assert!(place(to).is_some_and(|before| before < at));
                }
            }
            let mut seen = std::collections::HashSet::new();
            for path in &found.cycles {
                prop_assert_eq!(path.first(), path.last());
                prop_assert_eq!(path.first(), path.iter().min());
                prop_assert!(seen.insert(path.clone()));
                let distinct: std::collections::HashSet<_> = path.iter().collect();
                prop_assert_eq!(distinct.len(), path.len() - 1);
                for pair in path.windows(2) {
                    let n = |id: &str| id[1..].parse::<usize>().unwrap();
                    prop_assert!(edges.contains(&(n(&pair[0]), n(&pair[1]))));
                }
            }
        }
    }
}
