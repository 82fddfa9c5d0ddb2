//! Advertisements over three tiers: two leaves, two aggregation switches above each, and four core switches.

use xoff_dataplane::config::{AdvertiseConfig, BridgingConfig, SchemeConfig, SchemeKind, SwitchConfig};
use xoff_dataplane::{LinkTiming, Picos, PortId};

use super::lost_paths::drops_without_path;
use crate::support::config::{self, equal_cost_target};
use crate::support::net::{self, SwitchPort, TestNetwork};

/// Returns the index of a leaf. Port 0 leads to the host, ports 1 and 2 lead up.
const fn leaf_index(side: usize) -> usize {
    3 * side
}

/// Returns the index of an aggregation switch. Port 0 leads down, ports 1 and 2 lead up.
const fn aggregation_index(side: usize, number: usize) -> usize {
    3 * side + 1 + number
}

/// Returns the index of a core switch. Port 0 leads to one side, port 1 to the other.
const fn core_index(above: usize, number: usize) -> usize {
    6 + 2 * above + number
}

const SWITCHES: usize = 10;

fn cables() -> Vec<(SwitchPort, SwitchPort)> {
    let mut cables = Vec::new();
    for side in 0..2 {
        for number in 0..2 {
            let below = aggregation_index(side, number);
            cables.push(((leaf_index(side), 1 + number as u16), (below, 0)));
            cables.extend((0..2).map(|k| ((below, 1 + k as u16), (core_index(number, k), side as u16))));
        }
    }
    cables
}

fn link_address(cable: usize, end: usize) -> String {
    format!("172.16.{cable}.{end}")
}

fn switch_config(index: usize, cables: &[(SwitchPort, SwitchPort)]) -> SwitchConfig {
    let side = (index < 6).then_some(index / 3);
    let host = side.filter(|side| index == leaf_index(*side));
    let mut config = config::bridge_config(if side.is_some() { 3 } else { 2 });
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
        net::add_interface(&mut config, 0, index, &format!("10.0.{side}.1/24"));
        net::add_static_neighbour(&mut config, 0, &format!("10.0.{side}.9"), net::host_mac(side));
        hops.push(String::new());
    }
    let ports = 0..config.ports.len();
    for port in ports.skip(hops.len()) {
        let at = |ends: &(SwitchPort, SwitchPort)| {
            ends.0 == (index, port as u16) || ends.1 == (index, port as u16)
        };
        let cable = cables.iter().position(at).expect("a cable");
        let (a, b) = cables[cable];
        let (end, peer) = if a.0 == index { (0, b.0) } else { (1, a.0) };
        net::add_interface(
            &mut config,
            port,
            index,
            &format!("{}/31", link_address(cable, end)),
        );
        hops.push(link_address(cable, 1 - end));
        net::add_static_neighbour(&mut config, port, &hops[port], net::switch_mac(peer));
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
        (site, equal_cost_target(&hops))
    };
    let sites = (0..2).filter(|site| host != Some(*site));
    net::set_leaf_routes(&mut config, sites.map(to));
    config
}

struct ThreeTierNetwork {
    net: TestNetwork,
    cables: Vec<(SwitchPort, SwitchPort)>,
}

impl ThreeTierNetwork {
    fn new() -> ThreeTierNetwork {
        let cables = cables();
        let configs: Vec<_> = (0..SWITCHES).map(|index| switch_config(index, &cables)).collect();
        let net = TestNetwork::new(&configs, cables.clone());
        ThreeTierNetwork { net, cables }
    }

    fn fail_cables_between(&mut self, a: usize, b: usize) {
        let between = |ends: &(SwitchPort, SwitchPort)| (ends.0.0, ends.1.0) == (a, b);
        let cable = self.cables.iter().position(between).expect("a cable");
        self.net.set_cable_state(cable, false);
    }

    /// Returns the advertised Mb/s and utilisation of the path to the other side, for a port of leaf 0.
    fn advertised_path(&self, port: u16) -> (u32, Option<u16>) {
        let mut advertisements = self.net.switches[0]
            .switch()
            .remote_advertisements(self.net.now(), PortId(port));
        let advertisement = advertisements
            .find(|advertisement| advertisement.site == 2)
            .expect("told");
        (
            advertisement.capacity_mbps,
            advertisement.load.map(|load| load.utilisation),
        )
    }
}

/// Sends 5 Gb/s over each of the four paths. Then the paths of the left aggregation switch fail one by one.
#[test]
fn loads_and_lost_paths_are_advertised_over_three_tiers() {
    let mut tiers = ThreeTierNetwork::new();
    for n in 0..1_000 {
        let at = Picos(400_000 * n);
        tiers.net.switches[0].receive_at(at, 0, net::flow_frame(0, 1, n as u16, 1_000));
    }
    tiers.net.run_for(Picos::from_micros(200));
    for port in [1, 2] {
        let (capacity, utilisation) = tiers.advertised_path(port);
        assert_eq!(capacity, 200_000, "by two cores");
        let utilisation = utilisation.expect("told lately");
        assert!(
            (80..=150).contains(&utilisation),
            "half of it goes down one link: {utilisation}"
        );
    }
    tiers.fail_cables_between(aggregation_index(1, 0), core_index(0, 0));
    tiers.net.run_for(Picos::from_micros(10));
    let late = drops_without_path(&tiers.net);
    let by_left = |tiers: &ThreeTierNetwork| tiers.net.switches[0].counters(1).tx_packets;
    let before = by_left(&tiers);
    tiers.net.run_for(Picos::from_micros(30));
    assert_eq!(tiers.advertised_path(1).0, 100_000);
    assert_eq!(drops_without_path(&tiers.net), late, "the other core is used");
    assert!(by_left(&tiers) > before);

    tiers.fail_cables_between(leaf_index(1), aggregation_index(1, 0));
    tiers.net.run_for(Picos::from_micros(10));
    assert_eq!(
        (tiers.advertised_path(1).0, tiers.advertised_path(2).0),
        (0, 200_000)
    );
    let (late, before) = (drops_without_path(&tiers.net), by_left(&tiers));
    tiers.net.run_for(Picos::from_micros(50));
    assert_eq!((drops_without_path(&tiers.net), by_left(&tiers)), (late, before));
    assert!(late < 30, "{late}");
    tiers.net.run_until_idle(Picos::from_millis(20));
}
