//! Ring algorithms for AllReduce, AllGather and ReduceScatter.
//!
//! If a node has several GPUs, the number of rings is the number of GPUs per node. Each ring carries an equal
//! part of every chunk. Ring `c` enters a node at GPU `c`, visits all GPUs of the node, and leaves through
//! the NIC of GPU `c`. A ring therefore stays on one rail, which is the set of NICs with the same position in
//! their nodes (`NCCL_CROSS_NIC=0`). Each NIC sends to one peer and receives from one peer.

use super::arrived::ArrivedSequences;
use super::{Edge, RankLayout, Transfer};
use crate::split::part_len;

/// The collective operation of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingKind {
    AllReduce,
    AllGather,
    ReduceScatter,
}

/// The state of the rings. The edge from position `p` of ring `c` to the next position has the index `c *
/// ranks + p`.
#[derive(Clone, Debug)]
pub(in super::super) struct RingPattern {
    kind: RingKind,
    shape: RankLayout,
    slice_bytes: Option<u64>,
    edges: Vec<Edge>,
    arrived: Vec<ArrivedSequences>,
    /// Size of the current iteration in bytes.
    bytes: u64,
    /// Number of slices of each chunk in the current iteration.
    slices: u64,
}

impl RingPattern {
    pub(super) fn new(kind: RingKind, shape: RankLayout, slice_bytes: Option<u64>) -> RingPattern {
        let mut ring = RingPattern {
            kind,
            shape,
            slice_bytes,
            edges: Vec::new(),
            arrived: Vec::new(),
            bytes: 0,
            slices: 1,
        };
        for rail in 0..shape.gpus {
            for position in 0..shape.ranks {
                ring.edges.push(ring.edge_from_position(rail, position));
            }
        }
        ring.arrived.resize(ring.edges.len(), ArrivedSequences::default());
        ring
    }

    pub(super) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    pub(super) fn begin(&mut self, bytes: u64, sends: &mut Vec<Transfer>) {
        self.bytes = bytes;
        self.slices = self.slice_count(bytes);
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

    pub(super) fn transfer_count(&self, _edge: u32) -> u64 {
        if self.bytes == 0 {
            0
        } else {
            self.step_count() * self.slices
        }
    }

    /// Handles a slice that has arrived. When a slice of step `k` has arrived, the same slice of step `k + 1`
    /// can be sent. Slices are sent in order.
    pub(super) fn handle_arrival(&mut self, edge: u32, sequence: u64, sends: &mut Vec<Transfer>) {
        let Some(arrived) = self.arrived.get_mut(edge as usize) else {
            return;
        };
        let (before, after) = (arrived.contiguous_count(), arrived.insert(sequence));
        let ranks = self.shape.ranks;
        let next = edge - edge % ranks + (edge % ranks + 1) % ranks;
        let end = self.transfer_count(next);
        let ready = before + self.slices..(after + self.slices).min(end);
        sends.extend(ready.map(|sequence| self.transfer(next, sequence)));
    }

    pub(super) fn bytes_on_edge(&self, edge: u32, bytes: u64) -> u64 {
        let ranks = u64::from(self.shape.ranks);
        // In as many steps as there are ranks, an edge carries its part of each chunk once.
        let part = |chunk| u128::from(self.part_of_chunk(edge, chunk));
        let longer = bytes % ranks;
        let of_all_chunks = part(bytes.div_ceil(ranks)) * u128::from(longer)
            + part(bytes / ranks) * u128::from(ranks - longer);
        let rounds = self.step_count().div_ceil(ranks);
        let missing = (self.step_count()..rounds * ranks).map(|step| self.chunk_bytes(edge, step, bytes));
        let missing: u128 = missing.map(u128::from).sum();
        u64::try_from(of_all_chunks * u128::from(rounds) - missing).unwrap_or(u64::MAX)
    }

    /// Returns the step of a transfer.
    pub(in super::super) fn step_of(&self, sequence: u64) -> u64 {
        sequence / self.slices
    }

    /// Returns the number of steps that an edge has completed: all slices of these steps have arrived.
    pub(in super::super) fn completed_steps(&self, edge: u32) -> u64 {
        let arrived = self.arrived.get(edge as usize);
        arrived.map_or(0, |arrived| arrived.contiguous_count() / self.slices)
    }

    /// Returns the number of steps by which the running step can become a later one. No edge then has more transfers
    /// than [`RingPattern::transfer_count`].
    pub(in super::super) fn steps_left(&self) -> u64 {
        let posted = (0..self.edges.len() as u32).map(|edge| self.posted_count(edge));
        let left = self.transfer_count(0) - posted.max().unwrap_or(0).min(self.transfer_count(0));
        left / self.slices
    }

    /// Skips steps: all transfers that have not arrived belong to a later step from now on. Returns the number of
    /// skipped transfers of each edge, and the changes of the posted and the arrived bytes of each edge.
    pub(in super::super) fn skip_steps(&mut self, steps: u64) -> (u64, Vec<[u64; 2]>) {
        let transfers = steps * self.slices;
        let changes = (0..self.edges.len() as u32).map(|edge| {
            let posted = self.posted_count(edge);
            let arrived = &self.arrived[edge as usize];
            let contiguous = arrived.contiguous_count();
            let beyond = arrived.beyond_gap().iter().map(|number| {
                let [before, after] = [*number, number + transfers].map(|n| self.transfer(edge, n).bytes);
                i128::from(after) - i128::from(before)
            });
            let arrived = self.bytes_of_range(edge, contiguous, contiguous + transfers);
            let arrived = i128::from(arrived) + beyond.sum::<i128>();
            [
                self.bytes_of_range(edge, posted, posted + transfers),
                u64::try_from(arrived).unwrap_or(0),
            ]
        });
        let changes = changes.collect();
        self.arrived
            .iter_mut()
            .for_each(|arrived| arrived.skip(transfers));
        (transfers, changes)
    }

    /// Returns the number of transfers of an edge that could be sent until now.
    fn posted_count(&self, edge: u32) -> u64 {
        let ranks = self.shape.ranks;
        let previous = edge - edge % ranks + (edge % ranks + ranks - 1) % ranks;
        let arrived = self.arrived[previous as usize].contiguous_count();
        (arrived + self.slices).min(self.transfer_count(edge))
    }

    /// Returns the bytes of the transfers `from..to` of an edge.
    fn bytes_of_range(&self, edge: u32, from: u64, to: u64) -> u64 {
        let parts = u64::from(self.shape.ranks) * u64::from(self.shape.gpus) * self.slices;
        if self.bytes.is_multiple_of(parts) {
            return (to - from) * (self.bytes / parts);
        }
        (from..to)
            .map(|sequence| self.transfer(edge, sequence).bytes)
            .sum()
    }

    /// Returns the number of steps of an iteration.
    pub(in super::super) fn step_count(&self) -> u64 {
        let around = u64::from(self.shape.ranks) - 1;
        if self.kind == RingKind::AllReduce {
            2 * around
        } else {
            around
        }
    }

    /// Returns the number of slices of each chunk: the largest chunk divided by the slice size, rounded up.
    /// All chunks have the same number of slices, so the slices of an edge have consecutive numbers.
    fn slice_count(&self, bytes: u64) -> u64 {
        let chunk = bytes
            .div_ceil(u64::from(self.shape.ranks))
            .div_ceil(u64::from(self.shape.gpus));
        self.slice_bytes
            .map_or(1, |slice| chunk.div_ceil(slice.max(1)).max(1))
    }

    /// Returns the rank at a position of a ring. The positions are numbered node by node. In each node, the
    /// first position is the GPU of the rail.
    fn rank_at_position(&self, rail: u32, position: u32) -> u32 {
        let gpus = self.shape.gpus;
        position - position % gpus + (rail + position % gpus) % gpus
    }

    fn edge_from_position(&self, rail: u32, position: u32) -> Edge {
        let RankLayout { ranks, gpus } = self.shape;
        let to = self.rank_at_position(rail, (position + 1) % ranks);
        let network = (position + 1).is_multiple_of(gpus);
        // The last GPU of a node sends through the NIC of the rail and not through its own NIC.
        let from = if network {
            position + 1 - gpus + rail
        } else {
            self.rank_at_position(rail, position)
        };
        Edge { from, to, network }
    }

    /// Returns the owner (rank) of the chunk that an edge carries in a step. ReduceScatter begins one chunk
    /// earlier than AllReduce, so that each rank receives its own chunk last.
    pub(super) fn chunk_owner(&self, edge: u32, step: u64) -> u32 {
        let ranks = u64::from(self.shape.ranks);
        let (rail, position) = (edge / self.shape.ranks, u64::from(edge % self.shape.ranks));
        let behind = step + u64::from(self.kind == RingKind::ReduceScatter);
        self.rank_at_position(rail, ((position + 2 * ranks - behind) % ranks) as u32)
    }

    /// Returns the number of bytes that an edge carries in a step. This is the part of the chunk that belongs
    /// to the ring of the edge.
    fn chunk_bytes(&self, edge: u32, step: u64, bytes: u64) -> u64 {
        let chunk = part_len(
            bytes,
            u64::from(self.shape.ranks),
            u64::from(self.chunk_owner(edge, step)),
        );
        self.part_of_chunk(edge, chunk)
    }

    /// Returns the number of bytes that an edge carries of a chunk of `chunk` bytes.
    fn part_of_chunk(&self, edge: u32, chunk: u64) -> u64 {
        part_len(
            chunk,
            u64::from(self.shape.gpus),
            u64::from(edge / self.shape.ranks),
        )
    }

    /// Returns a transfer of an edge.
    pub(in super::super) fn transfer(&self, edge: u32, sequence: u64) -> Transfer {
        let chunk = self.chunk_bytes(edge, sequence / self.slices, self.bytes);
        Transfer {
            edge,
            sequence,
            bytes: part_len(chunk, self.slices, sequence % self.slices),
        }
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
