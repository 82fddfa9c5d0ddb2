//! Resolution of next hops, and packets that wait for it.

use xoff_dataplane::config::StaticNeighbour;
use xoff_dataplane::route::{NeighbourState, REACHABLE_TIME, RETRANSMIT_INTERVAL, SOLICITATIONS_MAX};
use xoff_dataplane::{DropReason, ForwardingResult, InterfaceId, Picos, PuntReason};

use crate::support::Harness;
use crate::support::config::{self, ROUTER_MAC};
use crate::support::frames::station_mac;
use crate::support::packets::{
    arp_packet, arp_reply_frame, frame_to_router, frame_with_packet, neighbour_discovery_packet,
    udp_ipv4_packet, udp_ipv6_packet,
};

const MILLISECOND: Picos = Picos::from_millis(1);

fn router_without_neighbours(ports: usize) -> Harness {
    let mut harness = Harness::new(&config::router_config(ports));
    harness.switch_mut().set_cpu_attached(true);
    harness
}

fn numbered_packet(n: u8) -> Vec<u8> {
    let mut packet = udp_ipv4_packet("10.0.0.9", "10.0.1.9", 64, 100);
    packet[40] = n;
    frame_to_router(0, 0x0800, &packet)
}

fn sent_bytes(harness: &Harness, port: u16) -> Vec<Vec<u8>> {
    harness.sent(port).iter().map(|sent| sent.bytes.clone()).collect()
}

#[test]
fn packets_wait_for_the_arp_reply_and_leave_in_order() {
    let mut harness = router_without_neighbours(2);
    for n in 0..5 {
        assert_eq!(harness.receive(0, &numbered_packet(n)), ForwardingResult::Held);
    }
    assert_eq!(harness.switch().held_frames(), 5);
    harness.run_for(MILLISECOND);
    let mut request = frame_with_packet(
        [0xff; 6],
        ROUTER_MAC,
        0x0806,
        &arp_packet(1, (ROUTER_MAC, "10.0.1.1"), ([0; 6], "10.0.1.9")),
    );
    request.resize(60, 0);
    assert_eq!(
        sent_bytes(&harness, 1),
        [request],
        "one question, however many wait"
    );
    harness.clear_sent();
    assert_eq!(
        harness.receive(1, &arp_reply_frame(1, "10.0.1.9", "10.0.1.1")),
        ForwardingResult::Punted
    );
    harness.run_for(MILLISECOND);
    let order: Vec<_> = sent_bytes(&harness, 1).iter().map(|bytes| bytes[54]).collect();
    assert_eq!(order, [0, 1, 2, 3, 4]);
    assert!(
        sent_bytes(&harness, 1)
            .iter()
            .all(|bytes| bytes[..6] == station_mac(1) && bytes[22] == 63)
    );
    assert_eq!(
        harness.receive(0, &numbered_packet(9)),
        ForwardingResult::Forwarded { copies: 1 }
    );
    harness.run_for(MILLISECOND);
    harness.assert_empty();
}

#[test]
fn ipv6_solicitations_use_the_solicited_node_address() {
    let mut harness = router_without_neighbours(2);
    let packet = frame_to_router(
        0,
        0x86dd,
        &udp_ipv6_packet("2001:db8:0::9", "2001:db8:1::1:2:3", 64, 10),
    );
    assert_eq!(harness.receive(0, &packet), ForwardingResult::Held);
    let expected = neighbour_discovery_packet(
        135,
        "2001:db8:1::1",
        "ff02::1:ff02:3",
        "2001:db8:1::1:2:3",
        ROUTER_MAC,
    );
    let group = [0x33, 0x33, 0xff, 2, 0, 3];
    harness.run_for(MILLISECOND);
    assert_eq!(
        sent_bytes(&harness, 1),
        [frame_with_packet(group, ROUTER_MAC, 0x86dd, &expected)]
    );
    let answer = neighbour_discovery_packet(
        136,
        "2001:db8:1::1:2:3",
        "2001:db8:1::1",
        "2001:db8:1::1:2:3",
        station_mac(7),
    );
    harness.clear_sent();
    harness.receive(1, &frame_to_router(1, 0x86dd, &answer));
    harness.run_for(MILLISECOND);
    assert_eq!(sent_bytes(&harness, 1)[0][..6], station_mac(7));
}

#[test]
fn waiting_packets_are_limited_and_failed_neighbours_are_reported() {
    let mut harness = router_without_neighbours(2);
    let held = config::router_config(2).routing.hold_frames;
    for n in 0..held + 10 {
        let verdict = harness.receive(0, &numbered_packet(n as u8));
        match n < held {
            true => assert_eq!(verdict, ForwardingResult::Held),
            false => assert!(
                matches!(verdict, ForwardingResult::Dropped(drop) if drop.reason == DropReason::UnresolvedNextHop)
            ),
        }
    }
    assert_eq!(harness.drop_count(0, DropReason::UnresolvedNextHop), 10);
    assert!(
        harness.punts.is_empty(),
        "too many waiting is no proof that nobody is there"
    );
    let gives_up = Picos(RETRANSMIT_INTERVAL.0 * u64::from(SOLICITATIONS_MAX));
    harness.run_for(Picos(gives_up.0 - 1));
    assert_eq!(harness.switch().held_frames(), held);
    assert_eq!(harness.sent(1).len(), usize::from(SOLICITATIONS_MAX));
    harness.run_for(Picos(1));
    assert_eq!(harness.switch().held_frames(), 0);
    assert_eq!(
        harness.drop_count(0, DropReason::UnresolvedNextHop),
        10 + held as u64
    );
    assert_eq!(harness.punts.len(), held);
    assert!(
        harness
            .punts
            .iter()
            .all(|punt| punt.reason == PuntReason::HostUnreachable)
    );
    assert!(
        harness.switch().neighbour_entries(harness.now()).is_empty(),
        "and forgotten"
    );
    assert_eq!(
        harness.receive(0, &numbered_packet(0)),
        ForwardingResult::Held,
        "the next packet asks again"
    );
}

#[test]
fn an_address_scan_fills_the_neighbour_table_to_its_limit() {
    let mut config = config::router_config(2);
    config.routing.neighbours_max = 20;
    let mut harness = Harness::new(&config);
    for host in 2..102 {
        let packet = udp_ipv4_packet("10.0.0.9", &format!("10.0.1.{host}"), 64, 10);
        harness.receive(0, &frame_to_router(0, 0x0800, &packet));
    }
    assert_eq!(harness.switch().neighbour_entries(harness.now()).len(), 20);
    assert_eq!(harness.switch().held_frames(), 20);
    assert_eq!(harness.drop_count(0, DropReason::UnresolvedNextHop), 80);
    harness.run();
    assert!(harness.switch().neighbour_entries(harness.now()).is_empty());
    harness.assert_empty();
}

#[test]
fn only_arp_for_the_router_creates_neighbours() {
    let mut harness = router_without_neighbours(3);
    let request = |target: &str| {
        frame_with_packet(
            [0xff; 6],
            station_mac(1),
            0x0806,
            &arp_packet(1, (station_mac(1), "10.0.1.9"), ([0; 6], target)),
        )
    };
    let known = |harness: &Harness| harness.switch().neighbour_entries(harness.now()).len();
    harness.receive(1, &request("10.0.1.77"));
    assert_eq!(known(&harness), 0, "a question to somebody else");
    harness.receive(1, &arp_reply_frame(1, "10.0.1.9", "10.0.1.1"));
    assert_eq!(known(&harness), 0, "an answer to a question nobody asked");
    harness.receive(
        1,
        &frame_with_packet(
            [0xff; 6],
            station_mac(1),
            0x0806,
            &arp_packet(1, (station_mac(1), "192.0.2.1"), ([0; 6], "10.0.1.1")),
        ),
    );
    assert_eq!(known(&harness), 0, "a station of another network");
    harness.receive(
        1,
        &frame_with_packet(
            [0xff; 6],
            station_mac(1),
            0x0806,
            &arp_packet(1, (station_mac(1), "10.0.1.1"), ([0; 6], "10.0.1.1")),
        ),
    );
    assert_eq!(known(&harness), 0, "who claims the router's own address");
    harness.punts.clear();
    assert_eq!(harness.receive(1, &request("10.0.1.1")), ForwardingResult::Punted);
    assert_eq!(known(&harness), 1);
    assert_eq!(
        harness.punts.pop().map(|punt| punt.reason),
        Some(PuntReason::Neighbour)
    );
    harness.receive(
        1,
        &frame_with_packet(
            [0xff; 6],
            station_mac(5),
            0x0806,
            &arp_packet(2, (station_mac(5), "10.0.1.9"), (station_mac(5), "10.0.1.9")),
        ),
    );
    let entry = harness.switch().neighbour_entries(harness.now())[0];
    assert_eq!(
        (entry.interface, entry.mac),
        (InterfaceId(1), Some(station_mac(5))),
        "a known station that moved"
    );
}

#[test]
fn announcements_create_neighbours_before_the_first_packet() {
    let mut harness = router_without_neighbours(2);
    let own = "10.0.1.9";
    let gratuitous = frame_with_packet(
        [0xff; 6],
        station_mac(1),
        0x0806,
        &arp_packet(1, (station_mac(1), own), ([0; 6], own)),
    );
    harness.receive(1, &gratuitous);
    assert_eq!(
        harness.receive(0, &numbered_packet(0)),
        ForwardingResult::Forwarded { copies: 1 }
    );
    let advert = neighbour_discovery_packet(136, "2001:db8:1::9", "ff02::1", "2001:db8:1::9", station_mac(1));
    harness.receive(
        1,
        &frame_with_packet([0x33, 0x33, 0, 0, 0, 1], station_mac(1), 0x86dd, &advert),
    );
    let packet = frame_to_router(
        0,
        0x86dd,
        &udp_ipv6_packet("2001:db8:0::9", "2001:db8:1::9", 64, 10),
    );
    assert_eq!(
        harness.receive(0, &packet),
        ForwardingResult::Forwarded { copies: 1 }
    );
}

#[test]
fn a_neighbour_is_probed_before_its_entry_is_removed() {
    let mut harness = router_without_neighbours(2);
    super::send_arp_request_from(&mut harness, 1);
    harness.clear_sent();
    harness.run_for(Picos(REACHABLE_TIME.0 - 1));
    assert!(harness.sent(1).is_empty());
    harness.run_for(MILLISECOND);
    assert_eq!(harness.sent(1).len(), 2, "IPv4 and IPv6");
    assert!(
        harness
            .sent(1)
            .iter()
            .all(|sent| sent.bytes[..6] == station_mac(1)),
        "itself, not everybody"
    );
    let state = |harness: &Harness| harness.switch().neighbour_entries(harness.now())[0].state;
    assert_eq!(state(&harness), NeighbourState::Probe);
    assert_eq!(
        harness.receive(0, &numbered_packet(0)),
        ForwardingResult::Forwarded { copies: 1 },
        "meanwhile it is believed in"
    );
    harness.receive(1, &arp_reply_frame(1, "10.0.1.9", "10.0.1.1"));
    assert_eq!(state(&harness), NeighbourState::Reachable);
    harness.run_for(Picos::from_millis(10_000));
    let left = harness.switch().neighbour_entries(harness.now());
    assert_eq!(left.len(), 1, "the one that did not answer is gone: {left:?}");
}

#[test]
fn static_neighbours_are_not_probed() {
    let mut config = config::router_config(2);
    config.routing.neighbours = vec![StaticNeighbour {
        interface: InterfaceId(1),
        address: "10.0.1.9".parse().expect("an address"),
        mac: station_mac(8),
    }];
    let mut harness = Harness::new(&config);
    assert_eq!(
        harness.receive(0, &numbered_packet(0)),
        ForwardingResult::Forwarded { copies: 1 }
    );
    harness.receive(1, &arp_reply_frame(1, "10.0.1.9", "10.0.1.1"));
    assert_eq!(
        harness.receive(0, &numbered_packet(1)),
        ForwardingResult::Forwarded { copies: 1 }
    );
    harness.run();
    assert_eq!(harness.sent(1).len(), 2);
    assert!(
        harness
            .sent(1)
            .iter()
            .all(|sent| sent.bytes[..6] == station_mac(8)),
        "what was told stands"
    );
}

#[test]
fn next_hops_of_routes_are_resolved_before_the_first_packet() {
    let mut config = config::router_config(2);
    config::set_static_routes(
        &mut config,
        &[("0.0.0.0/0", config::equal_cost_target(&[(1, "10.0.1.9")]))],
    );
    let mut harness = Harness::new(&config);
    harness.run_for(MILLISECOND);
    assert_eq!(harness.sent(1).len(), 1, "asked when the link came up");
    harness.receive(1, &arp_reply_frame(1, "10.0.1.9", "10.0.1.1"));
    let far = frame_to_router(0, 0x0800, &udp_ipv4_packet("10.0.0.9", "198.51.100.1", 64, 10));
    assert_eq!(
        harness.receive(0, &far),
        ForwardingResult::Forwarded { copies: 1 }
    );
    // After a link was down, another station may be connected.
    harness.set_link(1, false);
    harness.run();
    harness.clear_sent();
    harness.set_link(1, true);
    harness.run_for(MILLISECOND);
    assert_eq!(harness.sent(1).len(), 1, "asked anew");
    assert_eq!(harness.receive(0, &far), ForwardingResult::Held);
}

#[test]
fn a_link_failure_drops_packets_that_wait_for_resolution() {
    let mut harness = router_without_neighbours(2);
    (0..3).for_each(|n| assert_eq!(harness.receive(0, &numbered_packet(n)), ForwardingResult::Held));
    harness.set_link(1, false);
    assert_eq!(harness.switch().held_frames(), 0);
    assert_eq!(harness.drop_count(0, DropReason::L3EgressLinkDown), 3);
    harness.run();
    for punt in std::mem::take(&mut harness.punts) {
        xoff_dataplane::FrameStore::release(harness.store_mut(), punt.frame);
    }
    harness.assert_empty();
}

#[test]
fn packets_of_the_switch_wait_for_resolution() {
    let mut harness = router_without_neighbours(2);
    let bytes = [
        &[0; 12][..],
        &[8, 0],
        &udp_ipv4_packet("10.0.1.1", "10.0.1.9", 64, 20),
    ]
    .concat();
    let frame = harness.store_mut().insert(&bytes).expect("room");
    let taken = harness
        .call_switch(|now, switch, store, outputs| switch.originate_packet(now, None, frame, store, outputs));
    assert_eq!((taken, harness.switch().held_frames()), (Ok(()), 1));
    harness.run_for(MILLISECOND);
    harness.clear_sent();
    harness.receive(1, &arp_reply_frame(1, "10.0.1.9", "10.0.1.1"));
    harness.run_for(MILLISECOND);
    let mut expected = bytes.clone();
    expected[..6].copy_from_slice(&station_mac(1));
    expected[6..12].copy_from_slice(&ROUTER_MAC);
    assert_eq!(
        sent_bytes(&harness, 1),
        [expected],
        "and loses no hop: it starts here"
    );
    let own = harness
        .store_mut()
        .insert(&[&bytes[..14], &udp_ipv4_packet("10.0.1.1", "10.0.0.1", 64, 20)[..]].concat());
    let own = own.expect("room");
    let refused = harness
        .call_switch(|now, switch, store, outputs| switch.originate_packet(now, None, own, store, outputs));
    assert_eq!(refused, Err(own), "to itself");
    xoff_dataplane::FrameStore::release(harness.store_mut(), own);
    harness.run();
    harness.assert_empty();
}
