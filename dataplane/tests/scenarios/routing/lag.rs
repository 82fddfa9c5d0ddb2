//! Link aggregation: one port for bridging and routing, with several links.

use xoff_dataplane::config::{
    BridgingConfig, InterfaceAttachment, LagConfig, SwitchConfig, TaggingMode, VlanConfig, VlanMemberConfig,
};
use xoff_dataplane::{DropReason, ForwardingResult, LogicalPort, Picos};

use crate::support::Harness;
use crate::support::config::{self, ROUTER_MAC, add_interface};
use crate::support::frames::{ethernet_frame, shortest_udp_frame, station_mac};
use crate::support::packets::{
    arp_packet, frame_to_router, frame_with_packet, refresh_checksum, udp_ipv4_packet,
};

/// Creates one bridge. Ports 0 and 1 are single ports, and ports 2, 3 and 4 form PortChannel1.
fn lag_config() -> SwitchConfig {
    let mut config = config::bridge_config(5);
    config.lags = vec![LagConfig {
        name: "PortChannel1".into(),
        admin_up: true,
        min_links: 1,
        members: vec![4, 2, 3],
    }];
    config
}

fn egress_ports(harness: &mut Harness, port: u16, bytes: &[u8]) -> Vec<u16> {
    harness.clear_sent();
    harness.receive(port, bytes);
    harness.run_for(Picos::from_millis(1));
    (0..5).filter(|&port| !harness.sent(port).is_empty()).collect()
}

#[test]
fn a_flooded_frame_uses_one_link_of_a_lag_and_never_returns() {
    let mut harness = Harness::new(&lag_config());
    let broadcast = |from: u8| ethernet_frame([0xff; 6], station_mac(from), 60);
    let out = egress_ports(&mut harness, 0, &broadcast(0));
    assert_eq!((out.len(), out[0]), (2, 1), "{out:?}: port 1 and one member");
    for member in 2..5 {
        assert_eq!(egress_ports(&mut harness, member, &broadcast(9)), [0, 1]);
    }
    let entry = harness
        .switch()
        .fdb_entries(harness.now())
        .into_iter()
        .find(|entry| entry.1 == station_mac(9));
    assert_eq!(
        entry.map(|entry| entry.2),
        Some(LogicalPort(5)),
        "learnt behind the group"
    );
}

#[test]
fn flows_spread_over_lag_members_that_are_up() {
    let mut harness = Harness::new(&lag_config());
    harness.receive(3, &ethernet_frame([0xff; 6], station_mac(9), 60));
    harness.run_for(Picos::from_millis(1));
    let flow = |n: u16| {
        let mut bytes = shortest_udp_frame(0, 9, 0);
        bytes[34..36].copy_from_slice(&n.to_be_bytes());
        bytes
    };
    let ways = |harness: &mut Harness| -> Vec<u16> {
        (0..300)
            .map(|n| {
                let out = egress_ports(harness, 0, &flow(n));
                assert_eq!(out.len(), 1);
                out[0]
            })
            .collect()
    };
    let all = ways(&mut harness);
    for member in 2..5 {
        let share = all.iter().filter(|&&way| way == member).count();
        assert!(
            (63..=137).contains(&share),
            "4.5 standard deviations of 100: {share} by {member}"
        );
    }
    harness.set_link(3, false);
    assert!(
        ways(&mut harness).iter().all(|way| [2, 4].contains(way)),
        "and the address is still known"
    );
    harness.set_link(2, false);
    harness.set_link(4, false);
    harness.clear_sent();
    assert_eq!(
        harness.receive(0, &flow(0)),
        ForwardingResult::Forwarded { copies: 1 },
        "forgotten with the last link: flooded"
    );
    assert!(!harness.switch().is_lag_up(0));
}

#[test]
fn a_lag_below_min_links_is_down() {
    let mut config = lag_config();
    config.lags[0].min_links = 3;
    let mut harness = Harness::new(&config);
    assert!(harness.switch().is_lag_up(0));
    harness.set_link(4, false);
    assert!(!harness.switch().is_lag_up(0));
    assert_eq!(
        egress_ports(&mut harness, 0, &ethernet_frame([0xff; 6], station_mac(0), 60)),
        [1]
    );
    match harness.receive(2, &ethernet_frame([0xff; 6], station_mac(9), 60)) {
        ForwardingResult::Dropped(drop) => assert_eq!(drop.reason, DropReason::PortDown),
        other => panic!("{other:?}"),
    }
    harness.set_link(4, true);
    assert_eq!(
        egress_ports(&mut harness, 2, &ethernet_frame([0xff; 6], station_mac(9), 60)),
        [0, 1]
    );
    config.lags[0].admin_up = false;
    harness.apply(&config);
    assert!(!harness.switch().is_lag_up(0));
}

#[test]
fn a_lag_is_a_member_of_vlans() {
    let mut config = lag_config();
    let member = |port, tagging| VlanMemberConfig { port, tagging };
    config.bridging = BridgingConfig::Vlans(vec![
        VlanConfig {
            id: 10,
            members: vec![member(0, TaggingMode::Untagged), member(5, TaggingMode::Tagged)],
        },
        VlanConfig {
            id: 20,
            members: vec![member(1, TaggingMode::Untagged), member(5, TaggingMode::Tagged)],
        },
    ]);
    let mut harness = Harness::new(&config);
    let broadcast = ethernet_frame([0xff; 6], station_mac(0), 60);
    for (port, vlan) in [(0, 10_u16), (1, 20)] {
        harness.clear_sent();
        harness.receive(port, &broadcast);
        harness.run_for(Picos::from_millis(1));
        let sent: Vec<_> = (0..5).flat_map(|port| harness.sent(port).to_vec()).collect();
        assert_eq!(sent.len(), 1, "the other port is in another VLAN");
        assert_eq!(sent[0].bytes[12..16], [0x81, 0, 0, vlan as u8]);
    }
}

#[test]
fn a_lag_is_a_router_interface() {
    let mut config = lag_config();
    config.bridging = BridgingConfig::Vlans(Vec::new());
    add_interface(
        &mut config,
        "Ethernet0",
        InterfaceAttachment::Port(0),
        &["10.0.0.1/24"],
    );
    add_interface(
        &mut config,
        "PortChannel1",
        InterfaceAttachment::Lag(0),
        &["10.0.1.1/24"],
    );
    let mut harness = Harness::new(&config);
    let request = frame_with_packet(
        [0xff; 6],
        station_mac(7),
        0x0806,
        &arp_packet(1, (station_mac(7), "10.0.1.9"), ([0; 6], "10.0.1.1")),
    );
    harness.receive(4, &request);
    let mut used = std::collections::BTreeSet::new();
    for n in 0..100_u16 {
        let mut packet = udp_ipv4_packet("10.0.0.9", "10.0.1.9", 64, 22);
        packet[20..22].copy_from_slice(&n.to_be_bytes());
        refresh_checksum(&mut packet);
        let out = egress_ports(&mut harness, 0, &frame_to_router(0, 0x0800, &packet));
        assert_eq!(out.len(), 1);
        used.insert(out[0]);
        let sent = &harness.sent(out[0])[0].bytes;
        assert_eq!((&sent[..6], &sent[6..12]), (&station_mac(7)[..], &ROUTER_MAC[..]));
    }
    assert_eq!(used.into_iter().collect::<Vec<_>>(), [2, 3, 4]);
    (2..5).for_each(|port| harness.set_link(port, false));
    match harness.receive(
        0,
        &frame_to_router(0, 0x0800, &udp_ipv4_packet("10.0.0.9", "10.0.1.9", 64, 22)),
    ) {
        ForwardingResult::Dropped(drop) => assert_eq!(drop.reason, DropReason::L3EgressLinkDown),
        other => panic!("{other:?}"),
    }
}
