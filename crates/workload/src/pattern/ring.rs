//! Rings: AllReduce, AllGather, ReduceScatter.
//!
//! With several GPUs per node there is a ring per rail, which carries an equal part of every chunk. Ring `c` enters a
//! node at GPU `c`, passes all its GPUs, and leaves by the NIC of GPU `c`: no ring changes rails (NCCL's
//! `NCCL_CROSS_NIC=0`), so each NIC has one peer to send to and one to receive from.

use super::arrived::Arrived;
use super::{Edge, Shape, Transfer};
use crate::split::part;

/// Which operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingKind {
    AllReduce,
    AllGather,
    ReduceScatter,
}

/// Place on ring `c` `p` has edge `c * ranks + p`, to the place after it.
#[derive(Clone, Debug)]
pub(in super::super) struct Ring {
    kind: RingKind,
    shape: Shape,
    slice_bytes: Option<u64>,
    edges: Vec<Edge>,
    arrived: Vec<Arrived>,
    /// Size of this iteration.
    bytes: u64,
    /// Slices of each chunk in this iteration.
    slices: u64,
}

impl Ring {
    pub(super) fn new(kind: RingKind, shape: Shape, slice_bytes: Option<u64>) -> Ring {
        let mut ring = Ring {
            kind,
            shape,
            slice_bytes,
            edges: Vec::new(),
            arrived: Vec::new(),
            bytes: 0,
            slices: 1,
        };
        for rail in 0..shape.gpus {
            for place in 0..shape.ranks {
                ring.edges.push(ring.edge(rail, place));
            }
        }
        ring.arrived.resize(ring.edges.len(), Arrived::default());
        ring
    }

    pub(super) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    pub(super) fn begin(&mut self, bytes: u64, sends: &mut Vec<Transfer>) {
        self.bytes = bytes;
        self.slices = self.slices_of(bytes);
        for arrived in &mut self.arrived {
            arrived.clear();
        }
        if bytes == 0 {
            return;
        }
        for edge in 0..self.edges.len() as u32 {
            sends.extend((0..self.slices).map(|sequence| self.transfer(edge, sequence)));
        }
    }

    pub(super) fn transfers(&self, _edge: u32) -> u64 {
        if self.bytes == 0 {
            0
        } else {
            self.steps() * self.slices
        }
    }

    /// A slice of step `k` lets the same slice of step `k + 1` go, in order.
    pub(super) fn arrived(&mut self, edge: u32, sequence: u64, sends: &mut Vec<Transfer>) {
        let Some(arrived) = self.arrived.get_mut(edge as usize) else {
            return;
        };
        let (before, after) = (arrived.prefix(), arrived.insert(sequence));
        let ranks = self.shape.ranks;
        let next = edge - edge % ranks + (edge % ranks + 1) % ranks;
        let end = self.transfers(next);
        let ready = before + self.slices..(after + self.slices).min(end);
        sends.extend(ready.map(|sequence| self.transfer(next, sequence)));
    }

    pub(super) fn edge_bytes(&self, edge: u32, bytes: u64) -> u64 {
        let steps = (0..self.steps()).map(|step| self.chunk_bytes(edge, step, bytes));
        steps.fold(0, u64::saturating_add)
    }

    fn steps(&self) -> u64 {
        let around = u64::from(self.shape.ranks) - 1;
        if self.kind == RingKind::AllReduce {
            2 * around
        } else {
            around
        }
    }

    /// Largest chunk over the slice size, rounded up: the same for all chunks, so that slices are numbered evenly.
    fn slices_of(&self, bytes: u64) -> u64 {
        let chunk = bytes
            .div_ceil(u64::from(self.shape.ranks))
            .div_ceil(u64::from(self.shape.gpus));
        self.slice_bytes
            .map_or(1, |slice| chunk.div_ceil(slice.max(1)).max(1))
    }

    /// The rank at a place of a ring: node by node, from the GPU of the rail on.
    fn rank(&self, rail: u32, place: u32) -> u32 {
        let gpus = self.shape.gpus;
        place - place % gpus + (rail + place % gpus) % gpus
    }

    fn edge(&self, rail: u32, place: u32) -> Edge {
        let Shape { ranks, gpus } = self.shape;
        let to = self.rank(rail, (place + 1) % ranks);
        let network = (place + 1).is_multiple_of(gpus);
        // The last GPU of a node sends by the rail's NIC, not by its own.
        let from = if network {
            place + 1 - gpus + rail
        } else {
            self.rank(rail, place)
        };
        Edge { from, to, network }
    }

    /// Which rank's chunk an edge carries at a step. ReduceScatter begins one chunk earlier, so that the last chunk to
    /// reach a rank is its own.
    pub(super) fn chunk(&self, edge: u32, step: u64) -> u32 {
        let ranks = u64::from(self.shape.ranks);
        let (rail, place) = (edge / self.shape.ranks, u64::from(edge % self.shape.ranks));
        let behind = step + u64::from(self.kind == RingKind::ReduceScatter);
        self.rank(rail, ((place + 2 * ranks - behind) % ranks) as u32)
    }

    /// What of that chunk goes around this edge's ring.
    fn chunk_bytes(&self, edge: u32, step: u64, bytes: u64) -> u64 {
        let chunk = part(
            bytes,
            u64::from(self.shape.ranks),
            u64::from(self.chunk(edge, step)),
        );
        part(
            chunk,
            u64::from(self.shape.gpus),
            u64::from(edge / self.shape.ranks),
        )
    }

    fn transfer(&self, edge: u32, sequence: u64) -> Transfer {
        let chunk = self.chunk_bytes(edge, sequence / self.slices, self.bytes);
        Transfer {
            edge,
            sequence,
            bytes: part(chunk, self.slices, sequence % self.slices),
        }
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
