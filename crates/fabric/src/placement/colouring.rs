//! Equitable edge colourings of bipartite multigraphs.
//!
//! Edges are flows, from the leaf that sends to the leaf that receives; colours are spines; the *class* of an edge says with which
//! others its flow sends at the same time. Of these *sets* of edges, any two colours have the same number, but for one:
//!
//! - all edges at a vertex; those of one class; those of one class to one vertex at the other side.
//!
//! The sets of each side lie within each other or apart, and for such families every bipartite multigraph has an equitable
//! colouring, for every number of colours (de Werra 1971 for vertices). [`equitable`] finds one:
//!
//! 1. Each left vertex deals its edges, sorted by class and right end, to the colours in turn. The left sets are equitable then.
//! 2. While two colours differ by two or more edges in some set, their edges are dealt to them anew. Each edge gets a partner at its
//!    left end and one at its right end, with which it is not to share a colour: from the innermost set that has another edge
//!    without one. So no set has more than one edge whose partner is elsewhere, or none. Going from edge to partner, by left and
//!    right ends in turn, is a path or a circle of even length, along which the two colours alternate. In every set they differ by at most one
//!    after that.
//!
//! A new deal makes the sum of the squares of all colours' numbers in all sets smaller where the two differed by two or more, and
//! larger nowhere: so it comes to an end. Nothing is drawn, so the same edges have the same colours.

use std::collections::BTreeMap;

/// An edge. Numbers of vertices are to be dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Vertex at the left side.
    pub left: u32,
    /// Which edges it is to be even with, apart from all others.
    pub class: u32,
    /// Vertex at the right side.
    pub right: u32,
}

impl Edge {
    /// Names of the sets that it is in, from the outermost inwards, as seen from one end.
    fn at(&self, side: Side) -> [u32; 3] {
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

/// The colour of each edge, below `colours`, such that any two colours differ by at most one edge at every vertex, there in each class, and in each
/// class between each pair of vertices.
pub fn equitable(edges: &[Edge], colours: usize) -> Vec<u32> {
    let mut classes = dealt(edges, colours);
    let mut splitter = Splitter::new(edges);
    let mut settled = false;
    while !settled {
        settled = true;
        for low in 0..colours {
            for high in low + 1..colours {
                let (head, tail) = classes.split_at_mut(high);
                let (one, two) = (&mut head[low], &mut tail[0]);
                if !splitter.even(one, two) {
                    splitter.deal_anew(one, two);
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

/// The first step: each left vertex deals to the colours in turn, one further for each vertex.
fn dealt(edges: &[Edge], colours: usize) -> Vec<Vec<u32>> {
    let mut dealt = vec![Vec::new(); colours];
    let mut order: Vec<u32> = (0..edges.len() as u32).collect();
    order.sort_by_key(|edge| edges[*edge as usize]);
    let (mut left, mut turn) = (None, 0);
    for edge in order {
        let from = edges[edge as usize].left;
        if left != Some(from) {
            (left, turn) = (Some(from), from as usize);
        }
        dealt[turn % colours].push(edge);
        turn += 1;
    }
    dealt
}

/// No edge.
const NONE: u32 = u32::MAX;

/// Two colours at a time.
struct Splitter<'a> {
    edges: &'a [Edge],
    /// By edge: the numbers of its sets; those of the innermost are the same from both ends.
    sets: Vec<[u32; 5]>,
    /// By set: how many more edges the one colour has.
    more: Vec<i32>,
    /// By edge: its partner at the left end and at the right one.
    partners: Vec<[u32; 2]>,
}

impl<'a> Splitter<'a> {
    fn new(edges: &'a [Edge]) -> Splitter<'a> {
        let mut sets = vec![[0; 5]; edges.len()];
        let mut known = BTreeMap::new();
        for (sets, edge) in sets.iter_mut().zip(edges) {
            let [left, right] = SIDES.map(|side| edge.at(side));
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
        Splitter {
            edges,
            sets,
            more: vec![0; known.len()],
            partners: vec![[NONE; 2]; edges.len()],
        }
    }

    /// Whether two colours differ by at most one edge in every set.
    fn even(&mut self, one: &[u32], two: &[u32]) -> bool {
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

    /// Deals the edges of two colours to them anew.
    fn deal_anew(&mut self, one: &mut Vec<u32>, two: &mut Vec<u32>) {
        let mut all = core::mem::take(one);
        all.append(two);
        all.sort_unstable();
        for &edge in &all {
            self.partners[edge as usize] = [NONE; 2];
        }
        for side in SIDES {
            self.pair_up(&all, side);
        }
        let mut waiting: Vec<bool> = vec![false; self.edges.len()];
        all.iter().for_each(|edge| waiting[*edge as usize] = true);
        let is_end = |partners: &[[u32; 2]], edge: u32| partners[edge as usize].contains(&NONE);
        let (ends, others): (Vec<u32>, Vec<u32>) =
            all.iter().partition(|edge| is_end(&self.partners, **edge));
        for from in ends.into_iter().chain(others) {
            // Where a path begins there is no partner to come from. The smaller colour gets the first edge, and with that the odd one.
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

    /// Gives edges their partners at one end.
    fn pair_up(&mut self, all: &[u32], side: Side) {
        let name = |edge: &u32| self.edges[*edge as usize].at(side);
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

    /// The most that two colours differ by at a vertex, there in a class, or in a class between a pair.
    fn imbalance(edges: &[Edge], colours: usize, found: &[u32]) -> u32 {
        let mut counts: BTreeMap<(u8, u32, u32, u32), Vec<u32>> = BTreeMap::new();
        for (&Edge { left, class, right }, &colour) in edges.iter().zip(found) {
            for key in [
                (0, left, 0, 0),
                (1, right, 0, 0),
                (2, left, class, 0),
                (3, right, class, 0),
                (4, left, class, right),
            ] {
                counts.entry(key).or_insert_with(|| vec![0; colours])[colour as usize] += 1;
            }
        }
        let spread =
            |counts: &Vec<u32>| counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0);
        counts.values().map(spread).max().unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_multigraph_is_coloured_evenly(
            draws in prop::collection::vec((0..9u32, 0..7u32, 0..4u32), 0..200),
            classes in 1..5u32,
            colours in 1..9usize,
        ) {
            let edges: Vec<Edge> = draws.iter().map(|(a, b, class)| edge((*a, *b, class % classes))).collect();
            let found = equitable(&edges, colours);
            prop_assert!(found.iter().all(|colour| (*colour as usize) < colours));
            prop_assert!(imbalance(&edges, colours, &found) <= 1);
        }

        /// Degrees as unequal as they come: most edges at few vertices.
        #[test]
        fn skewed_multigraphs_too(
            draws in prop::collection::vec((0..64u32, 0..64u32), 1..300),
            colours in 2..33usize,
        ) {
            let edges: Vec<Edge> = draws.iter().map(|(a, b)| edge((a * a / 400, b * b * b / 30_000, a * b % 3))).collect();
            let found = equitable(&edges, colours);
            prop_assert!(imbalance(&edges, colours, &found) <= 1);
        }
    }

    #[test]
    fn all_to_all_of_a_large_fabric() {
        // 16 leaves of 8 hosts, every pair of hosts on different leaves, 5 spines.
        let hosts = 0..128u32;
        let pairs = hosts
            .clone()
            .flat_map(|from| hosts.clone().map(move |to| (from / 8, to / 8)));
        let edges: Vec<Edge> = pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| edge((from, to, 0)))
            .collect();
        let found = equitable(&edges, 5);
        assert!(imbalance(&edges, 5, &found) <= 1);
        assert_eq!(
            found,
            equitable(&edges, 5),
            "the same edges have the same colours"
        );
    }
}
