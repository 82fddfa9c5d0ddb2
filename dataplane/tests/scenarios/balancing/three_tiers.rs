//! Advertisements over three tiers: two leaves, two aggregation switches above each, and four core switches.

use xoff_dataplane::config::{AdvertiseConfig, BridgingConfig, SchemeConfig, SchemeKind, SwitchConfig};
use xoff_dataplane::{LinkTiming, Picos, PortId};

use super::missing_ways::lost;
use crate::support::config::{self, via};
use crate::support::net::{self, Net, Place};

/// A leaf: port 0 is the host, ports 1 and 2 lead up.
const fn leaf(side: usize) -> usize {
    3 * side
}

/// An aggregation switch: port 0 leads down, ports 1 and 2 lead up.
const fn aggregation(side: usize, number: usize) -> usize {
    3 * side + 1 + number
}

/// A core switch: port 0 leads to one side, port 1 to the other.
const fn core(above: usize, number: usize) -> usize {
    6 + 2 * above + number
}

const SWITCHES: usize = 10;

fn cables() -> Vec<(Place, Place)> {
    let mut cables = Vec::new();
    for side in 0..2 {
        for number in 0..2 {
            let below = aggregation(side, number);
            cables.push(((leaf(side), 1 + number as u16), (below, 0)));
            cables.extend((0..2).map(|k| ((below, 1 + k as u16), (core(number, k), side as u16))));
        }
    }
    cables
}

fn address(cable: usize, end: usize) -> String {
    format!("172.16.{cable}.{end}")
}

fn configure(index: usize, cables: &[(Place, Place)]) -> SwitchConfig {
    let side = (index < 6).then_some(index / 3);
    let host = side.filter(|side| index == leaf(*side));
    let mut config = config::switch(if side.is_some() { 3 } else { 2 });
    config.bridging = BridgingConfig::Vlans(Vec::new());
    config.routing.hash_seed = index as u64;
    for port in &mut config.ports {
        port.link = LinkTiming::ethernet(100_000);
    }
    config.balancing.schemes = vec![SchemeConfig::new("turns", SchemeKind::RoundRobin)];
    config.balancing.default_scheme = Some(0);
    config.balancing.advertise = Some(AdvertiseConfig {
        interval: Picos::from_micros(20),
        ports: (u16::from(host.is_some())..config.ports.len() as u16).collect(),
        loads: true,
    });
    let mut hops = Vec::new();
    if let Some(side) = host {
        net::interface(&mut config, 0, index, &format!("10.0.{side}.1/24"));
        net::neighbour(&mut config, 0, &format!("10.0.{side}.9"), net::host_mac(side));
        hops.push(String::new());
    }
    let ports = 0..config.ports.len();
    for port in ports.skip(hops.len()) {
        let at = |ends: &(Place, Place)| ends.0 == (index, port as u16) || ends.1 == (index, port as u16);
        let cable = cables.iter().position(at).expect("a cable");
        let (a, b) = cables[cable];
        let (end, peer) = if a.0 == index { (0, b.0) } else { (1, a.0) };
        net::interface(&mut config, port, index, &format!("{}/31", address(cable, end)));
        hops.push(address(cable, 1 - end));
        net::neighbour(&mut config, port, &hops[port], net::mac(peer));
    }
    let to = |site: usize| {
        let ports: &[u16] = match (side, host) {
            (None, _) if site == 0 => &[0],
            (None, _) => &[1],
            (Some(side), None) if side == site => &[0],
            (Some(_), _) => &[1, 2],
        };
        let hops: Vec<_> = ports
            .iter()
            .map(|port| (*port, hops[usize::from(*port)].as_str()))
            .collect();
        (site, via(&hops))
    };
    let sites = (0..2).filter(|site| host != Some(*site));
    net::routes(&mut config, sites.map(to));
    config
}

struct Tiers {
    net: Net,
    cables: Vec<(Place, Place)>,
}

impl Tiers {
    fn new() -> Tiers {
        let cables = cables();
        let configs: Vec<_> = (0..SWITCHES).map(|index| configure(index, &cables)).collect();
        let net = Net::new(&configs, cables.clone());
        Tiers { net, cables }
    }

    fn break_between(&mut self, a: usize, b: usize) {
        let between = |ends: &(Place, Place)| (ends.0.0, ends.1.0) == (a, b);
        let cable = self.cables.iter().position(between).expect("a cable");
        self.net.set_cable(cable, false);
    }

    /// Advertised Mb/s and utilisation of the path to the other side, for a port of leaf 0.
    fn word(&self, port: u16) -> (u32, Option<u16>) {
        let mut words = self.net.switches[0]
            .switch()
            .remote_advertisements(self.net.now(), PortId(port));
        let word = words.find(|word| word.site == 2).expect("told");
        (word.capacity_mbps, word.load.map(|load| load.utilisation))
    }
}

/// 5 Gb/s for each of the four paths. Then the paths of the left aggregation switch fail one after the other.
#[test]
fn loads_and_missing_ways_are_told_over_three_tiers() {
    let mut tiers = Tiers::new();
    for n in 0..1_000 {
        let at = Picos(400_000 * n);
        tiers.net.switches[0].receive_at(at, 0, net::flow(0, 1, n as u16, 1_000));
    }
    tiers.net.run_for(Picos::from_micros(200));
    for port in [1, 2] {
        let (capacity, utilisation) = tiers.word(port);
        assert_eq!(capacity, 200_000, "by two cores");
        let utilisation = utilisation.expect("told lately");
        assert!(
            (80..=150).contains(&utilisation),
            "half of it goes down one link: {utilisation}"
        );
    }
    tiers.break_between(aggregation(1, 0), core(0, 0));
    tiers.net.run_for(Picos::from_micros(10));
    let late = lost(&tiers.net);
    let by_left = |tiers: &Tiers| tiers.net.switches[0].counters(1).tx_packets;
    let before = by_left(&tiers);
    tiers.net.run_for(Picos::from_micros(30));
    assert_eq!(tiers.word(1).0, 100_000);
    assert_eq!(lost(&tiers.net), late, "the other core is used");
    assert!(by_left(&tiers) > before);

    tiers.break_between(leaf(1), aggregation(1, 0));
    tiers.net.run_for(Picos::from_micros(10));
    assert_eq!((tiers.word(1).0, tiers.word(2).0), (0, 200_000));
    let (late, before) = (lost(&tiers.net), by_left(&tiers));
    tiers.net.run_for(Picos::from_micros(50));
    assert_eq!((lost(&tiers.net), by_left(&tiers)), (late, before));
    assert!(late < 30, "{late}");
    tiers.net.run_until_idle(Picos::from_millis(20));
}
