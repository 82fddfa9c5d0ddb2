//! Routes of the routed workloads: prefixes of several lengths, with next hops at the receiving port.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};
use xoff_dataplane::InterfaceId;
use xoff_dataplane::config::{InterfaceAttachment, InterfaceConfig, RoutingConfig, StaticNeighbour};
use xoff_dataplane::route::{Fib, NextHop, Route, RoutePath, RouteTag, RouteTarget};

/// MAC address of the router on every link.
pub(super) const ROUTER_MAC: [u8; 6] = [2, 0xaa, 0, 0, 0, 1];
const PORTS: u16 = 5;
const RECEIVER: u16 = 4;
const NEXT_HOPS: u8 = 16;

/// Returns the router interface of port *n*, with the address 10.1.*n*.1/24.
pub(super) fn router_interface(port: u16) -> InterfaceConfig {
    InterfaceConfig {
        name: format!("Ethernet{port}"),
        attachment: InterfaceAttachment::Port(port),
        mac: ROUTER_MAC,
        mtu: 9_100,
        addresses: vec![IpNet::new(Ipv4Addr::new(10, 1, port as u8, 1).into(), 24).expect("a prefix length")],
    }
}

/// Returns a routing configuration with `routes` routes to 16 next hops at the receiving port.
pub(super) fn routing_config(routes: u32) -> RoutingConfig {
    let neighbour = |n: u8| StaticNeighbour {
        interface: InterfaceId(RECEIVER),
        address: next_hop_at_receiver(n).address,
        mac: [2, 0, 0, 0, RECEIVER as u8, n],
    };
    let fib = Fib::build((0..routes).map(|n| Route {
        prefix: route_prefix(n).into(),
        target: route_target(n),
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

/// Returns the destination address of a flow. The destinations of all 64 flows are spread evenly over
/// the routes.
pub(super) fn flow_destination(routes: u32, port: u16, station: u8) -> Ipv4Addr {
    let flow = u32::from(port) * 16 + u32::from(station);
    let prefix = route_prefix(flow * (routes / 64).max(1) % routes);
    Ipv4Addr::from_bits(prefix.network().to_bits() | 1)
}

/// Returns the first host address in the prefix of route `n`.
pub(super) fn first_address(n: u32) -> u32 {
    route_prefix(n).network().to_bits() | 1
}

/// Returns the prefix of route `n`. The prefix has 20 to 28 bits. Its first address is the first address of
/// the `n`th /20 network from 11.0.0.0 on.
fn route_prefix(n: u32) -> Ipv4Net {
    let network = Ipv4Addr::from_bits((11 << 24) + (n << 12));
    Ipv4Net::new(network, 20 + (n % 9) as u8).expect("a prefix length")
}

/// Returns the target of route `n`: one next hop for even numbers, four equal-cost next hops for odd numbers.
fn route_target(n: u32) -> RouteTarget {
    let path = |n: u32| RoutePath {
        next_hop: next_hop_at_receiver((n % u32::from(NEXT_HOPS)) as u8),
        weight: 1,
    };
    match n % 2 {
        0 => RouteTarget::Via([path(n)].into()),
        _ => RouteTarget::Via((0..4).map(|member| path(n + 4 * member)).collect()),
    }
}

fn next_hop_at_receiver(n: u8) -> NextHop {
    NextHop {
        interface: InterfaceId(RECEIVER),
        address: IpAddr::V4(Ipv4Addr::new(10, 1, RECEIVER as u8, 100 + n)),
    }
}
