//! Contents of routed packets.

use xoff_dataplane::config::{
    BridgingConfig, InterfaceAttachment, TaggingMode, VlanConfig, VlanMemberConfig,
};
use xoff_dataplane::{ForwardingResult, Picos};
use xoff_wire::RoceView;

use super::harness;
use crate::support::config::{self, ROUTER, interface};
use crate::support::frames::{capture, mac, tagged};
use crate::support::packets::{arp, arp_reply, frame, ip4, refresh_checksum, to_router, udp4, udp6};
use crate::support::{Harness, config as base};

/// The received frame with the changes of a router.
fn one_hop_on(sent: &[u8], to: u8) -> Vec<u8> {
    let mut expected = sent.to_vec();
    expected[..6].copy_from_slice(&mac(to));
    expected[6..12].copy_from_slice(&ROUTER);
    match expected[14] >> 4 {
        4 => {
            expected[14 + 8] -= 1;
            refresh_checksum(&mut expected[14..]);
        }
        _ => expected[14 + 7] -= 1,
    }
    expected
}

#[test]
fn link_addresses_and_one_hop_are_all_that_changes() {
    let mut harness = harness(3);
    for payload in [0, 18, 1_000, 8_972] {
        for ttl in [2, 64, 255] {
            let four = to_router(0, 0x0800, &udp4("10.0.0.9", "10.0.1.9", ttl, payload));
            let six = to_router(0, 0x86dd, &udp6("2001:db8:0::9", "2001:db8:1::9", ttl, payload));
            for packet in [four, six] {
                harness.clear_sent();
                assert_eq!(
                    harness.receive(0, &packet),
                    ForwardingResult::Forwarded { copies: 1 }
                );
                harness.run_for(Picos::from_millis(1));
                assert_eq!(harness.sent(1).len(), 1);
                assert_eq!(harness.sent(1)[0].bytes, one_hop_on(&packet, 1));
                assert!(harness.sent(2).is_empty());
            }
        }
    }
    harness.assert_empty();
}

#[test]
fn padding_travels_on() {
    let mut harness = harness(2);
    let mut packet = to_router(0, 0x0800, &udp4("10.0.0.9", "10.0.1.9", 64, 0));
    packet.resize(60, 0xee);
    harness.clear_sent();
    harness.receive(0, &packet);
    assert_eq!(harness.sent(1)[0].bytes, one_hop_on(&packet, 1));
}

#[test]
fn options_and_fragments_are_forwarded_as_they_are() {
    let mut harness = harness(2);
    let plain = udp4("10.0.0.9", "10.0.1.9", 64, 100);
    let mut options = [&plain[..20], &[0x94, 4, 0, 0, 7, 3, 4, 0], &plain[20..]].concat(); // router alert, record route
    options[0] = 0x47;
    options[2..4].copy_from_slice(&(128_u16 + 8).to_be_bytes());
    refresh_checksum(&mut options);
    let fragment = |field: u16| {
        let mut packet = plain.clone();
        packet[6..8].copy_from_slice(&field.to_be_bytes());
        refresh_checksum(&mut packet);
        packet
    };
    for packet in [options, fragment(0x2000), fragment(0x2010), fragment(0x0020)] {
        let packet = to_router(0, 0x0800, &packet);
        harness.clear_sent();
        harness.receive(0, &packet);
        harness.run_for(Picos::from_millis(1));
        assert_eq!(harness.sent(1)[0].bytes, one_hop_on(&packet, 1));
    }
}

#[test]
fn the_invariant_crc_of_roce_survives_a_router() {
    let mut harness = harness(2);
    let mut routed = 0;
    for mut bytes in capture("softroce.pcap") {
        if RoceView::new_checked(&bytes).is_err() || bytes[12..14] != [8, 0] {
            continue;
        }
        bytes[..6].copy_from_slice(&ROUTER);
        bytes[6..12].copy_from_slice(&mac(0));
        // Another destination would need another CRC, so the route leads the addresses of the capture to port
        // 1.
        harness.clear_sent();
        let verdict = harness.receive(0, &bytes);
        assert_eq!(verdict, ForwardingResult::Forwarded { copies: 1 });
        harness.run_for(Picos::from_millis(1));
        let sent = &harness.sent(1)[0].bytes;
        assert_eq!(*sent, one_hop_on(&bytes, 1));
        let view = RoceView::new_checked(sent).expect("still RoCE");
        assert!(view.icrc_is_valid(), "frame {routed}");
        routed += 1;
    }
    assert!(routed > 200, "{routed}");
}

/// Port 0 is routed. Ports 1 (untagged) and 2 (tagged) are in VLAN 100, whose interface is 10.0.100.1/24.
fn with_vlan() -> Harness {
    let mut config = base::switch(3);
    config.bridging = BridgingConfig::Vlans(vec![VlanConfig {
        id: 100,
        members: vec![
            VlanMemberConfig {
                port: 1,
                tagging: TaggingMode::Untagged,
            },
            VlanMemberConfig {
                port: 2,
                tagging: TaggingMode::Tagged,
            },
        ],
    }]);
    interface(
        &mut config,
        "Ethernet0",
        InterfaceAttachment::Port(0),
        &["10.0.0.1/24"],
    );
    interface(
        &mut config,
        "Vlan100",
        InterfaceAttachment::Vlan(100),
        &["10.0.100.1/24"],
    );
    let mut harness = Harness::new(&config);
    harness.receive(0, &arp_reply_from(0, "10.0.0.9", "10.0.0.1"));
    for (port, address) in [(1, "10.0.100.9"), (2, "10.0.100.10")] {
        let request = frame(
            [0xff; 6],
            mac(port),
            0x0806,
            &arp(1, (mac(port), address), ([0; 6], "10.0.100.1")),
        );
        match port {
            2 => harness.receive(2, &tagged(&request, 0x8100, 100)),
            _ => harness.receive(1, &request),
        };
    }
    harness.run_for(Picos::from_millis(1));
    harness.clear_sent();
    harness
}

/// An ARP request for the router's address. The router learns the sender from it.
fn arp_reply_from(port: u8, address: &str, router: &str) -> Vec<u8> {
    frame(
        [0xff; 6],
        mac(port),
        0x0806,
        &arp(1, (mac(port), address), ([0; 6], router)),
    )
}

#[test]
fn tags_are_those_of_the_vlan_it_is_routed_into() {
    let mut harness = with_vlan();
    let packet = |dst: &str| to_router(0, 0x0800, &udp4("10.0.0.9", dst, 64, 100));
    harness.receive(0, &packet("10.0.100.9"));
    harness.receive(0, &packet("10.0.100.10"));
    // A routed port accepts a priority tag. Its priority is kept where a tag leaves.
    harness.receive(0, &tagged(&packet("10.0.100.9"), 0x8100, 0x6000));
    harness.receive(0, &tagged(&packet("10.0.100.10"), 0x8100, 0x6000));
    harness.run_for(Picos::from_millis(1));
    let bytes = |port: u16| {
        harness
            .sent(port)
            .iter()
            .map(|sent| sent.bytes.clone())
            .collect::<Vec<_>>()
    };
    let untagged = one_hop_on(&packet("10.0.100.9"), 1);
    assert_eq!(bytes(1), [untagged.clone(), untagged]);
    let other = one_hop_on(&packet("10.0.100.10"), 2);
    assert_eq!(
        bytes(2),
        [tagged(&other, 0x8100, 100), tagged(&other, 0x8100, 0x6064)]
    );
}

#[test]
fn a_tag_of_a_vlan_ends_at_a_routed_port_and_comes_off_on_the_way_out() {
    let mut harness = with_vlan();
    let packet = to_router(2, 0x0800, &udp4("10.0.100.10", "10.0.0.9", 64, 100));
    harness.receive(2, &tagged(&packet, 0x8100, 100));
    harness.run_for(Picos::from_millis(1));
    assert_eq!(harness.sent(0)[0].bytes, one_hop_on(&packet, 0));
    let into_a_vlan = tagged(
        &to_router(0, 0x0800, &udp4("10.0.0.9", "10.0.100.9", 64, 0)),
        0x8100,
        100,
    );
    assert!(matches!(
        harness.receive(0, &into_a_vlan),
        ForwardingResult::Dropped(_)
    ));
}

#[test]
fn stations_of_a_vlan_talk_without_the_router() {
    let mut harness = with_vlan();
    let bridged = frame(
        mac(2),
        mac(1),
        0x0800,
        &udp4("10.0.100.9", "10.0.100.10", 64, 100),
    );
    harness.receive(1, &bridged);
    harness.run_for(Picos::from_millis(1));
    assert_eq!(
        harness.sent(2)[0].bytes,
        tagged(&bridged, 0x8100, 100),
        "not a hop"
    );
}

#[test]
fn a_neighbour_whose_port_was_forgotten_is_still_reached() {
    let mut harness = with_vlan();
    harness.run_for(Picos::from_millis(3_599_000)); // far beyond the age of addresses; probes went unanswered
    harness.clear_sent();
    harness.receive(
        2,
        &tagged(&arp_reply_from(2, "10.0.100.10", "10.0.100.1"), 0x8100, 100),
    );
    harness.receive(
        0,
        &to_router(0, 0x0800, &udp4("10.0.0.9", "10.0.100.10", 64, 100)),
    );
    harness.run_for(Picos::from_millis(1));
    assert_eq!(harness.data_sent(2).len(), 1);
    let _ = (
        ip4("10.0.0.1"),
        config::CELL,
        arp_reply(0, "10.0.0.9", "10.0.0.1"),
    );
}
