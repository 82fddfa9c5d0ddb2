//! Compares longest prefix matching with a simple, slow reference: one map for each prefix length.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use proptest::prelude::*;
use xoff_dataplane::route::{
    Fib, FibEntry, NextHop, Rib, Route, RoutePath, RouteSource, RouteTag, RouteTarget,
};
use xoff_dataplane::{InterfaceId, NextHopId};

/// Random numbers from a seed: splitmix64.
struct Draw(u64);

impl Draw {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
    fn below(&mut self, limit: usize) -> usize {
        (self.word() % limit as u64) as usize
    }
    fn address(&mut self) -> u128 {
        u128::from(self.word()) << 64 | u128::from(self.word())
    }
}

/// A prefix of either address family. Its address is in the highest bits, so that both families are handled
/// alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bits {
    v4: bool,
    address: u128,
    len: u8,
}

impl Bits {
    fn new(v4: bool, address: u128, len: u8) -> Bits {
        let address = address & mask(len);
        Bits { v4, address, len }
    }
    fn width(v4: bool) -> u8 {
        if v4 { 32 } else { 128 }
    }
    fn net(self) -> IpNet {
        IpNet::new_assert(ip(self.v4, self.address), self.len)
    }
    /// The difference between neighbouring addresses.
    fn step(self) -> u128 {
        if self.v4 { 1 << 96 } else { 1 }
    }
    /// The last address.
    fn last(self) -> u128 {
        self.address | !mask(self.len) & mask(Bits::width(self.v4))
    }
}

fn mask(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

fn ip(v4: bool, address: u128) -> IpAddr {
    if v4 {
        IpAddr::from(((address >> 96) as u32).to_be_bytes())
    } else {
        IpAddr::from(address.to_be_bytes())
    }
}

/// The reference: one map for each prefix length.
#[derive(Default)]
struct Naive {
    routes: BTreeMap<(bool, u8), BTreeMap<u128, RouteTarget>>,
}

impl Naive {
    fn set(&mut self, prefix: Bits, target: RouteTarget) {
        self.routes
            .entry((prefix.v4, prefix.len))
            .or_default()
            .insert(prefix.address, target);
    }
    fn remove(&mut self, prefix: Bits) {
        if let Some(routes) = self.routes.get_mut(&(prefix.v4, prefix.len)) {
            routes.remove(&prefix.address);
        }
    }
    fn lookup(&self, v4: bool, address: u128) -> Option<&RouteTarget> {
        let of_family = self.routes.range((v4, 0)..=(v4, 128));
        of_family
            .rev()
            .find_map(|(&(_, len), routes)| routes.get(&(address & mask(len))))
    }
    fn depth(&self, v4: bool, address: u128) -> usize {
        let of_family = self.routes.range((v4, 0)..=(v4, 128));
        of_family
            .filter(|&(&(_, len), routes)| routes.contains_key(&(address & mask(len))))
            .count()
    }
    fn routes(&self) -> Vec<Route> {
        let bits = |&(v4, len): &(bool, u8), address: u128| Bits { v4, address, len };
        let routes = self
            .routes
            .iter()
            .flat_map(|(key, routes)| routes.iter().map(move |route| (key, route)));
        routes
            .map(|(key, (address, target))| Route {
                prefix: bits(key, *address).net(),
                target: target.clone(),
                tag: RouteTag::default(),
            })
            .collect()
    }
}

/// True if the entry of `fib` matches `target`.
fn agree(fib: &Fib, entry: Option<FibEntry>, target: Option<&RouteTarget>) -> bool {
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

fn target(draw: &mut Draw) -> RouteTarget {
    match draw.below(10) {
        0 => RouteTarget::Local,
        1 => RouteTarget::Blackhole,
        2 => RouteTarget::Connected(InterfaceId(draw.below(300) as u16)),
        3..=6 => RouteTarget::Via(vec![RoutePath {
            next_hop: next_hop(draw.below(40)),
            weight: 1,
        }]),
        _ => {
            let first = draw.below(40);
            let path = |n| RoutePath {
                next_hop: next_hop((first + n) % 40),
                weight: 1,
            };
            RouteTarget::Via((0..2 + draw.below(3)).map(path).collect())
        }
    }
}

/// A changing table, its reference, and all prefixes that were ever in it.
struct World {
    draw: Draw,
    rib: Rib,
    fib: Fib,
    naive: Naive,
    ever: Vec<Bits>,
    present: BTreeSet<Bits>,
    lookups: u32,
}

impl World {
    fn new(seed: u64) -> World {
        World {
            draw: Draw(seed),
            rib: Rib::new(),
            fib: Fib::default(),
            naive: Naive::default(),
            ever: Vec::new(),
            present: BTreeSet::new(),
            lookups: 0,
        }
    }

    /// A random prefix: anywhere, inside an earlier prefix, or next to one.
    fn prefix(&mut self) -> Bits {
        let draw = &mut self.draw;
        let kind = if self.ever.is_empty() { 9 } else { draw.below(10) };
        if kind == 9 {
            let v4 = draw.below(2) == 0;
            let len = draw.below(usize::from(Bits::width(v4)) + 1) as u8;
            return Bits::new(v4, draw.address(), len);
        }
        let near = self.ever[draw.below(self.ever.len())];
        let width = Bits::width(near.v4);
        match kind {
            0..=4 => {
                let longer = near.len + draw.below(usize::from(width - near.len).min(12) + 1) as u8;
                Bits::new(near.v4, near.address | draw.address() & !mask(near.len), longer)
            }
            5 | 6 if near.len > 0 => Bits::new(near.v4, near.address ^ 1 << (128 - near.len), near.len),
            7 => Bits::new(
                near.v4,
                near.address,
                near.len.saturating_sub(draw.below(4) as u8),
            ),
            _ => Bits::new(near.v4, near.address | draw.address() & !mask(near.len), width),
        }
    }

    fn set(&mut self, prefix: Bits, target: RouteTarget) {
        let route = Route {
            prefix: prefix.net(),
            target: target.clone(),
            tag: RouteTag::default(),
        };
        self.rib.set_route(RouteSource::Static, 1, route);
        self.naive.set(prefix, target);
        self.ever.push(prefix);
        self.present.insert(prefix);
    }

    fn remove(&mut self, prefix: Bits) {
        assert!(self.rib.remove_route(RouteSource::Static, 1, prefix.net()));
        self.naive.remove(prefix);
        self.present.remove(&prefix);
    }

    fn some_present(&mut self) -> Option<Bits> {
        let from = self.ever[self.draw.below(self.ever.len())];
        self.present.range(from..).next().copied()
    }

    fn change(&mut self, grow: bool) {
        let target = target(&mut self.draw);
        match (self.draw.below(10), self.some_present()) {
            (0..=1, Some(prefix)) => self.set(prefix, target),
            (2..=4, Some(prefix)) => self.remove(prefix),
            (5..=7, Some(prefix)) if !grow => self.remove(prefix),
            _ => {
                let prefix = self.prefix();
                self.set(prefix, target);
            }
        }
    }

    fn publish(&mut self) {
        self.fib = self.rib.next_generation(&self.fib).unwrap();
        assert_eq!(self.fib.routes().len(), self.present.len());
    }

    /// A random address: first or last of a prefix, inside, just outside, or anywhere.
    fn look_up(&mut self, times: u32) {
        for time in 0..times {
            let near = self.ever[self.draw.below(self.ever.len())];
            let inside = near.address | self.draw.address() & !mask(near.len);
            let address = match time % 6 {
                0 => near.address,
                1 => near.last(),
                2 => near.address.wrapping_sub(near.step()),
                3 => near.last().wrapping_add(near.step()),
                4 => inside,
                _ => self.draw.address(),
            };
            let address = address & mask(Bits::width(near.v4));
            let found = self.fib.lookup(ip(near.v4, address));
            let expected = self.naive.lookup(near.v4, address);
            assert!(
                agree(&self.fib, found, expected),
                "{}: {found:?}, not {expected:?}",
                ip(near.v4, address)
            );
        }
        self.lookups += times;
    }
}

#[test]
fn a_million_look_ups_agree_with_the_reference_while_ten_thousand_changes_happen() {
    let mut world = World::new(4);
    for v4 in [true, false] {
        world.set(Bits::new(v4, 0, 0), RouteTarget::Blackhole);
    }
    for _ in 0..3_000 {
        let (prefix, target) = (world.prefix(), target(&mut world.draw));
        world.set(prefix, target);
    }
    world.publish();
    world.look_up(100_000);
    let deepest = |v4| {
        let inside = world.present.iter().filter(|prefix| prefix.v4 == v4);
        inside
            .map(|prefix| world.naive.depth(v4, prefix.last()))
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
        (0..80).for_each(|_| world.change(grow));
        world.publish();
        world.look_up(6_400);
    }
    world.look_up(100_000);
    assert_eq!(world.lookups, 1_000_000);
}

#[test]
fn a_hundred_thousand_prefixes_agree_with_the_reference() {
    let mut world = World::new(5);
    while world.present.len() < 100_000 {
        // Like the table of a provider: mostly /24 and /48 in blocks, plus the prefixes of [`World`].
        let (v4, block) = (world.draw.below(2) == 0, world.draw.below(2_000) as u128);
        let address = (if v4 { 0x0a00 + block } else { 0x2000 + block }) << 112 | world.draw.address() >> 16;
        let prefix = match world.draw.below(10) {
            0 => world.prefix(),
            1 => Bits::new(v4, address, 16 + world.draw.below(17) as u8),
            _ => Bits::new(v4, address, if v4 { 24 } else { 48 }),
        };
        let target = target(&mut world.draw);
        world.set(prefix, target);
    }
    world.publish();
    world.look_up(200_000);
    println!("{} octets for look-ups", world.fib.lookup_memory_bytes());
    assert!(
        world.fib.lookup_memory_bytes() < 12_000_000,
        "{} octets",
        world.fib.lookup_memory_bytes()
    );
}

#[test]
fn a_thousand_routes_of_a_fabric_fit_into_a_second_level_cache() {
    let mut draw = Draw(6);
    for v4 in [true, false] {
        let mut world = World::new(6);
        world.set(Bits::new(v4, 0, 0), RouteTarget::Blackhole);
        for _ in 0..1_000 {
            let block = if v4 {
                0x0a << 120
            } else {
                0xfd00_0001_0002_u128 << 80
            };
            let (share, len) = if v4 { (8, 24) } else { (48, 64) };
            world.set(
                Bits::new(v4, block | draw.address() >> share, len),
                RouteTarget::Local,
            );
        }
        world.publish();
        let bytes = world.fib.lookup_memory_bytes();
        println!("{bytes} octets");
        assert!(bytes <= 300_000, "{bytes} octets");
    }
}

/// Addresses with few distinct bits, so that prefixes overlap.
fn prefixes() -> impl Strategy<Value = Vec<(Bits, u8)>> {
    let address = prop::collection::vec(prop::sample::select(vec![0_u8, 1, 2, 0x80, 0xff]), 16)
        .prop_map(|octets| u128::from_be_bytes(octets.try_into().unwrap()));
    let prefix =
        (any::<bool>(), address, any::<u8>(), any::<u8>()).prop_map(|(v4, address, len, interface)| {
            (Bits::new(v4, address, len % (Bits::width(v4) + 1)), interface)
        });
    prop::collection::vec(prefix, 0..40)
}

proptest! {
    #[test]
    fn small_tables_of_any_shape_agree_with_the_reference(routes in prefixes(), seed in any::<u64>()) {
        let mut naive = Naive::default();
        for &(prefix, interface) in &routes {
            naive.set(prefix, RouteTarget::Connected(InterfaceId(u16::from(interface))));
        }
        let fib = Fib::build(naive.routes()).unwrap();
        let mut draw = Draw(seed);
        for &(prefix, _) in &routes {
            let inside = prefix.address | draw.address() & !mask(prefix.len);
            let edges = [
                prefix.address,
                prefix.last(),
                prefix.address.wrapping_sub(prefix.step()),
                prefix.last().wrapping_add(prefix.step()),
                inside,
            ];
            for address in edges.map(|address| address & mask(Bits::width(prefix.v4))) {
                let found = fib.lookup(ip(prefix.v4, address));
                prop_assert!(agree(&fib, found, naive.lookup(prefix.v4, address)));
            }
        }
    }
}
