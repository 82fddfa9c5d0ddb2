//! The routing information base (RIB): stores the routes of all sources and selects the best route to
//! each prefix.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::{Fib, FibError, Route, RouteTag, RouteTarget};
use crate::config::{InterfaceAttachment, InterfaceConfig};
use crate::ids::InterfaceId;

/// Source of a route. If several routes to a prefix have the same administrative distance, the source that
/// comes first in this list is used. Among daemons or interfaces, the smaller number is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteSource {
    /// An address of a router interface.
    Local(InterfaceId),
    /// A network of a router interface.
    Connected(InterfaceId),
    /// A static route of the configuration (`STATIC_ROUTE`).
    Static,
    /// A routing daemon. The caller chooses its number.
    Daemon(u16),
}

/// Administrative distance of the routes that interfaces create. The smallest distance is preferred.
pub const DISTANCE_CONNECTED: u8 = 0;
/// Default administrative distance of static routes, as in SONiC's FRR.
pub const DISTANCE_STATIC: u8 = 1;

/// The routes to a prefix, by distance and source.
type PrefixRoutes = BTreeMap<(u8, RouteSource), (RouteTarget, RouteTag)>;

/// All routes of all sources. Each source may have one route for each prefix and distance. For each prefix,
/// the route with the smallest administrative distance is used.
///
/// If a source has several next hops of the same distance, it sets one route with all of them. If the
/// distances differ, as in a `STATIC_ROUTE` with a list of distances, the source sets one route for each
/// distance. When the route with the smaller distance is removed, the route with the next distance is used.
#[derive(Clone, Debug, Default)]
pub struct Rib {
    routes_of_prefix: BTreeMap<IpNet, PrefixRoutes>,
    /// Routes that each interface has created.
    interfaces: BTreeMap<InterfaceId, Vec<(RouteSource, IpNet)>>,
}

impl Rib {
    /// Creates an empty RIB.
    pub fn new() -> Rib {
        Rib::default()
    }

    /// Sets a route. If the source already has a route with this prefix and distance, the new route replaces
    /// it. Host bits of the prefix are ignored.
    pub fn set_route(&mut self, source: RouteSource, distance: u8, route: Route) {
        let routes_of_prefix = self.routes_of_prefix.entry(route.prefix.trunc()).or_default();
        routes_of_prefix.insert((distance, source), (route.target, route.tag));
    }

    /// Removes a route. Returns false if the route does not exist.
    pub fn remove_route(&mut self, source: RouteSource, distance: u8, prefix: IpNet) -> bool {
        let prefix = prefix.trunc();
        let Some(routes_of_prefix) = self.routes_of_prefix.get_mut(&prefix) else {
            return false;
        };
        let removed = routes_of_prefix.remove(&(distance, source)).is_some();
        if routes_of_prefix.is_empty() {
            self.routes_of_prefix.remove(&prefix);
        }
        removed
    }

    /// Removes all routes of a source, for example of a daemon that has stopped.
    pub fn remove_source(&mut self, source: RouteSource) {
        self.routes_of_prefix.retain(|_, routes_of_prefix| {
            routes_of_prefix.retain(|&(_, other), _| other != source);
            !routes_of_prefix.is_empty()
        });
    }

    /// Replaces the routes of an earlier call for this interface by the routes that follow from
    /// its addresses:
    ///
    /// | for each address | route | reason |
    /// |---|---|---|
    /// | the address | [`RouteTarget::Local`] | |
    /// | its network, unless the prefix is a /32 or /128 | [`RouteTarget::Connected`] | |
    /// | IPv4: network and broadcast address, unless the prefix is a /31 or /32 | [`RouteTarget::Blackhole`] | directed broadcasts are not forwarded (RFC 2644 changes RFC 1812 4.2.2.11 and 5.3.5.2); a /31 has no broadcast address (RFC 3021) |
    /// | IPv6: the subnet-router anycast address, unless the prefix is a /127 or /128 | [`RouteTarget::Local`] | RFC 4291 2.6.1, RFC 6164 |
    /// | IPv6 link-local addresses | none | they are valid on their link only, which is known before the route look-up (RFC 4291 2.5.6) |
    ///
    /// Networks of a loopback interface are blackhole routes, because no station is behind the interface.
    /// xoff does not forward directed broadcasts. SONiC floods them in the VLAN for IPv4 networks up to /30
    /// (`IntfsOrch::addDirectedBroadcast`), which RFC 2644 permits only on request.
    pub fn set_interface(&mut self, interface: InterfaceId, config: &InterfaceConfig) {
        self.remove_interface(interface);
        let routes: Vec<_> = config
            .addresses
            .iter()
            .flat_map(|address| interface_routes(interface, config.attachment, *address))
            .collect();
        let prefixes = routes
            .iter()
            .map(|(source, route)| (*source, route.prefix))
            .collect();
        self.interfaces.insert(interface, prefixes);
        for (source, route) in routes {
            self.set_route(source, DISTANCE_CONNECTED, route);
        }
    }

    /// Removes the routes that [`Rib::set_interface`] added for `interface`, for example because the
    /// interface went down. Other routes through the interface remain. No effect if the interface has
    /// no routes.
    pub fn remove_interface(&mut self, interface: InterfaceId) {
        for (source, prefix) in self.interfaces.remove(&interface).unwrap_or_default() {
            self.remove_route(source, DISTANCE_CONNECTED, prefix);
        }
    }

    /// Sets the load-balancing tag of all present routes. The function `tag` returns the tag for a prefix.
    pub fn set_tags(&mut self, tag: impl Fn(IpNet) -> RouteTag) {
        for (prefix, routes_of_prefix) in &mut self.routes_of_prefix {
            let tag = tag(*prefix);
            routes_of_prefix
                .values_mut()
                .for_each(|(_, of_offer)| *of_offer = tag);
        }
    }

    /// Returns the best route to each prefix, sorted by prefix, IPv4 first.
    pub fn best_routes(&self) -> impl Iterator<Item = Route> {
        self.routes_of_prefix
            .iter()
            .filter_map(|(prefix, routes_of_prefix)| {
                routes_of_prefix
                    .first_key_value()
                    .map(|(_, (target, tag))| Route {
                        prefix: *prefix,
                        target: target.clone(),
                        tag: *tag,
                    })
            })
    }

    /// Builds the generation of the best routes that follows the generation `previous`.
    ///
    /// # Errors
    /// Returns an error if the best routes violate a rule of [`FibError`].
    pub fn next_generation(&self, previous: &Fib) -> Result<Fib, FibError> {
        previous.build_successor(self.best_routes())
    }
}

/// Returns the routes that follow from one address of an interface.
fn interface_routes(
    interface: InterfaceId,
    attachment: InterfaceAttachment,
    address: IpNet,
) -> Vec<(RouteSource, Route)> {
    let (local, connected) = (RouteSource::Local(interface), RouteSource::Connected(interface));
    let link_local = matches!(address, IpNet::V6(net) if net.addr().is_unicast_link_local());
    if link_local {
        return Vec::new();
    }
    let host = |source, address, target| {
        let route = Route {
            prefix: IpNet::from(address),
            target,
            tag: RouteTag::default(),
        };
        (source, route)
    };
    let mut routes = vec![host(local, address.addr(), RouteTarget::Local)];
    let host_bits = address.max_prefix_len() - address.prefix_len();
    if host_bits > 0 {
        let target = match attachment {
            InterfaceAttachment::Loopback => RouteTarget::Blackhole,
            InterfaceAttachment::Port(_) | InterfaceAttachment::Lag(_) | InterfaceAttachment::Vlan(_) => {
                RouteTarget::Connected(interface)
            }
        };
        let prefix = address.trunc();
        routes.push((
            connected,
            Route {
                prefix,
                target,
                tag: RouteTag::default(),
            },
        ));
    }
    if host_bits > 1 {
        match address {
            IpNet::V4(_) => {
                routes.push(host(connected, address.network(), RouteTarget::Blackhole));
                routes.push(host(connected, address.broadcast(), RouteTarget::Blackhole));
            }
            IpNet::V6(_) => routes.push(host(local, address.network(), RouteTarget::Local)),
        }
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::{FibEntry, NextHop, RoutePath};

    fn interface(attachment: InterfaceAttachment, addresses: &[&str]) -> InterfaceConfig {
        InterfaceConfig {
            name: "Ethernet0".into(),
            attachment,
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 9_100,
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        }
    }

    fn rib(attachment: InterfaceAttachment, addresses: &[&str]) -> Rib {
        let mut rib = Rib::new();
        rib.set_interface(InterfaceId(7), &interface(attachment, addresses));
        rib
    }

    /// Compares the best routes with `expected`, in the order of prefixes.
    fn assert_routes(rib: &Rib, expected: &[(&str, RouteTarget)]) {
        let best: Vec<_> = rib
            .best_routes()
            .map(|route| (route.prefix.to_string(), route.target))
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(prefix, target)| (prefix.to_string(), target.clone()))
            .collect();
        assert_eq!(best, expected);
    }

    const CONNECTED: RouteTarget = RouteTarget::Connected(InterfaceId(7));

    #[test]
    fn an_ipv4_network_has_a_local_route_and_two_blackhole_routes() {
        let expected = [
            ("10.0.0.0/24", CONNECTED),
            ("10.0.0.0/32", RouteTarget::Blackhole),
            ("10.0.0.9/32", RouteTarget::Local),
            ("10.0.0.255/32", RouteTarget::Blackhole),
        ];
        assert_routes(&rib(InterfaceAttachment::Port(0), &["10.0.0.9/24"]), &expected);
    }

    #[test]
    fn a_31_bit_prefix_has_no_broadcast_address() {
        let rib = rib(InterfaceAttachment::Port(0), &["10.0.0.0/31", "2001:db8::1/127"]);
        let expected = [
            ("10.0.0.0/31", CONNECTED),
            ("10.0.0.0/32", RouteTarget::Local),
            ("2001:db8::/127", CONNECTED),
            ("2001:db8::1/128", RouteTarget::Local),
        ];
        assert_routes(&rib, &expected);
    }

    #[test]
    fn host_addresses_have_no_connected_route() {
        let rib = rib(InterfaceAttachment::Loopback, &["10.1.0.1/32", "2001:db8::1/128"]);
        assert_routes(
            &rib,
            &[
                ("10.1.0.1/32", RouteTarget::Local),
                ("2001:db8::1/128", RouteTarget::Local),
            ],
        );
    }

    #[test]
    fn an_ipv6_network_has_an_anycast_address_and_link_local_has_no_route() {
        let rib = rib(
            InterfaceAttachment::Vlan(100),
            &["fe80::1/64", "2001:db8:1::1/64"],
        );
        let expected = [
            ("2001:db8:1::/64", CONNECTED),
            ("2001:db8:1::/128", RouteTarget::Local),
            ("2001:db8:1::1/128", RouteTarget::Local),
        ];
        assert_routes(&rib, &expected);
    }

    #[test]
    fn the_network_of_a_loopback_is_a_blackhole_route() {
        let fib = rib(InterfaceAttachment::Loopback, &["10.1.0.1/24"])
            .next_generation(&Fib::default())
            .unwrap();
        assert_eq!(fib.lookup([10, 1, 0, 1].into()), Some(FibEntry::Local));
        assert_eq!(fib.lookup([10, 1, 0, 2].into()), Some(FibEntry::Blackhole));
    }

    #[test]
    fn a_local_route_wins_over_the_broadcast_address_of_another_interface() {
        let mut rib = rib(InterfaceAttachment::Port(0), &["10.0.0.1/24"]);
        rib.set_interface(
            InterfaceId(8),
            &interface(InterfaceAttachment::Port(1), &["10.0.0.255/16"]),
        );
        rib.set_interface(
            InterfaceId(6),
            &interface(InterfaceAttachment::Port(2), &["10.0.0.2/24"]),
        );
        let fib = rib.next_generation(&Fib::default()).unwrap();
        assert_eq!(fib.lookup([10, 0, 0, 255].into()), Some(FibEntry::Local));
        let first = Some(FibEntry::Connected(InterfaceId(6)));
        assert_eq!(
            fib.lookup([10, 0, 0, 3].into()),
            first,
            "the same network on two interfaces: the first one"
        );
        rib.remove_interface(InterfaceId(8));
        let fib = rib.next_generation(&fib).unwrap();
        assert_eq!(fib.lookup([10, 0, 0, 255].into()), Some(FibEntry::Blackhole));
    }

    fn via(number: u8) -> RouteTarget {
        let next_hop = NextHop {
            interface: InterfaceId(0),
            address: [10, 0, 0, number].into(),
        };
        RouteTarget::Via([RoutePath { next_hop, weight: 1 }].into())
    }

    #[test]
    fn the_route_with_the_smallest_distance_wins() {
        let prefix: IpNet = "10.9.0.0/16".parse().unwrap();
        let route = |number| Route {
            prefix,
            target: via(number),
            tag: RouteTag::default(),
        };
        let mut rib = Rib::new();
        rib.set_route(RouteSource::Daemon(1), 20, route(20));
        rib.set_route(RouteSource::Static, 200, route(200));
        rib.set_route(RouteSource::Static, DISTANCE_STATIC, route(1));
        for (number, source, distance) in [
            (1, RouteSource::Static, 1),
            (20, RouteSource::Daemon(1), 20),
            (200, RouteSource::Static, 200),
        ] {
            assert_routes(&rib, &[("10.9.0.0/16", via(number))]);
            assert!(
                rib.remove_route(source, distance, "10.9.1.1/16".parse().unwrap()),
                "host bits are ignored"
            );
            assert!(!rib.remove_route(source, distance, prefix));
        }
        assert_eq!(rib.best_routes().count(), 0);
    }

    #[test]
    fn remove_source_removes_all_its_routes() {
        let mut rib = rib(InterfaceAttachment::Port(0), &["10.0.0.1/31"]);
        for n in 0..100 {
            let prefix = IpNet::new_assert([10, n, 0, 0].into(), 16);
            rib.set_route(
                RouteSource::Daemon(u16::from(n) % 2),
                20,
                Route {
                    prefix,
                    target: via(n),
                    tag: RouteTag::default(),
                },
            );
        }
        rib.remove_source(RouteSource::Daemon(1));
        assert_eq!(rib.best_routes().count(), 50 + 2);
        rib.remove_source(RouteSource::Daemon(0));
        rib.remove_interface(InterfaceId(7));
        assert_eq!(rib.best_routes().count(), 0);
    }
}
