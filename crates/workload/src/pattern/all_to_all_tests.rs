//! AllToAll delivers every part to its destination exactly once.

use super::*;
use crate::pattern::Pattern;
use crate::random::RandomStream;

/// Runs one iteration and delivers transfers in random order. Returns the transfers in the order
/// of their release.
fn run(mut pattern: Pattern, bytes: u64, seed: u64) -> Vec<Transfer> {
    let mut draws = RandomStream::new(seed, 0);
    let (mut released, mut all, mut under_way) = (Vec::new(), Vec::new(), Vec::new());
    pattern.begin(bytes, &mut released);
    loop {
        all.extend_from_slice(&released);
        under_way.append(&mut released);
        if under_way.is_empty() {
            return all;
        }
        let transfer: Transfer = under_way.swap_remove(draws.integer_below(under_way.len() as u64) as usize);
        pattern.handle_arrival(transfer.edge, transfer.sequence, &mut released);
    }
}

#[test]
fn direct_sends_every_pair_once_beginning_with_the_next_rank() {
    for (ranks, bytes) in [(2, 10), (5, 103), (8, 3), (4, 0)] {
        let direct = DirectAllToAll::new(RankLayout { ranks, gpus: 1 });
        let edges = direct.edges.clone();
        let all = run(Pattern::Direct(direct), bytes, 1);
        if bytes == 0 {
            assert_eq!(all, []);
            continue;
        }
        let order: Vec<(u32, u32)> = all
            .iter()
            .map(|send| (edges[send.edge as usize].from, edges[send.edge as usize].to))
            .collect();
        let rotated = (0..ranks).flat_map(|from| (1..ranks).map(move |by| (from, (from + by) % ranks)));
        assert_eq!(order, rotated.collect::<Vec<_>>());
        for send in &all {
            let to = edges[send.edge as usize].to;
            assert_eq!(send.bytes, part_len(bytes, u64::from(ranks), u64::from(to)));
        }
    }
}

#[test]
fn rail_aligned_keeps_the_network_within_rails_and_loses_nothing() {
    for (ranks, gpus) in [(4, 2), (6, 2), (12, 4), (3, 1), (16, 8)] {
        let shape = RankLayout { ranks, gpus };
        for (seed, bytes) in [(0, 240), (1, 101), (2, 1)] {
            let pattern = RailAlignedAllToAll::new(shape);
            let edges = pattern.edges.clone();
            let all = run(Pattern::RailAligned(pattern), bytes, seed);
            // All GPUs of a node send equal parts to a destination, so the received bytes can be counted.
            let mut got = vec![0; ranks as usize];
            let mut relayed = vec![0; ranks as usize];
            for send in &all {
                let Edge { from, to, network } = edges[send.edge as usize];
                if network {
                    assert_eq!(from % gpus, to % gpus, "it stays on its rail");
                    got[to as usize] += send.bytes;
                } else {
                    assert_eq!(from / gpus, to / gpus);
                    let own_node = send.sequence + 1 == u64::from(ranks / gpus);
                    let into = if own_node { &mut got } else { &mut relayed };
                    into[to as usize] += send.bytes;
                }
            }
            let network = all
                .iter()
                .filter(|send| edges[send.edge as usize].network)
                .count();
            assert_eq!(
                network as u32,
                ranks * (ranks / gpus - 1),
                "messages to one node's GPU are one"
            );
            for rank in 0..ranks {
                let own = part_len(bytes, u64::from(ranks), u64::from(rank));
                assert_eq!(
                    got[rank as usize],
                    own * u64::from(ranks - 1),
                    "{shape:?} {bytes} rank {rank}"
                );
            }
        }
    }
}

#[test]
fn rail_aligned_message_waits_for_all_gpus_of_the_node() {
    let mut pattern = RailAlignedAllToAll::new(RankLayout { ranks: 4, gpus: 2 });
    let mut sends = Vec::new();
    pattern.begin(40, &mut sends);
    assert!(
        sends
            .iter()
            .all(|send| !pattern.edges[send.edge as usize].network)
    );
    sends.clear();
    // Rank 0 passes the part for rank 3 to rank 1. NIC 1 then sends the parts of both GPUs to NIC 3.
    pattern.handle_arrival(0, 0, &mut sends);
    assert_eq!(sends.len(), 1);
    let Edge { from, to, network } = pattern.edges[sends[0].edge as usize];
    assert_eq!((from, to, network, sends[0].bytes), (1, 3, true, 20));
}
