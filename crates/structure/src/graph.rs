//! Directed graphs: strongly connected components and shortest cycles.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A directed graph with a label at every edge.
#[derive(Clone, Debug)]
pub struct Graph<N, L> {
    edges: BTreeMap<N, BTreeMap<N, L>>,
}

impl<N: Ord + Clone, L> Default for Graph<N, L> {
    fn default() -> Self {
        Self {
            edges: BTreeMap::new(),
        }
    }
}

impl<N: Ord + Clone, L> Graph<N, L> {
    /// Adds an edge. If the edge exists already, its first label is kept. An edge from a node to
    /// itself is ignored.
    pub fn add_edge(&mut self, from: N, to: N, label: L) {
        if from != to {
            self.edges.entry(to.clone()).or_default();
            self.edges.entry(from).or_default().entry(to).or_insert(label);
        }
    }

    /// Returns the label of an edge, or `None` if the graph has no such edge.
    pub fn label(&self, from: &N, to: &N) -> Option<&L> {
        self.edges.get(from)?.get(to)
    }

    /// Returns the edges between the nodes in `nodes`, with their labels.
    pub fn edges_within<'a>(&'a self, nodes: &'a [N]) -> impl Iterator<Item = (&'a N, &'a N, &'a L)> {
        let inside = |node: &N| nodes.contains(node);
        self.edges
            .iter()
            .filter(move |(from, _)| inside(from))
            .flat_map(move |(from, targets)| {
                targets
                    .iter()
                    .filter(move |(to, _)| inside(to))
                    .map(move |(to, label)| (from, to, label))
            })
    }

    /// Returns the strongly connected components with more than one node. The nodes of a component can all
    /// reach each other. Each list is sorted.
    pub fn components(&self) -> Vec<Vec<N>> {
        let mut assigned: BTreeSet<&N> = BTreeSet::new();
        let mut components = Vec::new();
        for node in self.edges.keys() {
            if assigned.contains(node) {
                continue;
            }
            let forward = self.reachable(node);
            let component: Vec<N> = forward
                .iter()
                .filter(|other| self.reachable(other).contains(node))
                .map(|other| (*other).clone())
                .collect();
            assigned.extend(forward.iter().filter(|other| component.contains(other)));
            if component.len() > 1 {
                components.push(component);
            }
        }
        components
    }

    /// Returns a shortest cycle in a component, or an empty list if there is no cycle. The first node is not
    /// repeated at the end.
    pub fn shortest_cycle(&self, component: &[N]) -> Vec<N> {
        let cycles = component
            .iter()
            .filter_map(|start| self.shortest_cycle_from(start, component));
        cycles.min_by_key(Vec::len).unwrap_or_default()
    }

    /// Returns `start` and every node that can be reached from it.
    fn reachable<'a>(&'a self, start: &'a N) -> BTreeSet<&'a N> {
        let mut seen = BTreeSet::from([start]);
        let mut queue = vec![start];
        while let Some(node) = queue.pop() {
            for next in self.edges.get(node).into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(next) {
                    queue.push(next);
                }
            }
        }
        seen
    }

    fn shortest_cycle_from(&self, start: &N, component: &[N]) -> Option<Vec<N>> {
        let mut before: BTreeMap<&N, &N> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for next in self
                .edges
                .get(node)?
                .keys()
                .filter(|next| component.contains(next))
            {
                if next == start {
                    return Some(path_to(node, &before));
                }
                if !before.contains_key(next) {
                    before.insert(next, node);
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

/// Returns the path from the start of a search to `node`. `before` has the predecessor of each node that the
/// search has reached.
fn path_to<N: Ord + Clone>(node: &N, before: &BTreeMap<&N, &N>) -> Vec<N> {
    let mut path = vec![node.clone()];
    let mut current = node;
    while let Some(previous) = before.get(current) {
        path.push((*previous).clone());
        current = previous;
    }
    path.reverse();
    path
}
