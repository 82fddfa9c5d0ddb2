//! Finds all paths from a switch to a host.

use std::collections::{BTreeMap, BTreeSet};

use super::forwarding::{DestinationHost, FabricForwarding, IngressState};
use super::pipeline::{LinkHop, QueueOrder, Stage};

/// Largest number of stored paths. Two paths are different if the speed, the delay or the order of their
/// links differs.
const PATHS_MAX: usize = 32;
/// Bytes of a VLAN tag.
pub(super) const TAG_BYTES: u32 = 4;

/// Links that packets of one flow can use at the same distance from the source.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EquidistantLinks {
    /// Each kind of link with the number of links of this kind.
    links: Vec<(LinkHop, usize)>,
    /// Number of switches that send packets into these links.
    switches: usize,
    /// True if at least one of these switches may spread the packets of a queue pair over several links.
    spreads: bool,
}

/// Paths from a switch to a host, without the link of the sending host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// Different paths. Paths with equal links are stored once.
    paths: Vec<Vec<LinkHop>>,
    /// True if more paths exist than are stored.
    incomplete: bool,
    /// Links by their distance from the source. `None` if paths have different numbers of links.
    layers: Option<Vec<EquidistantLinks>>,
}

impl Route {
    /// Finds the paths by the forwarding of the switches. Returns `None` if no path leads to the destination.
    pub(super) fn find(
        forwarding: &FabricForwarding,
        from: (usize, IngressState),
        destination: &DestinationHost,
    ) -> Option<Route> {
        let forwarded = |switch, ingress| forwarding.next_links(switch, ingress, destination);
        let shortest = |switch, _| forwarding.shortest_path_links(switch, destination);
        // This search does not support every configuration. If it finds no path, the time of a shortest path
        // is still a valid lower bound.
        PathSearch::run(forwarding, from, destination, forwarded)
            .or_else(|| PathSearch::run(forwarding, from, destination, shortest))
    }

    /// Returns the candidate paths of a message that uses one path. Each path starts with the link `first`.
    pub(super) fn single_paths(&self, first: LinkHop) -> Vec<Vec<LinkHop>> {
        if !self.incomplete {
            return self.paths.iter().map(|path| prepend_hop(first, path)).collect();
        }
        let stages = self.stages(first, 1, false);
        let best = |stage: &Stage| stage.links.first().map(|(hop, _)| *hop);
        vec![stages.iter().filter_map(best).collect()]
    }

    /// Returns whether `streams` queue pairs can use several links at once.
    pub(super) fn uses_parallel_links(&self, streams: usize, entropy: bool) -> bool {
        let layers = self.layers.iter().flatten();
        let spread =
            |layer: &EquidistantLinks| layer.link_count() > 1 && (streams > 1 || entropy || layer.spreads);
        self.layers.is_none() && (streams > 1 || entropy) || layers.into_iter().any(spread)
    }

    /// Returns stages of links, sorted by distance, that a message can use at the same time. The first stage
    /// is the link `first`. `streams` is the number of queue pairs. If `entropy` is true, each packet has its
    /// own hash.
    pub(super) fn stages(&self, first: LinkHop, streams: usize, entropy: bool) -> Vec<Stage> {
        let mut stages = vec![Stage::single_link(first)];
        let Some(layers) = &self.layers else {
            // Paths with different numbers of links share only the link of the destination.
            let last = self.paths.iter().filter_map(|path| path.last()).copied().next();
            stages.extend(last.map(Stage::single_link));
            return stages;
        };
        let (mut used, mut divided, mut ordered) = (1, false, true);
        for layer in layers {
            let links = layer.link_count();
            let before = used;
            let divides = entropy || layer.spreads;
            // If an earlier stage has spread the packets, each switch that they reach hashes them again.
            let sources = if divided { layer.switches.min(used) } else { 1 };
            used = if divides {
                links
            } else {
                links.min(streams.max(1).saturating_mul(sources))
            };
            divided |= divides && links > 1;
            let equal = layer.links.len() == 1 && used == links;
            let order = match layer.switches {
                _ if used == 1 => QueueOrder::AsArrived,
                // Packets do not use the links in turn if hashes select the links or if the links differ.
                _ if !(ordered && equal && (divides || streams <= 1)) => QueueOrder::Unknown,
                switches if switches == links => QueueOrder::AsArrived,
                switches if switches == before => QueueOrder::AsSent,
                _ => QueueOrder::Unknown,
            };
            ordered &= order != QueueOrder::Unknown;
            stages.push(Stage {
                order,
                ..layer.fastest_links(used)
            });
        }
        stages
    }
}

impl EquidistantLinks {
    /// Returns the `count` fastest links of the layer. If the layer has more links, each returned link gets
    /// the shortest latency of all links.
    fn fastest_links(&self, count: usize) -> Stage {
        let mut links = self.links.clone();
        links.sort_by_key(|(hop, _)| {
            (
                std::cmp::Reverse(hop.timing.speed_mbps),
                hop.tag_bytes,
                hop.latency,
            )
        });
        let all = self.link_count();
        let least = links.iter().map(|(hop, _)| hop.latency).min();
        let mut left = count.max(1);
        for (hop, links) in &mut links {
            *links = left.min(*links);
            left -= *links;
            hop.latency = least.filter(|_| count < all).unwrap_or(hop.latency);
        }
        links.retain(|(_, links)| *links > 0);
        Stage {
            links,
            order: QueueOrder::Unknown,
        }
    }
}

fn prepend_hop(first: LinkHop, path: &[LinkHop]) -> Vec<LinkHop> {
    std::iter::once(first).chain(path.iter().copied()).collect()
}

type SearchLocation = (usize, IngressState);

/// Paths to one location of the search. Each path is a list of indices in `PathSearch::kinds`.
type PathSet = BTreeSet<Vec<usize>>;

struct PathSearch<'a> {
    forwarding: &'a FabricForwarding,
    destination: &'a DestinationHost,
    kinds: Vec<LinkHop>,
    found: PathSet,
    incomplete: bool,
    layers: Vec<EquidistantLinks>,
    /// Distances from the source at which paths end.
    ends: BTreeSet<usize>,
    /// True if paths have different numbers of links.
    uneven: bool,
}

impl PathSearch<'_> {
    fn run(
        forwarding: &FabricForwarding,
        from: SearchLocation,
        destination: &DestinationHost,
        next: impl Fn(usize, IngressState) -> Vec<(usize, Option<u16>)>,
    ) -> Option<Route> {
        let mut search = PathSearch {
            forwarding,
            destination,
            kinds: Vec::new(),
            found: PathSet::new(),
            incomplete: false,
            layers: Vec::new(),
            ends: BTreeSet::new(),
            uneven: false,
        };
        let mut front = BTreeMap::from([(from, PathSet::from([Vec::new()]))]);
        // A path visits a switch only once, unless it is a loop.
        for _ in 0..=forwarding.switch_count() {
            if front.is_empty() {
                break;
            }
            front = search.extend_paths(&front, &next);
        }
        if search.found.is_empty() {
            return None;
        }
        let paths = search.found.iter();
        let paths = paths.map(|path| path.iter().map(|kind| search.kinds[*kind]).collect());
        Some(Route {
            paths: paths.collect(),
            incomplete: search.incomplete,
            layers: (search.ends.len() == 1 && !search.uneven && front.is_empty()).then_some(search.layers),
        })
    }

    /// Extends all paths by one link.
    fn extend_paths(
        &mut self,
        front: &BTreeMap<SearchLocation, PathSet>,
        next: &impl Fn(usize, IngressState) -> Vec<(usize, Option<u16>)>,
    ) -> BTreeMap<SearchLocation, PathSet> {
        let mut beyond: BTreeMap<SearchLocation, PathSet> = BTreeMap::new();
        let mut taken = BTreeSet::new();
        let mut layer = EquidistantLinks {
            links: Vec::new(),
            switches: 0,
            spreads: false,
        };
        let mut switches = BTreeSet::new();
        for ((switch, ingress), paths) in front {
            for (link, tag) in next(*switch, *ingress) {
                let egress = *self.forwarding.egress(*switch, link);
                if egress.to != self.destination.node && !self.forwarding.is_switch(egress.to) {
                    continue;
                }
                let hop = LinkHop {
                    timing: egress.timing,
                    tag_bytes: tag.map_or(0, |_| TAG_BYTES),
                    latency: egress.delay.saturating_add(self.forwarding.latency(egress.to)),
                };
                if taken.insert((*switch, link, tag)) {
                    layer.add(hop);
                    switches.insert(*switch);
                    layer.spreads |= self.forwarding.spreads_packets(*switch);
                }
                let kind = self.link_kind(hop);
                let longer = paths
                    .iter()
                    .map(|path| path.iter().copied().chain([kind]).collect());
                if egress.to == self.destination.node {
                    self.ends.insert(self.layers.len());
                    self.found.extend(longer);
                } else {
                    let ingress = self.forwarding.ingress(egress.to, egress.to_port, tag);
                    beyond.entry((egress.to, ingress)).or_default().extend(longer);
                }
            }
        }
        layer.switches = switches.len();
        self.layers.push(layer);
        self.uneven |= !self.ends.is_empty() && !beyond.is_empty();
        for paths in beyond.values_mut().chain([&mut self.found]) {
            while paths.len() > PATHS_MAX {
                paths.pop_last();
                self.incomplete = true;
            }
        }
        beyond
    }

    fn link_kind(&mut self, hop: LinkHop) -> usize {
        self.kinds
            .iter()
            .position(|kind| *kind == hop)
            .unwrap_or_else(|| {
                self.kinds.push(hop);
                self.kinds.len() - 1
            })
    }
}

impl EquidistantLinks {
    fn link_count(&self) -> usize {
        self.links.iter().map(|(_, count)| count).sum()
    }

    fn add(&mut self, hop: LinkHop) {
        match self.links.iter_mut().find(|(kind, _)| *kind == hop) {
            Some((_, count)) => *count += 1,
            None => self.links.push((hop, 1)),
        }
    }
}
