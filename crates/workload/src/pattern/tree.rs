//! AllReduce over a double binary tree. The data is summed on the way up to the root and sent down again.
//!
//! Each of the two trees carries half of the data. A leaf of the first tree is an inner node of the second
//! tree, and vice versa. Every NIC therefore sends about as much as in a ring. The number of steps grows with
//! the logarithm of the number of nodes (Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth
//! broadcast, reduction and scan", 2009).
//!
//! The trees are those of NCCL. The first tree is a binary tree over the bits of the node number. If the
//! number of nodes is even, the second tree is the mirror image of the first tree. If the number of nodes is
//! odd, the second tree is the first tree, shifted by one node.
//!
//! If a node has several GPUs, each rail (GPUs with the same position in their nodes) has its own pair of
//! trees. The GPUs of a node form a chain that begins at the GPU of the rail.

use super::arrived::ArrivedSequences;
use super::{Edge, RankLayout, Transfer};
use crate::split::part_len;

/// The parent edge of the root.
const NO_PARENT: u32 = u32::MAX;

/// One rank in one tree.
#[derive(Clone, Debug)]
struct TreeNode {
    /// Index of the edge to the parent. The edge from the parent has the next index.
    parent_edge: u32,
    /// Indices of the edges from the children. The edge to a child has the next index.
    children: Vec<u32>,
    /// Number of slices that the node has sent to its parent. The root has no parent, so its value is the
    /// number of completely summed slices.
    summed: u64,
}

/// The state of `2 * gpus` trees. Tree `t` belongs to rail `t / 2`.
#[derive(Clone, Debug)]
pub(in super::super) struct TreePattern {
    shape: RankLayout,
    slice_bytes: Option<u64>,
    edges: Vec<Edge>,
    arrived: Vec<ArrivedSequences>,
    /// Rank `r` in tree `t` has the index `t * ranks + r`.
    nodes: Vec<TreeNode>,
    bytes: u64,
    slices: u64,
}

impl TreePattern {
    pub(super) fn new(shape: RankLayout, slice_bytes: Option<u64>) -> TreePattern {
        let trees = 2 * shape.gpus;
        let node = TreeNode {
            parent_edge: NO_PARENT,
            children: Vec::new(),
            summed: 0,
        };
        let mut tree = TreePattern {
            shape,
            slice_bytes,
            edges: Vec::new(),
            arrived: Vec::new(),
            nodes: vec![node; (trees * shape.ranks) as usize],
            bytes: 0,
            slices: 1,
        };
        for number in 0..trees {
            for rank in 0..shape.ranks {
                tree.add_edges_to_parent(number, rank);
            }
        }
        tree.arrived.resize(tree.edges.len(), ArrivedSequences::default());
        tree
    }

    /// Adds the edges between a rank and its parent.
    fn add_edges_to_parent(&mut self, number: u32, rank: u32) {
        let Some((parent, network)) = rank_parent(self.shape, number, rank) else {
            return;
        };
        let up = self.edges.len() as u32;
        for (from, to) in [(rank, parent), (parent, rank)] {
            self.edges.push(Edge { from, to, network });
        }
        self.nodes[(number * self.shape.ranks + rank) as usize].parent_edge = up;
        self.nodes[(number * self.shape.ranks + parent) as usize]
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
        for node in &mut self.nodes {
            node.summed = 0;
        }
        if bytes == 0 {
            return;
        }
        for node in 0..self.nodes.len() {
            if self.nodes[node].children.is_empty() {
                self.send_to_parent(node, sends);
            }
        }
    }

    pub(super) fn transfer_count(&self, _edge: u32) -> u64 {
        if self.bytes == 0 { 0 } else { self.slices }
    }

    pub(super) fn handle_arrival(&mut self, edge: u32, sequence: u64, sends: &mut Vec<Transfer>) {
        let (Some(arrived), Some(at)) = (self.arrived.get_mut(edge as usize), self.edges.get(edge as usize))
        else {
            return;
        };
        let (before, after) = (arrived.contiguous_count(), arrived.insert(sequence));
        let rank = at.to;
        let node = (self.tree_of(edge) * self.shape.ranks + rank) as usize;
        if edge.is_multiple_of(2) {
            self.send_to_parent(node, sends);
        } else {
            self.send_to_children(node, before..after, sends);
        }
    }

    pub(super) fn bytes_on_edge(&self, edge: u32, bytes: u64) -> u64 {
        part_len(
            bytes,
            u64::from(2 * self.shape.gpus),
            u64::from(self.tree_of(edge)),
        )
    }

    /// Returns the tree of an edge. In every tree, each rank except the root has two edges: to its parent and
    /// from its parent.
    fn tree_of(&self, edge: u32) -> u32 {
        edge / (2 * (self.shape.ranks - 1))
    }

    /// If all children of a node have delivered a slice, the node sends this slice to its parent. The root
    /// has no parent and sends the slice to its children instead.
    fn send_to_parent(&mut self, node: usize, sends: &mut Vec<Transfer>) {
        let here = &self.nodes[node];
        let arrived = here
            .children
            .iter()
            .map(|child| self.arrived[*child as usize].contiguous_count());
        let ready = arrived.min().unwrap_or(self.slices);
        let (new, up) = (here.summed..ready, here.parent_edge);
        self.nodes[node].summed = ready;
        if up == NO_PARENT {
            self.send_to_children(node, new, sends);
        } else {
            sends.extend(new.map(|sequence| self.transfer(up, sequence)));
        }
    }

    /// Sends summed slices to all children.
    fn send_to_children(&self, node: usize, new: std::ops::Range<u64>, sends: &mut Vec<Transfer>) {
        for sequence in new {
            let children = self.nodes[node].children.iter();
            sends.extend(children.map(|child| self.transfer(child + 1, sequence)));
        }
    }

    fn transfer(&self, edge: u32, sequence: u64) -> Transfer {
        Transfer {
            edge,
            sequence,
            bytes: part_len(self.bytes_on_edge(edge, self.bytes), self.slices, sequence),
        }
    }
}

/// Returns the parent of a rank in a tree, and whether the edge to the parent uses the network. Returns
/// `None` for the root.
fn rank_parent(shape: RankLayout, number: u32, rank: u32) -> Option<(u32, bool)> {
    let (rail, node, gpu) = (number / 2, rank / shape.gpus, rank % shape.gpus);
    let along = (gpu + shape.gpus - rail) % shape.gpus;
    if along > 0 {
        let before = (rail + along - 1) % shape.gpus;
        return Some((node * shape.gpus + before, false));
    }
    let above = node_parent(shape.nodes(), number % 2, node)?;
    Some((above * shape.gpus + rail, true))
}

/// Returns the parent of a node in the first tree (`which` is 0) or in the second tree (`which` is 1).
/// Returns `None` for the root.
fn node_parent(nodes: u32, which: u32, node: u32) -> Option<u32> {
    match (which, nodes % 2) {
        (0, _) => parent_in_binary_tree(nodes, node),
        (_, 0) => parent_in_binary_tree(nodes, nodes - 1 - node).map(|parent| nodes - 1 - parent),
        _ => parent_in_binary_tree(nodes, (node + nodes - 1) % nodes).map(|parent| (parent + 1) % nodes),
    }
}

/// Returns the parent of a node in the binary tree with root 0, or `None` for the root. Example with 6 nodes:
/// the parent of nodes 1 and 3 is node 2, and the parent of node 2 is node 4. The parent of node 5 would be
/// node 6. Node 6 does not exist, so the parent of node 5 is node 4.
///
/// The rule: let `b` be the lowest set bit of the node number. To get the parent, clear `b` and set the next
/// higher bit. If no node has the resulting number, only clear `b`.
fn parent_in_binary_tree(nodes: u32, node: u32) -> Option<u32> {
    let lowest = node & node.wrapping_neg();
    let without = node ^ lowest;
    let parent = without | lowest << 1;
    (node != 0).then_some(if parent < nodes { parent } else { without })
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
