//! Communication patterns of one iteration: the transfers between ranks and their dependencies.
//!
//! A pattern is a set of directed edges between ranks. Each edge carries transfers with the numbers 0, 1, 2
//! and so on. After the arrival of a transfer, the pattern returns the transfers that can be sent now. A
//! pattern stores counters for each edge and no list of transfers.

mod all_to_all;
mod arrived;
mod pairs;
mod ring;
mod tree;

use all_to_all::{DirectAllToAll, RailAlignedAllToAll};
pub(super) use pairs::Pairs;
use ring::RingKind;
pub(super) use ring::RingPattern;
use tree::TreePattern;

use super::spec::{Algorithm, Collective};

/// The number of ranks, and the number of ranks per node. Rank `r` is GPU `r % gpus` of node `r / gpus`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankLayout {
    /// Number of ranks, at least 1.
    pub(super) ranks: u32,
    /// GPUs of a node, a divisor of `ranks`.
    pub(super) gpus: u32,
}

impl RankLayout {
    fn nodes(self) -> u32 {
        self.ranks / self.gpus
    }
}

/// A direction between two ranks, over which one rank sends to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    /// Rank whose NIC or GPU sends.
    pub(super) from: u32,
    /// Rank whose NIC or GPU receives.
    pub(super) to: u32,
    /// Whether the edge uses the network. Other edges stay inside a node.
    pub(super) network: bool,
}

/// A block of data on an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    /// Index of the edge.
    pub(super) edge: u32,
    /// Number of the transfer on its edge.
    pub(super) sequence: u64,
    /// Length in bytes.
    pub(super) bytes: u64,
}

/// The communication pattern of one iteration.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    Ring(RingPattern),
    Tree(TreePattern),
    Direct(DirectAllToAll),
    RailAligned(RailAlignedAllToAll),
    Pairs(Pairs),
}

/// Calls a method of the inner pattern.
macro_rules! call_inner {
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
    /// Returns the pattern of a valid collective.
    pub(super) fn collective(spec: &Collective) -> Pattern {
        let shape = RankLayout {
            ranks: spec.ranks.len() as u32,
            gpus: spec.gpus_per_node,
        };
        let ring = |kind| Pattern::Ring(RingPattern::new(kind, shape, spec.slice_bytes));
        match spec.algorithm {
            Algorithm::RingAllReduce => ring(RingKind::AllReduce),
            Algorithm::RingAllGather => ring(RingKind::AllGather),
            Algorithm::RingReduceScatter => ring(RingKind::ReduceScatter),
            Algorithm::TreeAllReduce => Pattern::Tree(TreePattern::new(shape, spec.slice_bytes)),
            Algorithm::AllToAll { rail_aligned: false } => Pattern::Direct(DirectAllToAll::new(shape)),
            Algorithm::AllToAll { rail_aligned: true } => {
                Pattern::RailAligned(RailAlignedAllToAll::new(shape))
            }
        }
    }

    /// Returns all edges of the pattern.
    pub(super) fn edges(&self) -> &[Edge] {
        call_inner!(self, inner => inner.edges())
    }

    /// Begins an iteration with a size of `bytes`. Appends to `sends` all transfers that can be
    /// sent immediately.
    pub(super) fn begin(&mut self, bytes: u64, sends: &mut Vec<Transfer>) {
        call_inner!(self, inner => inner.begin(bytes, sends));
    }

    /// Returns the number of transfers on an edge in the current iteration.
    pub(super) fn transfer_count(&self, edge: u32) -> u64 {
        call_inner!(self, inner => inner.transfer_count(edge))
    }

    /// Handles a transfer that has arrived. Appends to `sends` all transfers that can be sent after this
    /// arrival. Transfers of an edge may arrive in any order.
    pub(super) fn handle_arrival(&mut self, edge: u32, sequence: u64, sends: &mut Vec<Transfer>) {
        call_inner!(self, inner => inner.handle_arrival(edge, sequence, sends));
    }

    /// Returns the ring if the pattern is one.
    pub(super) fn ring(&self) -> Option<&RingPattern> {
        match self {
            Pattern::Ring(ring) => Some(ring),
            _ => None,
        }
    }

    /// Returns the ring for changes if the pattern is one.
    pub(super) fn ring_mut(&mut self) -> Option<&mut RingPattern> {
        match self {
            Pattern::Ring(ring) => Some(ring),
            _ => None,
        }
    }

    /// Returns the number of bytes on an edge in one iteration of the given size.
    pub(super) fn bytes_on_edge(&self, edge: u32, bytes: u64) -> u64 {
        call_inner!(self, inner => inner.bytes_on_edge(edge, bytes))
    }
}
