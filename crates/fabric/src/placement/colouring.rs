//! Equitable edge colourings of bipartite multigraphs.
//!
//! The placement of flows on the spines of a fabric is an edge colouring. Each flow is an edge from the
//! sending leaf to the receiving leaf, and each spine is a colour. Each edge also has a *class*: flows of the
//! same class send at the same time. In each of the following *sets* of edges, the numbers of edges of any
//! two colours may differ by at most one:
//!
//! - all edges at a vertex
//! - the edges of one class at a vertex
//! - the edges of one class between two vertices
//!
//! On each side of the graph, any two sets are nested or disjoint. For such sets, every bipartite multigraph
//! has an equitable colouring with any number of colours (de Werra 1971 for vertices).
//! [`equitable_colouring`] finds such a colouring in two steps:
//!
//! 1. The edges at each left vertex are sorted by class and by the right vertex. In this order, they get the
//!    colours in turn. After this step, the rule holds in all sets at left vertices: the numbers of edges of
//!    any two colours differ by at most one.
//! 2. While two colours differ by two or more edges in a set, the edges of these two colours are distributed
//!    again. Each edge gets a partner at its left end and a partner at its right end. A partner must have the
//!    other colour. The partner comes from the innermost set with an unpaired edge, so each set has at most
//!    one edge with a partner outside. A walk along left and right partners is a path, or a cycle of even
//!    length, and its edges alternate between the two colours. The colours then differ by at most one in
//!    every set.
//!
//! Each redistribution reduces one sum: the sum of the squared edge counts of all colours in all sets. The
//! algorithm therefore terminates. The algorithm uses no random numbers, so the same edges always get the
//! same colours.

use std::collections::BTreeMap;

/// An edge of a bipartite multigraph. Left and right vertices are numbered separately, from 0 without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Number of the left vertex.
    pub left: u32,
    /// Class of the edge: flows of the same class send at the same time. The colours (paths) are also
    /// balanced within each class.
    pub class: u32,
    /// Number of the right vertex.
    pub right: u32,
}

impl Edge {
    /// Returns three keys that identify the sets of the edge at one side of the graph. The sets are nested:
    /// the first key identifies the outermost set, the first two keys the next set, and all three keys the
    /// innermost set.
    fn edge_set_keys(&self, side: Side) -> [u32; 3] {
        match side {
            Side::Left => [self.left, self.class, self.right],
            Side::Right => [self.right, self.class, self.left],
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

const SIDES: [Side; 2] = [Side::Left, Side::Right];

/// Returns a colour for each edge, in the order of `edges`. A colour is a number from 0 to `colour_count - 1`
/// and stands for a path. The numbers of edges of any two colours differ by at most one at every vertex, in
/// each class of a vertex, and in each class between two vertices.
///
/// # Panics
/// Panics if edges exist and `colour_count` is 0.
pub fn equitable_colouring(edges: &[Edge], colour_count: usize) -> Vec<u32> {
    let mut classes = distribute_edges(edges, colour_count);
    let mut balancer = ColourBalancer::new(edges);
    let mut settled = false;
    while !settled {
        settled = true;
        for low in 0..colour_count {
            for high in low + 1..colour_count {
                let (head, tail) = classes.split_at_mut(high);
                let (one, two) = (&mut head[low], &mut tail[0]);
                if !balancer.is_balanced(one, two) {
                    balancer.redistribute(one, two);
                    settled = false;
                }
            }
        }
    }
    let mut found = vec![0; edges.len()];
    for (colour, class) in (0..).zip(classes) {
        for edge in class {
            found[edge as usize] = colour;
        }
    }
    found
}

/// Distributes the edges of each left vertex (sending leaf) over the colours (paths) in turn. Left vertex `v`
/// starts with the colour `v` modulo `colour_count`. Returns a list of edges for each colour.
fn distribute_edges(edges: &[Edge], colour_count: usize) -> Vec<Vec<u32>> {
    let mut distributed = vec![Vec::new(); colour_count];
    let mut order: Vec<u32> = (0..edges.len() as u32).collect();
    order.sort_by_key(|edge| edges[*edge as usize]);
    let (mut left, mut turn) = (None, 0);
    for edge in order {
        let from = edges[edge as usize].left;
        if left != Some(from) {
            (left, turn) = (Some(from), from as usize);
        }
        distributed[turn % colour_count].push(edge);
        turn += 1;
    }
    distributed
}

/// No edge.
const NONE: u32 = u32::MAX;

/// Balances two colours at a time.
struct ColourBalancer<'a> {
    edges: &'a [Edge],
    /// Numbers of the five sets that contain each edge. The innermost set is the same at both ends.
    sets: Vec<[u32; 5]>,
    /// For each set of edges: the number of edges of the first colour minus the number of edges of the
    /// second colour.
    more: Vec<i32>,
    /// Partner of each edge at its left end and at its right end, or [`NONE`].
    partners: Vec<[u32; 2]>,
}

impl<'a> ColourBalancer<'a> {
    fn new(edges: &'a [Edge]) -> ColourBalancer<'a> {
        let mut sets = vec![[0; 5]; edges.len()];
        let mut known = BTreeMap::new();
        for (sets, edge) in sets.iter_mut().zip(edges) {
            let [left, right] = SIDES.map(|side| edge.edge_set_keys(side));
            let names = [
                (0, &left[..1]),
                (0, &left[..2]),
                (0, &left[..]),
                (1, &right[..1]),
                (1, &right[..2]),
            ];
            for (set, (side, name)) in sets.iter_mut().zip(names) {
                let next = known.len() as u32;
                *set = *known.entry((side, name.to_vec())).or_insert(next);
            }
        }
        ColourBalancer {
            edges,
            sets,
            more: vec![0; known.len()],
            partners: vec![[NONE; 2]; edges.len()],
        }
    }

    /// Returns whether two colours differ by at most one edge in every set.
    fn is_balanced(&mut self, one: &[u32], two: &[u32]) -> bool {
        self.more.fill(0);
        for (colour, by) in [(one, 1), (two, -1)] {
            for &edge in colour {
                for set in self.sets[edge as usize] {
                    self.more[set as usize] += by;
                }
            }
        }
        self.more.iter().all(|more| more.abs() <= 1)
    }

    /// Distributes the edges of two colours again, so that the two colours are balanced.
    fn redistribute(&mut self, one: &mut Vec<u32>, two: &mut Vec<u32>) {
        let mut all = core::mem::take(one);
        all.append(two);
        all.sort_unstable();
        for &edge in &all {
            self.partners[edge as usize] = [NONE; 2];
        }
        for side in SIDES {
            self.assign_partners(&all, side);
        }
        let mut waiting: Vec<bool> = vec![false; self.edges.len()];
        all.iter().for_each(|edge| waiting[*edge as usize] = true);
        let is_end = |partners: &[[u32; 2]], edge: u32| partners[edge as usize].contains(&NONE);
        let (ends, others): (Vec<u32>, Vec<u32>) =
            all.iter().partition(|edge| is_end(&self.partners, **edge));
        for from in ends.into_iter().chain(others) {
            // The start of a path has no partner on one side. The smaller colour gets the first edge, so it
            // also gets the additional edge of a path with an odd length.
            let mut side = usize::from(self.partners[from as usize][0] == NONE);
            let mut to_one = one.len() <= two.len();
            let mut edge = from;
            while edge != NONE && core::mem::take(&mut waiting[edge as usize]) {
                if to_one {
                    one.push(edge)
                } else {
                    two.push(edge)
                }
                to_one = !to_one;
                edge = self.partners[edge as usize][side];
                side = 1 - side;
            }
        }
    }

    /// Assigns the partners of edges at one end. Edges of the innermost set are paired first.
    fn assign_partners(&mut self, all: &[u32], side: Side) {
        let name = |edge: &u32| self.edges[*edge as usize].edge_set_keys(side);
        let mut rest = all.to_vec();
        rest.sort_by_key(name);
        for depth in (1..=3).rev() {
            let mut over = Vec::new();
            for set in rest.chunk_by(|a, b| name(a)[..depth] == name(b)[..depth]) {
                let (pairs, odd) = set.as_chunks::<2>();
                for &[a, b] in pairs {
                    self.partners[a as usize][side as usize] = b;
                    self.partners[b as usize][side as usize] = a;
                }
                over.extend_from_slice(odd);
            }
            rest = over;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edge((left, right, class): (u32, u32, u32)) -> Edge {
        Edge { left, class, right }
    }

    /// Returns the largest difference between the edge counts of any two colours (paths). The counts are
    /// compared at each vertex, in each class of a vertex, and in each class between two vertices.
    fn imbalance(edges: &[Edge], colour_count: usize, found: &[u32]) -> u32 {
        let mut counts: BTreeMap<(u8, u32, u32, u32), Vec<u32>> = BTreeMap::new();
        for (&Edge { left, class, right }, &colour) in edges.iter().zip(found) {
            for key in [
                (0, left, 0, 0),
                (1, right, 0, 0),
                (2, left, class, 0),
                (3, right, class, 0),
                (4, left, class, right),
            ] {
                counts.entry(key).or_insert_with(|| vec![0; colour_count])[colour as usize] += 1;
            }
        }
        let spread =
            |counts: &Vec<u32>| counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0);
        counts.values().map(spread).max().unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_multigraph_gets_an_equitable_colouring(
            draws in prop::collection::vec((0..9u32, 0..7u32, 0..4u32), 0..200),
            classes in 1..5u32,
            colour_count in 1..9usize,
        ) {
            let edges: Vec<Edge> = draws.iter().map(|(a, b, class)| edge((*a, *b, class % classes))).collect();
            let found = equitable_colouring(&edges, colour_count);
            prop_assert!(found.iter().all(|colour| (*colour as usize) < colour_count));
            prop_assert!(imbalance(&edges, colour_count, &found) <= 1);
        }

        /// Very unequal degrees: most edges are at few vertices.
        #[test]
        fn skewed_multigraphs_get_an_equitable_colouring(
            draws in prop::collection::vec((0..64u32, 0..64u32), 1..300),
            colour_count in 2..33usize,
        ) {
            let edges: Vec<Edge> = draws.iter().map(|(a, b)| edge((a * a / 400, b * b * b / 30_000, a * b % 3))).collect();
            let found = equitable_colouring(&edges, colour_count);
            prop_assert!(imbalance(&edges, colour_count, &found) <= 1);
        }
    }

    #[test]
    fn an_all_to_all_of_a_large_fabric_is_balanced() {
        // 16 leaves of 8 hosts, all pairs of hosts on different leaves, 5 spines.
        let hosts = 0..128u32;
        let pairs = hosts
            .clone()
            .flat_map(|from| hosts.clone().map(move |to| (from / 8, to / 8)));
        let edges: Vec<Edge> = pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| edge((from, to, 0)))
            .collect();
        let found = equitable_colouring(&edges, 5);
        assert!(imbalance(&edges, 5, &found) <= 1);
        assert_eq!(
            found,
            equitable_colouring(&edges, 5),
            "the same edges have the same colours"
        );
    }
}
