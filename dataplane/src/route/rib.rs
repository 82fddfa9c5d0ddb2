//! The routing information base: what every source of routes offers, and the best of it.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::{Fib, FibError, Route, RouteTag, Target};
use crate::config::{Attachment, InterfaceConfig};
use crate::ids::InterfaceId;

/// Where a route comes from. Of two routes to the same prefix with the same distance, that of the source which comes
/// first here is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An address of an interface.
    Local(InterfaceId),
    /// A network of an interface.
    Connected(InterfaceId),
    /// The configuration (`STATIC_ROUTE`).
    Static,
    /// A routing daemon, by a number of the caller's choice.
    Daemon(u16),
}

/// Distance of the routes that follow from interfaces.
pub const DISTANCE_CONNECTED: u8 = 0;
/// Distance of static routes unless told otherwise, as in SONiC's FRR.
pub const DISTANCE_STATIC: u8 = 1;

/// What sources offer for a prefix, by distance and source: where to, and its tag.
type Offers = BTreeMap<(u8, Source), (Target, RouteTag)>;

/// All routes that are offered: per prefix, one for each source and distance; the one with the least distance is used.
///
/// A source that knows several equally good ways offers them as one route via several next hops. One that has ways of
/// different distance (`STATIC_ROUTE` with a list of distances) offers a route for each distance: the further one takes
/// over when the nearer one is removed.
#[derive(Clone, Debug, Default)]
pub struct Rib {
    offers: BTreeMap<IpNet, Offers>,
    /// What follows from each interface.
    interfaces: BTreeMap<InterfaceId, Vec<(Source, IpNet)>>,
}

impl Rib {
    /// Without routes.
    pub fn new() -> Rib {
        Rib::default()
    }

    /// Offers a route, instead of what the source offered to the same prefix at the same distance before.
    pub fn set(&mut self, source: Source, distance: u8, route: Route) {
        let offers = self.offers.entry(route.prefix.trunc()).or_default();
        offers.insert((distance, source), (route.target, route.tag));
    }

    /// Takes an offer back; whether there was one.
    pub fn remove(&mut self, source: Source, distance: u8, prefix: IpNet) -> bool {
        let prefix = prefix.trunc();
        let Some(offers) = self.offers.get_mut(&prefix) else {
            return false;
        };
        let removed = offers.remove(&(distance, source)).is_some();
        if offers.is_empty() {
            self.offers.remove(&prefix);
        }
        removed
    }

    /// Takes everything back that a source offered: a daemon has gone.
    pub fn remove_source(&mut self, source: Source) {
        self.offers.retain(|_, offers| {
            offers.retain(|&(_, other), _| other != source);
            !offers.is_empty()
        });
    }

    /// Offers what follows from the addresses of an interface, instead of what followed before:
    ///
    /// | for each address | route | because |
    /// |---|---|---|
    /// | itself | [`Target::Local`] | |
    /// | its network, unless it is a /32 or /128 | [`Target::Connected`] | |
    /// | IPv4: network and broadcast address, unless the network is a /31 or /32 | [`Target::Blackhole`] | directed broadcasts are not forwarded (RFC 2644, which changes RFC 1812 4.2.2.11 and 5.3.5.2); a /31 has none (RFC 3021) |
    /// | IPv6: the subnet-router anycast address, unless the network is a /127 or /128 | [`Target::Local`] | RFC 4291 2.6.1, RFC 6164 |
    /// | IPv6 link-local ones | nothing | they mean something on their link only, which is known before a route is looked up (RFC 4291 2.5.6) |
    ///
    /// Networks of a loopback lead nowhere: nobody is there. SONiC differs in one thing: in a VLAN it floods directed
    /// broadcasts of IPv4 networks up to /30 (`IntfsOrch::addDirectedBroadcast`), which RFC 2644 allows only where it has
    /// been asked for.
    pub fn set_interface(&mut self, interface: InterfaceId, config: &InterfaceConfig) {
        self.remove_interface(interface);
        let routes: Vec<_> = config
            .addresses
            .iter()
            .flat_map(|address| derived(interface, config.attachment, *address))
            .collect();
        let derived = routes
            .iter()
            .map(|(source, route)| (*source, route.prefix))
            .collect();
        self.interfaces.insert(interface, derived);
        for (source, route) in routes {
            self.set(source, DISTANCE_CONNECTED, route);
        }
    }

    /// Takes back what followed from an interface: it is gone, or down.
    pub fn remove_interface(&mut self, interface: InterfaceId) {
        for (source, prefix) in self.interfaces.remove(&interface).unwrap_or_default() {
            self.remove(source, DISTANCE_CONNECTED, prefix);
        }
    }

    /// Says of every offer that there is what load balancing is to know of it.
    pub fn tag(&mut self, tag: impl Fn(IpNet) -> RouteTag) {
        for (prefix, offers) in &mut self.offers {
            let tag = tag(*prefix);
            offers.values_mut().for_each(|(_, of_offer)| *of_offer = tag);
        }
    }

    /// The best route to each prefix, in the order of prefixes.
    pub fn best(&self) -> impl Iterator<Item = Route> {
        self.offers.iter().filter_map(|(prefix, offers)| {
            offers.first_key_value().map(|(_, (target, tag))| Route {
                prefix: *prefix,
                target: target.clone(),
                tag: *tag,
            })
        })
    }

    /// The best routes as the generation that follows `previous`.
    pub fn next_generation(&self, previous: &Fib) -> Result<Fib, FibError> {
        previous.succeed(self.best())
    }
}

/// The routes that follow from an address of an interface.
fn derived(interface: InterfaceId, attachment: Attachment, address: IpNet) -> Vec<(Source, Route)> {
    let (local, connected) = (Source::Local(interface), Source::Connected(interface));
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
    let mut routes = vec![host(local, address.addr(), Target::Local)];
    let host_bits = address.max_prefix_len() - address.prefix_len();
    if host_bits > 0 {
        let target = match attachment {
            Attachment::Loopback => Target::Blackhole,
            Attachment::Port(_) | Attachment::Lag(_) | Attachment::Vlan(_) => Target::Connected(interface),
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
                routes.push(host(connected, address.network(), Target::Blackhole));
                routes.push(host(connected, address.broadcast(), Target::Blackhole));
            }
            IpNet::V6(_) => routes.push(host(local, address.network(), Target::Local)),
        }
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::{Entry, NextHop, Path};

    fn interface(attachment: Attachment, addresses: &[&str]) -> InterfaceConfig {
        InterfaceConfig {
            name: "Ethernet0".into(),
            attachment,
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 9_100,
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        }
    }

    fn rib(attachment: Attachment, addresses: &[&str]) -> Rib {
        let mut rib = Rib::new();
        rib.set_interface(InterfaceId(7), &interface(attachment, addresses));
        rib
    }

    /// `expected`: prefix and target, in the order of prefixes.
    fn assert_routes(rib: &Rib, expected: &[(&str, Target)]) {
        let best: Vec<_> = rib
            .best()
            .map(|route| (route.prefix.to_string(), route.target))
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(prefix, target)| (prefix.to_string(), target.clone()))
            .collect();
        assert_eq!(best, expected);
    }

    const HERE: Target = Target::Connected(InterfaceId(7));

    #[test]
    fn an_ipv4_network_has_its_address_and_two_that_lead_nowhere() {
        let expected = [
            ("10.0.0.0/24", HERE),
            ("10.0.0.0/32", Target::Blackhole),
            ("10.0.0.9/32", Target::Local),
            ("10.0.0.255/32", Target::Blackhole),
        ];
        assert_routes(&rib(Attachment::Port(0), &["10.0.0.9/24"]), &expected);
    }

    #[test]
    fn a_link_of_two_addresses_has_no_broadcast() {
        let rib = rib(Attachment::Port(0), &["10.0.0.0/31", "2001:db8::1/127"]);
        let expected = [
            ("10.0.0.0/31", HERE),
            ("10.0.0.0/32", Target::Local),
            ("2001:db8::/127", HERE),
            ("2001:db8::1/128", Target::Local),
        ];
        assert_routes(&rib, &expected);
    }

    #[test]
    fn host_addresses_have_no_network() {
        let rib = rib(Attachment::Loopback, &["10.1.0.1/32", "2001:db8::1/128"]);
        assert_routes(
            &rib,
            &[("10.1.0.1/32", Target::Local), ("2001:db8::1/128", Target::Local)],
        );
    }

    #[test]
    fn an_ipv6_network_has_its_anycast_address_and_link_local_ones_have_nothing() {
        let rib = rib(Attachment::Vlan(100), &["fe80::1/64", "2001:db8:1::1/64"]);
        let expected = [
            ("2001:db8:1::/64", HERE),
            ("2001:db8:1::/128", Target::Local),
            ("2001:db8:1::1/128", Target::Local),
        ];
        assert_routes(&rib, &expected);
    }

    #[test]
    fn the_network_of_a_loopback_leads_nowhere() {
        let fib = rib(Attachment::Loopback, &["10.1.0.1/24"])
            .next_generation(&Fib::default())
            .unwrap();
        assert_eq!(fib.lookup([10, 1, 0, 1].into()), Some(Entry::Local));
        assert_eq!(fib.lookup([10, 1, 0, 2].into()), Some(Entry::Blackhole));
    }

    #[test]
    fn the_address_of_one_interface_wins_over_the_broadcast_of_another() {
        let mut rib = rib(Attachment::Port(0), &["10.0.0.1/24"]);
        rib.set_interface(
            InterfaceId(8),
            &interface(Attachment::Port(1), &["10.0.0.255/16"]),
        );
        rib.set_interface(InterfaceId(6), &interface(Attachment::Port(2), &["10.0.0.2/24"]));
        let fib = rib.next_generation(&Fib::default()).unwrap();
        assert_eq!(fib.lookup([10, 0, 0, 255].into()), Some(Entry::Local));
        let first = Some(Entry::Connected(InterfaceId(6)));
        assert_eq!(
            fib.lookup([10, 0, 0, 3].into()),
            first,
            "the same network on two interfaces: the first one"
        );
        rib.remove_interface(InterfaceId(8));
        let fib = rib.next_generation(&fib).unwrap();
        assert_eq!(fib.lookup([10, 0, 0, 255].into()), Some(Entry::Blackhole));
    }

    fn via(number: u8) -> Target {
        let next_hop = NextHop {
            interface: InterfaceId(0),
            address: [10, 0, 0, number].into(),
        };
        Target::Via(vec![Path { next_hop, weight: 1 }])
    }

    #[test]
    fn the_least_distance_wins_and_the_next_one_takes_over() {
        let prefix: IpNet = "10.9.0.0/16".parse().unwrap();
        let route = |number| Route {
            prefix,
            target: via(number),
            tag: RouteTag::default(),
        };
        let mut rib = Rib::new();
        rib.set(Source::Daemon(1), 20, route(20));
        rib.set(Source::Static, 200, route(200));
        rib.set(Source::Static, DISTANCE_STATIC, route(1));
        for (number, source, distance) in [
            (1, Source::Static, 1),
            (20, Source::Daemon(1), 20),
            (200, Source::Static, 200),
        ] {
            assert_routes(&rib, &[("10.9.0.0/16", via(number))]);
            assert!(
                rib.remove(source, distance, "10.9.1.1/16".parse().unwrap()),
                "host bits are ignored"
            );
            assert!(!rib.remove(source, distance, prefix));
        }
        assert_eq!(rib.best().count(), 0);
    }

    #[test]
    fn a_source_that_goes_takes_its_routes_with_it() {
        let mut rib = rib(Attachment::Port(0), &["10.0.0.1/31"]);
        for n in 0..100 {
            let prefix = IpNet::new_assert([10, n, 0, 0].into(), 16);
            rib.set(
                Source::Daemon(u16::from(n) % 2),
                20,
                Route {
                    prefix,
                    target: via(n),
                    tag: RouteTag::default(),
                },
            );
        }
        rib.remove_source(Source::Daemon(1));
        assert_eq!(rib.best().count(), 50 + 2);
        rib.remove_source(Source::Daemon(0));
        rib.remove_interface(InterfaceId(7));
        assert_eq!(rib.best().count(), 0);
    }
}
