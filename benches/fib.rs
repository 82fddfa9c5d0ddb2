//! `cargo bench --bench fib`: nanoseconds per route lookup, and milliseconds to build a generation of the
//! FIB. See `benches/README.md`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its results"
)]

use std::hint::black_box;
use std::net::IpAddr;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ipnet::IpNet;
use xoff_dataplane::route::{
    Fib, FibEntry, NextHop, PathTable, Route, RoutePath, RouteTag, RouteTarget, seeded_hash,
};
use xoff_dataplane::{InterfaceId, NextHopId};

/// Number of destinations that are looked up in turn.
const FLOWS: usize = 64;

/// Returns the next random number of an xorshift64 generator.
fn next_random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Returns a default route and `count` routes with random prefixes. Each route has four of 64 next hops.
///
/// Up to 50 000 routes, the prefixes are /24 in 10.0.0.0/8 or /64 in one /48. Above, they are /24 in the IPv4
/// unicast space or /48 in 2000::/3.
fn random_routes(is_ipv4: bool, count: usize) -> Vec<Route> {
    let path = |number: u64| RoutePath {
        next_hop: NextHop {
            interface: InterfaceId(number as u16),
            address: IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, number as u16]),
        },
        weight: 1,
    };
    let mut state = 0x2545_f491_4f6c_dd1d;
    let mut prefixes = vec![
        if is_ipv4 { "0.0.0.0/0" } else { "::/0" }
            .parse::<IpNet>()
            .unwrap(),
    ];
    while prefixes.len() <= count {
        let missing = count + 1 - prefixes.len();
        prefixes.extend((0..missing).map(|_| build_prefix(is_ipv4, count > 50_000, next_random(&mut state))));
        prefixes.sort();
        prefixes.dedup();
    }
    let target = |state: &mut u64| {
        let first = next_random(state) >> 20;
        RouteTarget::Via((0..4).map(|n| path((first + n) % 64)).collect())
    };
    prefixes
        .into_iter()
        .map(|prefix| Route {
            prefix,
            target: target(&mut state),
            tag: RouteTag::default(),
        })
        .collect()
}

/// Builds a prefix from a random number. `uses_parallel_links` selects the large address space of
/// [`random_routes`].
fn build_prefix(is_ipv4: bool, is_wide: bool, random: u64) -> IpNet {
    let (address, len): (IpAddr, u8) = match (is_ipv4, is_wide) {
        (true, false) => (
            IpAddr::from((0x0a00_0000 | (random as u32) >> 8).to_be_bytes()),
            24,
        ),
        (true, true) => (IpAddr::from((random as u32 % 0xdf00_0000).to_be_bytes()), 24),
        (false, false) => {
            let address = 0xfd00_0001_0002_u128 << 80 | u128::from(random as u16) << 64;
            (IpAddr::from(address.to_be_bytes()), 64)
        }
        (false, true) => (
            IpAddr::from((1_u128 << 125 | u128::from(random >> 3) << 64).to_be_bytes()),
            48,
        ),
    };
    IpNet::new_assert(address, len).trunc()
}

/// Returns addresses in 64 random routes, without the default route.
fn random_destinations(routes: &[Route]) -> Vec<u128> {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let destination = |_| match routes[1 + next_random(&mut state) as usize % (routes.len() - 1)].prefix {
        IpNet::V4(net) => {
            u128::from(net.network().to_bits() | next_random(&mut state) as u32 >> net.prefix_len())
        }
        IpNet::V6(net) => net.network().to_bits() | u128::from(next_random(&mut state)) >> 1,
    };
    (0..FLOWS).map(destination).collect()
}

/// Looks up all destinations and returns the number of routes found.
fn count_routes_found(fib: &Fib, is_ipv4: bool, destinations: &[u128]) -> usize {
    let is_found = |address: &&u128| match is_ipv4 {
        true => fib.lookup_v4(black_box(**address as u32)).is_some(),
        false => fib.lookup_v6(black_box(**address)).is_some(),
    };
    destinations.iter().filter(is_found).count()
}

/// Looks up the route of each destination and selects a next hop of its group, as the data plane does
/// for a packet.
fn select_next_hops(fib: &Fib, table: &PathTable, destinations: &[u128]) -> u32 {
    let next_hop = |address: &u128| match fib.lookup_v4(black_box(*address as u32)) {
        Some(FibEntry::Group(group)) => table.select(group, seeded_hash(black_box(*address as u32), 7)),
        Some(FibEntry::NextHop(id)) => Some(id),
        _ => None,
    };
    destinations
        .iter()
        .filter_map(next_hop)
        .fold(0, |sum, NextHopId(id)| sum ^ id)
}

fn bench_lookup(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lookup");
    group.throughput(Throughput::Elements(FLOWS as u64));
    for (is_ipv4, family) in [(true, "v4"), (false, "v6")] {
        for count in [1_000, 100_000] {
            let routes = random_routes(is_ipv4, count);
            let destinations = random_destinations(&routes);
            let fib = Fib::build(routes).unwrap();
            println!("{family}, {count} routes: {} bytes", fib.lookup_memory_bytes());
            assert_eq!(count_routes_found(&fib, is_ipv4, &destinations), FLOWS);
            group.bench_function(format!("{family}, {count} routes"), |bencher| {
                bencher.iter(|| count_routes_found(&fib, is_ipv4, &destinations))
            });
            if is_ipv4 && count == 1_000 {
                let table = PathTable::new(&fib, None, |_| true);
                group.bench_function("v4, 1000 routes, and a member of the group", |bencher| {
                    bencher.iter(|| select_next_hops(&fib, &table, &destinations))
                });
            }
        }
    }
    group.finish();
}

fn bench_build(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("generation");
    group.sample_size(20);
    for (is_ipv4, family) in [(true, "v4"), (false, "v6")] {
        let routes = random_routes(is_ipv4, 100_000);
        let fib = Fib::build(routes.iter().cloned()).unwrap();
        group.bench_function(format!("first, {family}, 100000 routes"), |bencher| {
            bencher.iter_batched(
                || routes.clone(),
                |routes| Fib::build(routes).unwrap(),
                BatchSize::LargeInput,
            )
        });
        group.bench_function(format!("next, {family}, 100000 routes"), |bencher| {
            bencher.iter_batched(
                || routes.clone(),
                |routes| fib.build_successor(routes).unwrap(),
                BatchSize::LargeInput,
            )
        });
    }
    group.finish();
}

criterion_group!(benches, bench_lookup, bench_build);
criterion_main!(benches);
