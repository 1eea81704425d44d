//! Finds cycles: components first, then a shortest cycle through every skill not shown yet.
//!
//! All cycles of a graph can be more than anybody can print; these are enough to break them all one
//! after the other.

use std::collections::VecDeque;

/// What was found.
pub(super) struct CycleReport {
    /// Closed paths along the edges, each beginning and ending at its smallest index, sorted.
    pub(super) paths: Vec<Vec<usize>>,
    /// How many indexes in cycles are in none of the paths.
    pub(super) more: usize,
    /// Whether each index is in a cycle.
    pub(super) cyclic: Vec<bool>,
}

/// Finds at most `most` cycles among `left`, which must hold every index that is in one.
pub(super) fn find_cycles(edges: &[Vec<usize>], left: &[usize], most: usize) -> CycleReport {
    let component = components(edges, left);
    let mut size = vec![0_usize; edges.len()];
    left.iter().for_each(|&index| size[component[index]] += 1);
    let mut cyclic = vec![false; edges.len()];
    for &index in left {
        cyclic[index] = size[component[index]] > 1 || edges[index].contains(&index);
    }
    let mut shown = vec![false; edges.len()];
    let mut found = CycleReport { paths: Vec::new(), more: 0, cyclic };
    let mut search =
        CycleSearch { edges, component: &component, from: vec![usize::MAX; edges.len()] };
    for &index in left.iter().filter(|&&index| found.cyclic[index]) {
        if shown[index] {
            continue;
        }
        if found.paths.len() == most {
            found.more += 1;
            continue;
        }
        let mut path = search.shortest(index);
        path.iter().for_each(|&index| shown[index] = true);
        let smallest = (0..path.len()).min_by_key(|&at| path[at]).unwrap_or_default();
        path.rotate_left(smallest);
        path.push(path[0]);
        found.paths.push(path);
    }
    found.paths.sort_unstable();
    found
}

/// Searches breadth first inside one component.
struct CycleSearch<'a> {
    edges: &'a [Vec<usize>],
    component: &'a [usize],
    /// How each index was reached; `usize::MAX` if it was not.
    from: Vec<usize>,
}

impl CycleSearch<'_> {
    /// Returns a shortest cycle through an index that is in one, without the repetition at the end.
    fn shortest(&mut self, start: usize) -> Vec<usize> {
        let mut queue = VecDeque::from([start]);
        let mut reached = Vec::new();
        let mut last = start;
        'search: while let Some(at) = queue.pop_front() {
            for &next in &self.edges[at] {
                if next == start {
                    last = at;
                    break 'search;
                }
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
        reached.iter().for_each(|&index| self.from[index] = usize::MAX);
        path
    }
}

/// Gives every index of `left` the number of its strongly connected component (Tarjan's algorithm
/// with a stack of its own); edges that leave `left` are not followed.
fn components(edges: &[Vec<usize>], left: &[usize]) -> Vec<usize> {
    const NEW: usize = usize::MAX;
    let count = edges.len();
    let mut inside = vec![false; count];
    left.iter().for_each(|&index| inside[index] = true);
    let (mut number, mut low, mut component) = (vec![NEW; count], vec![0; count], vec![NEW; count]);
    let (mut next_number, mut next_component) = (0, 0);
    let mut open = Vec::new();
    // Where the walk is, with how many edges of each index were taken.
    let mut walk: Vec<(usize, usize)> = Vec::new();
    for &start in left {
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
                walk.push((at, taken + 1));
                if inside[next] && number[next] == NEW {
                    walk.push((next, 0));
                } else if inside[next] && component[next] == NEW {
                    low[at] = low[at].min(number[next]);
                }
                continue;
            }
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
