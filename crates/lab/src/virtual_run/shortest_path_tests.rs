//! Tests of the search for link directions on shortest paths.

use std::collections::BTreeSet;

use super::shortest_path_ends::ends_on_shortest_paths;
use xoff_fabric::{LinkEnd, LinkPlan};
use xoff_units::Picos;

fn port(switch: u32, port: u16) -> LinkEnd {
    LinkEnd::Switch { switch, port }
}

/// Creates links from pairs of nodes. Each end has a port of its own. Nodes from `switch_count` on are hosts.
fn links_between(switch_count: u32, nodes: &[(u32, u32)]) -> Vec<LinkPlan> {
    let end = |node: u32, port: usize| match node.checked_sub(switch_count) {
        Some(host) => LinkEnd::Host(host),
        None => LinkEnd::Switch {
            switch: node,
            port: port as u16,
        },
    };
    let nodes = nodes.iter().enumerate();
    let link = |(index, &(a, b)): (usize, &(u32, u32))| LinkPlan {
        name: String::new(),
        ends: [end(a, 2 * index), end(b, 2 * index + 1)],
        delay: Picos::ZERO,
    };
    nodes.map(link).collect()
}

/// Searches each pair by itself, over all nodes.
fn ends_by_search_of_each_pair(
    links: &[LinkPlan],
    switch_count: usize,
    host_count: usize,
    pairs: &[(u32, u32)],
) -> BTreeSet<LinkEnd> {
    let node = |end: LinkEnd| match end {
        LinkEnd::Switch { switch, .. } => switch as usize,
        LinkEnd::Host(host) => switch_count + host as usize,
    };
    let directions = || {
        links
            .iter()
            .flat_map(|link| [link.ends, [link.ends[1], link.ends[0]]])
    };
    let distances_from = |start: usize| {
        let mut distances = vec![usize::MAX; switch_count + host_count];
        distances[start] = 0;
        for distance in 0..distances.len() {
            for [from, to] in directions() {
                let forwards = node(from) < switch_count || node(from) == start;
                if distances[node(from)] == distance && forwards && distances[node(to)] == usize::MAX {
                    distances[node(to)] = distance + 1;
                }
            }
        }
        distances
    };
    let mut ends = BTreeSet::new();
    for &(from, to) in pairs {
        let [from, to] = [from, to].map(|host| switch_count + host as usize);
        let (there, back) = (distances_from(from), distances_from(to));
        if there[to] == usize::MAX {
            continue;
        }
        for [near, far] in directions() {
            let [a, b] = [node(near), node(far)];
            let forwards = (a < switch_count || a == from) && (b < switch_count || b == to);
            if forwards && there[a].saturating_add(back[b]).saturating_add(1) == there[to] {
                ends.insert(near);
            }
        }
    }
    ends
}

fn assert_ends_of_pairs(links: &[LinkPlan], switch_count: u32, host_count: u32, pairs: &[(u32, u32)]) {
    let found = ends_on_shortest_paths(
        links,
        switch_count as usize,
        host_count as usize,
        pairs.iter().copied(),
    );
    let expected = ends_by_search_of_each_pair(links, switch_count as usize, host_count as usize, pairs);
    let found: BTreeSet<LinkEnd> = found.ends.into_iter().collect();
    assert_eq!(found, expected, "{pairs:?} over {links:?}");
}

/// Switches 0 and 1 are leaves, and switches 2 and 3 are spines. Hosts 0 and 1 are connected to leaf 0,
/// and host 2 is connected to leaf 1.
#[test]
fn ends_on_shortest_paths_are_usable() {
    let nodes = [(4, 0), (5, 0), (6, 1), (0, 2), (0, 3), (1, 2), (1, 3)];
    let links = links_between(4, &nodes);
    let ends = |pair| ends_on_shortest_paths(&links, 4, 3, [pair].into_iter()).ends;
    let across = [
        LinkEnd::Host(0),
        port(0, 6),
        port(0, 8),
        port(2, 11),
        port(3, 13),
        port(1, 5),
    ];
    assert_eq!(ends((0, 2)), across.into());
    assert_eq!(ends((0, 1)), [LinkEnd::Host(0), port(0, 3)].into());
}

#[test]
fn random_fabrics_get_the_ends_of_separate_searches() {
    let mut state = 11_u64;
    let mut random = |below: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u32 % below
    };
    for _ in 0..300 {
        let switch_count = 1 + random(9);
        // Few hubs give many switches with the same neighbours.
        let hub_count = 1 + random(switch_count);
        let host_count = 2 + random(6);
        let link_count = random(24);
        let mut nodes: Vec<(u32, u32)> = (0..link_count)
            .map(|_| (random(hub_count), random(switch_count)))
            .collect();
        // Some hosts have no link, and two hosts have a link to each other.
        let hosts_linked = random(4) == 0;
        for host in 0..host_count {
            let node = switch_count + host;
            match host {
                0 if hosts_linked => nodes.push((node, node + 1)),
                1 if hosts_linked => {}
                _ if random(8) > 0 => nodes.push((node, random(switch_count))),
                _ => {}
            }
        }
        let links = links_between(switch_count, &nodes);
        let pairs: Vec<(u32, u32)> = (0..1 + random(5))
            .map(|_| (random(host_count), random(host_count)))
            .collect();
        assert_ends_of_pairs(&links, switch_count, host_count, &pairs);
    }
}

/// Returns the links and the number of switches of a fat tree: edge switches first, then aggregation switches,
/// then core switches.
fn fat_tree(k: u32) -> (Vec<LinkPlan>, u32) {
    let half = k / 2;
    let (edges, aggregations) = (k * half, k * half);
    let switch_count = edges + aggregations + half * half;
    let mut nodes = Vec::new();
    for edge in 0..edges {
        let pod = edge / half;
        nodes.extend((0..half).map(|host| (switch_count + edge * half + host, edge)));
        nodes.extend((0..half).map(|at| (edge, edges + pod * half + at)));
    }
    for aggregation in 0..aggregations {
        let core = |at: u32| edges + aggregations + aggregation % half * half + at;
        nodes.extend((0..half).map(|at| (edges + aggregation, core(at))));
    }
    (links_between(switch_count, &nodes), switch_count)
}

#[test]
fn the_work_for_a_permutation_is_linear_in_the_links_of_a_fat_tree() {
    let visits_per_link = |k: u32| {
        let (links, switch_count) = fat_tree(k);
        let hosts = k * k * k / 4;
        let step = hosts / 2 + 1;
        let pairs = (0..hosts).map(|host| (host, (host + step) % hosts));
        let found = ends_on_shortest_paths(&links, switch_count as usize, hosts as usize, pairs);
        // Every host sends to another pod, so all directions towards hosts and away from them are used.
        assert!(found.ends.len() as u32 >= 2 * hosts);
        found.neighbours_visited as f64 / links.len() as f64
    };
    let [small, large] = [8, 32].map(visits_per_link);
    assert!(
        small > 0.0 && large < 2.0 * small,
        "{small} and {large} visits per link"
    );
}
