//! Compares searches that visit one of several switches that forward in the same way with searches that visit all
//! switches.

use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};

use super::*;
use crate::plan::{FabricPlan, LinkEnd, LinkPlan};
use xoff_dataplane::config::{InterfaceAttachment, InterfaceConfig, PortConfig, SwitchConfig};
use xoff_dataplane::route::{Fib, NextHop, Route as FibRoute, RoutePath, RouteTag, RouteTarget};
use xoff_dataplane::{InterfaceId, LinkTiming, Picos};
use xoff_host::HostConfig;
use xoff_testing::random_generator;

fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + host as u32)
}

/// A graph of switches. Each link has a delay in nanoseconds.
struct Graph {
    switch_count: usize,
    links: Vec<(usize, usize, u64)>,
    /// The switch of each host.
    access: Vec<usize>,
}

impl Graph {
    /// Returns the nodes at the other ends of the links of a switch, in the order of its ports. Hosts are `Err`.
    fn neighbours(&self, switch: usize) -> Vec<Result<usize, usize>> {
        let hosts = self.access.iter().enumerate();
        let hosts = hosts.filter(|(_, access)| **access == switch);
        let mut neighbours: Vec<_> = hosts.map(|(host, _)| Err(host)).collect();
        for &(a, b, _) in &self.links {
            neighbours.extend((a == switch).then_some(Ok(b)));
            neighbours.extend((b == switch).then_some(Ok(a)));
        }
        neighbours
    }

    fn distances_to(&self, destination: usize) -> Vec<usize> {
        let mut distances = vec![usize::MAX; self.switch_count];
        distances[destination] = 0;
        for _ in 0..self.switch_count {
            for &(a, b, _) in &self.links {
                distances[a] = distances[a].min(distances[b].saturating_add(1));
                distances[b] = distances[b].min(distances[a].saturating_add(1));
            }
        }
        distances
    }

    /// Builds a plan with a route for each host on each switch. `keeps` decides which next hops stay.
    fn plan(&self, mut keeps: impl FnMut() -> bool) -> FabricPlan {
        let distances: Vec<Vec<usize>> = self.access.iter().map(|at| self.distances_to(*at)).collect();
        let mut plan = FabricPlan::default();
        for switch in 0..self.switch_count {
            let neighbours = self.neighbours(switch);
            let route = |host: usize| {
                let mut paths: Vec<RoutePath> = Vec::new();
                for (port, neighbour) in neighbours.iter().enumerate() {
                    let nearer = |other: &usize| distances[host][*other] < distances[host][switch];
                    match neighbour {
                        Err(other) if *other == host => {
                            return Some(RouteTarget::Connected(InterfaceId(port as u16)));
                        }
                        Ok(other) if nearer(other) && keeps() => paths.push(RoutePath {
                            next_hop: NextHop {
                                interface: InterfaceId(port as u16),
                                address: Ipv4Addr::from(0xac10_0000 + (switch << 8 | port) as u32).into(),
                            },
                            weight: 1,
                        }),
                        _ => {}
                    }
                }
                (!paths.is_empty()).then(|| RouteTarget::Via(paths.into()))
            };
            let targets: Vec<Option<RouteTarget>> = (0..self.access.len()).map(route).collect();
            let routes = targets.into_iter().enumerate().filter_map(|(host, target)| {
                Some(FibRoute {
                    prefix: std::net::IpAddr::from(address(host)).into(),
                    target: target?,
                    tag: RouteTag::default(),
                })
            });
            // Each switch has an address of its own, as real switches have for each link.
            let own = FibRoute {
                prefix: std::net::IpAddr::from(Ipv4Addr::from(0xac10_0000 + switch as u32)).into(),
                target: RouteTarget::Local,
                tag: RouteTag::default(),
            };
            let fib = Fib::build(routes.chain([own])).expect("the routes are valid");
            plan.switches.push(Arc::new(switch_config(neighbours.len(), fib)));
        }
        for host in 0..self.access.len() {
            let mut config = HostConfig::new("h", [2, 0, 0, 0, 0, 1], LinkTiming::ethernet(100_000));
            config.ipv4 = Some(address(host));
            plan.hosts.push(config);
        }
        plan.links = self.link_plans();
        plan
    }

    fn link_plans(&self) -> Vec<LinkPlan> {
        let mut ports = vec![0_u16; self.switch_count];
        let mut end = |switch: usize| {
            ports[switch] += 1;
            LinkEnd::Switch {
                switch: switch as u32,
                port: ports[switch] - 1,
            }
        };
        let link = |ends, delay| LinkPlan {
            name: String::new(),
            ends,
            delay: Picos::from_nanos(delay),
        };
        let mut links = Vec::new();
        for (host, access) in self.access.iter().enumerate() {
            links.push(link([LinkEnd::Host(host as u32), end(*access)], 500));
        }
        for &(a, b, delay) in &self.links {
            links.push(link([end(a), end(b)], delay));
        }
        links
    }
}

/// Returns the configuration of a switch whose ports are router interfaces.
fn switch_config(port_count: usize, fib: Fib) -> SwitchConfig {
    let port = |port| {
        PortConfig::new(
            format!("Ethernet{port}"),
            [2, 0, 0, 0, 1, 1],
            LinkTiming::ethernet(100_000),
        )
    };
    let mut config = SwitchConfig::new("s", [2, 0, 0, 0, 1, 1], (0..port_count).map(port).collect());
    let interface = |port| InterfaceConfig {
        name: format!("Ethernet{port}"),
        attachment: InterfaceAttachment::Port(port as u16),
        mac: [2, 0, 0, 0, 1, 1],
        mtu: 9_100,
        addresses: Vec::new(),
    };
    config.routing.interfaces = (0..port_count).map(interface).collect();
    config.routing.fib = Arc::new(fib);
    config
}

/// Searches the paths between all hosts. Returns the number of look-ups with and without representatives.
fn compare_all_routes(plan: &FabricPlan) -> [u64; 2] {
    let forwarding = FabricForwarding::new(plan);
    let mut alone = FabricForwarding::new(plan);
    alone.represent_no_others();
    let mut look_ups = [0; 2];
    for from in 0..plan.hosts.len() {
        for to in (0..plan.hosts.len()).filter(|to| *to != from) {
            let first = forwarding.host_link(from).expect("each host has a link");
            let ingress = forwarding.ingress(first.to, first.to_port, None);
            let switch = forwarding.host_link(to).expect("each host has a link").to;
            let destination = DestinationHost {
                address: address(to).into(),
                node: forwarding.host_node(to),
                switch,
                distances: Arc::new(OnceLock::new()),
            };
            let [found, expected] = [(&forwarding, 0), (&alone, 1)].map(|(forwarding, at)| {
                Route::find(forwarding, (first.to, ingress), &destination, &mut look_ups[at])
            });
            assert_eq!(found, expected, "{from} to {to} over {:?}", plan.links);
        }
    }
    look_ups
}

/// Returns a fat tree: edge switches first, then aggregation switches, then core switches.
fn fat_tree(k: usize) -> Graph {
    let half = k / 2;
    let (edges, aggregations) = (k * half, k * half);
    let mut links = Vec::new();
    for edge in 0..edges {
        links.extend((0..half).map(|at| (edge, edges + edge / half * half + at, 500)));
    }
    for at in 0..aggregations {
        let first = edges + aggregations + at % half * half;
        links.extend((0..half).map(|core| (edges + at, first + core, 500)));
    }
    Graph {
        switch_count: edges + aggregations + half * half,
        links,
        // One host at each edge switch.
        access: (0..edges).collect(),
    }
}

#[test]
fn equal_core_switches_are_looked_up_once() {
    for k in [4, 6] {
        let plan = fat_tree(k).plan(|| true);
        let pairs = (plan.hosts.len() * (plan.hosts.len() - 1)) as u64;
        let [look_ups, all] = compare_all_routes(&plan);
        // A path passes an edge switch and one of k/2 aggregation switches in both pods, and one of k/2 groups of
        // core switches.
        let most = 2 + 3 * (k as u64 / 2);
        assert!(look_ups <= most * pairs, "{look_ups} look-ups for {pairs} pairs");
        assert!(all > look_ups);
    }
}

#[test]
fn irregular_fabrics_have_the_same_routes_with_and_without_representatives() {
    let mut below = random_generator(5);
    for _ in 0..60 {
        let switch_count = 2 + below(7) as usize;
        let hubs = 1 + below(switch_count as u64);
        let links = (0..below(20)).map(|_| {
            let (a, b) = (below(hubs) as usize, below(switch_count as u64) as usize);
            (a, b, [500, 500, 500, 700][below(4) as usize])
        });
        let links = links.filter(|(a, b, _)| a != b).collect();
        let access = (0..2 + below(4)).map(|_| below(switch_count as u64) as usize);
        let access = access.collect();
        let graph = Graph {
            switch_count,
            links,
            access,
        };
        let drops_next_hops = below(2) == 0;
        compare_all_routes(&graph.plan(|| !drops_next_hops || below(5) > 0));
    }
}
