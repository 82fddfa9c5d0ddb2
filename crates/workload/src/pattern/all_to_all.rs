//! AllToAll: every rank sends a different part to every rank.

use super::{Edge, RankLayout, Transfer};
use crate::split::part_len;

/// AllToAll in which every rank sends to all other ranks at once. Rank `r` begins with rank `r + 1`, so the
/// ranks begin with different receivers.
#[derive(Clone, Debug)]
pub(in super::super) struct DirectAllToAll {
    shape: RankLayout,
    /// Edges of all ranks. The edge of rank `r` at distance `d` has the index `r * (ranks - 1) + d - 1`.
    edges: Vec<Edge>,
    bytes: u64,
}

impl DirectAllToAll {
    pub(super) fn new(shape: RankLayout) -> DirectAllToAll {
        let RankLayout { ranks, gpus } = shape;
        let edge = |from: u32, distance: u32| {
            let to = (from + distance) % ranks;
            let network = from / gpus != to / gpus;
            Edge { from, to, network }
        };
        let edges = (0..ranks).flat_map(|from| (1..ranks).map(move |distance| edge(from, distance)));
        DirectAllToAll {
            shape,
            edges: edges.collect(),
            bytes: 0,
        }
    }

    pub(super) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    pub(super) fn begin(&mut self, bytes: u64, sends: &mut Vec<Transfer>) {
        self.bytes = bytes;
        if bytes == 0 {
            return;
        }
        sends.extend((0..self.edges.len() as u32).map(|edge| Transfer {
            edge,
            sequence: 0,
            bytes: self.bytes_on_edge(edge, bytes),
        }));
    }

    pub(super) fn transfer_count(&self, _edge: u32) -> u64 {
        u64::from(self.bytes > 0)
    }

    pub(super) fn handle_arrival(&mut self, _edge: u32, _sequence: u64, _sends: &mut Vec<Transfer>) {}

    pub(super) fn bytes_on_edge(&self, edge: u32, bytes: u64) -> u64 {
        let to = self.edges[edge as usize].to;
        part_len(bytes, u64::from(self.shape.ranks), u64::from(to))
    }
}

/// Rail-aligned AllToAll (PXN of NCCL 2.12). A rail is the set of GPUs with the same position in their nodes.
/// Data first moves inside the node to the GPU on the rail of the destination. This GPU sends one message to
/// the GPU of the same rail in every other node.
///
/// Each rank has two kinds of edges, both sorted by distance:
///
/// - `gpus - 1` edges, one to each other GPU in the node of the sending GPU. Each edge carries one transfer
///   for every node. The last transfer is for the node of the sending GPU.
/// - `nodes - 1` edges, one to the GPU of the same rail in each other node.
#[derive(Clone, Debug)]
pub(in super::super) struct RailAlignedAllToAll {
    shape: RankLayout,
    edges: Vec<Edge>,
    /// Number of GPUs that have not yet delivered their part of a message. The index `r * nodes + d` is the
    /// message of rank `r` to the node at distance `d`.
    missing: Vec<u32>,
    bytes: u64,
}

impl RailAlignedAllToAll {
    pub(super) fn new(shape: RankLayout) -> RailAlignedAllToAll {
        let RankLayout { ranks, gpus } = shape;
        let nodes = shape.nodes();
        let mut edges = Vec::new();
        for from in 0..ranks {
            let (node, gpu) = (from / gpus, from % gpus);
            edges.extend((1..gpus).map(|distance| Edge {
                from,
                to: node * gpus + (gpu + distance) % gpus,
                network: false,
            }));
            edges.extend((1..nodes).map(|distance| Edge {
                from,
                to: (node + distance) % nodes * gpus + gpu,
                network: true,
            }));
        }
        RailAlignedAllToAll {
            shape,
            edges,
            missing: vec![0; (ranks * nodes) as usize],
            bytes: 0,
        }
    }

    pub(super) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    pub(super) fn begin(&mut self, bytes: u64, sends: &mut Vec<Transfer>) {
        self.bytes = bytes;
        let RankLayout { ranks, gpus } = self.shape;
        self.missing.fill(gpus - 1);
        if bytes == 0 {
            return;
        }
        for rank in 0..ranks {
            let first = rank * self.edges_per_rank();
            for sequence in 0..self.nodes() {
                sends.extend((first..first + gpus - 1).map(|edge| self.local_transfer(edge, sequence)));
            }
            if gpus == 1 {
                sends.extend((1..self.nodes()).map(|distance| self.remote_transfer(rank, distance)));
            }
        }
    }

    pub(super) fn transfer_count(&self, edge: u32) -> u64 {
        match self.bytes {
            0 => 0,
            _ if self.edges[edge as usize].network => 1,
            _ => u64::from(self.nodes()),
        }
    }

    /// Handles a part that has arrived at a GPU. If all GPUs of the node have delivered their parts of a
    /// message, the message can be sent to its destination node.
    pub(super) fn handle_arrival(&mut self, edge: u32, sequence: u64, sends: &mut Vec<Transfer>) {
        let Some(&Edge { to, network, .. }) = self.edges.get(edge as usize) else {
            return;
        };
        let distance = (sequence as u32 + 1) % self.nodes();
        if network || distance == 0 {
            return;
        }
        let missing = &mut self.missing[(to * self.shape.nodes() + distance) as usize];
        *missing = missing.saturating_sub(1);
        if *missing == 0 {
            sends.push(self.remote_transfer(to, distance));
        }
    }

    pub(super) fn bytes_on_edge(&self, edge: u32, bytes: u64) -> u64 {
        let Edge { to, network, .. } = self.edges[edge as usize];
        let RankLayout { ranks, gpus } = self.shape;
        if network {
            return u64::from(gpus) * part_len(bytes, u64::from(ranks), u64::from(to));
        }
        let rail = (0..self.nodes()).map(|node| node * gpus + to % gpus);
        rail.map(|rank| part_len(bytes, u64::from(ranks), u64::from(rank)))
            .sum()
    }

    fn nodes(&self) -> u32 {
        self.shape.nodes()
    }

    fn edges_per_rank(&self) -> u32 {
        self.shape.gpus - 1 + self.nodes() - 1
    }

    /// Returns a transfer between two GPUs of the same node. The transfer carries the part for the node at
    /// distance `sequence + 1`.
    fn local_transfer(&self, edge: u32, sequence: u32) -> Transfer {
        let RankLayout { ranks, gpus } = self.shape;
        let to = self.edges[edge as usize].to;
        let node = (to / gpus + sequence + 1) % self.nodes();
        Transfer {
            edge,
            sequence: u64::from(sequence),
            bytes: part_len(self.bytes, u64::from(ranks), u64::from(node * gpus + to % gpus)),
        }
    }

    /// Returns the transfer from a NIC to the node at a distance. The transfer carries the data of all GPUs
    /// of the sending node.
    fn remote_transfer(&self, rank: u32, distance: u32) -> Transfer {
        let edge = rank * self.edges_per_rank() + self.shape.gpus - 1 + distance - 1;
        Transfer {
            edge,
            sequence: 0,
            bytes: self.bytes_on_edge(edge, self.bytes),
        }
    }
}

#[cfg(test)]
#[path = "all_to_all_tests.rs"]
mod tests;
