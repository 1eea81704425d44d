//! What skills need of each other: what is missing, what conflicts, what goes round in circles, and
//! the order to load them in.
//!
//! A skill needs those in its `requires` and in the dependencies of its [`SkillComposition`]. Which
//! of the two comes first:
//! - What is in `requires` comes before the skill, since it is to be loaded first.
//! - So do dependencies, unless `executionOrder` says otherwise: with `before` the skill comes before
//!   its dependencies, with `independent` neither comes first. It speaks of the skill's own
//!   dependencies, not of those of others.
//! - A skill that is in both counts as a dependency.
//! - An optional dependency that is there counts like any other; one that is not is no error.
//!
//! Every pass is a loop over edges: ten thousand skills in a row are no deeper than two.

mod cycles;
mod mermaid;

use std::collections::HashMap;

use serde::Serialize;

use crate::extended::{ExecutionOrder, SkillComposition};

pub use mermaid::render_mermaid;

/// A skill as the graph sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphSkill {
    /// Its id.
    pub id: String,
    /// The ids in its `requires`.
    pub requires: Vec<String>,
    /// What it declares about other skills.
    pub composition: SkillComposition,
}

/// What a set of skills looks like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SkillGraph {
    /// The skills that can be loaded, level by level, each sorted by id: whatever has to come before
    /// a skill is in an earlier level. Skills in a cycle, and those that have to come after one, have
    /// no level.
    pub levels: Vec<Vec<String>>,
    /// What is needed and not there, sorted by skill.
    pub missing: Vec<MissingSkill>,
    /// The skills that are there and do not get on, each pair once, sorted.
    pub conflicts: Vec<SkillConflict>,
    /// Cycles as paths in which each skill has to come after the next; the first, which has the
    /// smallest id, is repeated at the end. Every skill in a cycle is in at least one of them, and
    /// none is reported twice.
    pub cycles: Vec<Vec<String>>,
    /// How many more skills are in cycles than the [`MAX_CYCLES`] that are reported show.
    pub more_in_cycles: usize,
    /// The skills that have to come after a cycle and are not in one, sorted.
    pub behind_cycles: Vec<String>,
    /// The ids that more than one skill has, sorted; the first of each counts.
    pub duplicates: Vec<String>,
    /// What needs what, sorted by skill.
    pub edges: Vec<DependencyEdge>,
}

/// The largest number of cycles that are reported.
pub const MAX_CYCLES: usize = 100;

/// A skill that is needed and not there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MissingSkill {
    /// The skill that needs it.
    pub skill: String,
    /// What it needs.
    pub needs: String,
    /// Whether it works without.
    pub optional: bool,
}

/// Two skills that do not get on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SkillConflict {
    /// The one with the smaller id.
    pub skill: String,
    /// The other.
    pub with: String,
}

/// One skill needs another that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DependencyEdge {
    /// The skill that needs the other.
    pub skill: String,
    /// The other.
    pub needs: String,
    /// Whether the skill works without it.
    pub optional: bool,
    /// When the skill comes, seen from the other.
    pub order: ExecutionOrder,
}

impl SkillGraph {
    /// Tells whether something is wrong: a skill missing that is not optional, a conflict, a cycle.
    #[must_use]
    pub fn has_problems(&self) -> bool {
        self.missing.iter().any(|missing| !missing.optional)
            || !self.conflicts.is_empty()
            || !self.cycles.is_empty()
    }

    /// Returns the order to load the skills in: the levels, one after the other.
    pub fn load_order(&self) -> impl Iterator<Item = &str> {
        self.levels.iter().flatten().map(String::as_str)
    }
}

/// Makes the graph of a set of skills.
#[must_use]
pub fn build_graph(skills: &[GraphSkill]) -> SkillGraph {
    let mut sorted: Vec<&GraphSkill> = skills.iter().collect();
    // The sort is stable: of equal ids the first stays first.
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
    // For each skill, those that have to come before it.
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
        for other in skill.composition.conflicts.iter().filter(|id| index.contains_key(id.as_str()))
        {
            let (a, b) = if *other < skill.id { (other, &skill.id) } else { (&skill.id, other) };
            graph.conflicts.push(SkillConflict { skill: a.clone(), with: b.clone() });
        }
    }
    graph.missing.sort();
    graph.conflicts.sort();
    graph.conflicts.dedup();
    for list in &mut before {
        list.sort_unstable();
        list.dedup();
    }
    let name = |index: usize| sorted[index].id.clone();
    let (levels, left) = levels(&before);
    graph.levels = levels.iter().map(|level| level.iter().copied().map(name).collect()).collect();
    let found = cycles::find_cycles(&before, &left, MAX_CYCLES);
    graph.cycles =
        found.paths.iter().map(|path| path.iter().copied().map(name).collect()).collect();
    graph.more_in_cycles = found.more;
    graph.behind_cycles =
        left.iter().filter(|&&index| !found.cyclic[index]).map(|&index| name(index)).collect();
    graph
}

/// One skill that another needs.
struct SkillRequirement<'a> {
    id: &'a str,
    optional: bool,
    order: ExecutionOrder,
}

/// What a skill needs, each id once: dependencies, then the rest of `requires`.
fn skill_requirements(skill: &GraphSkill) -> Vec<SkillRequirement<'_>> {
    let order = skill.composition.execution_order.unwrap_or(ExecutionOrder::After);
    let mut place: HashMap<&str, usize> = HashMap::new();
    let mut needs: Vec<SkillRequirement<'_>> = Vec::new();
    for dependency in &skill.composition.dependencies {
        let id = dependency.skill_name.as_str();
        match place.get(id) {
            // Said twice, it is needed if it is needed once.
            Some(&index) => needs[index].optional &= dependency.optional,
            None => {
                place.insert(id, needs.len());
                needs.push(SkillRequirement { id, optional: dependency.optional, order });
            }
        }
    }
    for id in &skill.requires {
        match place.get(id.as_str()) {
            Some(&index) => needs[index].optional = false,
            None => {
                place.insert(id, needs.len());
                needs.push(SkillRequirement { id, optional: false, order: ExecutionOrder::After });
            }
        }
    }
    needs
}

/// Sorts into levels; returns what is in or behind cycles as well. Both are sorted by index.
fn levels(before: &[Vec<usize>]) -> (Vec<Vec<usize>>, Vec<usize>) {
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); before.len()];
    let mut waits: Vec<usize> = before.iter().map(Vec::len).collect();
    for (own, list) in before.iter().enumerate() {
        list.iter().for_each(|&first| after[first].push(own));
    }
    let mut levels = Vec::new();
    let mut ready: Vec<usize> = (0..before.len()).filter(|&index| waits[index] == 0).collect();
    while !ready.is_empty() {
        let mut next = Vec::new();
        for &done in &ready {
            for &then in &after[done] {
                waits[then] -= 1;
                if waits[then] == 0 {
                    next.push(then);
                }
            }
        }
        next.sort_unstable();
        levels.push(std::mem::replace(&mut ready, next));
    }
    let left = (0..before.len()).filter(|&index| waits[index] > 0).collect();
    (levels, left)
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
    fn what_is_needed_comes_first_and_ties_go_by_id() {
        let skills =
            [skill("deploy", &["test", "build"]), skill("test", &["build"]), skill("build", &[])];
        let found = build_graph(&skills);
        assert_eq!(found.levels, [["build"], ["test"], ["deploy"]]);
        assert!(!found.has_problems());
        assert_eq!(order(&[skill("c", &[]), skill("a", &["d"]), skill("d", &[])]), "c d a");
    }

    #[test]
    fn the_execution_order_says_which_comes_first() {
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
    fn what_is_missing_conflicts_or_is_doubled_is_said_once() {
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
    fn cycles_are_paths_and_what_is_behind_them_is_named() {
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
    fn ten_thousand_skills_take_no_deep_stack() {
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
        fn order_and_cycles_hold_what_they_promise(
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
