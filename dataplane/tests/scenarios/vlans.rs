//! Access and trunk ports and priority tags: tag edits, byte for byte.

use xoff_dataplane::config::{BridgingConfig, SwitchConfig, TaggingMode, VlanConfig, VlanMemberConfig};
use xoff_dataplane::{DropReason, ForwardingResult, Picos};

use crate::support::frames::{ethernet, mac, small, tagged};
use crate::support::{Harness, config};

const ACCESS: u16 = 0;
const OTHER_ACCESS: u16 = 1;
const TRUNK: u16 = 2;
const PRIORITY: u16 = 3;
const FOREIGN: u16 = 4;
const OUTSIDE: u16 = 5;

/// VLAN 100 has two access ports, a trunk and a port for priority-tagged frames. VLAN 200 has the trunk and
/// an access port.
fn switch() -> SwitchConfig {
    let mut config = config::switch(6);
    let member = |port, tagging| VlanMemberConfig { port, tagging };
    config.bridging = BridgingConfig::Vlans(vec![
        VlanConfig {
            id: 100,
            members: vec![
                member(TRUNK, TaggingMode::Tagged),
                member(ACCESS, TaggingMode::Untagged),
                member(OTHER_ACCESS, TaggingMode::Untagged),
                member(PRIORITY, TaggingMode::PriorityTagged),
            ],
        },
        VlanConfig {
            id: 200,
            members: vec![
                member(FOREIGN, TaggingMode::Untagged),
                member(TRUNK, TaggingMode::Tagged),
            ],
        },
    ]);
    config
}

/// The frames that leave each port when `frame` arrives on `port`.
fn through(harness: &mut Harness, port: u16, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
    harness.clear_sent();
    harness.receive(port, frame);
    harness.run_for(Picos::from_millis(1));
    let out = |p| harness.sent(p).iter().map(move |sent| (p, sent.bytes.clone()));
    (0..6).flat_map(out).collect()
}

fn broadcast(from: u8) -> Vec<u8> {
    ethernet([0xff; 6], mac(from), 100)
}

#[test]
fn untagged_frames_get_the_tag_the_port_wants() {
    let mut harness = Harness::new(&switch());
    let frame = broadcast(0);
    let out = through(&mut harness, ACCESS, &frame);
    let expected = vec![
        (OTHER_ACCESS, frame.clone()),
        (TRUNK, tagged(&frame, 0x8100, 100)),
        (PRIORITY, tagged(&frame, 0x8100, 0)),
    ];
    assert_eq!(out, expected);
}

#[test]
fn priority_and_drop_eligibility_travel_with_the_tag() {
    let mut harness = Harness::new(&switch());
    let frame = broadcast(2);
    let out = through(&mut harness, TRUNK, &tagged(&frame, 0x8100, 0xb000 | 100));
    let expected = vec![
        (ACCESS, frame.clone()),
        (OTHER_ACCESS, frame.clone()),
        (PRIORITY, tagged(&frame, 0x8100, 0xb000)),
    ];
    assert_eq!(out, expected);
    let out = through(&mut harness, PRIORITY, &tagged(&frame, 0x8100, 0x7000));
    let expected = vec![
        (ACCESS, frame.clone()),
        (OTHER_ACCESS, frame.clone()),
        (TRUNK, tagged(&frame, 0x8100, 0x7000 | 100)),
    ];
    assert_eq!(out, expected);
}

#[test]
fn only_the_outer_tag_is_the_switchs() {
    let mut harness = Harness::new(&switch());
    let inner = tagged(&broadcast(2), 0x8100, 0xe123);
    let out = through(&mut harness, TRUNK, &tagged(&inner, 0x8100, 100));
    assert_eq!(out[0], (ACCESS, inner.clone()));
    let out = through(&mut harness, TRUNK, &tagged(&inner, 0x8100, 200));
    assert_eq!(out, [(FOREIGN, inner)]);
}

#[test]
fn service_tags_are_the_tags_of_ports_with_that_tpid() {
    let mut config = switch();
    config.ports[usize::from(TRUNK)].tpid = 0x88a8;
    let mut harness = Harness::new(&config);
    let customer = tagged(&broadcast(4), 0x8100, 0x6007);
    // A priority-tagged port and access ports use 802.1Q. This VLAN id does not belong to them.
    assert_eq!(
        harness.receive(ACCESS, &customer),
        dropped(&harness, ACCESS, &customer, 7 - 4)
    );
    let out = through(&mut harness, TRUNK, &tagged(&customer, 0x88a8, 200));
    assert_eq!(out, [(FOREIGN, customer)]);
    let out = through(&mut harness, FOREIGN, &broadcast(4));
    assert_eq!(out, [(TRUNK, tagged(&broadcast(4), 0x88a8, 200))]);
    let out = through(&mut harness, TRUNK, &tagged(&broadcast(4), 0x88a8, 0x3000 | 100));
    assert_eq!(out[2], (PRIORITY, tagged(&broadcast(4), 0x8100, 0x3000)));
}

fn dropped(harness: &Harness, port: u16, frame: &[u8], tc: u8) -> ForwardingResult {
    let verdict = ForwardingResult::Dropped(xoff_dataplane::DroppedFrame {
        reason: DropReason::IngressVlanFilter,
        port: xoff_dataplane::PortId(port),
        tc,
        mac_len: frame.len() as u32 + 4,
        refusal: None,
    });
    assert_eq!(harness.drops(port, DropReason::IngressVlanFilter), 1);
    verdict
}

#[test]
fn frames_of_foreign_vlans_are_dropped_at_ingress() {
    let mut harness = Harness::new(&switch());
    for (port, frame) in [
        (ACCESS, tagged(&broadcast(0), 0x8100, 200)),
        (TRUNK, tagged(&broadcast(2), 0x8100, 300)),
        (TRUNK, broadcast(2)),
        (TRUNK, tagged(&broadcast(2), 0x8100, 0x2000)),
        (OUTSIDE, broadcast(5)),
        (OUTSIDE, tagged(&broadcast(5), 0x8100, 100)),
    ] {
        assert_eq!(through(&mut harness, port, &frame), []);
    }
    let filtered = |port| harness.drops(port, DropReason::IngressVlanFilter);
    assert_eq!([filtered(ACCESS), filtered(TRUNK), filtered(OUTSIDE)], [1, 3, 2]);
    assert_eq!(harness.store().in_use(), 0);
}

#[test]
fn a_tag_of_the_ports_own_vlan_is_taken() {
    let mut harness = Harness::new(&switch());
    let out = through(&mut harness, ACCESS, &tagged(&broadcast(0), 0x8100, 100));
    assert_eq!(out[0], (OTHER_ACCESS, broadcast(0)));
}

#[test]
fn addresses_are_learnt_per_vlan() {
    let mut harness = Harness::new(&switch());
    harness.receive(TRUNK, &tagged(&small(9, 8, 0), 0x8100, 100));
    let out = through(&mut harness, ACCESS, &small(0, 9, 0));
    assert_eq!(out, [(TRUNK, tagged(&small(0, 9, 0), 0x8100, 100))]);
    harness.receive(FOREIGN, &small(9, 8, 0));
    let out = through(&mut harness, ACCESS, &small(0, 9, 0));
    assert_eq!(out.len(), 1, "VLAN 200 is another table");
}

#[test]
fn a_tagged_frame_is_classified_by_its_priority_where_dscp_does_not_apply() {
    let mut harness = Harness::new(&switch());
    let before = harness.counters(TRUNK).rx_class_packets;
    harness.receive(TRUNK, &tagged(&broadcast(2), 0x8100, 3 << 13 | 100));
    harness.receive(TRUNK, &tagged(&small(2, 0, 5), 0x8100, 3 << 13 | 100));
    let after = harness.counters(TRUNK).rx_class_packets;
    let moved: Vec<u64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
    assert_eq!(moved[..6], [0, 0, 0, 1, 0, 1]);
}

#[test]
fn the_shortest_tagged_frame_survives_pop_and_push() {
    let mut harness = Harness::new(&switch());
    let bare = broadcast(2)[..14].to_vec();
    let out = through(&mut harness, TRUNK, &tagged(&bare, 0x8100, 100));
    assert_eq!(out[0], (ACCESS, bare.clone()));
    let out = through(&mut harness, ACCESS, &bare);
    assert_eq!(out[1], (TRUNK, tagged(&bare, 0x8100, 100)));
}
