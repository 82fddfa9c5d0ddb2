//! Equitable edge colourings of bipartite multigraphs.
//!
//! Edges are flows, from the leaf that sends to the leaf that receives; colours are spines. A colouring is *equitable* if at each
//! vertex any two colours differ by at most one edge. De Werra (1971) showed that every bipartite multigraph has one for every number of
//! colours, and one that is equitable between each pair of vertices as well; that is what [`equitable`] finds:
//!
//! 1. Each left vertex deals its edges, sorted by their right ends, to the colours in turn. Left vertices and pairs are equitable then.
//! 2. While two colours differ by two or more edges somewhere, their edges are dealt to them anew: of each pair's edges half to either; of the odd ones that
//!    are left, which are at most one for each pair, alternately along trails, those from vertices of odd degree first. A trail that
//!    passes a vertex gives it one edge of either colour, one that ends there gives it one, once; a closed trail of a bipartite graph has even length. So at every vertex, and between each pair, these two colours
//!    then differ by at most one.
//!
//! A new deal makes the sum of the squares of all colours' numbers at all vertices smaller where the two differed by two or more, and
//! larger nowhere: so it comes to an end. Nothing is drawn, so the same edges have the same colours.

/// An edge: left and right vertex. Numbers are to be dense.
pub(super) type Edge = (u32, u32);

/// The colour of each edge, below `colours`, such that any two colours differ by at most one edge at every vertex, and between each
/// pair of vertices.
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
    let mut classes = vec![Vec::new(); colours];
    let mut order: Vec<u32> = (0..edges.len() as u32).collect();
    order.sort_by_key(|edge| edges[*edge as usize]);
    let (mut left, mut turn) = (None, 0);
    for edge in order {
        let from = edges[edge as usize].0;
        if left != Some(from) {
            (left, turn) = (Some(from), from as usize);
        }
        classes[turn % colours].push(edge);
        turn += 1;
    }
    classes
}

/// Two colours at a time.
struct Splitter<'a> {
    edges: &'a [Edge],
    lefts: usize,
    /// By vertex, left ones first: how many more edges the one colour has.
    more: Vec<i32>,
    /// By vertex: its edges that have no colour yet, as places in `odd`.
    at: Vec<Vec<u32>>,
    /// Edges that pairs have over, and whether they have a colour again.
    odd: Vec<(u32, bool)>,
}

impl<'a> Splitter<'a> {
    fn new(edges: &'a [Edge]) -> Splitter<'a> {
        let count =
            |end: fn(&Edge) -> u32| edges.iter().map(|edge| end(edge) as usize + 1).max().unwrap_or(0);
        let (lefts, rights) = (count(|edge| edge.0), count(|edge| edge.1));
        Splitter {
            edges,
            lefts,
            more: vec![0; lefts + rights],
            at: vec![Vec::new(); lefts + rights],
            odd: Vec::new(),
        }
    }

    fn ends(&self, edge: u32) -> [usize; 2] {
        let (left, right) = self.edges[edge as usize];
        [left as usize, self.lefts + right as usize]
    }

    /// Whether two classes differ by at most one edge at every vertex.
    fn even(&mut self, one: &[u32], two: &[u32]) -> bool {
        self.more.fill(0);
        for (class, by) in [(one, 1), (two, -1)] {
            for &edge in class {
                self.ends(edge)
                    .into_iter()
                    .for_each(|vertex| self.more[vertex] += by);
            }
        }
        self.more.iter().all(|more| more.abs() <= 1)
    }

    /// Deals the edges of two classes to them anew.
    fn deal_anew(&mut self, one: &mut Vec<u32>, two: &mut Vec<u32>) {
        let mut all = core::mem::take(one);
        all.append(two);
        all.sort_unstable_by_key(|edge| (self.edges[*edge as usize], *edge));
        self.odd.clear();
        for pair in all.chunk_by(|a, b| self.edges[*a as usize] == self.edges[*b as usize]) {
            let (halves, over) = pair.split_at(pair.len() / 2 * 2);
            let (first, second) = halves.split_at(halves.len() / 2);
            one.extend_from_slice(first);
            two.extend_from_slice(second);
            self.odd.extend(over.iter().map(|edge| (*edge, false)));
        }
        self.at.iter_mut().for_each(Vec::clear);
        for place in (0..self.odd.len()).rev() {
            for vertex in self.ends(self.odd[place].0) {
                self.at[vertex].push(place as u32);
            }
        }
        let odd_degree: Vec<usize> = (0..self.at.len())
            .filter(|vertex| self.at[*vertex].len() % 2 == 1)
            .collect();
        let mut degrees: Vec<usize> = self.at.iter().map(Vec::len).collect();
        for vertex in odd_degree {
            // The end of another trail may have made it even.
            if degrees[vertex] % 2 == 1 {
                self.trail(vertex, &mut degrees, one, two);
            }
        }
        for vertex in 0..self.at.len() {
            while degrees[vertex] > 0 {
                self.trail(vertex, &mut degrees, one, two);
            }
        }
    }

    /// Colours a trail from a vertex to where it cannot go on.
    fn trail(&mut self, from: usize, degrees: &mut [usize], one: &mut Vec<u32>, two: &mut Vec<u32>) {
        // The smaller class gets the first edge, and with that the odd one.
        let mut to_one = one.len() <= two.len();
        let mut vertex = from;
        while let Some(place) = self.at[vertex].pop() {
            let (edge, coloured) = self.odd[place as usize];
            if coloured {
                continue;
            }
            self.odd[place as usize].1 = true;
            if to_one {
                one.push(edge)
            } else {
                two.push(edge)
            }
            to_one = !to_one;
            let [left, right] = self.ends(edge);
            degrees[left] -= 1;
            degrees[right] -= 1;
            vertex = if vertex == left { right } else { left };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The most that two colours differ by at a vertex or between a pair.
    fn imbalance(edges: &[Edge], colours: usize, found: &[u32]) -> u32 {
        let mut counts: BTreeMap<(u8, u32, u32), Vec<u32>> = BTreeMap::new();
        for (&(left, right), &colour) in edges.iter().zip(found) {
            for key in [(0, left, 0), (1, right, 0), (2, left, right)] {
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
            edges in prop::collection::vec((0..9u32, 0..7u32), 0..200),
            colours in 1..9usize,
        ) {
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
            let edges: Vec<Edge> = draws.iter().map(|(a, b)| (a * a / 400, b * b * b / 30_000)).collect();
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
        let edges: Vec<Edge> = pairs.filter(|(from, to)| from != to).collect();
        let found = equitable(&edges, 5);
        assert!(imbalance(&edges, 5, &found) <= 1);
        assert_eq!(
            found,
            equitable(&edges, 5),
            "the same edges have the same colours"
        );
    }
}
