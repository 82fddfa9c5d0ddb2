//! Compares the fast path with the full path. Two switches receive the same frames. One uses the fast path.
//! The other counts reordering and therefore uses the full path only. Their results must be equal.

mod support;

use std::net::IpAddr;

use support::Harness;
use support::config::{self, ROUTER, routes, via};
use support::frames::{mac, tagged};
use support::packets::{arp, frame as ethernet, refresh_checksum, udp4, udp6};
use support::random::{self, Dice, PORTS};
use xoff_dataplane::config::{
    BridgingConfig, InterfaceAttachment, LagConfig, MemberSelection, SchemeConfig, SchemeKind,
    StaticNeighbour, SwitchConfig, TaggingMode, VlanConfig, VlanMemberConfig,
};
use xoff_dataplane::route::RouteTarget;
use xoff_dataplane::{DropReason, ForwardingResult, InterfaceId, Picos, PortId};

const STEPS: usize = 30_000;

/// Counts of what occurred in a run, to make sure that each case was tested.
#[derive(Debug, Default)]
struct Seen {
    forwarded: usize,
    dropped: usize,
    other: usize,
}

/// Applies the same events to both switches and compares all observable results.
fn both(seed: u64, config: &SwitchConfig, frame: impl Fn(&mut Dice, u16) -> Vec<u8>) -> Seen {
    both_under(seed, std::slice::from_ref(config), frame)
}

/// The configurations of the two switches: with the fast path and with the full path only.
fn pair_of(config: &SwitchConfig) -> [SwitchConfig; 2] {
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

/// As [`both`], with changing configurations. One run has a pipeline latency, so that frames wait. The other
/// has none, so that frames leave an idle port at once.
fn both_under(seed: u64, configs: &[SwitchConfig], frame: impl Fn(&mut Dice, u16) -> Vec<u8>) -> Seen {
    let mut seen = Seen::default();
    for pipeline_latency in [configs[0].pipeline_latency, Picos::ZERO] {
        let mut configs: Vec<_> = configs.iter().map(pair_of).collect();
        for config in configs.iter_mut().flatten() {
            config.pipeline_latency = pipeline_latency;
        }
        compare(seed, &configs, &frame, &mut seen);
    }
    seen
}

fn compare(
    seed: u64,
    configs: &[[SwitchConfig; 2]],
    frame: impl Fn(&mut Dice, u16) -> Vec<u8>,
    seen: &mut Seen,
) {
    let mut harnesses = configs[0].each_ref().map(Harness::new);
    harnesses.iter_mut().for_each(|harness| harness.record = false);
    let mut dice = Dice::new(seed);
    for step in 0..STEPS / 2 {
        if dice.one_in(60) {
            let what = dice.below(u64::MAX);
            for harness in &mut harnesses {
                random::disturb(&mut Dice::new(what), harness, true);
            }
        }
        if configs.len() > 1 && dice.one_in(500) {
            let next = dice.below(configs.len() as u64) as usize;
            for (harness, config) in harnesses.iter_mut().zip(&configs[next]) {
                harness.apply(config);
            }
        }
        let port = dice.port();
        let frame = frame(&mut dice, port);
        let wait = Picos::from_nanos(dice.below(20_000));
        let [short, long] = harnesses.each_mut().map(|harness| {
            let verdict = harness.receive(port, &frame);
            harness.run_for(wait);
            harness.switch().assert_consistent();
            verdict
        });
        assert_eq!(short, long, "step {step}, port {port}: {frame:02x?}");
        match short {
            ForwardingResult::Forwarded { .. } => seen.forwarded += 1,
            ForwardingResult::Dropped(_) => seen.dropped += 1,
            _ => seen.other += 1,
        }
        let [short, long] = harnesses.each_ref().map(Harness::digest);
        assert_eq!(short, long, "what was sent until step {step}");
    }
    harnesses.iter_mut().for_each(random::let_drain);
    let [short, long] = &harnesses;
    assert_eq!(short.digest(), long.digest(), "what was sent");
    assert_eq!(short.punts, long.punts);
    for port in 0..PORTS {
        assert_eq!(short.counters(port), long.counters(port), "port {port}");
        for reason in DropReason::ALL {
            let [short, long] =
                [short, long].map(|harness| harness.switch().last_refusal(PortId(port), *reason));
            assert_eq!(short, long, "the limit behind {reason:?} of port {port}");
        }
    }
    let drains = [short, long].map(|harness| harness.switch().queued_frames());
    assert_eq!(drains, [0, 0]);
}

fn bridged(dice: &mut Dice, port: u16) -> Vec<u8> {
    random::frame(dice, port, false)
}

#[test]
fn bridged_frames_go_the_same_way() {
    for (seed, config) in [
        (1, random::tight()),
        (2, random::vlan_aware()),
        (3, with_router(random::vlan_aware())),
        (4, with_trunks(random::tight())),
    ] {
        let seen = both(seed, &config, |dice, port| {
            let mut frame = bridged(dice, port);
            if dice.one_in(20) && frame.len() > 6 {
                frame[..6].copy_from_slice(&ROUTER);
            }
            if dice.one_in(4) && frame.len() >= 14 {
                frame = tagged(&frame, 0x8100, 3);
            }
            frame
        });
        assert!(seen.forwarded > 2_000 && seen.dropped > 500, "{seen:?}");
    }
}

#[test]
fn frames_to_a_lag_go_the_same_way() {
    for (seed, scheme) in (10..).zip([None, Some(SchemeKind::RoundRobin)]) {
        let mut config = random::tight();
        config.lags.push(LagConfig {
            name: "PortChannel1".into(),
            admin_up: true,
            min_links: 1,
            members: vec![3, 4],
        });
        set_scheme(&mut config, scheme);
        let seen = both(seed, &config, bridged);
        assert!(seen.forwarded > 2_000 && seen.dropped > 500, "{seen:?}");
    }
}

#[test]
fn routed_frames_go_the_same_way() {
    let flowlet = SchemeKind::Flowlet {
        idle: Picos::from_micros(30),
        pick: MemberSelection::Random,
        rebalance: None,
    };
    for (seed, scheme) in (20..).zip([None, Some(SchemeKind::RoundRobin), Some(flowlet)]) {
        let mut config = router();
        set_scheme(&mut config, scheme);
        let seen = both(seed, &config, routed);
        assert!(
            seen.forwarded > 2_000 && seen.dropped > 500 && seen.other > 50,
            "{seen:?}"
        );
    }
}

/// The fast path caches adjacencies. A cached adjacency must not be used after it has become invalid.
#[test]
fn routed_frames_follow_neighbours_and_configurations_alike() {
    let mut asking = router();
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
    routes(
        &mut elsewhere,
        &[("11.0.0.0/8", via(&[(1, "10.0.1.9"), (3, "10.0.3.9")]))],
    );
    for seed in [30, 31] {
        let configs = [asking.clone(), shorter.clone(), elsewhere.clone(), router()];
        let seen = both_under(seed, &configs, |dice, port| {
            if !dice.one_in(25) {
                return routed(dice, port);
            }
            let (address, router) = (format!("10.0.{port}.9"), format!("10.0.{port}.1"));
            let from = mac(dice.below(3) as u8 + 0x30);
            let answer = arp(2, (from, &address), (ROUTER, &router));
            ethernet(ROUTER, from, 0x0806, &answer)
        });
        assert!(
            seen.forwarded > 2_000 && seen.dropped > 500 && seen.other > 500,
            "{seen:?}"
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
fn with_router(mut config: SwitchConfig) -> SwitchConfig {
    config::interface(
        &mut config,
        "Vlan3",
        InterfaceAttachment::Vlan(3),
        &["10.0.0.254/24"],
    );
    config
}

/// Two VLANs. One has tagged and untagged members.
fn with_trunks(mut config: SwitchConfig) -> SwitchConfig {
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

/// Ports with the small buffers of [`random::tight`]. All ports are routed except the last one, which is in a
/// VLAN with a router interface.
fn router() -> SwitchConfig {
    let mut config = config::routed(usize::from(PORTS));
    let tight = random::tight();
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
    config::interface(
        &mut config,
        "Vlan7",
        InterfaceAttachment::Vlan(7),
        &["10.0.4.1/24"],
    );
    config.routing.interfaces[3].mtu = 700;
    let known = |interface: u16, address: &str| StaticNeighbour {
        interface: InterfaceId(interface),
        address: address.parse::<IpAddr>().expect("an address"),
        mac: mac(interface as u8),
    };
    config.routing.neighbours = (0..PORTS).map(|n| known(n, &format!("10.0.{n}.9"))).collect();
    let hops = [(0, "10.0.0.9"), (1, "10.0.1.9"), (2, "10.0.2.9"), (3, "10.0.3.9")];
    routes(
        &mut config,
        &[
            ("11.0.0.0/8", via(&hops)),
            ("12.0.0.0/8", via(&hops[1..2])),
            ("13.0.0.0/8", via(&[(2, "10.0.2.77"), (3, "10.0.3.9")])), // one of them answers to nobody
            ("14.0.0.0/8", via(&[(4, "10.0.4.9"), (0, "10.0.0.9")])),  // one of them in the VLAN
            ("15.0.0.0/8", RouteTarget::Blackhole),
        ],
    );
    config
}

fn routed(dice: &mut Dice, port: u16) -> Vec<u8> {
    let host = dice.below(8);
    let to = match dice.below(12) {
        0 => format!("10.0.{}.9", dice.port()),
        1 => format!("10.0.{}.{}", dice.port(), 70 + host),
        2 => format!("10.0.{}.1", dice.port()),
        3 => "127.0.0.1".into(),
        4 => format!("16.0.0.{host}"),
        5 => format!("169.254.0.{host}"),
        n => format!("{}.0.0.{host}", 11 + n % 5),
    };
    let ttl = [1, 2, 64, 64, 64, 64][dice.below(6) as usize];
    let payload = dice.below(1_200) as usize;
    if dice.one_in(15) {
        let to = format!("2001:db8:{}::9", dice.port());
        return ethernet(
            ROUTER,
            mac(port as u8),
            0x86dd,
            &udp6("2001:db8:9::9", &to, ttl, payload),
        );
    }
    let mut packet = udp4(&format!("10.0.{port}.9"), &to, ttl, payload);
    packet[1] = (dice.below(8) << 2 | dice.below(4)) as u8;
    packet[21] = dice.below(40) as u8;
    refresh_checksum(&mut packet);
    match dice.below(40) {
        0 => packet[10] ^= 1,
        1 => packet.truncate(dice.below(28) as usize),
        2 => packet[0] = 0x46,
        _ => {}
    }
    let mut frame = ethernet(ROUTER, mac(port as u8), 0x0800, &packet);
    match dice.below(40) {
        0 => frame[..6].fill(0xff),
        1 => frame[5] ^= 1,
        2 => frame[6] |= 1,
        3 => drop(frame.splice(12..12, [0x81, 0, 0, dice.below(2) as u8])),
        _ => {}
    }
    frame
}
