//! Tests that rings compute correct results. The tests send real vectors around the rings and deliver
//! transfers in random order.

use super::*;
use crate::random::RandomStream;
use crate::split::part_start;

/// Range of a transfer in the whole array.
fn range(ring: &RingPattern, transfer: Transfer) -> std::ops::Range<usize> {
    let step = transfer.sequence / ring.slices;
    let (ranks, gpus) = (u64::from(ring.shape.ranks), u64::from(ring.shape.gpus));
    let chunk = u64::from(ring.chunk_owner(transfer.edge, step));
    let rail = u64::from(transfer.edge / ring.shape.ranks);
    let in_chunk = part_start(part_len(ring.bytes, ranks, chunk), gpus, rail);
    let whole = ring.chunk_bytes(transfer.edge, step, ring.bytes);
    let start = part_start(ring.bytes, ranks, chunk) + in_chunk;
    let start = start + part_start(whole, ring.slices, transfer.sequence % ring.slices);
    start as usize..(start + transfer.bytes) as usize
}

/// Value of a rank at an index before the operation.
fn initial(rank: u64, at: u64) -> u64 {
    (rank + 1) * 1_000 + at
}

fn shapes() -> Vec<RankLayout> {
    let pairs = [(2, 1), (3, 1), (4, 1), (7, 1), (4, 2), (6, 2), (6, 3), (12, 4)];
    pairs.map(|(ranks, gpus)| RankLayout { ranks, gpus }).into()
}

/// Runs an operation and delivers the transfers in flight in random order. Returns the array of every rank.
/// The reducing steps add received values, and steps without a reduction replace values. The function also
/// counts deliveries of each chunk at each rank.
fn run(kind: RingKind, shape: RankLayout, slice_bytes: Option<u64>, bytes: u64, seed: u64) -> Vec<Vec<u64>> {
    let mut ring = RingPattern::new(kind, shape, slice_bytes);
    let array = |rank: u64| (0..bytes).map(|at| initial(rank, at)).collect::<Vec<u64>>();
    let mut data: Vec<Vec<u64>> = (0..u64::from(shape.ranks)).map(array).collect();
    let mut draws = RandomStream::new(seed, 0);
    let mut released = Vec::new();
    let mut under_way: Vec<(Transfer, Vec<u64>)> = Vec::new();
    let mut carried = vec![(0, 0); ring.edges.len()];
    ring.begin(bytes, &mut released);
    loop {
        for transfer in released.drain(..) {
            let (rail, place) = (transfer.edge / shape.ranks, transfer.edge % shape.ranks);
            let content = data[ring.rank_at_position(rail, place) as usize][range(&ring, transfer)].to_vec();
            assert_eq!(content.len() as u64, transfer.bytes);
            under_way.push((transfer, content));
        }
        if under_way.is_empty() {
            break;
        }
        let (transfer, content) = under_way.swap_remove(draws.integer_below(under_way.len() as u64) as usize);
        let (rail, place) = (transfer.edge / shape.ranks, transfer.edge % shape.ranks);
        let to = ring.rank_at_position(rail, (place + 1) % shape.ranks);
        assert_eq!(to, ring.edges[transfer.edge as usize].to);
        let step = transfer.sequence / ring.slices;
        let reduces = match kind {
            RingKind::AllReduce => step + 1 < u64::from(shape.ranks),
            RingKind::ReduceScatter => true,
            RingKind::AllGather => false,
        };
        let into = &mut data[to as usize][range(&ring, transfer)];
        for (have, got) in into.iter_mut().zip(content) {
            *have = if reduces { *have + got } else { got };
        }
        carried[transfer.edge as usize].0 += 1;
        carried[transfer.edge as usize].1 += transfer.bytes;
        ring.handle_arrival(transfer.edge, transfer.sequence, &mut released);
    }
    for (edge, carried) in carried.into_iter().enumerate() {
        assert_eq!(
            carried,
            (
                ring.transfer_count(edge as u32),
                ring.bytes_on_edge(edge as u32, bytes)
            ),
            "edge {edge}"
        );
    }
    data
}

/// The sizes are divisible by the number of ranks, not divisible, smaller than the number of ranks, and zero.
const SIZES: [u64; 6] = [0, 1, 3, 48, 97, 240];

fn sum(shape: RankLayout, at: u64) -> u64 {
    (0..u64::from(shape.ranks)).map(|rank| initial(rank, at)).sum()
}

/// Range of the chunk of a rank.
fn own(shape: RankLayout, bytes: u64, rank: u64) -> std::ops::Range<u64> {
    let ranks = u64::from(shape.ranks);
    part_start(bytes, ranks, rank)..part_start(bytes, ranks, rank + 1)
}

fn every_run(kind: RingKind, check: impl Fn(RankLayout, u64, &[Vec<u64>])) {
    for shape in shapes() {
        for bytes in SIZES {
            for (seed, slice_bytes) in [None, Some(1), Some(5), Some(1_000)].into_iter().enumerate() {
                check(shape, bytes, &run(kind, shape, slice_bytes, bytes, seed as u64));
            }
        }
    }
}

#[test]
fn all_reduce_gives_the_sum_to_every_rank() {
    every_run(RingKind::AllReduce, |shape, bytes, data| {
        let sums: Vec<u64> = (0..bytes).map(|at| sum(shape, at)).collect();
        for (rank, array) in data.iter().enumerate() {
            assert_eq!(*array, sums, "{shape:?} {bytes} rank {rank}");
        }
    });
}

#[test]
fn reduce_scatter_gives_each_rank_its_part_of_the_sum() {
    every_run(RingKind::ReduceScatter, |shape, bytes, data| {
        for (rank, array) in data.iter().enumerate() {
            for at in own(shape, bytes, rank as u64) {
                assert_eq!(
                    array[at as usize],
                    sum(shape, at),
                    "{shape:?} {bytes} rank {rank} at {at}"
                );
            }
        }
    });
}

#[test]
fn all_gather_gives_every_part_to_every_rank() {
    every_run(RingKind::AllGather, |shape, bytes, data| {
        for owner in 0..u64::from(shape.ranks) {
            for at in own(shape, bytes, owner) {
                assert!(
                    data.iter().all(|array| array[at as usize] == initial(owner, at)),
                    "{shape:?} {bytes} at {at}"
                );
            }
        }
    });
}

#[test]
fn each_nic_has_one_peer_on_its_own_rail() {
    let ring = RingPattern::new(RingKind::AllReduce, RankLayout { ranks: 12, gpus: 4 }, None);
    let network: Vec<&Edge> = ring.edges.iter().filter(|edge| edge.network).collect();
    assert_eq!(network.len(), 12);
    for nic in 0..12 {
        let sends: Vec<_> = network.iter().filter(|edge| edge.from == nic).collect();
        assert_eq!(sends.len(), 1);
        assert_eq!(sends[0].to, (nic + 4) % 12);
    }
}

#[test]
fn a_step_waits_for_the_previous_step() {
    let mut ring = RingPattern::new(RingKind::AllReduce, RankLayout { ranks: 3, gpus: 1 }, Some(10));
    let mut sends = Vec::new();
    ring.begin(60, &mut sends);
    let first: Vec<(u32, u64)> = sends.drain(..).map(|send| (send.edge, send.sequence)).collect();
    assert_eq!(
        first,
        [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)],
        "two slices of a chunk"
    );
    ring.handle_arrival(0, 1, &mut sends);
    assert_eq!(sends, [], "the first slice is missing");
    ring.handle_arrival(0, 0, &mut sends);
    let next: Vec<(u32, u64)> = sends.iter().map(|send| (send.edge, send.sequence)).collect();
    assert_eq!(next, [(1, 2), (1, 3)]);
}
