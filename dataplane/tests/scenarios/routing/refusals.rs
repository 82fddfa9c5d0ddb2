//! Packets that the router refuses, each with its SAI drop reason.

use xoff_dataplane::{DropReason, ForwardingResult, PortId, PuntReason};

use super::router_harness;
use crate::support::Harness;
use crate::support::config::{self, ROUTER_MAC};
use crate::support::frames::{insert_vlan_tag, station_mac};
use crate::support::packets::{
    frame_to_router, frame_with_packet, refresh_checksum, udp_ipv4_packet, udp_ipv6_packet,
};

/// Sends `bytes` to port 0 and expects one drop for `reason` and no sent frame.
fn assert_packet_is_dropped(harness: &mut Harness, bytes: &[u8], reason: DropReason) {
    let before = harness.counters(0);
    match harness.receive(0, bytes) {
        ForwardingResult::Dropped(drop) => assert_eq!((drop.reason, drop.port), (reason, PortId(0))),
        other => panic!("{reason:?}: {other:?}"),
    }
    let after = harness.counters(0);
    assert_eq!(after.dropped_frames(), before.dropped_frames() + 1, "{reason:?}");
    assert_eq!(
        harness.drop_count(0, reason),
        before.drops[reason as usize].iter().sum::<u64>() + 1
    );
    assert_eq!(harness.switch().queued_frames(), 0);
}

fn ipv4_frame(src: &str, dst: &str) -> Vec<u8> {
    frame_to_router(0, 0x0800, &udp_ipv4_packet(src, dst, 64, 100))
}

fn ipv6_frame(src: &str, dst: &str) -> Vec<u8> {
    frame_to_router(0, 0x86dd, &udp_ipv6_packet(src, dst, 64, 100))
}

#[test]
fn martian_addresses_are_dropped() {
    use DropReason::*;
    let mut harness = router_harness(2);
    let (here, there) = ("10.0.0.9", "10.0.1.9");
    for (src, dst, reason) in [
        ("0.0.0.0", there, SipUnspecified),
        ("127.0.0.1", there, SipLoopback),
        ("224.0.0.5", there, SipMulticast),
        ("240.1.1.1", there, SipClassE),
        ("255.255.255.255", there, SipBroadcast),
        ("169.254.3.3", there, SipLinkLocal),
        (there, there, SipEqualsDip),
        (here, "127.0.0.1", DipLoopback),
        (here, "169.254.3.3", DipLinkLocal),
        (here, "0.0.0.0", NonRoutable),
        (here, "255.255.255.255", NonRoutable),
        (here, "250.0.0.1", NonRoutable),
        (here, "224.1.1.1", McDmacMismatch),
        (here, "10.0.1.255", BlackholeRoute),
    ] {
        assert_packet_is_dropped(&mut harness, &ipv4_frame(src, dst), reason);
    }
    let (here, there) = ("2001:db8:0::9", "2001:db8:1::9");
    for (src, dst, reason) in [
        ("::", there, SipUnspecified),
        ("::1", there, SipLoopback),
        ("ff02::5", there, SipMulticast),
        ("fe80::9", there, SipLinkLocal),
        (there, there, SipEqualsDip),
        (here, "::1", DipLoopback),
        (here, "::", NonRoutable),
        (here, "::ffff:10.0.1.9", NonRoutable),
        (here, "fe80::99", DipLinkLocal),
        (here, "ff05::1", McDmacMismatch),
    ] {
        assert_packet_is_dropped(&mut harness, &ipv6_frame(src, dst), reason);
    }
    harness.assert_empty();
}

#[test]
fn invalid_ip_headers_are_dropped() {
    let mut harness = router_harness(2);
    let good = ipv4_frame("10.0.0.9", "10.0.1.9");
    for bit in 0..160 {
        let mut bad = good.clone();
        bad[14 + bit / 8] ^= 1 << (bit % 8);
        // A changed bit of the type of service moves the frame to another class. The checksum is still wrong.
        assert_packet_is_dropped(&mut harness, &bad, DropReason::IpHeaderError);
    }
    let mut longer = good.clone();
    longer[16..18].copy_from_slice(&1_000_u16.to_be_bytes());
    refresh_checksum(&mut longer[14..]);
    assert_packet_is_dropped(&mut harness, &longer, DropReason::IpHeaderError);
    for len in 14..34 {
        assert_packet_is_dropped(&mut harness, &good[..len], DropReason::IpHeaderError);
    }
    let six = ipv6_frame("2001:db8:0::9", "2001:db8:1::9");
    for len in 14..six.len() {
        assert_packet_is_dropped(&mut harness, &six[..len], DropReason::IpHeaderError);
    }
    let mut version = six.clone();
    version[14] = 0x50;
    assert_packet_is_dropped(&mut harness, &version, DropReason::IpHeaderError);
    assert_packet_is_dropped(
        &mut harness,
        &frame_to_router(0, 0x88b5, &[0; 46]),
        DropReason::NoL3Header,
    );
    assert_packet_is_dropped(
        &mut harness,
        &insert_vlan_tag(&insert_vlan_tag(&good, 0x8100, 5), 0x8100, 0),
        DropReason::NoL3Header,
    );
    assert_packet_is_dropped(
        &mut harness,
        &insert_vlan_tag(&good, 0x88a8, 0),
        DropReason::IngressVlanFilter,
    );
}

#[test]
fn frames_to_foreign_link_addresses_are_not_routed() {
    let mut harness = router_harness(2);
    let packet = udp_ipv4_packet("10.0.0.9", "10.0.1.9", 64, 100);
    assert_packet_is_dropped(
        &mut harness,
        &frame_with_packet(station_mac(7), station_mac(0), 0x0800, &packet),
        DropReason::NotToRouter,
    );
    let group = [1, 0, 0x5e, 0, 0, 1];
    assert_packet_is_dropped(
        &mut harness,
        &frame_with_packet(group, station_mac(0), 0x0800, &packet),
        DropReason::UcDipMcDmac,
    );
    assert_packet_is_dropped(
        &mut harness,
        &frame_with_packet([0xff; 6], station_mac(0), 0x0800, &packet),
        DropReason::UcDipMcDmac,
    );
    let multicast = udp_ipv4_packet("10.0.0.9", "224.0.0.1", 64, 100);
    assert_packet_is_dropped(
        &mut harness,
        &frame_with_packet(group, station_mac(0), 0x0800, &multicast),
        DropReason::NonRoutable,
    );
    assert_packet_is_dropped(
        &mut harness,
        &frame_with_packet([0xff; 6], station_mac(0), 0x88b5, &[0; 46]),
        DropReason::NonRoutable,
    );
}

#[test]
fn packets_without_route_or_usable_next_hop_are_dropped() {
    let mut config = config::router_config(2);
    config::set_static_routes(
        &mut config,
        &[("192.0.2.0/24", xoff_dataplane::route::RouteTarget::Blackhole)],
    );
    let mut harness = Harness::new(&config);
    harness.switch_mut().set_cpu_attached(true);
    assert_packet_is_dropped(
        &mut harness,
        &ipv4_frame("10.0.0.9", "198.51.100.1"),
        DropReason::Lpm4Miss,
    );
    assert_packet_is_dropped(
        &mut harness,
        &ipv6_frame("2001:db8:0::9", "2001:db9::1"),
        DropReason::Lpm6Miss,
    );
    let told: Vec<_> = harness.punts.iter().map(|punt| punt.reason).collect();
    assert_eq!(told, [PuntReason::NetUnreachable; 2]);
    assert_packet_is_dropped(
        &mut harness,
        &ipv4_frame("10.0.0.9", "192.0.2.1"),
        DropReason::BlackholeRoute,
    );
    assert_eq!(harness.punts.len(), 2, "a black hole says nothing");
    harness.set_link(1, false);
    assert_packet_is_dropped(
        &mut harness,
        &ipv4_frame("10.0.0.9", "10.0.1.9"),
        DropReason::L3EgressLinkDown,
    );
}

#[test]
fn packets_with_an_expired_hop_limit_are_dropped() {
    let mut harness = router_harness(2);
    harness.switch_mut().set_cpu_attached(true);
    for (ttl, expected) in [(0, true), (1, true), (2, false)] {
        let four = frame_to_router(0, 0x0800, &udp_ipv4_packet("10.0.0.9", "10.0.1.9", ttl, 100));
        let six = frame_to_router(
            0,
            0x86dd,
            &udp_ipv6_packet("2001:db8:0::9", "2001:db8:1::9", ttl, 100),
        );
        for packet in [four, six] {
            if !expected {
                assert_eq!(
                    harness.receive(0, &packet),
                    ForwardingResult::Forwarded { copies: 1 }
                );
                continue;
            }
            assert_packet_is_dropped(&mut harness, &packet, DropReason::Ttl);
            let punt = harness.punts.pop().expect("the sender is told");
            assert_eq!(punt.reason, PuntReason::TimeExceeded);
            assert_eq!(harness.store().contents(punt.frame), packet, "as it came");
            // A packet to the router is accepted with any hop limit.
            let own = frame_to_router(0, 0x0800, &udp_ipv4_packet("10.0.0.9", "10.0.1.1", ttl, 100));
            assert_eq!(harness.receive(0, &own), ForwardingResult::Punted);
            assert_eq!(
                harness.punts.pop().map(|punt| punt.reason),
                Some(PuntReason::Local)
            );
        }
    }
}

#[test]
fn packets_longer_than_the_egress_mtu_are_dropped() {
    let mut config = config::router_config(2);
    config.routing.interfaces[1].mtu = 1_500;
    let mut harness = Harness::new(&config);
    harness.switch_mut().set_cpu_attached(true);
    super::send_arp_request_from(&mut harness, 1);
    let four = |payload| frame_to_router(0, 0x0800, &udp_ipv4_packet("10.0.0.9", "10.0.1.9", 64, payload));
    let six = |payload| {
        frame_to_router(
            0,
            0x86dd,
            &udp_ipv6_packet("2001:db8:0::9", "2001:db8:1::9", 64, payload),
        )
    };
    harness.punts.clear();
    for fits in [four(1_472), six(1_452)] {
        assert_eq!(
            harness.receive(0, &fits),
            ForwardingResult::Forwarded { copies: 1 }
        );
        harness.run_for(xoff_units::Picos::from_millis(1));
    }
    for long in [four(1_473), six(1_453)] {
        assert_packet_is_dropped(&mut harness, &long, DropReason::ExceedsL3Mtu);
        assert_eq!(
            harness.punts.pop().map(|punt| punt.reason),
            Some(PuntReason::TooBig { mtu: 1_500 })
        );
    }
    let mut may_be_cut = udp_ipv4_packet("10.0.0.9", "10.0.1.9", 64, 1_473);
    may_be_cut[6] = 0;
    refresh_checksum(&mut may_be_cut);
    assert_packet_is_dropped(
        &mut harness,
        &frame_to_router(0, 0x0800, &may_be_cut),
        DropReason::ExceedsL3Mtu,
    );
    assert!(
        harness.punts.is_empty(),
        "RFC 1191: only who forbade fragments is told"
    );
}

#[test]
fn icmp_errors_are_rate_limited() {
    let mut config = config::router_config(2);
    config.routing.icmp_errors_per_second = 10;
    let mut harness = Harness::new(&config);
    harness.switch_mut().set_cpu_attached(true);
    let lost = ipv4_frame("10.0.0.9", "198.51.100.1");
    for second in 0..5_u64 {
        harness.run_until(xoff_units::Picos::from_millis(10_000 + 1_000 * second));
        (0..100).for_each(|_| assert_packet_is_dropped(&mut harness, &lost, DropReason::Lpm4Miss));
    }
    assert_eq!(harness.punts.len(), 50);
    assert_eq!(harness.drop_count(0, DropReason::Lpm4Miss), 500);
}

#[test]
fn a_routing_loop_ends_when_the_ttl_expires() {
    // A frame that leaves port 1 arrives there again, as from a neighbour with the same default route.
    let mut harness = router_harness(2);
    let mut packet = ipv4_frame("10.0.0.9", "203.0.113.1");
    let mut hops = 0;
    loop {
        harness.clear_sent();
        match harness.receive(1, &packet) {
            ForwardingResult::Forwarded { .. } => hops += 1,
            ForwardingResult::Dropped(drop) => {
                assert_eq!(drop.reason, DropReason::Ttl);
                break;
            }
            other => panic!("{other:?}"),
        }
        harness.run_for(xoff_units::Picos::from_millis(1));
        packet = harness.sent(1)[0].bytes.clone();
        packet[..6].copy_from_slice(&ROUTER_MAC);
        packet[6..12].copy_from_slice(&station_mac(1));
    }
    assert_eq!(hops, 63);
    assert_eq!(harness.drop_count(1, DropReason::Ttl), 1);
}

#[test]
fn without_a_cpu_port_frames_to_the_switch_are_dropped() {
    let mut harness = router_harness(2);
    assert_packet_is_dropped(
        &mut harness,
        &ipv4_frame("10.0.0.9", "10.0.0.1"),
        DropReason::DipLocal,
    );
    assert_packet_is_dropped(
        &mut harness,
        &ipv6_frame("2001:db8:0::9", "fe80::1"),
        DropReason::DipLocal,
    );
    harness.switch_mut().set_cpu_attached(true);
    let mut taken = 0;
    for _ in 0..20_000 {
        taken +=
            usize::from(harness.receive(0, &ipv4_frame("10.0.0.9", "10.0.0.1")) == ForwardingResult::Punted);
    }
    assert_eq!(taken, harness.punts.len());
    assert!(taken < 20_000 && harness.drop_count(0, DropReason::CpuRate) == 20_000 - taken as u64);
}
