//! Who sends what to whom in one iteration, and what waits for what.
//!
//! A pattern is a set of directed edges between ranks. Each edge carries a row of transfers, numbered from 0. A pattern
//! is told which transfer has arrived and answers with those that may be sent now. It holds counters per edge, never a
//! list of transfers.

mod all_to_all;
mod arrived;
mod pairs;
mod ring;
mod tree;

use all_to_all::{Direct, RailAligned};
pub(super) use pairs::Pairs;
use ring::{Ring, RingKind};
use tree::Tree;

use super::spec::{Algorithm, Collective};

/// Hosts of ranks, and how they share nodes. Rank `r` is GPU `r % gpus` of node `r / gpus`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Number of ranks, at least 1.
    pub(super) ranks: u32,
    /// GPUs of a node, a divisor of `ranks`.
    pub(super) gpus: u32,
}

impl Shape {
    fn nodes(self) -> u32 {
        self.ranks / self.gpus
    }
}

/// One direction between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    /// Rank whose NIC (or GPU) sends.
    pub(super) from: u32,
    /// Rank whose NIC (or GPU) receives.
    pub(super) to: u32,
    /// Whether it goes over the network; otherwise it stays in the node.
    pub(super) network: bool,
}

/// Data on an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    /// Index of the edge.
    pub(super) edge: u32,
    /// Number on the edge.
    pub(super) sequence: u64,
    /// How much.
    pub(super) bytes: u64,
}

/// A pattern of one iteration.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    Ring(Ring),
    Tree(Tree),
    Direct(Direct),
    RailAligned(RailAligned),
    Pairs(Pairs),
}

/// One call to whatever the pattern is.
macro_rules! each {
    ($pattern:expr, $inner:ident => $call:expr) => {
        match $pattern {
            Pattern::Ring($inner) => $call,
            Pattern::Tree($inner) => $call,
            Pattern::Direct($inner) => $call,
            Pattern::RailAligned($inner) => $call,
            Pattern::Pairs($inner) => $call,
        }
    };
}

impl Pattern {
    /// Of a collective whose ranks have been checked.
    pub(super) fn collective(spec: &Collective) -> Pattern {
        let shape = Shape {
            ranks: spec.ranks.len() as u32,
            gpus: spec.gpus_per_node,
        };
        let ring = |kind| Pattern::Ring(Ring::new(kind, shape, spec.slice_bytes));
        match spec.algorithm {
            Algorithm::RingAllReduce => ring(RingKind::AllReduce),
            Algorithm::RingAllGather => ring(RingKind::AllGather),
            Algorithm::RingReduceScatter => ring(RingKind::ReduceScatter),
            Algorithm::TreeAllReduce => Pattern::Tree(Tree::new(shape, spec.slice_bytes)),
            Algorithm::AllToAll { rail_aligned: false } => Pattern::Direct(Direct::new(shape)),
            Algorithm::AllToAll { rail_aligned: true } => Pattern::RailAligned(RailAligned::new(shape)),
        }
    }

    /// All edges.
    pub(super) fn edges(&self) -> &[Edge] {
        each!(self, inner => inner.edges())
    }

    /// Makes ready for an iteration of this size and sends what waits for nothing.
    pub(super) fn begin(&mut self, bytes: u64, sends: &mut Vec<Transfer>) {
        each!(self, inner => inner.begin(bytes, sends));
    }

    /// How many transfers an edge carries in the iteration begun.
    pub(super) fn transfers(&self, edge: u32) -> u64 {
        each!(self, inner => inner.transfers(edge))
    }

    /// A transfer is there, whole. The order of arrival on an edge is free.
    pub(super) fn arrived(&mut self, edge: u32, sequence: u64, sends: &mut Vec<Transfer>) {
        each!(self, inner => inner.arrived(edge, sequence, sends));
    }

    /// What an edge carries in one iteration of a size, in bytes.
    pub(super) fn edge_bytes(&self, edge: u32, bytes: u64) -> u64 {
        each!(self, inner => inner.edge_bytes(edge, bytes))
    }
}
