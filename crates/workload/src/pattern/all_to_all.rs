//! AllToAll: every rank sends another part to every rank.

use super::{Edge, Shape, Transfer};
use crate::split::part;

/// Every rank to every other at once, beginning with the next rank, so that not all begin with the same one.
#[derive(Clone, Debug)]
pub(in super::super) struct Direct {
    shape: Shape,
    /// Of rank `r` at distance `d`: at `r * (ranks - 1) + d - 1`.
    edges: Vec<Edge>,
    bytes: u64,
}

impl Direct {
    pub(super) fn new(shape: Shape) -> Direct {
        let Shape { ranks, gpus } = shape;
        let edge = |from: u32, distance: u32| {
            let to = (from + distance) % ranks;
            let network = from / gpus != to / gpus;
            Edge { from, to, network }
        };
        let edges = (0..ranks).flat_map(|from| (1..ranks).map(move |distance| edge(from, distance)));
        Direct {
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
            bytes: self.edge_bytes(edge, bytes),
        }));
    }

    pub(super) fn transfers(&self, _edge: u32) -> u64 {
        u64::from(self.bytes > 0)
    }

    pub(super) fn arrived(&mut self, _edge: u32, _sequence: u64, _sends: &mut Vec<Transfer>) {}

    pub(super) fn edge_bytes(&self, edge: u32, bytes: u64) -> u64 {
        let to = self.edges[edge as usize].to;
        part(bytes, u64::from(self.shape.ranks), u64::from(to))
    }
}

/// Inside the node first, to the GPU of the destination's rail; one message from there to each other node's GPU of
/// the rail (NCCL 2.12's PXN).
///
/// Edges: of rank `r`, first those to the other GPUs of its node (`gpus - 1`), by distance; each carries one transfer
/// for every node, its own last. Then those to its rail in other nodes (`nodes - 1`), by distance.
#[derive(Clone, Debug)]
pub(in super::super) struct RailAligned {
    shape: Shape,
    edges: Vec<Edge>,
    /// What still misses from GPUs of the node, of rank `r` for the node at distance `d`: at `r * nodes + d`.
    missing: Vec<u32>,
    bytes: u64,
}

impl RailAligned {
    pub(super) fn new(shape: Shape) -> RailAligned {
        let Shape { ranks, gpus } = shape;
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
        RailAligned {
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
        let Shape { ranks, gpus } = self.shape;
        self.missing.fill(gpus - 1);
        if bytes == 0 {
            return;
        }
        for rank in 0..ranks {
            let first = rank * self.edges_per_rank();
            for sequence in 0..self.nodes() {
                sends.extend((first..first + gpus - 1).map(|edge| self.local(edge, sequence)));
            }
            if gpus == 1 {
                sends.extend((1..self.nodes()).map(|distance| self.remote(rank, distance)));
            }
        }
    }

    pub(super) fn transfers(&self, edge: u32) -> u64 {
        match self.bytes {
            0 => 0,
            _ if self.edges[edge as usize].network => 1,
            _ => u64::from(self.nodes()),
        }
    }

    /// When the last GPU of the node has delivered its part for a node, the message to that node goes.
    pub(super) fn arrived(&mut self, edge: u32, sequence: u64, sends: &mut Vec<Transfer>) {
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
            sends.push(self.remote(to, distance));
        }
    }

    pub(super) fn edge_bytes(&self, edge: u32, bytes: u64) -> u64 {
        let Edge { to, network, .. } = self.edges[edge as usize];
        let Shape { ranks, gpus } = self.shape;
        if network {
            return u64::from(gpus) * part(bytes, u64::from(ranks), u64::from(to));
        }
        let rail = (0..self.nodes()).map(|node| node * gpus + to % gpus);
        rail.map(|rank| part(bytes, u64::from(ranks), u64::from(rank)))
            .sum()
    }

    fn nodes(&self) -> u32 {
        self.shape.nodes()
    }

    fn edges_per_rank(&self) -> u32 {
        self.shape.gpus - 1 + self.nodes() - 1
    }

    /// What a GPU hands to another of its node: the part for the node at distance `sequence + 1`.
    fn local(&self, edge: u32, sequence: u32) -> Transfer {
        let Shape { ranks, gpus } = self.shape;
        let to = self.edges[edge as usize].to;
        let node = (to / gpus + sequence + 1) % self.nodes();
        Transfer {
            edge,
            sequence: u64::from(sequence),
            bytes: part(self.bytes, u64::from(ranks), u64::from(node * gpus + to % gpus)),
        }
    }

    /// What a NIC sends to the node at a distance, for all GPUs of its own node.
    fn remote(&self, rank: u32, distance: u32) -> Transfer {
        let edge = rank * self.edges_per_rank() + self.shape.gpus - 1 + distance - 1;
        Transfer {
            edge,
            sequence: 0,
            bytes: self.edge_bytes(edge, self.bytes),
        }
    }
}

#[cfg(test)]
#[path = "all_to_all_tests.rs"]
mod tests;
