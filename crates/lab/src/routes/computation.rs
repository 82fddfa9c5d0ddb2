//! Computes the routes of all switches.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::{HostNetworks, RouteOverridePlan, SwitchGraph};
use xoff_config::ComputedRoutes;

/// Computes the routes of all switches.
///
/// For example, all edge switches in a pod of a fat tree have the same neighbours, the aggregation switches of the
/// pod. A switch outside the pod has the same next hops towards each of them. One breadth-first search therefore
/// finds the next hops towards all switches with the same neighbours.
pub(super) fn compute_routes(
    graph: &SwitchGraph,
    networks: &[HostNetworks],
    overrides: &[RouteOverridePlan],
) -> Vec<ComputedRoutes> {
    let mut tables: Vec<RouteTable> = graph.routers.iter().map(|_| RouteTable::default()).collect();
    for destinations in similar_destinations(graph, networks) {
        add_routes(&mut tables, graph, networks, &destinations);
    }
    for route in overrides {
        let table = &mut tables[route.switch];
        let list = table.add_list(&route.next_hops);
        table.add(list, &[route.prefix]);
    }
    tables.into_iter().map(RouteTable::into_routes).collect()
}

/// Returns the switches with hosts. Switches with the same neighbours are in the same list.
fn similar_destinations(graph: &SwitchGraph, networks: &[HostNetworks]) -> Vec<Vec<usize>> {
    let mut lists: Vec<Vec<usize>> = Vec::new();
    let mut list_of_neighbours = HashMap::new();
    for (switch, router) in graph.routers.iter().enumerate() {
        if networks[switch].advertised.is_empty() {
            continue;
        }
        let neighbours = router.switch_links.iter().map(|link| link.peer_switch);
        let mut neighbours: Vec<usize> = neighbours.filter(|neighbour| *neighbour != switch).collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        let list = *list_of_neighbours.entry(neighbours).or_insert(lists.len());
        match lists.get_mut(list) {
            Some(list) => list.push(switch),
            None => lists.push(vec![switch]),
        }
    }
    lists
}

/// Adds the routes of all switches to `destinations`, which have the same neighbours.
fn add_routes(
    tables: &mut [RouteTable],
    graph: &SwitchGraph,
    networks: &[HostNetworks],
    destinations: &[usize],
) {
    let hops = graph.hops_to(destinations[0]);
    let mut is_destination = vec![false; tables.len()];
    for &destination in destinations {
        is_destination[destination] = true;
    }
    let mut next_hops = Vec::new();
    for (switch, table) in tables.iter_mut().enumerate() {
        if is_destination[switch] {
            // The shortest paths to the other destinations use any of the common neighbours.
            let links = graph.routers[switch].switch_links.iter();
            let links = links.filter(|link| link.peer_switch != switch);
            next_hops.clear();
            next_hops.extend(links.map(|link| link.peer_address));
        } else if hops[switch] == 1 {
            add_routes_to_neighbours(table, graph, networks, switch, &is_destination);
            continue;
        } else {
            graph.next_hops_towards(switch, &hops, &mut next_hops);
        }
        if next_hops.is_empty() {
            continue;
        }
        let list = table.add_list(&next_hops);
        for &destination in destinations.iter().filter(|destination| **destination != switch) {
            table.add(list, &networks[destination].advertised);
        }
    }
}

/// Adds the routes of a switch to those of its neighbours for which `is_destination` is true. The next hops are all
/// links to the neighbour.
fn add_routes_to_neighbours(
    table: &mut RouteTable,
    graph: &SwitchGraph,
    networks: &[HostNetworks],
    switch: usize,
    is_destination: &[bool],
) {
    let links = graph.routers[switch].switch_links.iter();
    let mut links: Vec<(usize, Ipv4Addr)> = links
        .filter(|link| is_destination[link.peer_switch])
        .map(|link| (link.peer_switch, link.peer_address))
        .collect();
    // The sort is stable, so parallel links keep their order.
    links.sort_by_key(|(neighbour, _)| *neighbour);
    for links in links.chunk_by(|(one, _), (other, _)| one == other) {
        let next_hops: Vec<Ipv4Addr> = links.iter().map(|(_, address)| *address).collect();
        let list = table.add_list(&next_hops);
        table.add(list, &networks[links[0].0].advertised);
    }
}

/// The routes of one switch.
#[derive(Default)]
struct RouteTable {
    /// Index of each list of next hops.
    lists: HashMap<Vec<Ipv4Addr>, u32>,
    /// The destination and the index of the list of each route. A later route to the same destination replaces an
    /// earlier one.
    routes: Vec<(Ipv4Net, u32)>,
}

impl RouteTable {
    /// Returns the index of a list of next hops. Adds the list if it is new.
    fn add_list(&mut self, next_hops: &[Ipv4Addr]) -> u32 {
        if let Some(list) = self.lists.get(next_hops) {
            return *list;
        }
        let list = self.lists.len() as u32;
        self.lists.insert(next_hops.to_vec(), list);
        list
    }

    /// Adds routes to these destinations over the next hops of a list.
    fn add(&mut self, list: u32, destinations: &[Ipv4Net]) {
        let routes = destinations.iter().map(|destination| (*destination, list));
        self.routes.extend(routes);
    }

    fn into_routes(self) -> ComputedRoutes {
        let mut lists: Vec<_> = self.lists.into_iter().collect();
        lists.sort_unstable_by_key(|(_, index)| *index);
        let mut routes = self.routes;
        // The sort is stable, so the last route to a destination is the latest one.
        routes.sort_by_key(|(destination, _)| *destination);
        routes.reverse();
        routes.dedup_by_key(|(destination, _)| *destination);
        routes.reverse();
        routes.shrink_to_fit();
        ComputedRoutes {
            next_hop_lists: lists.into_iter().map(|(list, _)| list).collect(),
            routes,
            sites: Default::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HostNetworks, RouterNode, SwitchLink};
    use super::*;

    /// Creates a graph from pairs of switches. Each pair is one link.
    fn graph_of(switch_count: usize, links: &[(usize, usize)]) -> SwitchGraph {
        let mut routers = vec![RouterNode::default(); switch_count];
        for (index, &(one, other)) in links.iter().enumerate() {
            let address = |end: u32| Ipv4Addr::from(0xac10_0000 + 2 * index as u32 + end);
            for (own, peer, end) in [(one, other, 0), (other, one, 1)] {
                routers[own].switch_links.push(SwitchLink {
                    port: format!("Ethernet{index}"),
                    peer_switch: peer,
                    own_address: address(end),
                    peer_address: address(1 - end),
                });
            }
        }
        SwitchGraph { routers }
    }

    /// Returns the network of the hosts of a switch.
    fn network_of(switch: usize) -> Ipv4Net {
        Ipv4Net::new(Ipv4Addr::from(0x0a00_0000 + 256 * switch as u32), 24).expect("a prefix length")
    }

    /// Compares the routes with the result of one search for each destination. Every third switch has no hosts.
    fn assert_shortest_paths(switch_count: usize, links: &[(usize, usize)]) {
        let graph = graph_of(switch_count, links);
        let networks = |switch: usize| HostNetworks {
            advertised: (switch % 3 != 2)
                .then(|| network_of(switch))
                .into_iter()
                .collect(),
            gateways: Vec::new(),
        };
        let networks: Vec<HostNetworks> = (0..switch_count).map(networks).collect();
        let computed = compute_routes(&graph, &networks, &[]);
        let mut expected = vec![Vec::new(); switch_count];
        for destination in (0..switch_count).filter(|switch| switch % 3 != 2) {
            let hops = graph.hops_to(destination);
            for (switch, expected) in expected.iter_mut().enumerate() {
                let mut next_hops = Vec::new();
                graph.next_hops_towards(switch, &hops, &mut next_hops);
                if !next_hops.is_empty() {
                    expected.push((network_of(destination), next_hops));
                }
            }
        }
        for (switch, (computed, expected)) in computed.iter().zip(expected).enumerate() {
            let routes = computed.routes.iter().map(|(destination, list)| {
                let next_hops = computed.next_hop_lists[*list as usize].clone();
                (*destination, next_hops)
            });
            let routes: Vec<_> = routes.collect();
            assert_eq!(routes, expected, "switch {switch} of {links:?}");
        }
    }

    #[test]
    fn switches_with_the_same_neighbours_get_the_routes_of_separate_searches() {
        // Two pods, each with two aggregation switches (0, 1 and 2, 3) and three edge switches, and two cores.
        let pods = [
            (0, 4),
            (0, 5),
            (0, 6),
            (1, 4),
            (1, 5),
            (1, 6),
            (2, 7),
            (2, 8),
            (2, 9),
            (3, 7),
            (3, 8),
            (3, 9),
        ];
        let cores = [(10, 0), (10, 2), (11, 1), (11, 3)];
        assert_shortest_paths(12, &[&pods[..], &cores[..]].concat());
        // Parallel links, a link to the switch itself, and a switch without links.
        assert_shortest_paths(5, &[(0, 1), (0, 1), (2, 1), (2, 1), (0, 3), (0, 0)]);
        // No link.
        assert_shortest_paths(4, &[]);
    }

    #[test]
    fn random_graphs_get_the_routes_of_separate_searches() {
        let mut state = 7_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..200 {
            let switch_count = 2 + random(12);
            // Few hubs give many switches with the same neighbours.
            let hub_count = 1 + random(switch_count);
            let links = (0..random(30)).map(|_| (random(hub_count), random(switch_count)));
            let links: Vec<_> = links.collect();
            assert_shortest_paths(switch_count, &links);
        }
    }
}
