//! Contents of routed packets.

use xoff_dataplane::config::{
    BridgingConfig, InterfaceAttachment, TaggingMode, VlanConfig, VlanMemberConfig,
};
use xoff_dataplane::{ForwardingResult, Picos};
use xoff_wire::RoceView;

use super::router_harness;
use crate::support::config::{self, ROUTER_MAC, add_interface};
use crate::support::frames::{insert_vlan_tag, read_capture, station_mac};
use crate::support::packets::{
    arp_packet, arp_reply_frame, frame_to_router, frame_with_packet, parse_ipv4, refresh_checksum,
    udp_ipv4_packet, udp_ipv6_packet,
};
use crate::support::{Harness, config as base};

/// Returns a copy of `sent` with the changes that a router makes.
fn routed_copy(sent: &[u8], to: u8) -> Vec<u8> {
    let mut expected = sent.to_vec();
    expected[..6].copy_from_slice(&station_mac(to));
    expected[6..12].copy_from_slice(&ROUTER_MAC);
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
fn routing_changes_only_link_addresses_and_hop_limit() {
    let mut harness = router_harness(3);
    for payload in [0, 18, 1_000, 8_972] {
        for ttl in [2, 64, 255] {
            let four = frame_to_router(0, 0x0800, &udp_ipv4_packet("10.0.0.9", "10.0.1.9", ttl, payload));
            let six = frame_to_router(
                0,
                0x86dd,
                &udp_ipv6_packet("2001:db8:0::9", "2001:db8:1::9", ttl, payload),
            );
            for packet in [four, six] {
                harness.clear_sent();
                assert_eq!(
                    harness.receive(0, &packet),
                    ForwardingResult::Forwarded { copies: 1 }
                );
                harness.run_for(Picos::from_millis(1));
                assert_eq!(harness.sent(1).len(), 1);
                assert_eq!(harness.sent(1)[0].bytes, routed_copy(&packet, 1));
                assert!(harness.sent(2).is_empty());
            }
        }
    }
    harness.assert_empty();
}

#[test]
fn padding_of_routed_frames_is_kept() {
    let mut harness = router_harness(2);
    let mut packet = frame_to_router(0, 0x0800, &udp_ipv4_packet("10.0.0.9", "10.0.1.9", 64, 0));
    packet.resize(60, 0xee);
    harness.clear_sent();
    harness.receive(0, &packet);
    assert_eq!(harness.sent(1)[0].bytes, routed_copy(&packet, 1));
}

#[test]
fn packets_with_options_and_fragments_are_forwarded_unchanged() {
    let mut harness = router_harness(2);
    let plain = udp_ipv4_packet("10.0.0.9", "10.0.1.9", 64, 100);
    // Router Alert and Record Route.
    let mut options = [&plain[..20], &[0x94, 4, 0, 0, 7, 3, 4, 0], &plain[20..]].concat();
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
        let packet = frame_to_router(0, 0x0800, &packet);
        harness.clear_sent();
        harness.receive(0, &packet);
        harness.run_for(Picos::from_millis(1));
        assert_eq!(harness.sent(1)[0].bytes, routed_copy(&packet, 1));
    }
}

#[test]
fn routing_keeps_the_icrc_of_roce_packets_valid() {
    let mut harness = router_harness(2);
    let mut routed = 0;
    for mut bytes in read_capture("softroce.pcap") {
        if RoceView::new_checked(&bytes).is_err() || bytes[12..14] != [8, 0] {
            continue;
        }
        bytes[..6].copy_from_slice(&ROUTER_MAC);
        bytes[6..12].copy_from_slice(&station_mac(0));
        // Another destination would need another CRC, so the route leads the addresses of the capture to port
        // 1.
        harness.clear_sent();
        let verdict = harness.receive(0, &bytes);
        assert_eq!(verdict, ForwardingResult::Forwarded { copies: 1 });
        harness.run_for(Picos::from_millis(1));
        let sent = &harness.sent(1)[0].bytes;
        assert_eq!(*sent, routed_copy(&bytes, 1));
        let view = RoceView::new_checked(sent).expect("still RoCE");
        assert!(view.icrc_is_valid(), "frame {routed}");
        routed += 1;
    }
    assert!(routed > 200, "{routed}");
}

/// Creates a router. Port 0 is routed. Ports 1 (untagged) and 2 (tagged) are in VLAN 100 with the interface
/// 10.0.100.1/24.
fn harness_with_vlan_interface() -> Harness {
    let mut config = base::bridge_config(3);
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
    add_interface(
        &mut config,
        "Ethernet0",
        InterfaceAttachment::Port(0),
        &["10.0.0.1/24"],
    );
    add_interface(
        &mut config,
        "Vlan100",
        InterfaceAttachment::Vlan(100),
        &["10.0.100.1/24"],
    );
    let mut harness = Harness::new(&config);
    harness.receive(0, &arp_request_to_router(0, "10.0.0.9", "10.0.0.1"));
    for (port, address) in [(1, "10.0.100.9"), (2, "10.0.100.10")] {
        let request = frame_with_packet(
            [0xff; 6],
            station_mac(port),
            0x0806,
            &arp_packet(1, (station_mac(port), address), ([0; 6], "10.0.100.1")),
        );
        match port {
            2 => harness.receive(2, &insert_vlan_tag(&request, 0x8100, 100)),
            _ => harness.receive(1, &request),
        };
    }
    harness.run_for(Picos::from_millis(1));
    harness.clear_sent();
    harness
}

/// Returns an ARP request for the router's address. The router learns the sender from it.
fn arp_request_to_router(port: u8, address: &str, router: &str) -> Vec<u8> {
    frame_with_packet(
        [0xff; 6],
        station_mac(port),
        0x0806,
        &arp_packet(1, (station_mac(port), address), ([0; 6], router)),
    )
}

#[test]
fn routed_frames_get_the_tag_of_the_egress_vlan() {
    let mut harness = harness_with_vlan_interface();
    let packet = |dst: &str| frame_to_router(0, 0x0800, &udp_ipv4_packet("10.0.0.9", dst, 64, 100));
    harness.receive(0, &packet("10.0.100.9"));
    harness.receive(0, &packet("10.0.100.10"));
    // A routed port accepts a priority tag. Its priority is kept where a tag leaves.
    harness.receive(0, &insert_vlan_tag(&packet("10.0.100.9"), 0x8100, 0x6000));
    harness.receive(0, &insert_vlan_tag(&packet("10.0.100.10"), 0x8100, 0x6000));
    harness.run_for(Picos::from_millis(1));
    let bytes = |port: u16| {
        harness
            .sent(port)
            .iter()
            .map(|sent| sent.bytes.clone())
            .collect::<Vec<_>>()
    };
    let untagged = routed_copy(&packet("10.0.100.9"), 1);
    assert_eq!(bytes(1), [untagged.clone(), untagged]);
    let other = routed_copy(&packet("10.0.100.10"), 2);
    assert_eq!(
        bytes(2),
        [
            insert_vlan_tag(&other, 0x8100, 100),
            insert_vlan_tag(&other, 0x8100, 0x6064)
        ]
    );
}

#[test]
fn vlan_tags_are_removed_between_routed_ports_and_vlans() {
    let mut harness = harness_with_vlan_interface();
    let packet = frame_to_router(2, 0x0800, &udp_ipv4_packet("10.0.100.10", "10.0.0.9", 64, 100));
    harness.receive(2, &insert_vlan_tag(&packet, 0x8100, 100));
    harness.run_for(Picos::from_millis(1));
    assert_eq!(harness.sent(0)[0].bytes, routed_copy(&packet, 0));
    let into_a_vlan = insert_vlan_tag(
        &frame_to_router(0, 0x0800, &udp_ipv4_packet("10.0.0.9", "10.0.100.9", 64, 0)),
        0x8100,
        100,
    );
    assert!(matches!(
        harness.receive(0, &into_a_vlan),
        ForwardingResult::Dropped(_)
    ));
}

#[test]
fn frames_between_stations_of_a_vlan_are_bridged() {
    let mut harness = harness_with_vlan_interface();
    let bridged = frame_with_packet(
        station_mac(2),
        station_mac(1),
        0x0800,
        &udp_ipv4_packet("10.0.100.9", "10.0.100.10", 64, 100),
    );
    harness.receive(1, &bridged);
    harness.run_for(Picos::from_millis(1));
    assert_eq!(
        harness.sent(2)[0].bytes,
        insert_vlan_tag(&bridged, 0x8100, 100),
        "not a hop"
    );
}

#[test]
fn a_neighbour_with_an_expired_mac_entry_is_still_reached() {
    let mut harness = harness_with_vlan_interface();
    harness.run_for(Picos::from_millis(3_599_000)); // far beyond the age of addresses; probes went unanswered
    harness.clear_sent();
    harness.receive(
        2,
        &insert_vlan_tag(
            &arp_request_to_router(2, "10.0.100.10", "10.0.100.1"),
            0x8100,
            100,
        ),
    );
    harness.receive(
        0,
        &frame_to_router(0, 0x0800, &udp_ipv4_packet("10.0.0.9", "10.0.100.10", 64, 100)),
    );
    harness.run_for(Picos::from_millis(1));
    assert_eq!(harness.data_sent(2).len(), 1);
    let _ = (
        parse_ipv4("10.0.0.1"),
        config::CELL_BYTES,
        arp_reply_frame(0, "10.0.0.9", "10.0.0.1"),
    );
}
