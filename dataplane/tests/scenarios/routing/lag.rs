//! Link aggregation: one port for bridging and routing, with several links.

use xoff_dataplane::config::{
    BridgingConfig, InterfaceAttachment, LagConfig, SwitchConfig, TaggingMode, VlanConfig, VlanMemberConfig,
};
use xoff_dataplane::{DropReason, ForwardingResult, LogicalPort, Picos};

use crate::support::Harness;
use crate::support::config::{self, ROUTER, interface};
use crate::support::frames::{ethernet, mac, small};
use crate::support::packets::{arp, frame, refresh_checksum, to_router, udp4};

/// Ports 0 and 1 are plain ports. Ports 2, 3 and 4 form PortChannel1. All are in one bridge.
fn aggregated() -> SwitchConfig {
    let mut config = config::switch(5);
    config.lags = vec![LagConfig {
        name: "PortChannel1".into(),
        admin_up: true,
        min_links: 1,
        members: vec![4, 2, 3],
    }];
    config
}

fn ways_out(harness: &mut Harness, port: u16, bytes: &[u8]) -> Vec<u16> {
    harness.clear_sent();
    harness.receive(port, bytes);
    harness.run_for(Picos::from_millis(1));
    (0..5).filter(|&port| !harness.sent(port).is_empty()).collect()
}

#[test]
fn a_flood_takes_one_link_and_none_comes_back() {
    let mut harness = Harness::new(&aggregated());
    let broadcast = |from: u8| ethernet([0xff; 6], mac(from), 60);
    let out = ways_out(&mut harness, 0, &broadcast(0));
    assert_eq!((out.len(), out[0]), (2, 1), "{out:?}: port 1 and one member");
    for member in 2..5 {
        assert_eq!(ways_out(&mut harness, member, &broadcast(9)), [0, 1]);
    }
    let entry = harness
        .switch()
        .fdb_entries(harness.now())
        .into_iter()
        .find(|entry| entry.1 == mac(9));
    assert_eq!(
        entry.map(|entry| entry.2),
        Some(LogicalPort(5)),
        "learnt behind the group"
    );
}

#[test]
fn flows_are_spread_over_the_members_that_are_up() {
    let mut harness = Harness::new(&aggregated());
    harness.receive(3, &ethernet([0xff; 6], mac(9), 60));
    harness.run_for(Picos::from_millis(1));
    let flow = |n: u16| {
        let mut bytes = small(0, 9, 0);
        bytes[34..36].copy_from_slice(&n.to_be_bytes());
        bytes
    };
    let ways = |harness: &mut Harness| -> Vec<u16> {
        (0..300)
            .map(|n| {
                let out = ways_out(harness, 0, &flow(n));
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
fn too_few_links_are_none() {
    let mut config = aggregated();
    config.lags[0].min_links = 3;
    let mut harness = Harness::new(&config);
    assert!(harness.switch().is_lag_up(0));
    harness.set_link(4, false);
    assert!(!harness.switch().is_lag_up(0));
    assert_eq!(ways_out(&mut harness, 0, &ethernet([0xff; 6], mac(0), 60)), [1]);
    match harness.receive(2, &ethernet([0xff; 6], mac(9), 60)) {
        ForwardingResult::Dropped(drop) => assert_eq!(drop.reason, DropReason::PortDown),
        other => panic!("{other:?}"),
    }
    harness.set_link(4, true);
    assert_eq!(
        ways_out(&mut harness, 2, &ethernet([0xff; 6], mac(9), 60)),
        [0, 1]
    );
    config.lags[0].admin_up = false;
    harness.apply(&config);
    assert!(!harness.switch().is_lag_up(0));
}

#[test]
fn a_group_is_a_member_of_vlans() {
    let mut config = aggregated();
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
    let broadcast = ethernet([0xff; 6], mac(0), 60);
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
fn a_group_is_a_router_interface() {
    let mut config = aggregated();
    config.bridging = BridgingConfig::Vlans(Vec::new());
    interface(
        &mut config,
        "Ethernet0",
        InterfaceAttachment::Port(0),
        &["10.0.0.1/24"],
    );
    interface(
        &mut config,
        "PortChannel1",
        InterfaceAttachment::Lag(0),
        &["10.0.1.1/24"],
    );
    let mut harness = Harness::new(&config);
    let request = frame(
        [0xff; 6],
        mac(7),
        0x0806,
        &arp(1, (mac(7), "10.0.1.9"), ([0; 6], "10.0.1.1")),
    );
    harness.receive(4, &request);
    let mut used = std::collections::BTreeSet::new();
    for n in 0..100_u16 {
        let mut packet = udp4("10.0.0.9", "10.0.1.9", 64, 22);
        packet[20..22].copy_from_slice(&n.to_be_bytes());
        refresh_checksum(&mut packet);
        let out = ways_out(&mut harness, 0, &to_router(0, 0x0800, &packet));
        assert_eq!(out.len(), 1);
        used.insert(out[0]);
        let sent = &harness.sent(out[0])[0].bytes;
        assert_eq!((&sent[..6], &sent[6..12]), (&mac(7)[..], &ROUTER[..]));
    }
    assert_eq!(used.into_iter().collect::<Vec<_>>(), [2, 3, 4]);
    (2..5).for_each(|port| harness.set_link(port, false));
    match harness.receive(0, &to_router(0, 0x0800, &udp4("10.0.0.9", "10.0.1.9", 64, 22))) {
        ForwardingResult::Dropped(drop) => assert_eq!(drop.reason, DropReason::L3EgressLinkDown),
        other => panic!("{other:?}"),
    }
}
