//! All paths that packets may take from a switch to a host.

use std::collections::{BTreeMap, BTreeSet};

use super::forwarding::{Destination, Forwarding, Ingress};
use super::pipeline::{Hop, QueueOrder, Stage};

/// Most paths that differ in speeds, delays or order of their links which are kept.
const PATHS_MAX: usize = 32;
/// Bytes of a VLAN tag.
pub(super) const TAG_BYTES: u32 = 4;

/// Links that the packets of one flow may take at the same distance from its source.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Layer {
    /// Kinds of links, and how many there are of each.
    links: Vec<(Hop, usize)>,
    /// Switches that send into them.
    switches: usize,
    /// One of these may divide the packets of a queue pair.
    spreads: bool,
}

/// The paths from a switch to a host, behind the link of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// Every path once, however many there are that differ in nothing but names.
    paths: Vec<Vec<Hop>>,
    /// There were more than are kept.
    incomplete: bool,
    /// Where all paths have equally many links: the links by distance.
    layers: Option<Vec<Layer>>,
}

impl Route {
    /// Follows what switches forward; `None` if nothing leads to the destination.
    pub(super) fn find(
        forwarding: &Forwarding,
        from: (usize, Ingress),
        destination: &Destination,
    ) -> Option<Route> {
        let forwarded = |switch, ingress| forwarding.next(switch, ingress, destination);
        let shortest = |switch, _| forwarding.shortest(switch, destination);
        // A configuration that is not understood here, or that the model does not decide by itself, does not make a reference
        // impossible: no path is shorter than the shortest.
        Search::run(forwarding, from, destination, forwarded)
            .or_else(|| Search::run(forwarding, from, destination, shortest))
    }

    /// Paths for a message that takes one of them, each behind `first`.
    pub(super) fn single_paths(&self, first: Hop) -> Vec<Vec<Hop>> {
        if !self.incomplete {
            return self.paths.iter().map(|path| with_first(first, path)).collect();
        }
        let stages = self.stages(first, 1, false);
        let best = |stage: &Stage| stage.links.first().map(|(hop, _)| *hop);
        vec![stages.iter().filter_map(best).collect()]
    }

    /// Whether `streams` queue pairs, whose packets switches hash, may use several links at once.
    pub(super) fn is_wide(&self, streams: usize, entropy: bool) -> bool {
        let layers = self.layers.iter().flatten();
        let spread = |layer: &Layer| layer.link_count() > 1 && (streams > 1 || entropy || layer.spreads);
        self.layers.is_none() && (streams > 1 || entropy) || layers.into_iter().any(spread)
    }

    /// Links that `streams` queue pairs use at once at most, by distance, behind `first`. `entropy`: each packet has a hash of its own.
    pub(super) fn stages(&self, first: Hop, streams: usize, entropy: bool) -> Vec<Stage> {
        let mut stages = vec![Stage::one(first)];
        let Some(layers) = &self.layers else {
            // What paths of several lengths share: the link of the destination.
            let last = self.paths.iter().filter_map(|path| path.last()).copied().next();
            stages.extend(last.map(Stage::one));
            return stages;
        };
        let (mut used, mut divided, mut ordered) = (1, false, true);
        for layer in layers {
            let links = layer.link_count();
            let before = used;
            let divides = entropy || layer.spreads;
            // Where packets were divided before, each of the switches that they reach hashes them.
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
                // Packets that are hashed, and links of several kinds, do not take turns.
                _ if !(ordered && equal && (divides || streams <= 1)) => QueueOrder::Unknown,
                switches if switches == links => QueueOrder::AsArrived,
                switches if switches == before => QueueOrder::AsSent,
                _ => QueueOrder::Unknown,
            };
            ordered &= order != QueueOrder::Unknown;
            stages.push(Stage {
                order,
                ..layer.fastest(used)
            });
        }
        stages
    }
}

impl Layer {
    /// Its `count` fastest links. If that is not all of them, each has the shortest delay of all.
    fn fastest(&self, count: usize) -> Stage {
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

fn with_first(first: Hop, path: &[Hop]) -> Vec<Hop> {
    std::iter::once(first).chain(path.iter().copied()).collect()
}

type At = (usize, Ingress);

/// The paths to where a search is, by kinds of links.
type PathSet = BTreeSet<Vec<usize>>;

struct Search<'a> {
    forwarding: &'a Forwarding,
    destination: &'a Destination,
    kinds: Vec<Hop>,
    found: PathSet,
    incomplete: bool,
    layers: Vec<Layer>,
    /// Distances at which paths end.
    ends: BTreeSet<usize>,
    /// A path ends where others go on.
    uneven: bool,
}

impl Search<'_> {
    fn run(
        forwarding: &Forwarding,
        from: At,
        destination: &Destination,
        next: impl Fn(usize, Ingress) -> Vec<(usize, Option<u16>)>,
    ) -> Option<Route> {
        let mut search = Search {
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
        // A path visits a switch once, unless it is a loop.
        for _ in 0..=forwarding.switch_count() {
            if front.is_empty() {
                break;
            }
            front = search.step(&front, &next);
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

    /// Goes one link further from everywhere.
    fn step(
        &mut self,
        front: &BTreeMap<At, PathSet>,
        next: &impl Fn(usize, Ingress) -> Vec<(usize, Option<u16>)>,
    ) -> BTreeMap<At, PathSet> {
        let mut beyond: BTreeMap<At, PathSet> = BTreeMap::new();
        let mut taken = BTreeSet::new();
        let mut layer = Layer {
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
                let hop = Hop {
                    timing: egress.timing,
                    tag_bytes: tag.map_or(0, |_| TAG_BYTES),
                    latency: egress.delay.saturating_add(self.forwarding.latency(egress.to)),
                };
                if taken.insert((*switch, link, tag)) {
                    layer.add(hop);
                    switches.insert(*switch);
                    layer.spreads |= self.forwarding.spreads(*switch);
                }
                let kind = self.kind(hop);
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

    fn kind(&mut self, hop: Hop) -> usize {
        self.kinds
            .iter()
            .position(|kind| *kind == hop)
            .unwrap_or_else(|| {
                self.kinds.push(hop);
                self.kinds.len() - 1
            })
    }
}

impl Layer {
    fn link_count(&self) -> usize {
        self.links.iter().map(|(_, count)| count).sum()
    }

    fn add(&mut self, hop: Hop) {
        match self.links.iter_mut().find(|(kind, _)| *kind == hop) {
            Some((_, count)) => *count += 1,
            None => self.links.push((hop, 1)),
        }
    }
}
