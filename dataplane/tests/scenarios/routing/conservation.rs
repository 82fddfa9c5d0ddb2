//! Conservation in a router: every frame is sent, dropped and counted, waits, or was for the switch.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use xoff_dataplane::config::{
    BridgingConfig, InterfaceAttachment, LagConfig, SwitchConfig, TaggingMode, VlanConfig, VlanMemberConfig,
};
use xoff_dataplane::{DropReason, ForwardingResult, FrameStore, Picos, PortId};

use crate::support::Harness;
use crate::support::config::{self, ROUTER_MAC, add_interface};
use crate::support::frames::{insert_vlan_tag, station_mac};
use crate::support::packets::{
    arp_packet, frame_with_packet, neighbour_discovery_packet, refresh_checksum, udp_ipv4_packet,
    udp_ipv6_packet,
};

const PORTS: u16 = 6;

/// Creates a router. Ports 0 and 1 are routed, ports 2 and 3 are in VLAN 100 with an interface, and ports 4
/// and 5 are a routed LAG. A default route has two next hops.
fn mixed_port_config(resilient: Option<u16>, hops: &[(u16, &str)]) -> SwitchConfig {
    let mut config = config::bridge_config(usize::from(PORTS));
    config.lags = vec![LagConfig {
        name: "PortChannel1".into(),
        admin_up: true,
        min_links: 1,
        members: vec![4, 5],
    }];
    let member = |port, tagging| VlanMemberConfig { port, tagging };
    config.bridging = BridgingConfig::Vlans(vec![VlanConfig {
        id: 100,
        members: vec![member(2, TaggingMode::Untagged), member(3, TaggingMode::Tagged)],
    }]);
    let attachments = [
        ("Ethernet0", InterfaceAttachment::Port(0)),
        ("Ethernet1", InterfaceAttachment::Port(1)),
        ("Vlan100", InterfaceAttachment::Vlan(100)),
        ("PortChannel1", InterfaceAttachment::Lag(0)),
    ];
    for (n, (name, attachment)) in attachments.into_iter().enumerate() {
        let addresses = [
            format!("10.0.{n}.1/24"),
            format!("2001:db8:{n}::1/64"),
            "fe80::1/64".to_owned(),
        ];
        add_interface(
            &mut config,
            name,
            attachment,
            &addresses.each_ref().map(String::as_str),
        );
    }
    config.routing.neighbours_max = 40;
    config.routing.hold_frames = 4;
    config.routing.resilient_buckets = resilient;
    config.routing.interfaces[1].mtu = 600;
    config::set_static_routes(
        &mut config,
        &[
            ("0.0.0.0/0", config::equal_cost_target(hops)),
            ("198.51.100.0/24", xoff_dataplane::route::RouteTarget::Blackhole),
        ],
    );
    config
}

struct RandomSource(Xoshiro256PlusPlus);

impl RandomSource {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    fn address(&mut self) -> (u64, u64) {
        (self.below(5), 1 + self.below(12))
    }
}

fn random_frame(random: &mut RandomSource, port: u16) -> Vec<u8> {
    let from = station_mac(port as u8);
    let ((net, host), (own, me)) = (random.address(), random.address());
    let dst4 = if net == 4 {
        format!("198.51.{}.7", 98 + host % 4)
    } else {
        format!("10.0.{net}.{host}")
    };
    let (src4, payload) = (format!("10.0.{}.{me}", own % 4), random.below(900) as usize);
    let ttl = [0, 1, 2, 64][random.below(4) as usize];
    let to = if random.below(8) == 0 {
        station_mac(random.below(6) as u8)
    } else {
        ROUTER_MAC
    };
    let mut bytes = match random.below(10) {
        0 => frame_with_packet(
            [0xff; 6],
            from,
            0x0806,
            &arp_packet(1 + random.below(2) as u8, (from, &src4), (from, &dst4)),
        ),
        1 => {
            let (src6, target) = (
                format!("2001:db8:{}::{me}", own % 4),
                format!("2001:db8:{net}::{host}"),
            );
            let kind = 135 + random.below(2) as u8;
            frame_with_packet(
                [0x33, 0x33, 0xff, 0, 0, host as u8],
                from,
                0x86dd,
                &neighbour_discovery_packet(kind, &src6, &target, &target, from),
            )
        }
        2 | 3 => {
            let (src6, target) = (
                format!("2001:db8:{}::{me}", own % 4),
                format!("2001:db8:{net}::{host}"),
            );
            frame_with_packet(to, from, 0x86dd, &udp_ipv6_packet(&src6, &target, ttl, payload))
        }
        4 => frame_with_packet(
            [0xff; 6],
            from,
            0x0800,
            &udp_ipv4_packet(&src4, &dst4, 64, payload),
        ),
        _ => {
            let mut packet = udp_ipv4_packet(&src4, &dst4, ttl, payload);
            packet[1] = (random.below(8) as u8) << 2 | random.below(4) as u8;
            refresh_checksum(&mut packet);
            frame_with_packet(to, from, 0x0800, &packet)
        }
    };
    match random.below(20) {
        0 => bytes.truncate(random.below(60) as usize),
        1 => {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        2 | 3 => bytes = insert_vlan_tag(&bytes, 0x8100, [0, 100, 7][random.below(3) as usize]),
        _ if port == 3 => bytes = insert_vlan_tag(&bytes, 0x8100, 100),
        _ => {}
    }
    bytes
}

struct FrameTotals {
    received: u64,
    dropped_on_receive: u64,
    to_switch: u64,
    control: u64,
}

fn run_router(seed: u64, steps: usize) -> (Harness, FrameTotals) {
    let mut random = RandomSource(Xoshiro256PlusPlus::seed_from_u64(seed));
    let both = [(0, "10.0.0.9"), (3, "10.0.3.9")];
    let configs = [
        mixed_port_config(None, &both),
        mixed_port_config(Some(64), &both),
        mixed_port_config(Some(64), &both[..1]),
    ];
    let mut harness = Harness::new(&configs[0]);
    harness.switch_mut().set_cpu_attached(true);
    harness.records_frames = false;
    let mut totals = FrameTotals {
        received: 0,
        dropped_on_receive: 0,
        to_switch: 0,
        control: 0,
    };
    for step in 0..steps {
        match random.below(600) {
            0 => harness.set_link(random.below(6) as u16, false),
            1..4 => harness.set_link(random.below(6) as u16, true),
            4 => harness.apply(&configs[random.below(3) as usize]),
            5 => harness.run_for(Picos::from_millis(1_000)),
            _ => {}
        }
        let port = random.below(u64::from(PORTS)) as u16;
        let bytes = random_frame(&mut random, port);
        totals.received += 1;
        match harness.receive(port, &bytes) {
            ForwardingResult::Dropped(_) => totals.dropped_on_receive += 1,
            ForwardingResult::Punted => totals.to_switch += 1,
            ForwardingResult::Control => totals.control += 1,
            ForwardingResult::Forwarded { .. } | ForwardingResult::Held => {}
        }
        for punt in std::mem::take(&mut harness.punts) {
            harness.store_mut().release(punt.frame);
        }
        harness.run_for(Picos::from_nanos(random.below(20_000)));
        if step % 64 == 0 {
            harness.switch().assert_consistent();
        }
    }
    (0..PORTS).for_each(|port| harness.set_link(port, true));
    harness.run_for(Picos::from_millis(10_000)); // who has not answered by then never will
    for punt in std::mem::take(&mut harness.punts) {
        harness.store_mut().release(punt.frame);
    }
    (harness, totals)
}

#[test]
fn routed_frames_are_accounted_for_and_none_remains() {
    let mut reasons = std::collections::BTreeSet::new();
    for seed in 0..6 {
        let (harness, totals) = run_router(seed, 8_000);
        assert_eq!(harness.switch().held_frames(), 0);
        harness.assert_empty();
        let sum = |of: &dyn Fn(u16) -> u64| -> u64 { (0..PORTS).map(of).sum() };
        assert_eq!(
            sum(&|port| harness.counters(port).rx_packets),
            totals.received - totals.control
        );
        assert_eq!(
            sum(&|port| harness.counters(port).rx_own_packets),
            totals.to_switch
        );
        assert!(sum(&|port| harness.counters(port).dropped_frames()) >= totals.dropped_on_receive);
        for reason in DropReason::ALL {
            let count = sum(&|port| harness.drop_count(port, *reason));
            if count > 0 {
                reasons.insert(reason.name());
            }
            let last = (0..PORTS)
                .filter_map(|port| harness.switch().last_refusal(PortId(port), *reason))
                .count();
            assert!(last == 0 || count > 0);
        }
    }
    for reason in [
        "TTL",
        "UNRESOLVED_NEXT_HOP",
        "BLACKHOLE_ROUTE",
        "EXCEEDS_L3_MTU",
        "IP_HEADER_ERROR",
        "L3_EGRESS_LINK_DOWN",
        "LPM6_MISS",
        "XOFF_NOT_TO_ROUTER",
    ] {
        assert!(reasons.contains(reason), "{reason} never happened: {reasons:?}");
    }
}

#[test]
fn two_router_runs_give_equal_bytes_and_times() {
    let runs = [7, 7, 8].map(|seed| run_router(seed, 6_000).0);
    assert_eq!(runs[0].digest(), runs[1].digest());
    (0..PORTS).for_each(|port| assert_eq!(runs[0].counters(port), runs[1].counters(port)));
    assert_ne!(runs[0].digest(), runs[2].digest(), "the digest tells runs apart");
}
