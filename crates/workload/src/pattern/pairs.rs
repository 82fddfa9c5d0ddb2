//! Patterns with one message on each edge: permutations and incasts.

use super::{Edge, Transfer};

/// A pattern in which every edge carries one message of the full size.
#[derive(Clone, Debug)]
pub(in super::super) struct Pairs {
    edges: Vec<Edge>,
}

impl Pairs {
    /// Makes a pattern with one edge for each pair of sender and receiver.
    pub(in super::super) fn new(pairs: impl Iterator<Item = (u32, u32)>) -> Pairs {
        let edge = |(from, to)| Edge {
            from,
            to,
            network: true,
        };
        Pairs {
            edges: pairs.map(edge).collect(),
        }
    }

    pub(super) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    pub(super) fn begin(&mut self, bytes: u64, sends: &mut Vec<Transfer>) {
        sends.extend((0..self.edges.len() as u32).map(|edge| Transfer {
            edge,
            sequence: 0,
            bytes,
        }));
    }

    pub(super) fn transfer_count(&self, _edge: u32) -> u64 {
        1
    }

    pub(super) fn handle_arrival(&mut self, _edge: u32, _sequence: u64, _sends: &mut Vec<Transfer>) {}

    pub(super) fn bytes_on_edge(&self, _edge: u32, bytes: u64) -> u64 {
        bytes
    }
}
