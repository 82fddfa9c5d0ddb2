//! The CPU port in the engine: what a host hears from the switch itself.

use std::sync::Arc;

use smoltcp::wire::{Icmpv4Message, Icmpv4Packet, Ipv4Packet};
use xoff_dataplane::config::{InterfaceAttachment, InterfaceConfig};
use xoff_dataplane::ids::InterfaceId;
use xoff_dataplane::route::{Fib, Route, RouteTag, RouteTarget};

use super::*;
use crate::cpu::IcmpError;

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0xa0];
const HOST: [u8; 6] = [2, 0, 0, 0, 0, 0x77];

/// Both ports are router interfaces: 10.0.0.1/24 and 10.0.1.1/24.
fn routed() -> SwitchConfig {
    let mut config = config();
    config.bridging = BridgingConfig::Vlans(Vec::new());
    let mut routes = Vec::new();
    for n in 0..2 {
        let address: ipnet::IpNet = format!("10.0.{n}.1/24").parse().unwrap();
        let route = |prefix, target| Route {
            prefix,
            target,
            tag: RouteTag::default(),
        };
        routes.push(route(address.addr().into(), RouteTarget::Local));
        routes.push(route(address.trunc(), RouteTarget::Connected(InterfaceId(n))));
        config.routing.interfaces.push(InterfaceConfig {
            name: format!("Ethernet{n}"),
            attachment: InterfaceAttachment::Port(n),
            mac: ROUTER,
            mtu: 1_500,
            addresses: vec![address],
        });
    }
    config.routing.fib = Arc::new(Fib::build(routes).unwrap());
    config
}

/// A switch that routes, and a host on its first port.
struct Routed {
    bench: Bench,
    now: Picos,
}

impl Routed {
    fn new() -> Routed {
        let config = routed();
        let mut bench = Bench::of(&config, [GIGABIT, GIGABIT]);
        bench.engine.reconfigure_cpu(&config.routing);
        let now = Picos::ZERO;
        Routed { bench, now }
    }

    /// What leaves by the host's port within a millisecond of a frame's arrival, and by the other one.
    fn ask(&mut self, bytes: &[u8]) -> [Vec<Vec<u8>>; 2] {
        let frame = self.bench.store.insert(bytes).unwrap();
        let arrival = ReceivedFrame {
            frame,
            frame_len: bytes.len() as u32,
            parsed: parse(bytes),
            received_at: self.now,
        };
        self.bench.engine.offer(PortId(0), arrival);
        self.now += Picos::from_millis(1);
        self.bench.turn(self.now);
        let mut left = [Vec::new(), Vec::new()];
        for transmit in self.bench.sent.drain(..) {
            left[transmit.port.index()].push(self.bench.store.contents(transmit.frame));
            self.bench.store.release(transmit.frame);
        }
        left
    }

    fn counters(&self) -> &crate::cpu::CpuCounters {
        self.bench.engine.cpu().unwrap().counters()
    }
}

fn arp_request() -> Vec<u8> {
    let mut frame = [[0xff; 6], HOST].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(HOST);
    frame.extend([10, 0, 0, 7, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
    frame.resize(60, 0);
    frame
}

/// An echo request from 10.0.0.7.
fn ping(to: [u8; 4], ttl: u8) -> Vec<u8> {
    let mut frame = [ROUTER, HOST].concat();
    frame.extend([8, 0]);
    frame.resize(14 + 84, 0);
    let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
    packet.set_version(4);
    packet.set_header_len(20);
    packet.set_total_len(84);
    packet.set_hop_limit(ttl);
    packet.set_next_header(smoltcp::wire::IpProtocol::Icmp);
    packet.set_src_addr([10, 0, 0, 7].into());
    packet.set_dst_addr(to.into());
    packet.fill_checksum();
    let mut message = Icmpv4Packet::new_unchecked(packet.payload_mut());
    message.set_msg_type(Icmpv4Message::EchoRequest);
    message.fill_checksum();
    frame
}

/// Who says what to whom.
fn heard(frame: &[u8]) -> ([u8; 6], [u8; 4], Icmpv4Message) {
    let packet = Ipv4Packet::new_checked(&frame[14..]).unwrap();
    assert!(packet.verify_checksum());
    let message = Icmpv4Packet::new_checked(packet.payload()).unwrap();
    let to = *frame.first_chunk().unwrap();
    (to, packet.src_addr().octets(), message.msg_type())
}

#[test]
fn a_host_finds_the_switch_pings_it_and_hears_of_its_last_hop() {
    let mut routed = Routed::new();
    let [replies, _] = routed.ask(&arp_request());
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0][..12], [HOST, ROUTER].concat());
    assert_eq!(replies[0][20..22], [0, 2], "an ARP reply");
    // The address of either port.
    for address in [[10, 0, 0, 1], [10, 0, 1, 1]] {
        let [replies, _] = routed.ask(&ping(address, 64));
        assert_eq!(heard(&replies[0]), (HOST, address, Icmpv4Message::EchoReply));
    }
    let [replies, others] = routed.ask(&ping([10, 0, 1, 9], 1));
    assert_eq!(
        heard(&replies[0]),
        (HOST, [10, 0, 0, 1], Icmpv4Message::TimeExceeded)
    );
    assert_eq!(others, Vec::<Vec<u8>>::new());
    let counters = routed.counters();
    assert_eq!((counters.arp_replies, counters.echo_replies), (1, 2));
    assert_eq!(counters.errors[IcmpError::TimeExceeded.index()], 1);
    assert_eq!(routed.bench.store.in_use(), 0, "every slot is back");
}

#[test]
fn a_ping_that_claims_to_come_from_the_switch_ends_there() {
    let mut routed = Routed::new();
    let mut frame = ping([10, 0, 1, 1], 64);
    let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
    packet.set_src_addr([10, 0, 0, 1].into());
    packet.fill_checksum();
    assert_eq!(routed.ask(&frame), [Vec::<Vec<u8>>::new(), Vec::new()]);
    assert_eq!(routed.bench.store.in_use(), 0, "every slot is back");
}

#[test]
fn without_interfaces_there_is_no_cpu() {
    let mut routed = Routed::new();
    routed.bench.engine.reconfigure_cpu(&RoutingConfig::default());
    assert!(routed.bench.engine.cpu().is_none());
    let [replies, _] = routed.ask(&ping([10, 0, 0, 1], 64));
    assert_eq!(replies, Vec::<Vec<u8>>::new());
    assert_eq!(routed.bench.store.in_use(), 0, "every slot is back");
}
