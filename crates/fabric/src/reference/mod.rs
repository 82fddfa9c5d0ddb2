//! Computes the shortest possible time of a message: from its posting to the arrival of its last byte at
//! the receiver.
//!
//! This reference time assumes that no other traffic exists and that neither a window nor congestion control
//! limits the sender. The message uses all paths and queue pairs that it may use. The slowdown of a message
//! is its completion time divided by the reference time. The reference time must never exceed the time of a
//! real message. It should equal the time of a message without other traffic.
//!
//! - **Path.** The forwarding of the switches determines the paths: routes, LAGs, VLANs, and shortest paths
//!   for bridging ([`route`]). If switches hash the flows, a queue pair uses one path, and the fastest path
//!   is assumed. Parallel links are used together in three cases: switches may spread the packets of a queue
//!   pair, each packet has its own source port, or the message uses several queue pairs.
//! - **Packets.** Each packet has the same length as a packet of the host ([`train`]). The length includes
//!   the headers for the verb and for the position in the message, padding, FCS and a VLAN tag if required.
//!   The length is at least the minimum frame length.
//! - **Time.** The model is store and forward, exact to the picosecond. The computing time does not grow with
//!   the message length ([`pipeline`]). The time of a READ includes the transfer of its request.
//!
//! For each pair of a source switch and a destination, the route is searched only once. Times are computed
//! only once for equal routes.

mod forwarding;
mod pipeline;
mod route;
#[cfg(test)]
mod route_tests;
mod train;

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use xoff_units::Picos;

use super::packet_lengths::PacketLengths;
use super::plan::FabricPlan;
use forwarding::{DestinationHost, FabricForwarding, IngressState};
use pipeline::{EqualLengthPackets, LinkHop, last_arrival_over_path, last_arrival_over_stages};
use route::{Route, TAG_BYTES};
use train::FrameFormat;
use xoff_host::FixedLengths;
use xoff_rdma::{Transport, Verb};

/// Number of recently found routes with which a new route is compared. Equal routes are stored once.
const ROUTES_COMPARED: usize = 64;

/// A message for which [`ReferenceTimes::least_time`] computes the shortest time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReferenceMessage {
    /// Index in [`FabricPlan::hosts`] of the host that has the data.
    pub from: usize,
    /// Index in [`FabricPlan::hosts`] of the host that receives the data.
    pub to: usize,
    /// Payload of the message in bytes. 0 is one packet without payload.
    pub bytes: u64,
    /// Number of queue pairs that share the message evenly. The value 0 has the same effect as 1.
    pub queue_pairs: u16,
    /// Operation of the message. With READ, the host `to` requests the data.
    pub verb: Verb,
    /// Transport service of the queue pairs.
    pub service: Transport,
    /// Payload of a full packet in bytes (path MTU), at least 1.
    pub mtu: u32,
    /// Lengths of the packets on links, with or without in-band telemetry.
    pub lengths: PacketLengths,
    /// True if each packet has its own UDP source port ([`xoff_host::Entropy`]).
    pub entropy: bool,
}

/// Properties of a host that determine the lengths of its packets.
#[derive(Clone, Copy, Debug)]
struct HostProperties {
    address: Option<IpAddr>,
    tagged: bool,
    fixed_lengths: Option<FixedLengths>,
}

/// Computes the shortest times of messages on a fabric and caches the results.
#[derive(Debug)]
pub struct ReferenceTimes {
    forwarding: FabricForwarding,
    hosts: Vec<HostProperties>,
    cache: RefCell<ReferenceCache>,
}

/// Cached results.
#[derive(Debug, Default)]
struct ReferenceCache {
    /// Number of links from each switch to a switch, by the index of this switch ([`DestinationHost::distances`]).
    distances: HashMap<usize, Arc<OnceLock<Vec<u32>>>>,
    /// Index in `all` of the route from a switch to a host. `None` if no route exists.
    routes: HashMap<(usize, IngressState, usize), Option<usize>>,
    /// All routes that were found and differ from each other.
    all: Vec<Arc<Route>>,
    times: HashMap<MessageTimeKey, Picos>,
    /// Number of look-ups of the next links of a switch.
    look_ups: u64,
}

/// Key of a computed time: the path of the data, and for a READ also the path of the request. Two paths are
/// equal if their links have the same speeds and delays. Messages with equal paths have the same time, even
/// if their hosts differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct MessageTimeKey {
    message: ReferenceMessage,
    there: PathKey,
    back: Option<PathKey>,
}

/// Path from one host to another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PathKey {
    /// Link of the sending host.
    first: LinkHop,
    /// Index of the route after the first link. `None` if the first link leads directly to the
    /// receiving host.
    route: Option<usize>,
}

impl ReferenceTimes {
    /// Prepares the computation for the fabric of a plan.
    pub fn new(plan: &FabricPlan) -> ReferenceTimes {
        let hosts = plan.hosts.iter().map(|host| HostProperties {
            address: host.ipv4.map(IpAddr::V4).or(host.ipv6.map(IpAddr::V6)),
            tagged: host.vlan.is_some(),
            fixed_lengths: host.fixed_lengths,
        });
        ReferenceTimes {
            forwarding: FabricForwarding::new(plan),
            hosts: hosts.collect(),
            cache: RefCell::default(),
        }
    }

    /// Returns the shortest time from the posting of a message to the arrival of its last byte at the
    /// receiver. Returns `None` if no path exists. For a READ, the posting is the request of the host `to`.
    pub fn least_time(&self, message: &ReferenceMessage) -> Option<Picos> {
        let mut cache = self.cache.borrow_mut();
        let there = self.path_key(&mut cache, message.from, message.to)?;
        let back = match message.verb {
            Verb::Read => Some(self.path_key(&mut cache, message.to, message.from)?),
            Verb::Send | Verb::Write => None,
        };
        let key = MessageTimeKey {
            // The time depends on the routes, not on the hosts.
            message: ReferenceMessage {
                from: 0,
                to: 0,
                ..*message
            },
            there,
            back,
        };
        if let Some(time) = cache.times.get(&key) {
            return Some(*time);
        }
        let time = self.compute_time(&cache, message, &key);
        cache.times.insert(key, time);
        Some(time)
    }

    /// Returns how often the searches for paths have looked up the next links of a switch: a measure of their work.
    pub fn forwarding_look_ups(&self) -> u64 {
        self.cache.borrow().look_ups
    }

    fn compute_time(
        &self,
        cache: &ReferenceCache,
        message: &ReferenceMessage,
        key: &MessageTimeKey,
    ) -> Picos {
        let sender = self.hosts.get(message.from);
        let framing = FrameFormat {
            mtu: message.mtu,
            ipv6: sender.is_some_and(|host| host.address.is_some_and(|address| address.is_ipv6())),
            transport: message.service,
            verb: message.verb,
            lengths: message.lengths,
            fixed: sender.and_then(|host| host.fixed_lengths),
        };
        let parts = u64::from(message.queue_pairs.max(1));
        let last_arrival =
            |direction: &PathKey, train: &[EqualLengthPackets], streams: u64, released: Picos| {
                let route = direction.route.map(|route| &*cache.all[route]);
                last_arrival(
                    direction.first,
                    route,
                    train,
                    (streams as usize, message.entropy),
                    released,
                )
            };
        let Some(back) = &key.back else {
            return last_arrival(
                &key.there,
                &framing.train(message.bytes, parts),
                parts,
                Picos::ZERO,
            );
        };
        let requested = |requests: u64| {
            let request = EqualLengthPackets {
                frame_len: framing.request_len(),
                count: requests,
            };
            // All requests have the source port of their queue pair.
            last_arrival(back, &[request], requests, Picos::ZERO)
        };
        // The first response follows the first request. The responses to the last request follow the
        // last request.
        let all = last_arrival(
            &key.there,
            &framing.train(message.bytes, parts),
            parts,
            requested(1),
        );
        let last = framing.train(message.bytes / parts, 1);
        all.max(last_arrival(&key.there, &last, 1, requested(parts)))
    }

    fn path_key(&self, cache: &mut ReferenceCache, from: usize, to: usize) -> Option<PathKey> {
        let link = self.forwarding.host_link(from)?;
        let tag_bytes = if self.hosts.get(from)?.tagged {
            TAG_BYTES
        } else {
            0
        };
        let destination = self.forwarding.host_node(to);
        let first = LinkHop {
            timing: link.timing,
            tag_bytes,
            latency: link.delay.saturating_add(self.forwarding.latency(link.to)),
        };
        if link.to == destination {
            return Some(PathKey { first, route: None });
        }
        if !self.forwarding.is_switch(link.to) {
            return None;
        }
        let ingress = self.forwarding.ingress(link.to, link.to_port, None);
        let key = (link.to, ingress, destination);
        let route = match cache.routes.get(&key) {
            Some(route) => *route,
            None => {
                let route = self.find_route(cache, (link.to, ingress), to);
                cache.routes.insert(key, route);
                route
            }
        };
        route.map(|route| PathKey {
            first,
            route: Some(route),
        })
    }

    /// Searches for a route and returns its index in [`ReferenceCache::all`]. Returns `None` if no
    /// route exists.
    fn find_route(
        &self,
        cache: &mut ReferenceCache,
        from: (usize, IngressState),
        to: usize,
    ) -> Option<usize> {
        let at = self.forwarding.host_link(to)?.to;
        let distances = cache.distances.entry(at).or_default();
        let destination = DestinationHost {
            address: self.hosts.get(to)?.address?,
            node: self.forwarding.host_node(to),
            switch: at,
            distances: Arc::clone(distances),
        };
        let route = Route::find(&self.forwarding, from, &destination, &mut cache.look_ups)?;
        let compared = cache.all.len().saturating_sub(ROUTES_COMPARED);
        let same = cache.all[compared..].iter().position(|other| **other == route);
        Some(same.map(|at| compared + at).unwrap_or_else(|| {
            cache.all.push(Arc::new(route));
            cache.all.len() - 1
        }))
    }
}

/// Returns the arrival time of the last packet of a message. The packets leave a host on the link `first`,
/// from the time `released` on. `streams` is the number of queue pairs. `entropy` is true if each packet has
/// its own source port.
fn last_arrival(
    first: LinkHop,
    route: Option<&Route>,
    train: &[EqualLengthPackets],
    (streams, entropy): (usize, bool),
    released: Picos,
) -> Picos {
    let Some(route) = route else {
        return last_arrival_over_path(&[first], train, released);
    };
    if route.uses_parallel_links(streams, entropy) {
        return last_arrival_over_stages(&route.stages(first, streams, entropy), train, released);
    }
    let paths = route.single_paths(first);
    let times = paths
        .iter()
        .map(|path| last_arrival_over_path(path, train, released));
    times.min().unwrap_or(Picos::ZERO)
}
