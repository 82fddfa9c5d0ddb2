//! Routes for the routed workload: prefixes of many lengths, next hops behind the receiver's port.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};
use xoff_dataplane::InterfaceId;
use xoff_dataplane::config::{InterfaceAttachment, InterfaceConfig, RoutingConfig, StaticNeighbour};
use xoff_dataplane::route::{Fib, NextHop, Route, RoutePath, RouteTag, RouteTarget};

/// The router's address on every link.
pub(super) const ROUTER_MAC: [u8; 6] = [2, 0xaa, 0, 0, 0, 1];
const PORTS: u16 = 5;
const RECEIVER: u16 = 4;
const NEXT_HOPS: u8 = 16;

/// The router's interface on a port: 10.1.*n*.1/24.
pub(super) fn router_interface(port: u16) -> InterfaceConfig {
    InterfaceConfig {
        name: format!("Ethernet{port}"),
        attachment: InterfaceAttachment::Port(port),
        mac: ROUTER_MAC,
        mtu: 9_100,
        addresses: vec![IpNet::new(Ipv4Addr::new(10, 1, port as u8, 1).into(), 24).expect("a prefix length")],
    }
}

/// Ports are 10.1.*n*.1/24; `routes` prefixes lead to 16 next hops at the receiver.
pub(super) fn config(routes: u32) -> RoutingConfig {
    let neighbour = |n: u8| StaticNeighbour {
        interface: InterfaceId(RECEIVER),
        address: next_hop(n).address,
        mac: [2, 0, 0, 0, RECEIVER as u8, n],
    };
    let fib = Fib::build((0..routes).map(|n| Route {
        prefix: prefix(n).into(),
        target: target(n),
        tag: RouteTag::default(),
    }));
    RoutingConfig {
        interfaces: (0..PORTS).map(router_interface).collect(),
        fib: Arc::new(fib.expect("routes")),
        hash_seed: 1,
        neighbours: (0..NEXT_HOPS).map(neighbour).collect(),
        ..RoutingConfig::default()
    }
}

/// The destination of a flow: inside a route of its own, evenly over all of them.
pub(super) fn destination(routes: u32, port: u16, station: u8) -> Ipv4Addr {
    let flow = u32::from(port) * 16 + u32::from(station);
    let prefix = prefix(flow * (routes / 64).max(1) % routes);
    Ipv4Addr::from_bits(prefix.network().to_bits() | 1)
}

/// An address inside route `n`.
pub(super) fn first_address(n: u32) -> u32 {
    prefix(n).network().to_bits() | 1
}

/// Disjoint prefixes of 20 to 28 bits in 11.0.0.0/8 and above: a /20 each, of which the first part is taken.
fn prefix(n: u32) -> Ipv4Net {
    let network = Ipv4Addr::from_bits((11 << 24) + (n << 12));
    Ipv4Net::new(network, 20 + (n % 9) as u8).expect("a prefix length")
}

fn target(n: u32) -> RouteTarget {
    let path = |n: u32| RoutePath {
        next_hop: next_hop((n % u32::from(NEXT_HOPS)) as u8),
        weight: 1,
    };
    match n % 2 {
        0 => RouteTarget::Via(vec![path(n)]),
        _ => RouteTarget::Via((0..4).map(|member| path(n + 4 * member)).collect()),
    }
}

fn next_hop(n: u8) -> NextHop {
    NextHop {
        interface: InterfaceId(RECEIVER),
        address: IpAddr::V4(Ipv4Addr::new(10, 1, RECEIVER as u8, 100 + n)),
    }
}
