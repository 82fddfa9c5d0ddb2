//! Finds the link directions on shortest paths between hosts.
//!
//! Switches with the same neighbours have the same shortest paths. For example, all edge switches in a pod of a fat
//! tree are connected to the same aggregation switches. The search therefore runs over groups of switches with the
//! same neighbours: one search finds the paths to all switches of a group. The work is linear in the links of a fat
//! tree.

use std::collections::{HashMap, HashSet, VecDeque};

use xoff_fabric::{LinkEnd, LinkPlan};

/// Distance of a group of switches from which no path exists.
const UNREACHABLE: u32 = u32::MAX;

/// The result of [`ends_on_shortest_paths`].
#[derive(Debug, Default)]
pub(super) struct ShortestPathEnds {
    /// The sending ends of the link directions.
    pub(super) ends: HashSet<LinkEnd>,
    /// Number of times that a search has looked at the neighbour of a group: a measure of the work.
    pub(super) neighbours_visited: u64,
}

/// Returns the sending end of each link direction on a shortest path of at least one pair. A pair contains
/// the indices of a source host and a destination host. The length of a path is its number of links. Hosts forward no
/// frames.
pub(super) fn ends_on_shortest_paths(
    links: &[LinkPlan],
    switch_count: usize,
    host_count: usize,
    pairs: impl Iterator<Item = (u32, u32)>,
) -> ShortestPathEnds {
    let peers = peers_of_hosts(links, host_count);
    let groups = SwitchGroups::new(links, switch_count);
    let mut result = ShortestPathEnds::default();
    let mut host_pairs = Vec::new();
    for (from, to) in pairs.filter(|(from, to)| from != to) {
        match (peers[from as usize], peers[to as usize]) {
            (Some(LinkEnd::Host(peer)), _) if peer == to => {
                result.ends.insert(LinkEnd::Host(from));
            }
            (Some(LinkEnd::Switch { switch: a, .. }), Some(last @ LinkEnd::Switch { switch: b, .. })) => {
                let ends = [LinkEnd::Host(from), last];
                if a == b {
                    result.ends.extend(ends);
                    continue;
                }
                host_pairs.push(HostPair {
                    groups: [groups.of_switch[b as usize], groups.of_switch[a as usize]],
                    switches: [a, b],
                    ends,
                });
            }
            _ => {}
        }
    }
    host_pairs.sort_unstable_by_key(|pair| pair.groups);
    let mut search = GroupSearch::new(&groups);
    for pairs in host_pairs.chunk_by(|one, other| one.groups == other.groups) {
        if search.add_pairs(pairs) {
            result.ends.extend(pairs.iter().flat_map(|pair| pair.ends));
        }
    }
    result.neighbours_visited = search.neighbours_visited;
    for link in links {
        let [a, b] = link.ends;
        for (from, to) in [(a, b), (b, a)] {
            if let (LinkEnd::Switch { switch: a, .. }, LinkEnd::Switch { switch: b, .. }) = (from, to)
                && search.is_used(a, b)
            {
                result.ends.insert(from);
            }
        }
    }
    result
}

/// Returns the end at the other side of the link of each host.
fn peers_of_hosts(links: &[LinkPlan], host_count: usize) -> Vec<Option<LinkEnd>> {
    let mut peers = vec![None; host_count];
    for link in links {
        let [a, b] = link.ends;
        for (end, peer) in [(a, b), (b, a)] {
            if let LinkEnd::Host(host) = end {
                peers[host as usize] = Some(peer);
            }
        }
    }
    peers
}

/// A source host and a destination host at different switches.
struct HostPair {
    /// The group of the switch of the destination, then the group of the switch of the source.
    groups: [u32; 2],
    /// The switch of the source, then the switch of the destination.
    switches: [u32; 2],
    /// The sending ends of the link of the source and of the link to the destination.
    ends: [LinkEnd; 2],
}

/// Groups of switches with the same neighbours. Two groups are neighbours if each switch of one group is connected
/// to each switch of the other group. No two switches of a group are connected.
struct SwitchGroups {
    /// The group of each switch.
    of_switch: Vec<u32>,
    /// Position of each switch in its group.
    position: Vec<u32>,
    /// Number of switches in each group.
    sizes: Vec<u32>,
    /// Sorted neighbours of each group, without duplicates.
    neighbours: Vec<Vec<u32>>,
}

impl SwitchGroups {
    fn new(links: &[LinkPlan], switch_count: usize) -> SwitchGroups {
        let mut neighbours_of_switches: Vec<Vec<u32>> = vec![Vec::new(); switch_count];
        for link in links {
            if let [
                LinkEnd::Switch { switch: a, .. },
                LinkEnd::Switch { switch: b, .. },
            ] = link.ends
                && a != b
            {
                neighbours_of_switches[a as usize].push(b);
                neighbours_of_switches[b as usize].push(a);
            }
        }
        let mut groups: HashMap<&[u32], u32> = HashMap::new();
        let mut first_switches = Vec::new();
        let mut sizes = Vec::new();
        let (mut of_switch, mut position) = (Vec::new(), Vec::new());
        for neighbours in &mut neighbours_of_switches {
            neighbours.sort_unstable();
            neighbours.dedup();
        }
        for (switch, neighbours) in neighbours_of_switches.iter().enumerate() {
            let group = *groups.entry(neighbours).or_insert_with(|| {
                first_switches.push(switch);
                sizes.push(0);
                sizes.len() as u32 - 1
            });
            of_switch.push(group);
            position.push(sizes[group as usize]);
            sizes[group as usize] += 1;
        }
        let neighbours_of = |switch: &usize| {
            let switches = neighbours_of_switches[*switch].iter();
            let mut groups: Vec<u32> = switches.map(|switch| of_switch[*switch as usize]).collect();
            groups.sort_unstable();
            groups.dedup();
            groups
        };
        SwitchGroups {
            neighbours: first_switches.iter().map(neighbours_of).collect(),
            of_switch,
            position,
            sizes,
        }
    }
}

/// The links between two neighbouring groups that are on shortest paths, in one direction.
#[derive(Default)]
struct UsedLinks {
    /// All links are used: the paths continue before the first group and after the second group.
    all: bool,
    /// The switches of the first group from which all links are used: paths start at these switches.
    from: Vec<bool>,
    /// The switches of the second group to which all links are used: paths end at these switches.
    to: Vec<bool>,
    /// Switches whose links to each other are used: paths that start at the first and end at the second.
    pairs: HashSet<[u32; 2]>,
}

/// Searches shortest paths between groups.
struct GroupSearch<'a> {
    groups: &'a SwitchGroups,
    /// The links from each group to each of its neighbours, in the order of [`SwitchGroups::neighbours`].
    used: Vec<Vec<UsedLinks>>,
    /// The group to which `distances` were computed.
    destination: Option<u32>,
    /// Number of links from each group to the destination.
    distances: Vec<u32>,
    /// The last search that has reached each group.
    reached: Vec<u64>,
    searches: u64,
    neighbours_visited: u64,
}

impl GroupSearch<'_> {
    fn new(groups: &SwitchGroups) -> GroupSearch<'_> {
        let links_from = |(group, neighbours): (usize, &Vec<u32>)| {
            let links_to = |neighbour: &u32| UsedLinks {
                from: vec![false; groups.sizes[group] as usize],
                to: vec![false; groups.sizes[*neighbour as usize] as usize],
                ..UsedLinks::default()
            };
            neighbours.iter().map(links_to).collect()
        };
        let group_count = groups.sizes.len();
        GroupSearch {
            groups,
            used: groups.neighbours.iter().enumerate().map(links_from).collect(),
            destination: None,
            distances: vec![UNREACHABLE; group_count],
            reached: vec![0; group_count],
            searches: 0,
            neighbours_visited: 0,
        }
    }

    /// Adds the paths of pairs whose switches belong to the same two groups. Returns `false` if no path exists.
    fn add_pairs(&mut self, pairs: &[HostPair]) -> bool {
        let [destination, source] = pairs[0].groups;
        if source == destination {
            return self.add_paths_inside(source, pairs);
        }
        self.find_distances(destination);
        if self.distances[source as usize] == UNREACHABLE {
            return false;
        }
        self.searches += 1;
        let mut open = vec![source];
        while let Some(group) = open.pop() {
            for at in 0..self.groups.neighbours[group as usize].len() {
                self.neighbours_visited += 1;
                let next = self.groups.neighbours[group as usize][at];
                if self.distances[next as usize] >= self.distances[group as usize] {
                    continue;
                }
                let used = &mut self.used[group as usize][at];
                let position = |switch: u32| self.groups.position[switch as usize] as usize;
                match (group == source, next == destination) {
                    (true, true) => used.pairs.extend(pairs.iter().map(|pair| pair.switches)),
                    (true, false) => pairs
                        .iter()
                        .for_each(|pair| used.from[position(pair.switches[0])] = true),
                    (false, true) => pairs
                        .iter()
                        .for_each(|pair| used.to[position(pair.switches[1])] = true),
                    (false, false) => used.all = true,
                }
                if next != destination && self.reached[next as usize] != self.searches {
                    self.reached[next as usize] = self.searches;
                    open.push(next);
                }
            }
        }
        true
    }

    /// Adds the paths between different switches of one group: each neighbour of the group is on a shortest path.
    fn add_paths_inside(&mut self, group: u32, pairs: &[HostPair]) -> bool {
        let neighbours = &self.groups.neighbours[group as usize];
        let position = |switch: u32| self.groups.position[switch as usize] as usize;
        for (at, &neighbour) in neighbours.iter().enumerate() {
            self.neighbours_visited += 1;
            let back = self.links_between(neighbour, group);
            for pair in pairs {
                self.used[group as usize][at].from[position(pair.switches[0])] = true;
                if let Some(back) = back {
                    self.used[neighbour as usize][back].to[position(pair.switches[1])] = true;
                }
            }
        }
        !neighbours.is_empty()
    }

    /// Finds the number of links from each group to a destination.
    fn find_distances(&mut self, destination: u32) {
        if self.destination == Some(destination) {
            return;
        }
        self.destination = Some(destination);
        self.distances.fill(UNREACHABLE);
        self.distances[destination as usize] = 0;
        let mut queue = VecDeque::from([destination]);
        while let Some(group) = queue.pop_front() {
            for &neighbour in &self.groups.neighbours[group as usize] {
                self.neighbours_visited += 1;
                if self.distances[neighbour as usize] == UNREACHABLE {
                    self.distances[neighbour as usize] = self.distances[group as usize] + 1;
                    queue.push_back(neighbour);
                }
            }
        }
    }

    /// Returns the index of the links from one group to another in `used`. Returns `None` if the groups are no
    /// neighbours.
    fn links_between(&self, from: u32, to: u32) -> Option<usize> {
        self.groups.neighbours[from as usize].binary_search(&to).ok()
    }

    /// Returns whether the links from one switch to another are on a shortest path.
    fn is_used(&self, from: u32, to: u32) -> bool {
        let group = |switch: u32| self.groups.of_switch[switch as usize];
        let position = |switch: u32| self.groups.position[switch as usize] as usize;
        let Some(at) = self.links_between(group(from), group(to)) else {
            return false;
        };
        let used = &self.used[group(from) as usize][at];
        used.all || used.from[position(from)] || used.to[position(to)] || used.pairs.contains(&[from, to])
    }
}
