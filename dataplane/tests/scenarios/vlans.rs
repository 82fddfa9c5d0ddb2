//! Access and trunk ports and priority tags: tag edits, byte for byte.

use xoff_dataplane::config::{BridgingConfig, SwitchConfig, TaggingMode, VlanConfig, VlanMemberConfig};
use xoff_dataplane::{DropReason, ForwardingResult, Picos};

use crate::support::frames::{ethernet_frame, insert_vlan_tag, shortest_udp_frame, station_mac};
use crate::support::{Harness, config};

const ACCESS: u16 = 0;
const OTHER_ACCESS: u16 = 1;
const TRUNK: u16 = 2;
const PRIORITY_TAGGED: u16 = 3;
const OTHER_VLAN: u16 = 4;
const NO_VLAN: u16 = 5;

/// Creates two VLANs. VLAN 100 has two access ports, a trunk and a port for priority-tagged frames. VLAN 200
/// has the trunk and an access port.
fn vlan_config() -> SwitchConfig {
    let mut config = config::bridge_config(6);
    let member = |port, tagging| VlanMemberConfig { port, tagging };
    config.bridging = BridgingConfig::Vlans(vec![
        VlanConfig {
            id: 100,
            members: vec![
                member(TRUNK, TaggingMode::Tagged),
                member(ACCESS, TaggingMode::Untagged),
                member(OTHER_ACCESS, TaggingMode::Untagged),
                member(PRIORITY_TAGGED, TaggingMode::PriorityTagged),
            ],
        },
        VlanConfig {
            id: 200,
            members: vec![
                member(OTHER_VLAN, TaggingMode::Untagged),
                member(TRUNK, TaggingMode::Tagged),
            ],
        },
    ]);
    config
}

/// Returns the frames that leave each port when `frame` arrives on `port`.
fn frames_after_arrival(harness: &mut Harness, port: u16, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
    harness.clear_sent();
    harness.receive(port, frame);
    harness.run_for(Picos::from_millis(1));
    let out = |p| harness.sent(p).iter().map(move |sent| (p, sent.bytes.clone()));
    (0..6).flat_map(out).collect()
}

fn broadcast_frame(from: u8) -> Vec<u8> {
    ethernet_frame([0xff; 6], station_mac(from), 100)
}

#[test]
fn untagged_frames_get_the_tag_of_the_egress_port() {
    let mut harness = Harness::new(&vlan_config());
    let frame = broadcast_frame(0);
    let out = frames_after_arrival(&mut harness, ACCESS, &frame);
    let expected = vec![
        (OTHER_ACCESS, frame.clone()),
        (TRUNK, insert_vlan_tag(&frame, 0x8100, 100)),
        (PRIORITY_TAGGED, insert_vlan_tag(&frame, 0x8100, 0)),
    ];
    assert_eq!(out, expected);
}

#[test]
fn pcp_and_dei_are_kept_in_the_egress_tag() {
    let mut harness = Harness::new(&vlan_config());
    let frame = broadcast_frame(2);
    let out = frames_after_arrival(
        &mut harness,
        TRUNK,
        &insert_vlan_tag(&frame, 0x8100, 0xb000 | 100),
    );
    let expected = vec![
        (ACCESS, frame.clone()),
        (OTHER_ACCESS, frame.clone()),
        (PRIORITY_TAGGED, insert_vlan_tag(&frame, 0x8100, 0xb000)),
    ];
    assert_eq!(out, expected);
    let out = frames_after_arrival(
        &mut harness,
        PRIORITY_TAGGED,
        &insert_vlan_tag(&frame, 0x8100, 0x7000),
    );
    let expected = vec![
        (ACCESS, frame.clone()),
        (OTHER_ACCESS, frame.clone()),
        (TRUNK, insert_vlan_tag(&frame, 0x8100, 0x7000 | 100)),
    ];
    assert_eq!(out, expected);
}

#[test]
fn the_switch_edits_only_the_outer_tag() {
    let mut harness = Harness::new(&vlan_config());
    let inner = insert_vlan_tag(&broadcast_frame(2), 0x8100, 0xe123);
    let out = frames_after_arrival(&mut harness, TRUNK, &insert_vlan_tag(&inner, 0x8100, 100));
    assert_eq!(out[0], (ACCESS, inner.clone()));
    let out = frames_after_arrival(&mut harness, TRUNK, &insert_vlan_tag(&inner, 0x8100, 200));
    assert_eq!(out, [(OTHER_VLAN, inner)]);
}

#[test]
fn service_tags_are_recognised_at_ports_with_that_tpid() {
    let mut config = vlan_config();
    config.ports[usize::from(TRUNK)].tpid = 0x88a8;
    let mut harness = Harness::new(&config);
    let customer = insert_vlan_tag(&broadcast_frame(4), 0x8100, 0x6007);
    // A priority-tagged port and access ports use 802.1Q. This VLAN id does not belong to them.
    assert_eq!(
        harness.receive(ACCESS, &customer),
        ingress_drop(&harness, ACCESS, &customer, 7 - 4)
    );
    let out = frames_after_arrival(&mut harness, TRUNK, &insert_vlan_tag(&customer, 0x88a8, 200));
    assert_eq!(out, [(OTHER_VLAN, customer)]);
    let out = frames_after_arrival(&mut harness, OTHER_VLAN, &broadcast_frame(4));
    assert_eq!(out, [(TRUNK, insert_vlan_tag(&broadcast_frame(4), 0x88a8, 200))]);
    let out = frames_after_arrival(
        &mut harness,
        TRUNK,
        &insert_vlan_tag(&broadcast_frame(4), 0x88a8, 0x3000 | 100),
    );
    assert_eq!(
        out[2],
        (
            PRIORITY_TAGGED,
            insert_vlan_tag(&broadcast_frame(4), 0x8100, 0x3000)
        )
    );
}

fn ingress_drop(harness: &Harness, port: u16, frame: &[u8], tc: u8) -> ForwardingResult {
    let verdict = ForwardingResult::Dropped(xoff_dataplane::DroppedFrame {
        reason: DropReason::IngressVlanFilter,
        port: xoff_dataplane::PortId(port),
        tc,
        mac_len: frame.len() as u32 + 4,
        refusal: None,
    });
    assert_eq!(harness.drop_count(port, DropReason::IngressVlanFilter), 1);
    verdict
}

#[test]
fn frames_of_vlans_without_membership_are_dropped_at_ingress() {
    let mut harness = Harness::new(&vlan_config());
    for (port, frame) in [
        (ACCESS, insert_vlan_tag(&broadcast_frame(0), 0x8100, 200)),
        (TRUNK, insert_vlan_tag(&broadcast_frame(2), 0x8100, 300)),
        (TRUNK, broadcast_frame(2)),
        (TRUNK, insert_vlan_tag(&broadcast_frame(2), 0x8100, 0x2000)),
        (NO_VLAN, broadcast_frame(5)),
        (NO_VLAN, insert_vlan_tag(&broadcast_frame(5), 0x8100, 100)),
    ] {
        assert_eq!(frames_after_arrival(&mut harness, port, &frame), []);
    }
    let filtered = |port| harness.drop_count(port, DropReason::IngressVlanFilter);
    assert_eq!([filtered(ACCESS), filtered(TRUNK), filtered(NO_VLAN)], [1, 3, 2]);
    assert_eq!(harness.store().in_use(), 0);
}

#[test]
fn a_tag_of_the_access_vlan_is_accepted() {
    let mut harness = Harness::new(&vlan_config());
    let out = frames_after_arrival(
        &mut harness,
        ACCESS,
        &insert_vlan_tag(&broadcast_frame(0), 0x8100, 100),
    );
    assert_eq!(out[0], (OTHER_ACCESS, broadcast_frame(0)));
}

#[test]
fn addresses_are_learnt_per_vlan() {
    let mut harness = Harness::new(&vlan_config());
    harness.receive(TRUNK, &insert_vlan_tag(&shortest_udp_frame(9, 8, 0), 0x8100, 100));
    let out = frames_after_arrival(&mut harness, ACCESS, &shortest_udp_frame(0, 9, 0));
    assert_eq!(
        out,
        [(TRUNK, insert_vlan_tag(&shortest_udp_frame(0, 9, 0), 0x8100, 100))]
    );
    harness.receive(OTHER_VLAN, &shortest_udp_frame(9, 8, 0));
    let out = frames_after_arrival(&mut harness, ACCESS, &shortest_udp_frame(0, 9, 0));
    assert_eq!(out.len(), 1, "VLAN 200 is another table");
}

#[test]
fn tagged_frames_without_dscp_are_classified_by_pcp() {
    let mut harness = Harness::new(&vlan_config());
    let before = harness.counters(TRUNK).rx_class_packets;
    harness.receive(
        TRUNK,
        &insert_vlan_tag(&broadcast_frame(2), 0x8100, 3 << 13 | 100),
    );
    harness.receive(
        TRUNK,
        &insert_vlan_tag(&shortest_udp_frame(2, 0, 5), 0x8100, 3 << 13 | 100),
    );
    let after = harness.counters(TRUNK).rx_class_packets;
    let moved: Vec<u64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
    assert_eq!(moved[..6], [0, 0, 0, 1, 0, 1]);
}

#[test]
fn the_shortest_tagged_frame_is_forwarded_after_tag_edits() {
    let mut harness = Harness::new(&vlan_config());
    let bare = broadcast_frame(2)[..14].to_vec();
    let out = frames_after_arrival(&mut harness, TRUNK, &insert_vlan_tag(&bare, 0x8100, 100));
    assert_eq!(out[0], (ACCESS, bare.clone()));
    let out = frames_after_arrival(&mut harness, ACCESS, &bare);
    assert_eq!(out[1], (TRUNK, insert_vlan_tag(&bare, 0x8100, 100)));
}
