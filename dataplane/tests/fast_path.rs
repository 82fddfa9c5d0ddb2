//! Compares the fast path with the full path. Two switches receive the same frames. One uses the fast path.
//! The other counts reordering and therefore uses the full path only. Their results must be equal.

mod support;

use std::net::IpAddr;

use support::Harness;
use support::config::{self, ROUTER_MAC, equal_cost_target, set_static_routes};
use support::frames::{insert_vlan_tag, station_mac};
use support::packets::{arp_packet, frame_with_packet, refresh_checksum, udp_ipv4_packet, udp_ipv6_packet};
use support::random::{self, PORTS, RandomSource};
use xoff_dataplane::config::{
    BridgingConfig, InterfaceAttachment, LagConfig, MemberSelection, SchemeConfig, SchemeKind,
    StaticNeighbour, SwitchConfig, TaggingMode, VlanConfig, VlanMemberConfig,
};
use xoff_dataplane::route::RouteTarget;
use xoff_dataplane::{DropReason, ForwardingResult, InterfaceId, Picos, PortId};

const STEPS: usize = 30_000;

/// Counts of what occurred in a run, to make sure that each case was tested.
#[derive(Debug, Default)]
struct ResultCounts {
    forwarded: usize,
    dropped: usize,
    other: usize,
}

/// Applies the same events to both switches and compares all observable results.
fn compare_with_full_path(
    seed: u64,
    config: &SwitchConfig,
    frame: impl Fn(&mut RandomSource, u16) -> Vec<u8>,
) -> ResultCounts {
    compare_with_changing_configs(seed, std::slice::from_ref(config), frame)
}

/// Returns the configurations of the two switches: with the fast path and with the full path only.
fn fast_and_full_configs(config: &SwitchConfig) -> [SwitchConfig; 2] {
    let mut config = config.clone();
    // The fast path is not used if the queue has rules on arrival. Early drops do not apply to lossless
    // groups.
    for port in &mut config.ports {
        for queue in [1, 2, 5, 6, 7] {
            port.queues[queue]
                .wred
                .iter_mut()
                .for_each(|wred| wred.drop = false);
        }
    }
    let mut counting = config.clone();
    counting.balancing.reordering_flows = 64;
    [config, counting]
}

/// Works like [`compare_with_full_path`] with changing configurations. One run has a pipeline latency, so
/// that frames wait. The other has none, so that frames leave an idle port at once.
fn compare_with_changing_configs(
    seed: u64,
    configs: &[SwitchConfig],
    frame: impl Fn(&mut RandomSource, u16) -> Vec<u8>,
) -> ResultCounts {
    let mut counts = ResultCounts::default();
    for pipeline_latency in [configs[0].pipeline_latency, Picos::ZERO] {
        let mut configs: Vec<_> = configs.iter().map(fast_and_full_configs).collect();
        for config in configs.iter_mut().flatten() {
            config.pipeline_latency = pipeline_latency;
        }
        run_both_switches(seed, &configs, &frame, &mut counts);
    }
    counts
}

fn run_both_switches(
    seed: u64,
    configs: &[[SwitchConfig; 2]],
    frame: impl Fn(&mut RandomSource, u16) -> Vec<u8>,
    counts: &mut ResultCounts,
) {
    let mut harnesses = configs[0].each_ref().map(Harness::new);
    harnesses
        .iter_mut()
        .for_each(|harness| harness.records_frames = false);
    let mut random = RandomSource::new(seed);
    for step in 0..STEPS / 2 {
        if random.happens_once_in(60) {
            let what = random.below(u64::MAX);
            for harness in &mut harnesses {
                random::apply_random_disturbance(&mut RandomSource::new(what), harness, true);
            }
        }
        if configs.len() > 1 && random.happens_once_in(500) {
            let next = random.below(configs.len() as u64) as usize;
            for (harness, config) in harnesses.iter_mut().zip(&configs[next]) {
                harness.apply(config);
            }
        }
        let port = random.random_port();
        let frame = frame(&mut random, port);
        let wait = Picos::from_nanos(random.below(20_000));
        let [fast, full] = harnesses.each_mut().map(|harness| {
            let verdict = harness.receive(port, &frame);
            harness.run_for(wait);
            harness.switch().assert_consistent();
            verdict
        });
        assert_eq!(fast, full, "step {step}, port {port}: {frame:02x?}");
        match fast {
            ForwardingResult::Forwarded { .. } => counts.forwarded += 1,
            ForwardingResult::Dropped(_) => counts.dropped += 1,
            _ => counts.other += 1,
        }
        let [fast, full] = harnesses.each_ref().map(Harness::digest);
        assert_eq!(fast, full, "sent frames until step {step}");
    }
    harnesses.iter_mut().for_each(random::drain_switch);
    let [fast, full] = &harnesses;
    assert_eq!(fast.digest(), full.digest(), "sent frames");
    assert_eq!(fast.punts, full.punts);
    for port in 0..PORTS {
        assert_eq!(fast.counters(port), full.counters(port), "port {port}");
        for reason in DropReason::ALL {
            let [fast, full] =
                [fast, full].map(|harness| harness.switch().last_refusal(PortId(port), *reason));
            assert_eq!(fast, full, "the limit behind {reason:?} of port {port}");
        }
    }
    let drains = [fast, full].map(|harness| harness.switch().queued_frames());
    assert_eq!(drains, [0, 0]);
}

fn random_bridged_frame(random: &mut RandomSource, port: u16) -> Vec<u8> {
    random::random_frame(random, port, false)
}

#[test]
fn the_fast_path_gives_the_same_results_for_bridged_frames() {
    for (seed, config) in [
        (1, random::small_buffer_config()),
        (2, random::vlan_config()),
        (3, add_vlan_interface(random::vlan_config())),
        (4, add_trunk_vlans(random::small_buffer_config())),
    ] {
        let counts = compare_with_full_path(seed, &config, |random, port| {
            let mut frame = random_bridged_frame(random, port);
            if random.happens_once_in(20) && frame.len() > 6 {
                frame[..6].copy_from_slice(&ROUTER_MAC);
            }
            if random.happens_once_in(4) && frame.len() >= 14 {
                frame = insert_vlan_tag(&frame, 0x8100, 3);
            }
            frame
        });
        assert!(counts.forwarded > 2_000 && counts.dropped > 500, "{counts:?}");
    }
}

#[test]
fn the_fast_path_gives_the_same_results_for_frames_to_a_lag() {
    for (seed, scheme) in (10..).zip([None, Some(SchemeKind::RoundRobin)]) {
        let mut config = random::small_buffer_config();
        config.lags.push(LagConfig {
            name: "PortChannel1".into(),
            admin_up: true,
            min_links: 1,
            members: vec![3, 4],
        });
        set_scheme(&mut config, scheme);
        let counts = compare_with_full_path(seed, &config, random_bridged_frame);
        assert!(counts.forwarded > 2_000 && counts.dropped > 500, "{counts:?}");
    }
}

#[test]
fn the_fast_path_gives_the_same_results_for_routed_frames() {
    let flowlet = SchemeKind::Flowlet {
        idle: Picos::from_micros(30),
        pick: MemberSelection::Random,
        rebalance: None,
    };
    for (seed, scheme) in (20..).zip([None, Some(SchemeKind::RoundRobin), Some(flowlet)]) {
        let mut config = router_with_vlan();
        set_scheme(&mut config, scheme);
        let counts = compare_with_full_path(seed, &config, random_routed_frame);
        assert!(
            counts.forwarded > 2_000 && counts.dropped > 500 && counts.other > 50,
            "{counts:?}"
        );
    }
}

/// The fast path caches adjacencies. A cached adjacency must not be used after it has become invalid.
#[test]
fn the_fast_path_uses_no_invalid_adjacency() {
    let mut asking = router_with_vlan();
    asking.routing.neighbours.retain(|told| told.interface.0 > 1);
    let mut shorter = asking.clone();
    shorter.routing.interfaces[2].mtu = 900;
    shorter.routing.interfaces[3].mtu = 9_100;
    let mut elsewhere = asking.clone();
    elsewhere
        .routing
        .neighbours
        .iter_mut()
        .for_each(|told| told.mac[5] ^= 0x40);
    set_static_routes(
        &mut elsewhere,
        &[(
            "11.0.0.0/8",
            equal_cost_target(&[(1, "10.0.1.9"), (3, "10.0.3.9")]),
        )],
    );
    for seed in [30, 31] {
        let configs = [
            asking.clone(),
            shorter.clone(),
            elsewhere.clone(),
            router_with_vlan(),
        ];
        let counts = compare_with_changing_configs(seed, &configs, |random, port| {
            if !random.happens_once_in(25) {
                return random_routed_frame(random, port);
            }
            let (address, router) = (format!("10.0.{port}.9"), format!("10.0.{port}.1"));
            let from = station_mac(random.below(3) as u8 + 0x30);
            let answer = arp_packet(2, (from, &address), (ROUTER_MAC, &router));
            frame_with_packet(ROUTER_MAC, from, 0x0806, &answer)
        });
        assert!(
            counts.forwarded > 2_000 && counts.dropped > 500 && counts.other > 500,
            "{counts:?}"
        );
    }
}

fn set_scheme(config: &mut SwitchConfig, scheme: Option<SchemeKind>) {
    config.balancing.schemes = scheme
        .map(|kind| SchemeConfig::new("chosen", kind))
        .into_iter()
        .collect();
    config.balancing.default_scheme = (!config.balancing.schemes.is_empty()).then_some(0);
}

/// Adds a router interface on the VLAN of untagged frames.
fn add_vlan_interface(mut config: SwitchConfig) -> SwitchConfig {
    config::add_interface(
        &mut config,
        "Vlan3",
        InterfaceAttachment::Vlan(3),
        &["10.0.0.254/24"],
    );
    config
}

/// Adds two VLANs. One has tagged and untagged members.
fn add_trunk_vlans(mut config: SwitchConfig) -> SwitchConfig {
    let member = |(port, tagging)| VlanMemberConfig { port, tagging };
    let of_3 = [
        (0, TaggingMode::Untagged),
        (1, TaggingMode::Untagged),
        (2, TaggingMode::PriorityTagged),
        (3, TaggingMode::Tagged),
    ];
    let members = of_3.map(member).to_vec();
    let others = vec![member((4, TaggingMode::Untagged))];
    config.bridging = BridgingConfig::Vlans(vec![
        VlanConfig { id: 3, members },
        VlanConfig {
            id: 5,
            members: others,
        },
    ]);
    config
}

/// Creates ports with the small buffers of [`random::small_buffer_config`]. All ports are routed except the
/// last one, which is in a VLAN with a router interface.
fn router_with_vlan() -> SwitchConfig {
    let mut config = config::router_config(usize::from(PORTS));
    let tight = random::small_buffer_config();
    (config.ports, config.pools) = (tight.ports, tight.pools);
    (config.frames_max, config.pipeline_latency) = (tight.frames_max, tight.pipeline_latency);
    config.routing.interfaces.pop();
    config.bridging = BridgingConfig::Vlans(vec![VlanConfig {
        id: 7,
        members: vec![VlanMemberConfig {
            port: PORTS - 1,
            tagging: TaggingMode::Untagged,
        }],
    }]);
    config::add_interface(
        &mut config,
        "Vlan7",
        InterfaceAttachment::Vlan(7),
        &["10.0.4.1/24"],
    );
    config.routing.interfaces[3].mtu = 700;
    let known = |interface: u16, address: &str| StaticNeighbour {
        interface: InterfaceId(interface),
        address: address.parse::<IpAddr>().expect("an address"),
        mac: station_mac(interface as u8),
    };
    config.routing.neighbours = (0..PORTS).map(|n| known(n, &format!("10.0.{n}.9"))).collect();
    let hops = [(0, "10.0.0.9"), (1, "10.0.1.9"), (2, "10.0.2.9"), (3, "10.0.3.9")];
    set_static_routes(
        &mut config,
        &[
            ("11.0.0.0/8", equal_cost_target(&hops)),
            ("12.0.0.0/8", equal_cost_target(&hops[1..2])),
            (
                "13.0.0.0/8",
                equal_cost_target(&[(2, "10.0.2.77"), (3, "10.0.3.9")]),
            ), // 10.0.2.77 never answers
            (
                "14.0.0.0/8",
                equal_cost_target(&[(4, "10.0.4.9"), (0, "10.0.0.9")]),
            ), // 10.0.4.9 is in the VLAN
            ("15.0.0.0/8", RouteTarget::Blackhole),
        ],
    );
    config
}

fn random_routed_frame(random: &mut RandomSource, port: u16) -> Vec<u8> {
    let host = random.below(8);
    let to = match random.below(12) {
        0 => format!("10.0.{}.9", random.random_port()),
        1 => format!("10.0.{}.{}", random.random_port(), 70 + host),
        2 => format!("10.0.{}.1", random.random_port()),
        3 => "127.0.0.1".into(),
        4 => format!("16.0.0.{host}"),
        5 => format!("169.254.0.{host}"),
        n => format!("{}.0.0.{host}", 11 + n % 5),
    };
    let ttl = [1, 2, 64, 64, 64, 64][random.below(6) as usize];
    let payload = random.below(1_200) as usize;
    if random.happens_once_in(15) {
        let to = format!("2001:db8:{}::9", random.random_port());
        return frame_with_packet(
            ROUTER_MAC,
            station_mac(port as u8),
            0x86dd,
            &udp_ipv6_packet("2001:db8:9::9", &to, ttl, payload),
        );
    }
    let mut packet = udp_ipv4_packet(&format!("10.0.{port}.9"), &to, ttl, payload);
    packet[1] = (random.below(8) << 2 | random.below(4)) as u8;
    packet[21] = random.below(40) as u8;
    refresh_checksum(&mut packet);
    match random.below(40) {
        0 => packet[10] ^= 1,
        1 => packet.truncate(random.below(28) as usize),
        2 => packet[0] = 0x46,
        _ => {}
    }
    let mut frame = frame_with_packet(ROUTER_MAC, station_mac(port as u8), 0x0800, &packet);
    match random.below(40) {
        0 => frame[..6].fill(0xff),
        1 => frame[5] ^= 1,
        2 => frame[6] |= 1,
        3 => drop(frame.splice(12..12, [0x81, 0, 0, random.below(2) as u8])),
        _ => {}
    }
    frame
}
