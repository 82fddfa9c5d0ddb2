//! Compares longest prefix matching with a simple, slow reference: one map for each prefix length.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program prints its results"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use proptest::prelude::*;
use xoff_dataplane::route::{
    Fib, FibEntry, NextHop, Rib, Route, RoutePath, RouteSource, RouteTag, RouteTarget,
};
use xoff_dataplane::{InterfaceId, NextHopId};

/// Random numbers from a seed: splitmix64.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next_word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
    fn below(&mut self, limit: usize) -> usize {
        (self.next_word() % limit as u64) as usize
    }
    fn random_address(&mut self) -> u128 {
        u128::from(self.next_word()) << 64 | u128::from(self.next_word())
    }
}

/// A prefix of either address family. Its address is in the highest bits, so that both families
/// are handled alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PrefixBits {
    is_ipv4: bool,
    address: u128,
    len: u8,
}

impl PrefixBits {
    fn new(is_ipv4: bool, address: u128, len: u8) -> PrefixBits {
        let address = address & prefix_mask(len);
        PrefixBits {
            is_ipv4,
            address,
            len,
        }
    }
    fn address_bits(is_ipv4: bool) -> u8 {
        if is_ipv4 { 32 } else { 128 }
    }
    fn to_ip_net(self) -> IpNet {
        IpNet::new_assert(ip_address(self.is_ipv4, self.address), self.len)
    }
    /// Returns the difference between neighbouring addresses.
    fn address_step(self) -> u128 {
        if self.is_ipv4 { 1 << 96 } else { 1 }
    }
    /// Returns the last address.
    fn last_address(self) -> u128 {
        self.address | !prefix_mask(self.len) & prefix_mask(PrefixBits::address_bits(self.is_ipv4))
    }
}

fn prefix_mask(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

fn ip_address(is_ipv4: bool, address: u128) -> IpAddr {
    if is_ipv4 {
        IpAddr::from(((address >> 96) as u32).to_be_bytes())
    } else {
        IpAddr::from(address.to_be_bytes())
    }
}

/// A reference table with one map for each prefix length.
#[derive(Default)]
struct ReferenceTable {
    routes: BTreeMap<(bool, u8), BTreeMap<u128, RouteTarget>>,
}

impl ReferenceTable {
    fn set(&mut self, prefix: PrefixBits, target: RouteTarget) {
        self.routes
            .entry((prefix.is_ipv4, prefix.len))
            .or_default()
            .insert(prefix.address, target);
    }
    fn remove(&mut self, prefix: PrefixBits) {
        if let Some(routes) = self.routes.get_mut(&(prefix.is_ipv4, prefix.len)) {
            routes.remove(&prefix.address);
        }
    }
    fn lookup(&self, is_ipv4: bool, address: u128) -> Option<&RouteTarget> {
        let of_family = self.routes.range((is_ipv4, 0)..=(is_ipv4, 128));
        of_family
            .rev()
            .find_map(|(&(_, len), routes)| routes.get(&(address & prefix_mask(len))))
    }
    fn matching_prefixes(&self, is_ipv4: bool, address: u128) -> usize {
        let of_family = self.routes.range((is_ipv4, 0)..=(is_ipv4, 128));
        of_family
            .filter(|&(&(_, len), routes)| routes.contains_key(&(address & prefix_mask(len))))
            .count()
    }
    fn routes(&self) -> Vec<Route> {
        let bits = |&(is_ipv4, len): &(bool, u8), address: u128| PrefixBits {
            is_ipv4,
            address,
            len,
        };
        let routes = self
            .routes
            .iter()
            .flat_map(|(key, routes)| routes.iter().map(move |route| (key, route)));
        routes
            .map(|(key, (address, target))| Route {
                prefix: bits(key, *address).to_ip_net(),
                target: target.clone(),
                tag: RouteTag::default(),
            })
            .collect()
    }
}

/// Returns true if the entry of `fib` matches `target`.
fn entry_matches_target(fib: &Fib, entry: Option<FibEntry>, target: Option<&RouteTarget>) -> bool {
    match (entry, target) {
        (None, None) | (Some(FibEntry::Local), Some(RouteTarget::Local)) => true,
        (Some(FibEntry::Blackhole), Some(RouteTarget::Blackhole)) => true,
        (Some(FibEntry::Connected(found)), Some(RouteTarget::Connected(interface))) => found == *interface,
        (Some(FibEntry::NextHop(id)), Some(RouteTarget::Via(paths))) => paths
            .iter()
            .all(|path| path.next_hop == fib.next_hops()[id.index()]),
        (Some(FibEntry::Group(id)), Some(RouteTarget::Via(paths))) => {
            let members = &fib.groups()[id.index()].members;
            members.len() == paths.len()
                && paths.iter().all(|path| {
                    let found = |&(id, weight): &_| {
                        path.next_hop == fib.next_hops()[NextHopId::index(id)] && path.weight == weight
                    };
                    members.iter().any(found)
                })
        }
        _ => false,
    }
}

fn next_hop(number: usize) -> NextHop {
    NextHop {
        interface: InterfaceId(number as u16),
        address: IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, number as u16]),
    }
}

fn random_target(random: &mut SplitMix64) -> RouteTarget {
    match random.below(10) {
        0 => RouteTarget::Local,
        1 => RouteTarget::Blackhole,
        2 => RouteTarget::Connected(InterfaceId(random.below(300) as u16)),
        3..=6 => RouteTarget::Via(
            [RoutePath {
                next_hop: next_hop(random.below(40)),
                weight: 1,
            }]
            .into(),
        ),
        _ => {
            let first = random.below(40);
            let path = |n| RoutePath {
                next_hop: next_hop((first + n) % 40),
                weight: 1,
            };
            RouteTarget::Via((0..2 + random.below(3)).map(path).collect())
        }
    }
}

/// A changing table, its reference, and all prefixes that it ever contained.
struct ChangingTable {
    random: SplitMix64,
    rib: Rib,
    fib: Fib,
    reference: ReferenceTable,
    past_prefixes: Vec<PrefixBits>,
    present: BTreeSet<PrefixBits>,
    lookups: u32,
}

impl ChangingTable {
    fn new(seed: u64) -> ChangingTable {
        ChangingTable {
            random: SplitMix64(seed),
            rib: Rib::new(),
            fib: Fib::default(),
            reference: ReferenceTable::default(),
            past_prefixes: Vec::new(),
            present: BTreeSet::new(),
            lookups: 0,
        }
    }

    /// Returns a random prefix: anywhere, inside an earlier prefix, or next to one.
    fn random_prefix(&mut self) -> PrefixBits {
        let random = &mut self.random;
        let kind = if self.past_prefixes.is_empty() {
            9
        } else {
            random.below(10)
        };
        if kind == 9 {
            let is_ipv4 = random.below(2) == 0;
            let len = random.below(usize::from(PrefixBits::address_bits(is_ipv4)) + 1) as u8;
            return PrefixBits::new(is_ipv4, random.random_address(), len);
        }
        let near = self.past_prefixes[random.below(self.past_prefixes.len())];
        let width = PrefixBits::address_bits(near.is_ipv4);
        match kind {
            0..=4 => {
                let longer = near.len + random.below(usize::from(width - near.len).min(12) + 1) as u8;
                PrefixBits::new(
                    near.is_ipv4,
                    near.address | random.random_address() & !prefix_mask(near.len),
                    longer,
                )
            }
            5 | 6 if near.len > 0 => {
                PrefixBits::new(near.is_ipv4, near.address ^ 1 << (128 - near.len), near.len)
            }
            7 => PrefixBits::new(
                near.is_ipv4,
                near.address,
                near.len.saturating_sub(random.below(4) as u8),
            ),
            _ => PrefixBits::new(
                near.is_ipv4,
                near.address | random.random_address() & !prefix_mask(near.len),
                width,
            ),
        }
    }

    fn set(&mut self, prefix: PrefixBits, target: RouteTarget) {
        let route = Route {
            prefix: prefix.to_ip_net(),
            target: target.clone(),
            tag: RouteTag::default(),
        };
        self.rib.set_route(RouteSource::Static, 1, route);
        self.reference.set(prefix, target);
        self.past_prefixes.push(prefix);
        self.present.insert(prefix);
    }

    fn remove(&mut self, prefix: PrefixBits) {
        assert!(self.rib.remove_route(RouteSource::Static, 1, prefix.to_ip_net()));
        self.reference.remove(prefix);
        self.present.remove(&prefix);
    }

    fn random_present_prefix(&mut self) -> Option<PrefixBits> {
        let from = self.past_prefixes[self.random.below(self.past_prefixes.len())];
        self.present.range(from..).next().copied()
    }

    fn apply_random_change(&mut self, grow: bool) {
        let target = random_target(&mut self.random);
        match (self.random.below(10), self.random_present_prefix()) {
            (0..=1, Some(prefix)) => self.set(prefix, target),
            (2..=4, Some(prefix)) => self.remove(prefix),
            (5..=7, Some(prefix)) if !grow => self.remove(prefix),
            _ => {
                let prefix = self.random_prefix();
                self.set(prefix, target);
            }
        }
    }

    fn publish_generation(&mut self) {
        self.fib = self.rib.next_generation(&self.fib).unwrap();
        assert_eq!(self.fib.routes().len(), self.present.len());
    }

    /// Compares `times` lookups of random addresses: the first or last of a prefix, inside, just
    /// outside, or anywhere.
    fn compare_lookups(&mut self, times: u32) {
        for time in 0..times {
            let near = self.past_prefixes[self.random.below(self.past_prefixes.len())];
            let inside = near.address | self.random.random_address() & !prefix_mask(near.len);
            let address = match time % 6 {
                0 => near.address,
                1 => near.last_address(),
                2 => near.address.wrapping_sub(near.address_step()),
                3 => near.last_address().wrapping_add(near.address_step()),
                4 => inside,
                _ => self.random.random_address(),
            };
            let address = address & prefix_mask(PrefixBits::address_bits(near.is_ipv4));
            let found = self.fib.lookup(ip_address(near.is_ipv4, address));
            let expected = self.reference.lookup(near.is_ipv4, address);
            assert!(
                entry_matches_target(&self.fib, found, expected),
                "{}: {found:?}, not {expected:?}",
                ip_address(near.is_ipv4, address)
            );
        }
        self.lookups += times;
    }
}

#[test]
fn a_million_lookups_match_the_reference_during_ten_thousand_route_changes() {
    let mut table = ChangingTable::new(4);
    for is_ipv4 in [true, false] {
        table.set(PrefixBits::new(is_ipv4, 0, 0), RouteTarget::Blackhole);
    }
    for _ in 0..3_000 {
        let (prefix, target) = (table.random_prefix(), random_target(&mut table.random));
        table.set(prefix, target);
    }
    table.publish_generation();
    table.compare_lookups(100_000);
    let deepest = |is_ipv4| {
        let inside = table.present.iter().filter(|prefix| prefix.is_ipv4 == is_ipv4);
        inside
            .map(|prefix| table.reference.matching_prefixes(is_ipv4, prefix.last_address()))
            .max()
            .unwrap()
    };
    assert!(
        deepest(true) >= 6 && deepest(false) >= 6,
        "nested: {} and {}",
        deepest(true),
        deepest(false)
    );

    for generation in 0..125 {
        // Grows to about 5 000 routes, shrinks, and grows again.
        let grow = generation % 50 < 30;
        (0..80).for_each(|_| table.apply_random_change(grow));
        table.publish_generation();
        table.compare_lookups(6_400);
    }
    table.compare_lookups(100_000);
    assert_eq!(table.lookups, 1_000_000);
}

#[test]
fn lookups_in_a_hundred_thousand_prefixes_match_the_reference() {
    let mut table = ChangingTable::new(5);
    while table.present.len() < 100_000 {
        // Like the table of a provider: mostly /24 and /48 in blocks, plus the prefixes of [`ChangingTable`].
        let (is_ipv4, block) = (table.random.below(2) == 0, table.random.below(2_000) as u128);
        let address = (if is_ipv4 { 0x0a00 + block } else { 0x2000 + block }) << 112
            | table.random.random_address() >> 16;
        let prefix = match table.random.below(10) {
            0 => table.random_prefix(),
            1 => PrefixBits::new(is_ipv4, address, 16 + table.random.below(17) as u8),
            _ => PrefixBits::new(is_ipv4, address, if is_ipv4 { 24 } else { 48 }),
        };
        let target = random_target(&mut table.random);
        table.set(prefix, target);
    }
    table.publish_generation();
    table.compare_lookups(200_000);
    println!("{} bytes for lookups", table.fib.lookup_memory_bytes());
    assert!(
        table.fib.lookup_memory_bytes() < 12_000_000,
        "{} octets",
        table.fib.lookup_memory_bytes()
    );
}

#[test]
fn a_table_of_a_thousand_fabric_routes_fits_into_the_level_2_cache() {
    let mut random = SplitMix64(6);
    for is_ipv4 in [true, false] {
        let mut table = ChangingTable::new(6);
        table.set(PrefixBits::new(is_ipv4, 0, 0), RouteTarget::Blackhole);
        for _ in 0..1_000 {
            let block = if is_ipv4 {
                0x0a << 120
            } else {
                0xfd00_0001_0002_u128 << 80
            };
            let (share, len) = if is_ipv4 { (8, 24) } else { (48, 64) };
            table.set(
                PrefixBits::new(is_ipv4, block | random.random_address() >> share, len),
                RouteTarget::Local,
            );
        }
        table.publish_generation();
        let bytes = table.fib.lookup_memory_bytes();
        println!("{bytes} octets");
        assert!(bytes <= 300_000, "{bytes} octets");
    }
}

/// Generates prefixes whose addresses have few distinct bits, so that the prefixes overlap.
fn overlapping_prefixes() -> impl Strategy<Value = Vec<(PrefixBits, u8)>> {
    let address = prop::collection::vec(prop::sample::select(vec![0_u8, 1, 2, 0x80, 0xff]), 16)
        .prop_map(|octets| u128::from_be_bytes(octets.try_into().unwrap()));
    let prefix =
        (any::<bool>(), address, any::<u8>(), any::<u8>()).prop_map(|(is_ipv4, address, len, interface)| {
            (
                PrefixBits::new(is_ipv4, address, len % (PrefixBits::address_bits(is_ipv4) + 1)),
                interface,
            )
        });
    prop::collection::vec(prefix, 0..40)
}

proptest! {
    #[test]
    fn lookups_in_small_random_tables_match_the_reference(routes in overlapping_prefixes(), seed in any::<u64>()) {
        let mut reference = ReferenceTable::default();
        for &(prefix, interface) in &routes {
            reference.set(prefix, RouteTarget::Connected(InterfaceId(u16::from(interface))));
        }
        let fib = Fib::build(reference.routes()).unwrap();
        let mut random = SplitMix64(seed);
        for &(prefix, _) in &routes {
            let inside = prefix.address | random.random_address() & !prefix_mask(prefix.len);
            let edges = [
                prefix.address,
                prefix.last_address(),
                prefix.address.wrapping_sub(prefix.address_step()),
                prefix.last_address().wrapping_add(prefix.address_step()),
                inside,
            ];
            for address in edges.map(|address| address & prefix_mask(PrefixBits::address_bits(prefix.is_ipv4))) {
                let found = fib.lookup(ip_address(prefix.is_ipv4, address));
                prop_assert!(entry_matches_target(&fib, found, reference.lookup(prefix.is_ipv4, address)));
            }
        }
    }
}
