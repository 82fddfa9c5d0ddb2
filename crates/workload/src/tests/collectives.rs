//! Collectives take exactly the time that their algorithm predicts.

use super::*;
use crate::{Algorithm, Collective, IterationResult, Verb};

fn ranks(count: u32) -> Vec<u32> {
    // The hosts are not in the order of their indices.
    (0..count).map(|rank| (rank * 7) % 1009).collect()
}

fn collective(algorithm: Algorithm, count: u32, bytes: u64) -> Collective {
    Collective::new(algorithm, ranks(count), bytes)
}

fn only(results: &WorkloadResults) -> IterationResult {
    assert_eq!(results.jobs[0].iterations.len(), 1);
    results.jobs[0].iterations[0]
}

const RINGS: [(Algorithm, u64); 3] = [
    (Algorithm::RingAllReduce, 2),
    (Algorithm::RingAllGather, 1),
    (Algorithm::RingReduceScatter, 1),
];

#[test]
fn ring_takes_its_steps_exactly() {
    for (algorithm, halves) in RINGS {
        for n in [2, 3, 8, 31] {
            let chunk = 1_000_000;
            let bytes = chunk * u64::from(n);
            let (posts, results) = run(JobKind::Collective(collective(algorithm, n, bytes)));
            let steps = halves * u64::from(n - 1);
            assert_eq!(posts.len() as u64, steps * u64::from(n));
            assert!(posts.iter().all(|(_, post)| post.bytes == chunk));
            let expected = Picos(steps * alone(chunk).0);
            assert_eq!(only(&results).time_ns, expected.as_nanos(), "{algorithm:?} {n}");
            let job = &results.jobs[0];
            assert_eq!(job.jct_ns, Some(expected.as_nanos()));
            assert_eq!(
                job.roofline_ns,
                transmission_time(steps * chunk, RATE_BPS).as_nanos()
            );
            let size = &job.collective.as_ref().unwrap().sizes[0];
            let algbw = bytes as f64 / (expected.0 as f64 / 1000.0);
            assert!((size.algorithm_bandwidth_gbytes_per_s / algbw - 1.0).abs() < 1e-12);
            let busbw = algbw * halves as f64 * f64::from(n - 1) / f64::from(n);
            assert!((size.bus_bandwidth_gbytes_per_s / busbw - 1.0).abs() < 1e-12);
        }
    }
}

#[test]
fn pipelined_slices_hide_the_latency() {
    let (n, chunk, slices) = (4, 1_000_000, 10);
    let mut spec = collective(Algorithm::RingAllReduce, n, chunk * u64::from(n));
    spec.slice_bytes = Some(chunk / slices);
    let (posts, results) = run(JobKind::Collective(spec));
    assert_eq!(posts.len() as u64, u64::from(n) * 6 * slices);
    // The NIC never waits: nine slices last longer than the latency. Only the latency of the last slice is
    // visible.
    assert_eq!(
        only(&results).time_ns,
        (Picos(6 * transmission_time(chunk, RATE_BPS).0) + LATENCY).as_nanos()
    );
}

#[test]
fn long_links_bound_pipelined_rings_by_their_round_trip() {
    let (n, chunk) = (3, 300);
    let mut spec = collective(Algorithm::RingAllReduce, n, chunk * u64::from(n));
    spec.slice_bytes = Some(100);
    let (_, results) = run(JobKind::Collective(spec));
    // The first slices of a step leave when the first slices of the previous step have arrived. The last
    // slice follows two slices later.
    let expected = Picos(4 * alone(100).0 + 2 * transmission_time(100, RATE_BPS).0);
    assert_eq!(only(&results).time_ns, expected.as_nanos());
}

#[test]
fn tree_of_two_ranks_sends_a_half_up_and_a_half_down() {
    let (posts, results) = run(JobKind::Collective(collective(
        Algorithm::TreeAllReduce,
        2,
        2_000_000,
    )));
    assert_eq!(posts.len(), 4);
    assert_eq!(only(&results).time_ns, 2 * alone(1_000_000).as_nanos());
    // Each NIC sends half of the data up in one tree and half down in the other.
    assert_eq!(
        results.jobs[0].roofline_ns,
        transmission_time(2_000_000, RATE_BPS).as_nanos()
    );
}

#[test]
fn tree_is_faster_than_ring_for_small_sizes() {
    let time = |algorithm| only(&run(JobKind::Collective(collective(algorithm, 64, 6_400))).1).time_ns;
    let (tree, ring) = (time(Algorithm::TreeAllReduce), time(Algorithm::RingAllReduce));
    assert_eq!(ring, 126 * alone(100).as_nanos());
    // At most twice the depth of the tree. The depth is 7, including the root above the tree.
    assert!(tree < 15 * alone(6_400).as_nanos(), "{tree}");
}

#[test]
fn all_to_all_keeps_every_nic_busy() {
    let (n, part) = (8, 50_000);
    let (posts, results) = run(JobKind::Collective(collective(
        Algorithm::AllToAll { rail_aligned: false },
        n,
        part * u64::from(n),
    )));
    assert_eq!(posts.len(), 56);
    assert!(posts.iter().all(|(at, _)| *at == Picos::ZERO), "all at once");
    // The rotated orders never meet at a receiver.
    let expected = transmission_time(7 * part, RATE_BPS) + LATENCY;
    assert_eq!(only(&results).time_ns, expected.as_nanos());
    assert_eq!(
        results.jobs[0].roofline_ns,
        transmission_time(7 * part, RATE_BPS).as_nanos()
    );
}

#[test]
fn rail_aligned_all_to_all_sends_as_much_in_fewer_messages() {
    for nvlink_bps in [None, Some(2 * RATE_BPS)] {
        let mut spec = collective(Algorithm::AllToAll { rail_aligned: true }, 16, 16_000);
        spec.gpus_per_node = 4;
        spec.nvlink_bps = nvlink_bps;
        let (posts, results) = run(JobKind::Collective(spec));
        assert_eq!(posts.len(), 16 * 3);
        assert!(posts.iter().all(|(_, post)| post.bytes == 4_000));
        let network = transmission_time(3 * 4_000, RATE_BPS) + LATENCY;
        // With NVLink of twice the speed, the first message waits for the third part of the last GPU of the
        // node.
        let first = nvlink_bps.map_or(Picos::ZERO, |bps| transmission_time(3 * 1_000, bps));
        assert_eq!(only(&results).time_ns, (network + first).as_nanos());
    }
}

#[test]
fn rings_over_several_gpus_send_only_at_the_edge_of_a_node() {
    let mut spec = collective(Algorithm::RingAllReduce, 8, 6_400);
    spec.gpus_per_node = 4;
    let (posts, results) = run(JobKind::Collective(spec));
    // Four rings with two network hops and 14 steps each.
    assert_eq!(posts.len(), 4 * 2 * 14);
    assert!(posts.iter().all(|(_, post)| post.bytes == 200));
    assert_eq!(
        results.jobs[0].roofline_ns,
        transmission_time(14 * 200, RATE_BPS).as_nanos()
    );
    let (tree, _) = run(JobKind::Collective(Collective {
        gpus_per_node: 4,
        ..collective(Algorithm::TreeAllReduce, 8, 6_400)
    }));
    assert_eq!(tree.iter().map(|(_, post)| post.bytes).sum::<u64>(), 2 * 6_400);
}

#[test]
fn every_algorithm_ends_with_every_size() {
    let algorithms = [
        Algorithm::RingAllReduce,
        Algorithm::TreeAllReduce,
        Algorithm::RingAllGather,
        Algorithm::RingReduceScatter,
        Algorithm::AllToAll { rail_aligned: false },
        Algorithm::AllToAll { rail_aligned: true },
    ];
    for algorithm in algorithms {
        for (n, gpus) in [(2, 1), (3, 1), (5, 1), (4, 2), (9, 3)] {
            for slice_bytes in [None, Some(3)] {
                let mut spec = collective(algorithm, n, 0);
                spec.bytes = vec![0, 1, u64::from(n) - 1, u64::from(n), 101];
                spec.gpus_per_node = gpus;
                spec.slice_bytes = slice_bytes;
                (spec.iterations, spec.warmup) = (2, 1);
                let (_, results) = run(JobKind::Collective(spec));
                let job = &results.jobs[0];
                assert_eq!(
                    (job.finished, job.iterations.len()),
                    (true, 15),
                    "{algorithm:?} {n}"
                );
                assert_eq!(job.posted_messages, job.received_messages);
                assert!(job.jct_ratio.unwrap() >= 1.0);
                let sizes = &job.collective.as_ref().unwrap().sizes;
                assert!(
                    sizes
                        .iter()
                        .all(|size| size.time_ns.count == 2 && size.times_ns.len() == 2)
                );
                assert_eq!(sizes[0].time_ns.max, 0.0, "nothing takes no time");
            }
        }
    }
}

#[test]
fn iterations_follow_each_other_after_the_compute_gap() {
    let gap = Picos::from_micros(50);
    let mut spec = collective(Algorithm::RingAllGather, 4, 4_000);
    (spec.iterations, spec.warmup, spec.compute_gap) = (3, 1, gap);
    let (posts, results) = run(JobKind::Collective(spec));
    let one = Picos(3 * alone(1_000).0);
    let job = &results.jobs[0];
    for (index, iteration) in (0_u64..).zip(&job.iterations) {
        let start = Picos((index + 1) * gap.0 + index * one.0);
        assert_eq!(
            (iteration.start_ns, iteration.time_ns),
            (start.as_nanos(), one.as_nanos())
        );
        assert_eq!(iteration.warmup, index == 0);
    }
    assert_eq!(posts[0].0, gap);
    assert_eq!(job.jct_ns, Some(4 * (gap + one).as_nanos()));
    assert_eq!(job.iteration_ns.unwrap().count, 3);
    assert_eq!(
        job.roofline_ns,
        (Picos(4 * gap.0) + transmission_time(4 * 3_000, RATE_BPS)).as_nanos()
    );
}

#[test]
fn framing_raises_the_roofline() {
    let mut spec = one(JobKind::Collective(collective(
        Algorithm::RingAllReduce,
        2,
        8_192_000,
    )));
    spec.jobs[0].framing = crate::Framing {
        payload_bytes: 4096,
        wire_bytes: 4178,
    };
    let mut network = Ideal::new(&spec, 0);
    network.run();
    assert_eq!(
        network.results().jobs[0].roofline_ns,
        transmission_time(4178 * 2000, RATE_BPS).as_nanos()
    );
}

#[test]
fn ring_of_128_keeps_few_messages() {
    let (posts, results) = run(JobKind::Collective(collective(
        Algorithm::RingAllReduce,
        128,
        64 << 20,
    )));
    assert_eq!(posts.len(), 2 * 127 * 128);
    let slots = posts.iter().map(|(_, post)| post.message.slot()).max().unwrap();
    assert!(slots < 4 * 128, "{slots} places for messages");
    assert_eq!(
        only(&results).time_ns,
        Picos(254 * alone((64 << 20) / 128).0).as_nanos()
    );
}

#[test]
fn roofline_follows_from_the_busiest_nic() {
    let algorithms = [
        Algorithm::RingAllReduce,
        Algorithm::TreeAllReduce,
        Algorithm::RingAllGather,
        Algorithm::RingReduceScatter,
        Algorithm::AllToAll { rail_aligned: false },
        Algorithm::AllToAll { rail_aligned: true },
    ];
    for algorithm in algorithms {
        for (n, gpus) in [(2, 1), (7, 1), (8, 4), (12, 3)] {
            let mut spec = collective(algorithm, n, 1_000_003);
            spec.gpus_per_node = gpus;
            spec.slice_bytes = Some(10_000);
            let mut network = Ideal::new(&one(JobKind::Collective(spec)), 0);
            network.run();
            let mut moved = std::collections::BTreeMap::new();
            for (_, post) in &network.posts {
                let Connection { src, dst, .. } = network.workload.connections()[post.connection as usize];
                *moved.entry((src, true)).or_insert(0) += post.bytes;
                *moved.entry((dst, false)).or_insert(0) += post.bytes;
            }
            let busiest = moved.values().copied().max().unwrap();
            let job = &network.results().jobs[0];
            assert_eq!(
                job.roofline_ns,
                transmission_time(busiest, RATE_BPS).as_nanos(),
                "{algorithm:?} {n} {gpus}"
            );
            assert!(job.jct_ns.unwrap() > job.roofline_ns);
        }
    }
}

#[test]
fn rooflines_equal_the_published_formulas() {
    let bytes = 2_400_000;
    let moved = |algorithm, n: u32, gpus: u32| {
        let mut spec = collective(algorithm, n, bytes);
        spec.gpus_per_node = gpus;
        let (_, results) = run(JobKind::Collective(spec));
        // A byte takes 20 ps.
        results.jobs[0].roofline_ns * 50
    };
    assert_eq!(moved(Algorithm::RingAllReduce, 12, 1), 2 * 11 * bytes / 12);
    assert_eq!(moved(Algorithm::RingAllReduce, 12, 4), 2 * 11 * bytes / 12 / 4);
    assert_eq!(moved(Algorithm::RingAllGather, 12, 4), 11 * bytes / 12 / 4);
    assert_eq!(moved(Algorithm::TreeAllReduce, 12, 1), 2 * bytes);
    assert_eq!(moved(Algorithm::TreeAllReduce, 48, 4), 2 * bytes / 4);
    assert_eq!(
        moved(Algorithm::AllToAll { rail_aligned: false }, 12, 1),
        11 * bytes / 12
    );
    assert_eq!(
        moved(Algorithm::AllToAll { rail_aligned: false }, 12, 4),
        8 * bytes / 12
    );
    assert_eq!(
        moved(Algorithm::AllToAll { rail_aligned: true }, 12, 4),
        8 * bytes / 12
    );
}

/// The ranks of a ring act only at their own host. After all messages of an iteration are posted, ranks only count
/// messages until the last one has arrived.
#[test]
fn completions_act_at_one_host_until_the_last_message() {
    let local_completions = |algorithm, gpus, verb| {
        let mut spec = collective(algorithm, 8, 8_000_000);
        spec.gpus_per_node = gpus;
        let mut spec = one(JobKind::Collective(spec));
        spec.jobs[0].verb = verb;
        let mut network = Ideal::new(&spec, 1);
        network.run();
        (network.local_completions, 2 * network.posts.len())
    };
    let (local, all) = local_completions(Algorithm::RingAllReduce, 1, Verb::Write);
    // Each of the 8 messages of the last step is received and acknowledged. All of them are posted one latency earlier.
    assert!(all == 2 * 14 * 8 && local > all - 4 * 8, "{local} of {all}");
    let (local, all) = local_completions(Algorithm::TreeAllReduce, 1, Verb::Write);
    assert!(local > all / 2, "{local} of {all}");
    let (local, all) = local_completions(Algorithm::AllToAll { rail_aligned: false }, 1, Verb::Write);
    assert!(all == 2 * 8 * 7 && local > all - 2 * 8, "{local} of {all}");
    for (gpus, verb) in [
        // The receiver of a message posts the READ, not the rank that has the data.
        (1, Verb::Read),
        // Transfers inside a node are timers.
        (2, Verb::Write),
    ] {
        let (local, _) = local_completions(Algorithm::RingAllReduce, gpus, verb);
        assert!(local <= 4 * 8, "{local}: only after all messages are posted");
    }
}
