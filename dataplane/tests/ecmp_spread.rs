//! Checks how evenly the flow hash spreads flows over equal-cost next hops, with complete frames.
//!
//! The tests use 2 to 32 next hops, 20 seeds and both kinds of table. With 1 000 000 flows, every next hop is
//! within 3 % of its share. With 10 000 flows, it is within 4.5 standard deviations.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program prints its results"
)]

use std::net::IpAddr;
use std::thread;

use xoff_dataplane::route::{
    Fib, NextHop, PathTable, RESILIENT_BUCKETS, Route, RoutePath, RouteTag, RouteTarget, seeded_hash,
};
use xoff_dataplane::{GroupId, InterfaceId};
use xoff_wire::parse::parse;

const SEEDS: u64 = 20;
const ROCE_PORT: [u8; 2] = 4_791_u16.to_be_bytes();

/// How the flows differ.
#[derive(Clone, Copy, Debug)]
enum FlowPattern {
    /// Source and destination addresses differ. The ports are equal.
    Addresses,
    /// Source addresses and source ports increase together.
    AddressesAndPorts,
    /// RoCEv2 between 16 pairs of hosts. The UDP source port distinguishes the queue pairs.
    RocePorts,
    /// IPv6 with increasing source addresses.
    Ipv6Addresses,
    /// RoCEv2 over IPv6 between 16 pairs of hosts.
    Ipv6RocePorts,
}

const FLOW_PATTERNS: [FlowPattern; 5] = [
    FlowPattern::Addresses,
    FlowPattern::AddressesAndPorts,
    FlowPattern::RocePorts,
    FlowPattern::Ipv6Addresses,
    FlowPattern::Ipv6RocePorts,
];

/// Returns a UDP frame over IPv4 or IPv6, and the offsets of source address, destination address
/// and source port.
fn udp_frame(v4: bool) -> (Vec<u8>, [usize; 3]) {
    let mut frame = vec![0; 14];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    let payload = 8 + 16;
    if v4 {
        frame[12..].copy_from_slice(&[0x08, 0x00]);
        frame.extend([
            0x45,
            0,
            0,
            20 + payload,
            0,
            0,
            0,
            0,
            64,
            17,
            0,
            0,
            10,
            0,
            0,
            0,
            10,
            128,
            0,
            0,
        ]);
    } else {
        frame[12..].copy_from_slice(&[0x86, 0xdd]);
        frame.extend([0x60, 0, 0, 0, 0, payload, 17, 64]);
        for host in [1, 2] {
            frame.extend([0xfd, 0, 0, 0, 0, 0, 0, host, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
    }
    let end = frame.len();
    frame.extend([0xc0, 0, ROCE_PORT[0], ROCE_PORT[1], 0, payload, 0, 0]);
    frame.extend([0; 16]);
    let offsets = if v4 { [26, 30, end] } else { [22, 38, end] };
    (frame, offsets)
}

/// Returns the flow hashes of `count` different flows.
fn flow_hashes(pattern: FlowPattern, count: u32) -> Vec<u32> {
    let (v4, address_len) = match pattern {
        FlowPattern::Addresses | FlowPattern::AddressesAndPorts | FlowPattern::RocePorts => (true, 4),
        FlowPattern::Ipv6Addresses | FlowPattern::Ipv6RocePorts => (false, 16),
    };
    let (mut frame, [source, destination, port]) = udp_frame(v4);
    // The last three bytes of an address.
    let put = |frame: &mut Vec<u8>, at: usize, value: u32| {
        frame[at + address_len - 3..at + address_len].copy_from_slice(&value.to_be_bytes()[1..]);
    };
    let hash = |flow: u32| {
        match pattern {
            FlowPattern::Addresses => {
                put(&mut frame, source, flow & 0x3ff);
                put(&mut frame, destination, 0x80_0000 | flow >> 10);
            }
            FlowPattern::AddressesAndPorts => {
                put(&mut frame, source, flow);
                frame[port..port + 2].copy_from_slice(&(flow as u16).to_be_bytes());
            }
            FlowPattern::RocePorts | FlowPattern::Ipv6RocePorts => {
                put(&mut frame, source, 1 + (flow >> 16));
                put(&mut frame, destination, 0x80_0001 + (flow >> 16));
                frame[port..port + 2].copy_from_slice(&(flow as u16).to_be_bytes());
            }
            FlowPattern::Ipv6Addresses => put(&mut frame, source, flow),
        }
        parse(&frame).flow_hash
    };
    (0..count).map(hash).collect()
}

fn fib_with_weights(weights: &[u16]) -> Fib {
    let path = |(number, weight): (u16, &u16)| RoutePath {
        next_hop: NextHop {
            interface: InterfaceId(number),
            address: IpAddr::from([10, 0, (number >> 8) as u8, number as u8]),
        },
        weight: *weight,
    };
    let route = Route {
        prefix: "0.0.0.0/0".parse().unwrap(),
        target: RouteTarget::Via((0..).zip(weights).map(path).collect()),
        tag: RouteTag::default(),
    };
    Fib::build([route]).unwrap()
}

fn path_table(weights: &[u16], resilient: Option<u16>) -> PathTable {
    PathTable::new(&fib_with_weights(weights), resilient, |_| true)
}

/// Returns the number of flows of each member.
fn flows_per_member(table: &PathTable, members: usize, hashes: &[u32]) -> Vec<u32> {
    let mut counts = vec![0; members];
    for hash in hashes {
        if let Some(member) = table.select(GroupId(0), *hash) {
            counts[member.index()] += 1;
        }
    }
    counts
}

/// Returns the largest relative deviation of a member's flow count from its share.
fn largest_relative_deviation(counts: &[u32], weights: &[u16]) -> f64 {
    let flows: u32 = counts.iter().sum();
    let total: u32 = weights.iter().map(|weight| u32::from(*weight)).sum();
    let fair = |weight: u16| f64::from(flows) * f64::from(weight) / f64::from(total);
    let of = |(count, weight): (&u32, &u16)| (f64::from(*count) - fair(*weight)).abs() / fair(*weight);
    counts.iter().zip(weights).map(of).fold(0.0, f64::max)
}

/// Calls `check` for every seed with the seeded hashes of `count` flows, on two threads. Returns
/// the largest result.
fn largest_result_of_all_seeds(count: u32, check: impl Fn(u64, FlowPattern, &[u32]) -> f64 + Sync) -> f64 {
    let pattern_of = |index: usize| FLOW_PATTERNS[index];
    let worst_of = |patterns: std::ops::Range<usize>| {
        let mut worst: f64 = 0.0;
        for index in patterns {
            let pattern = pattern_of(index);
            let hashes = flow_hashes(pattern, count);
            for seed in (0..SEEDS).filter(|seed| *seed as usize % FLOW_PATTERNS.len() == index) {
                let seeded_hash: Vec<_> = hashes.iter().map(|hash| seeded_hash(*hash, seed)).collect();
                worst = worst.max(check(seed, pattern, &seeded_hash));
            }
        }
        worst
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| worst_of(3..5));
        worst_of(0..3).max(other.join().unwrap())
    })
}

#[test]
fn a_million_flows_deviate_less_than_three_percent_from_equal_shares() {
    let tables: Vec<_> = (2..=32_usize)
        .flat_map(|members| [None, Some(RESILIENT_BUCKETS)].map(|kind| (members, kind)))
        .map(|(members, kind)| (members, kind, path_table(&vec![1; members], kind)))
        .collect();
    let worst = largest_result_of_all_seeds(1_000_000, |seed, pattern, hashes| {
        let of = |(members, kind, table): &(usize, Option<u16>, PathTable)| {
            let worst =
                largest_relative_deviation(&flows_per_member(table, *members, hashes), &vec![1; *members]);
            assert!(
                worst <= 0.03,
                "{worst:.4}: {members} members, {kind:?}, seed {seed}, {pattern:?}"
            );
            worst
        };
        tables.iter().map(of).fold(0.0, f64::max)
    });
    println!("largest deviation: {:.2} %", worst * 100.0);
}

#[test]
fn ten_thousand_flows_spread_like_a_uniform_random_choice() {
    const FLOWS: u32 = 10_000;
    for pattern in FLOW_PATTERNS {
        let hashes = flow_hashes(pattern, FLOWS);
        for seed in 0..SEEDS {
            let seeded_hash: Vec<_> = hashes.iter().map(|hash| seeded_hash(*hash, seed)).collect();
            for members in 2..=32_usize {
                let share = 1.0 / members as f64;
                let sigma = (f64::from(FLOWS) * share * (1.0 - share)).sqrt();
                for kind in [None, Some(RESILIENT_BUCKETS)] {
                    for count in flows_per_member(&path_table(&vec![1; members], kind), members, &seeded_hash)
                    {
                        let off = (f64::from(count) - f64::from(FLOWS) * share) / sigma;
                        assert!(
                            off.abs() < 4.5,
                            "{off:.2}: {members} members, {kind:?}, seed {seed}, {pattern:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn flows_of_a_member_are_proportional_to_its_weight() {
    let cases: [&[u16]; 5] = [
        &[1, 2],
        &[1, 2, 3, 4],
        &[10, 10, 10, 5],
        &[1, 1, 1, 1, 1, 1, 1, 9],
        &[3, 5, 7, 11, 13],
    ];
    let tables: Vec<_> = cases
        .iter()
        .flat_map(|weights| [None, Some(RESILIENT_BUCKETS)].map(|kind| (*weights, path_table(weights, kind))))
        .collect();
    let worst = largest_result_of_all_seeds(1_000_000, |seed, pattern, hashes| {
        let of = |(weights, table): &(&[u16], PathTable)| {
            let worst = largest_relative_deviation(&flows_per_member(table, weights.len(), hashes), weights);
            assert!(worst <= 0.03, "{worst:.4}: {weights:?}, seed {seed}, {pattern:?}");
            worst
        };
        tables.iter().map(of).fold(0.0, f64::max)
    });
    println!("largest deviation: {:.2} %", worst * 100.0);
}

/// Returns the chi-squared statistic of a table of counts, for independence of rows and columns.
fn chi_squared_statistic(counts: &[[u32; 16]; 16]) -> f64 {
    let total: u32 = counts.iter().flatten().sum();
    let row = |r: usize| counts[r].iter().sum::<u32>();
    let column = |c: usize| counts.iter().map(|row| row[c]).sum::<u32>();
    let mut sum = 0.0;
    for (r, row_counts) in counts.iter().enumerate() {
        for (c, count) in row_counts.iter().enumerate() {
            let expected = f64::from(row(r)) * f64::from(column(c)) / f64::from(total);
            sum += (f64::from(*count) - expected).powi(2) / expected;
        }
    }
    sum
}

#[test]
fn switches_with_different_seeds_select_members_independently() {
    // Common seeds: small numbers, single bits, all bits, and the increment of splitmix64.
    let seeds = [
        0,
        1,
        2,
        3,
        4,
        100,
        101,
        1 << 16,
        1 << 31,
        1 << 32,
        1 << 40,
        1 << 63,
        u64::MAX,
        0x9e37_79b9_7f4a_7c15,
    ];
    // 225 degrees of freedom: mean 225, standard deviation 21.2. The bound is seven deviations above the
    // mean.
    let limit = 225.0 + 7.0 * 21.2;
    for pattern in FLOW_PATTERNS {
        let hashes = flow_hashes(pattern, 65_536);
        let chosen =
            seeds.map(|seed| -> Vec<_> { hashes.iter().map(|hash| seeded_hash(*hash, seed)).collect() });
        for first in 0..seeds.len() {
            for second in 0..first {
                let mut counts = [[0; 16]; 16];
                for (a, b) in chosen[first].iter().zip(&chosen[second]) {
                    counts[(a >> 28) as usize][(b >> 28) as usize] += 1;
                }
                let chi_squared = chi_squared_statistic(&counts);
                assert!(
                    chi_squared < limit,
                    "{chi_squared:.0}: {pattern:?}, seeds {} and {}",
                    seeds[first],
                    seeds[second]
                );
            }
        }
    }
}

#[test]
fn equal_seeds_give_equal_hashes_on_every_machine() {
    // The second seed is the upper half of the first splitmix64 output from 0, 0xe220_a839_7b1d_cdaf.
    let cases = [(0, 0), (1, 0), (0, 1), (0xdead_beef, 42)];
    let expected = [0, 0xe220_a839, 1_452_414_493, 2_732_096_354];
    assert_eq!(cases.map(|(hash, seed)| seeded_hash(hash, seed)), expected);
}

#[test]
fn flows_on_one_path_of_a_tier_spread_evenly_at_the_next_tier() {
    let hashes = flow_hashes(FlowPattern::RocePorts, 1_000_000);
    let (first, second) = (path_table(&[1; 8], None), path_table(&[1; 8], None));
    let way = first.select(GroupId(0), seeded_hash(hashes[0], 1));
    let same_way: Vec<_> = hashes
        .iter()
        .filter(|hash| first.select(GroupId(0), seeded_hash(**hash, 1)) == way)
        .map(|hash| seeded_hash(*hash, 2))
        .collect();
    assert!(largest_relative_deviation(&flows_per_member(&second, 8, &same_way), &[1; 8]) < 0.03);
}
