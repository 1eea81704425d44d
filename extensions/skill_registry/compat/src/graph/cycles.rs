//! Search for cycles: strongly connected components, then a shortest cycle through every skill that
//! no reported cycle contains.
//!
//! A graph can have exponentially many cycles; these are sufficient to break all of them one after
//! the other.

use std::collections::VecDeque;

/// The result of a search for cycles.
pub(super) struct CycleReport {
    /// Closed paths along the edges, each starting and ending at its smallest index, sorted.
    pub(super) paths: Vec<Vec<usize>>,
    /// The number of indexes in cycles that are in none of the paths.
    pub(super) more: usize,
    /// Whether each index is in a cycle.
    pub(super) cyclic: Vec<bool>,
}

/// Finds at most `limit` cycles among `candidates`, which must contain every index in a cycle.
pub(super) fn find_cycles(edges: &[Vec<usize>], candidates: &[usize], limit: usize) -> CycleReport {
    let component = assign_components(edges, candidates);
    let mut size = vec![0_usize; edges.len()];
    candidates.iter().for_each(|&index| size[component[index]] += 1);
    let mut cyclic = vec![false; edges.len()];
    for &index in candidates {
        // A component of one index is a cycle only with an edge to itself.
        cyclic[index] = size[component[index]] > 1 || edges[index].contains(&index);
    }
    let mut covered = vec![false; edges.len()];
    let mut found = CycleReport { paths: Vec::new(), more: 0, cyclic };
    let mut search =
        CycleSearch { edges, component: &component, from: vec![usize::MAX; edges.len()] };
    for &index in candidates.iter().filter(|&&index| found.cyclic[index]) {
        if covered[index] {
            continue;
        }
        if found.paths.len() == limit {
            found.more += 1;
            continue;
        }
        let mut path = search.shortest_cycle(index);
        path.iter().for_each(|&index| covered[index] = true);
        // A fixed start makes equal cycles equal paths.
        let smallest = (0..path.len()).min_by_key(|&at| path[at]).unwrap_or_default();
        path.rotate_left(smallest);
        path.push(path[0]);
        found.paths.push(path);
    }
    found.paths.sort_unstable();
    found
}

/// A breadth-first search inside one component.
struct CycleSearch<'a> {
    edges: &'a [Vec<usize>],
    component: &'a [usize],
    /// The predecessor of each index; `usize::MAX` if it was not reached.
    from: Vec<usize>,
}

impl CycleSearch<'_> {
    /// Returns a shortest cycle through an index of a cycle, without the repetition at the end.
    fn shortest_cycle(&mut self, start: usize) -> Vec<usize> {
        let mut queue = VecDeque::from([start]);
        let mut reached = Vec::new();
        let mut last = start;
        'search: while let Some(at) = queue.pop_front() {
            for &next in &self.edges[at] {
                if next == start {
                    last = at;
                    break 'search;
                }
                // A cycle never leaves its component.
                if self.component[next] == self.component[start] && self.from[next] == usize::MAX {
                    self.from[next] = at;
                    reached.push(next);
                    queue.push_back(next);
                }
            }
        }
        let mut path = vec![last];
        while path[path.len() - 1] != start {
            path.push(self.from[path[path.len() - 1]]);
        }
        path.reverse();
        // Only visited entries are reset: the buffer has an entry for every skill.
        reached.iter().for_each(|&index| self.from[index] = usize::MAX);
        path
    }
}

/// Assigns every index of `candidates` the number of its strongly connected component (Tarjan's
/// algorithm with an explicit stack); edges out of `candidates` are not followed.
fn assign_components(edges: &[Vec<usize>], candidates: &[usize]) -> Vec<usize> {
    const NEW: usize = usize::MAX;
    let count = edges.len();
    let mut inside = vec![false; count];
    candidates.iter().for_each(|&index| inside[index] = true);
    let (mut number, mut low, mut component) = (vec![NEW; count], vec![0; count], vec![NEW; count]);
    let (mut next_number, mut next_component) = (0, 0);
    let mut open = Vec::new();
    // The current path of the walk, with the number of followed edges of each index.
    let mut walk: Vec<(usize, usize)> = Vec::new();
    for &start in candidates {
        if number[start] == NEW {
            walk.push((start, 0));
        }
        while let Some((at, taken)) = walk.pop() {
            if taken == 0 {
                (number[at], low[at]) = (next_number, next_number);
                next_number += 1;
                open.push(at);
            }
            if let Some(&next) = edges[at].get(taken) {
                // The index goes back on the stack, to continue after its successor.
                walk.push((at, taken + 1));
                if inside[next] && number[next] == NEW {
                    walk.push((next, 0));
                } else if inside[next] && component[next] == NEW {
                    // The successor is still open, so it closes a cycle back to an ancestor.
                    low[at] = low[at].min(number[next]);
                }
                continue;
            }
            // The index is the root of its component: all open indexes above it belong to it.
            if low[at] == number[at] {
                while let Some(member) = open.pop() {
                    component[member] = next_component;
                    if member == at {
                        break;
                    }
                }
                next_component += 1;
            }
            if let Some(&(parent, _)) = walk.last() {
                low[parent] = low[parent].min(low[at]);
            }
        }
    }
    component
}
