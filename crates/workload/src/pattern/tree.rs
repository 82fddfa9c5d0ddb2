//! AllReduce over a double binary tree: up to the root, where all is summed, and down again.
//!
//! Each of the two trees carries half. Nodes that are leaves in one are inner nodes of the other, so every NIC sends
//! about as much as it would in a ring, in a number of steps that grows with the logarithm of the nodes (Sanders,
//! Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009). The trees are NCCL's:
//! a binary tree over the bits of the node number, and its mirror image, or for an odd number of nodes the same tree
//! shifted by one.
//!
//! With several GPUs per node there is such a pair of trees per rail; inside a node GPUs form a chain that begins at
//! the GPU of the rail.

use super::arrived::Arrived;
use super::{Edge, Shape, Transfer};
use crate::split::part;

/// No edge: of the root, to a parent.
const NONE: u32 = u32::MAX;

/// One rank in one tree.
#[derive(Clone, Debug)]
struct Place {
    /// Edge to the parent; the one from the parent is the next.
    up: u32,
    /// Edges from children; those to them are the next ones.
    children: Vec<u32>,
    /// Slices sent to the parent, or at the root summed up.
    summed: u64,
}

/// `2 * gpus` trees; tree `t` belongs to rail `t / 2`.
#[derive(Clone, Debug)]
pub(in super::super) struct Tree {
    shape: Shape,
    slice_bytes: Option<u64>,
    edges: Vec<Edge>,
    arrived: Vec<Arrived>,
    /// Of tree `t`, rank `r`: at `t * ranks + r`.
    places: Vec<Place>,
    bytes: u64,
    slices: u64,
}

impl Tree {
    pub(super) fn new(shape: Shape, slice_bytes: Option<u64>) -> Tree {
        let trees = 2 * shape.gpus;
        let place = Place {
            up: NONE,
            children: Vec::new(),
            summed: 0,
        };
        let mut tree = Tree {
            shape,
            slice_bytes,
            edges: Vec::new(),
            arrived: Vec::new(),
            places: vec![place; (trees * shape.ranks) as usize],
            bytes: 0,
            slices: 1,
        };
        for number in 0..trees {
            for rank in 0..shape.ranks {
                tree.join(number, rank);
            }
        }
        tree.arrived.resize(tree.edges.len(), Arrived::default());
        tree
    }

    /// Adds the edges between a rank and its parent.
    fn join(&mut self, number: u32, rank: u32) {
        let Some((parent, network)) = parent(self.shape, number, rank) else {
            return;
        };
        let up = self.edges.len() as u32;
        for (from, to) in [(rank, parent), (parent, rank)] {
            self.edges.push(Edge { from, to, network });
        }
        self.places[(number * self.shape.ranks + rank) as usize].up = up;
        self.places[(number * self.shape.ranks + parent) as usize]
            .children
            .push(up);
    }

    pub(super) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    pub(super) fn begin(&mut self, bytes: u64, sends: &mut Vec<Transfer>) {
        self.bytes = bytes;
        let largest = bytes.div_ceil(u64::from(2 * self.shape.gpus));
        self.slices = self
            .slice_bytes
            .map_or(1, |slice| largest.div_ceil(slice.max(1)).max(1));
        for arrived in &mut self.arrived {
            arrived.clear();
        }
        for place in &mut self.places {
            place.summed = 0;
        }
        if bytes == 0 {
            return;
        }
        for place in 0..self.places.len() {
            if self.places[place].children.is_empty() {
                self.rise(place, sends);
            }
        }
    }

    pub(super) fn transfers(&self, _edge: u32) -> u64 {
        if self.bytes == 0 { 0 } else { self.slices }
    }

    pub(super) fn arrived(&mut self, edge: u32, sequence: u64, sends: &mut Vec<Transfer>) {
        let (Some(arrived), Some(at)) = (self.arrived.get_mut(edge as usize), self.edges.get(edge as usize))
        else {
            return;
        };
        let (before, after) = (arrived.prefix(), arrived.insert(sequence));
        let rank = at.to;
        let place = (self.tree_of(edge) * self.shape.ranks + rank) as usize;
        if edge.is_multiple_of(2) {
            self.rise(place, sends);
        } else {
            self.fall(place, before..after, sends);
        }
    }

    pub(super) fn edge_bytes(&self, edge: u32, bytes: u64) -> u64 {
        part(
            bytes,
            u64::from(2 * self.shape.gpus),
            u64::from(self.tree_of(edge)),
        )
    }

    /// Every tree has an edge pair for each rank but its root.
    fn tree_of(&self, edge: u32) -> u32 {
        edge / (2 * (self.shape.ranks - 1))
    }

    /// Sends up what all children have delivered, or turns it around at the root.
    fn rise(&mut self, place: usize, sends: &mut Vec<Transfer>) {
        let here = &self.places[place];
        let arrived = here
            .children
            .iter()
            .map(|child| self.arrived[*child as usize].prefix());
        let ready = arrived.min().unwrap_or(self.slices);
        let (new, up) = (here.summed..ready, here.up);
        self.places[place].summed = ready;
        if up == NONE {
            self.fall(place, new, sends);
        } else {
            sends.extend(new.map(|sequence| self.transfer(up, sequence)));
        }
    }

    /// Sends sums down to all children.
    fn fall(&self, place: usize, new: std::ops::Range<u64>, sends: &mut Vec<Transfer>) {
        for sequence in new {
            let children = self.places[place].children.iter();
            sends.extend(children.map(|child| self.transfer(child + 1, sequence)));
        }
    }

    fn transfer(&self, edge: u32, sequence: u64) -> Transfer {
        Transfer {
            edge,
            sequence,
            bytes: part(self.edge_bytes(edge, self.bytes), self.slices, sequence),
        }
    }
}

/// The parent of a rank in a tree, and whether the network lies between; `None` at the root.
fn parent(shape: Shape, number: u32, rank: u32) -> Option<(u32, bool)> {
    let (rail, node, gpu) = (number / 2, rank / shape.gpus, rank % shape.gpus);
    let along = (gpu + shape.gpus - rail) % shape.gpus;
    if along > 0 {
        let before = (rail + along - 1) % shape.gpus;
        return Some((node * shape.gpus + before, false));
    }
    let above = node_parent(shape.nodes(), number % 2, node)?;
    Some((above * shape.gpus + rail, true))
}

/// The parent of a node in the first (0) or second (1) tree over `nodes` nodes.
fn node_parent(nodes: u32, which: u32, node: u32) -> Option<u32> {
    match (which, nodes % 2) {
        (0, _) => bit_parent(nodes, node),
        (_, 0) => bit_parent(nodes, nodes - 1 - node).map(|parent| nodes - 1 - parent),
        _ => bit_parent(nodes, (node + nodes - 1) % nodes).map(|parent| (parent + 1) % nodes),
    }
}

/// In the tree with root 0, the parent of `..01 0..0` is `..10 0..0` if there is such a node, else `..00 0..0`; that of
/// `..11 0..0` is `..10 0..0`.
fn bit_parent(nodes: u32, node: u32) -> Option<u32> {
    let lowest = node & node.wrapping_neg();
    let without = node ^ lowest;
    let parent = without | lowest << 1;
    (node != 0).then_some(if parent < nodes { parent } else { without })
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
