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
    /// Finds the paths by the forwarding of the switches. Returns `None` if no path leads to the destination. Adds the
    /// number of look-ups of next links to `look_ups`.
    pub(super) fn find(
        forwarding: &FabricForwarding,
        from: (usize, IngressState),
        destination: &DestinationHost,
        look_ups: &mut u64,
    ) -> Option<Route> {
        let forwarded = |switch, ingress| forwarding.next_links(switch, ingress, destination);
        let shortest = |switch, _| forwarding.shortest_path_links(switch, destination);
        // This search does not support every configuration. If it finds no path, the time of a shortest path
        // is still a valid lower bound.
        PathSearch::run(forwarding, from, destination, forwarded, look_ups)
            .or_else(|| PathSearch::run(forwarding, from, destination, shortest, look_ups))
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

/// The locations that are reached over the same number of links. A location stands for all reached switches that
/// forward in the same way, and has their first switch ([`EgressLink::representative`](super::forwarding::EgressLink)).
type SearchFront = BTreeMap<SearchLocation, ReachedSwitches>;

/// The switches that a location stands for.
#[derive(Default)]
struct ReachedSwitches {
    paths: PathSet,
    /// The reached switches. Sorted and without duplicates after [`PathSearch::extend_paths`].
    switches: Vec<usize>,
}

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
    /// Number of times that the search has looked up the next links of a switch.
    forwarding_look_ups: &'a mut u64,
}

impl PathSearch<'_> {
    fn run(
        forwarding: &FabricForwarding,
        from: SearchLocation,
        destination: &DestinationHost,
        next: impl Fn(usize, IngressState) -> Vec<(usize, Option<u16>)>,
        forwarding_look_ups: &mut u64,
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
            forwarding_look_ups,
        };
        let start = ReachedSwitches {
            paths: PathSet::from([Vec::new()]),
            switches: vec![from.0],
        };
        let mut front = SearchFront::from([(from, start)]);
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
        front: &SearchFront,
        next: &impl Fn(usize, IngressState) -> Vec<(usize, Option<u16>)>,
    ) -> SearchFront {
        let mut beyond = SearchFront::new();
        let mut layer = EquidistantLinks {
            links: Vec::new(),
            switches: 0,
            spreads: false,
        };
        // The links of the current switch that are in the layer. Locations with the same switch follow each other.
        let mut counted = (usize::MAX, Vec::new());
        for ((switch, ingress), reached) in front {
            let has_counted = counted.0 == *switch;
            if !has_counted {
                counted = (*switch, Vec::new());
            }
            *self.forwarding_look_ups += 1;
            // The location to which the previous link leads, and the kind of the link.
            let mut previous = None;
            for (link, tag) in next(*switch, *ingress) {
                let egress = *self.forwarding.egress(*switch, link);
                if egress.to != self.destination.node && !self.forwarding.is_switch(egress.to) {
                    continue;
                }
                let hop = LinkHop {
                    timing: egress.timing,
                    tag_bytes: tag.map_or(0, |_| TAG_BYTES),
                    latency: egress.delay.saturating_add(egress.latency),
                };
                if !has_counted || !counted.1.contains(&(link, tag)) {
                    if counted.1.is_empty() {
                        layer.switches += reached.switches.len();
                        layer.spreads |= self.forwarding.spreads_packets(*switch);
                    }
                    layer.add(hop, reached.switches.len());
                    counted.1.push((link, tag));
                }
                let kind = self.link_kind(hop);
                let longer = reached.paths.iter();
                let longer = longer.map(|path| path.iter().copied().chain([kind]).collect());
                if egress.to == self.destination.node {
                    self.ends.insert(self.layers.len());
                    self.found.extend(longer);
                    continue;
                }
                let ingress = match egress.leads_to_router {
                    true => IngressState::Routed,
                    false => self.forwarding.ingress(egress.to, egress.to_port, tag),
                };
                let location = (egress.representative, ingress);
                let reached = beyond.entry(location).or_default();
                reached.switches.push(egress.to);
                if previous != Some((location, kind)) {
                    reached.paths.extend(longer);
                    previous = Some((location, kind));
                }
            }
        }
        self.layers.push(layer);
        self.uneven |= !self.ends.is_empty() && !beyond.is_empty();
        for reached in beyond.values_mut() {
            reached.switches.sort_unstable();
            reached.switches.dedup();
        }
        let paths = beyond.values_mut().map(|reached| &mut reached.paths);
        for paths in paths.chain([&mut self.found]) {
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

    /// Adds a number of links of one kind.
    fn add(&mut self, hop: LinkHop, links: usize) {
        match self.links.iter_mut().find(|(kind, _)| *kind == hop) {
            Some((_, count)) => *count += links,
            None => self.links.push((hop, links)),
        }
    }
}
