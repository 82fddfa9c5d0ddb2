//! Tests of the CPU port in the engine.

use std::sync::Arc;

use smoltcp::wire::{Icmpv4Message, Icmpv4Packet, Ipv4Packet};
use xoff_dataplane::config::{BridgingConfig, InterfaceAttachment, InterfaceConfig, RoutingConfig};
use xoff_dataplane::ids::InterfaceId;
use xoff_dataplane::route::{Fib, Route, RouteTag, RouteTarget};

use super::*;
use crate::cpu::IcmpError;

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0xa0];
const HOST: [u8; 6] = [2, 0, 0, 0, 0, 0x77];

/// Builds a configuration in which both ports are router interfaces: 10.0.0.1/24 and 10.0.1.1/24.
fn router_config() -> SwitchConfig {
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

/// A router under test with a host on its first port.
struct RouterBench {
    bench: EngineBench,
    now: Picos,
}

impl RouterBench {
    fn new() -> RouterBench {
        let config = router_config();
        let mut bench = EngineBench::with_config(&config, [GIGABIT, GIGABIT]);
        bench.engine.reconfigure_cpu(&config.routing);
        let now = Picos::ZERO;
        RouterBench { bench, now }
    }

    /// Sends a frame from the host. Returns the frames that leave through each port in the next millisecond.
    fn send_from_host(&mut self, bytes: &[u8]) -> [Vec<Vec<u8>>; 2] {
        let frame = self.bench.store.insert(bytes).unwrap();
        let arrival = ReceivedFrame {
            frame,
            frame_len: bytes.len() as u32,
            parsed: parse(bytes),
            received_at: self.now,
        };
        self.bench.engine.receive_paced(PortId(0), arrival);
        self.now += Picos::from_millis(1);
        self.bench.run_until(self.now);
        let mut sent = [Vec::new(), Vec::new()];
        for transmit in self.bench.sent.drain(..) {
            sent[transmit.port.index()].push(self.bench.store.contents(transmit.frame));
            self.bench.store.release(transmit.frame);
        }
        sent
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

/// Builds an echo request from 10.0.0.7.
fn echo_request(to: [u8; 4], ttl: u8) -> Vec<u8> {
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

/// Returns the destination MAC address, the source IP address and the ICMP type of a frame.
fn parse_icmp(frame: &[u8]) -> ([u8; 6], [u8; 4], Icmpv4Message) {
    let packet = Ipv4Packet::new_checked(&frame[14..]).unwrap();
    assert!(packet.verify_checksum());
    let message = Icmpv4Packet::new_checked(packet.payload()).unwrap();
    let to = *frame.first_chunk().unwrap();
    (to, packet.src_addr().octets(), message.msg_type())
}

#[test]
fn a_host_gets_arp_replies_echo_replies_and_time_exceeded_errors() {
    let mut router = RouterBench::new();
    let [replies, _] = router.send_from_host(&arp_request());
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0][..12], [HOST, ROUTER].concat());
    assert_eq!(replies[0][20..22], [0, 2], "an ARP reply");
    // The host may use the address of either port.
    for address in [[10, 0, 0, 1], [10, 0, 1, 1]] {
        let [replies, _] = router.send_from_host(&echo_request(address, 64));
        assert_eq!(parse_icmp(&replies[0]), (HOST, address, Icmpv4Message::EchoReply));
    }
    let [replies, others] = router.send_from_host(&echo_request([10, 0, 1, 9], 1));
    assert_eq!(
        parse_icmp(&replies[0]),
        (HOST, [10, 0, 0, 1], Icmpv4Message::TimeExceeded)
    );
    assert_eq!(others, Vec::<Vec<u8>>::new());
    let counters = router.counters();
    assert_eq!((counters.arp_replies, counters.echo_replies), (1, 2));
    assert_eq!(counters.errors[IcmpError::TimeExceeded.index()], 1);
    assert_eq!(router.bench.store.in_use(), 0, "every slot is back");
}

#[test]
fn an_echo_request_with_an_own_source_address_gets_no_reply() {
    let mut router = RouterBench::new();
    let mut frame = echo_request([10, 0, 1, 1], 64);
    let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
    packet.set_src_addr([10, 0, 0, 1].into());
    packet.fill_checksum();
    assert_eq!(router.send_from_host(&frame), [Vec::<Vec<u8>>::new(), Vec::new()]);
    assert_eq!(router.bench.store.in_use(), 0, "every slot is back");
}

#[test]
fn a_switch_without_router_interfaces_has_no_cpu_stack() {
    let mut router = RouterBench::new();
    router.bench.engine.reconfigure_cpu(&RoutingConfig::default());
    assert!(router.bench.engine.cpu().is_none());
    let [replies, _] = router.send_from_host(&echo_request([10, 0, 0, 1], 64));
    assert_eq!(replies, Vec::<Vec<u8>>::new());
    assert_eq!(router.bench.store.in_use(), 0, "every slot is back");
}
