//! Computes the shortest possible time of a message, from its posting to the arrival of its last byte
//! at the receiver.
//!
//! This reference time applies if no other traffic exists and neither a window nor congestion control limits
//! the sender. The message uses all paths and queue pairs that it may use. The slowdown of a message is its
//! completion time divided by the reference time. The reference time must never exceed the time of a real
//! message, and should equal the time of a message without other traffic.
//!
//! - **Path.** The forwarding of the switches determines the paths: routes, LAGs, VLANs, and shortest paths
//!   for bridging ([`route`]). If switches hash the flows, a queue pair uses one path, and the fastest path
//!   is taken. Parallel links are used together if switches may spread the packets of a queue pair, if each
//!   packet has its own source port, or if the message uses several queue pairs.
//! - **Packets.** Each packet has the same length as a packet of the host. The length includes the headers
//!   for its verb and its position in the message, padding, FCS and a VLAN tag if required, and is at least
//!   the minimum frame length ([`train`]).
//! - **Time.** The model is store and forward, exact to the picosecond. The computing time does not grow with
//!   the message length ([`pipeline`]). The time of a READ includes the transfer of its request.
//!
//! Each route is searched once for each source switch and destination. Equal routes share
//! their computed times.

mod forwarding;
mod pipeline;
mod route;
mod train;

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use xoff_units::Picos;

use super::packet_lengths::PacketLengths;
use super::plan::FabricPlan;
use forwarding::{DestinationHost, FabricForwarding, IngressState};
use pipeline::{LinkHop, PacketRun, path_arrival, stages_arrival};
use route::{Route, TAG_BYTES};
use train::FrameFormat;
use xoff_host::FixedLengths;
use xoff_rdma::{Transport, Verb};

/// Number of recent routes with which a new route is compared.
const ROUTES_COMPARED: usize = 64;

/// A message whose shortest time is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReferenceMessage {
    /// Index of the host that has the data.
    pub from: usize,
    /// Index of the host that receives the data.
    pub to: usize,
    /// Payload in bytes.
    pub bytes: u64,
    /// Number of queue pairs that share the message evenly, at least 1.
    pub queue_pairs: u16,
    /// Operation of the message. In a READ, the host `to` requests the data.
    pub verb: Verb,
    /// Transport service of the queue pairs.
    pub service: Transport,
    /// Payload of a full packet in bytes.
    pub mtu: u32,
    /// Lengths of the packets.
    pub lengths: PacketLengths,
    /// Each packet has its own UDP source port ([`xoff_host::Entropy`]).
    pub entropy: bool,
}

/// Properties of a host.
#[derive(Clone, Copy, Debug)]
struct HostProperties {
    address: Option<IpAddr>,
    tagged: bool,
    fixed_lengths: Option<FixedLengths>,
}

/// Computes the shortest times of messages on a fabric, and caches them.
#[derive(Debug)]
pub struct ReferenceTimes {
    forwarding: FabricForwarding,
    hosts: Vec<HostProperties>,
    cache: RefCell<ReferenceCache>,
}

/// Cached results.
#[derive(Debug, Default)]
struct ReferenceCache {
    /// Distances by the switch of the destination.
    distances: HashMap<usize, Arc<Vec<u32>>>,
    /// Index of the route from a switch to a host, or `None` without one.
    routes: HashMap<(usize, IngressState, usize), Option<usize>>,
    /// Different routes.
    all: Vec<Arc<Route>>,
    times: HashMap<TimeKey, Picos>,
}

/// Key of a computed time. The key consists of the routes and host links of the data. For a READ, the key
/// also contains the routes and host links of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TimeKey {
    message: ReferenceMessage,
    there: PathKey,
    back: Option<PathKey>,
}

/// Path from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PathKey {
    /// Link of the source host.
    first: LinkHop,
    /// Index of the route after the first link. The value is `None` if the first link leads directly
    /// to the destination.
    route: Option<usize>,
}

impl ReferenceTimes {
    /// Creates the computation for the fabric of a plan.
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
    /// receiver. Returns `None` if no path exists.
    pub fn least_time(&self, message: &ReferenceMessage) -> Option<Picos> {
        let mut cache = self.cache.borrow_mut();
        let there = self.path_key(&mut cache, message.from, message.to)?;
        let back = match message.verb {
            Verb::Read => Some(self.path_key(&mut cache, message.to, message.from)?),
            Verb::Send | Verb::Write => None,
        };
        let key = TimeKey {
            // Hosts with equal routes need no distinction.
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

    fn compute_time(&self, cache: &ReferenceCache, message: &ReferenceMessage, key: &TimeKey) -> Picos {
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
        let last_arrival = |direction: &PathKey, train: &[PacketRun], streams: u64, released: Picos| {
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
            let request = PacketRun {
                frame_len: framing.request_len(),
                count: requests,
            };
            // All requests have the source port of their queue pair.
            last_arrival(back, &[request], requests, Picos::ZERO)
        };
        // The responses start with the first request. The responses to the last request follow this request.
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

    /// Searches for a route and returns its index.
    fn find_route(
        &self,
        cache: &mut ReferenceCache,
        from: (usize, IngressState),
        to: usize,
    ) -> Option<usize> {
        let at = self.forwarding.host_link(to)?.to;
        let distances = cache.distances.entry(at);
        let destination = DestinationHost {
            address: self.hosts.get(to)?.address?,
            node: self.forwarding.host_node(to),
            distances: Arc::clone(distances.or_insert_with(|| Arc::new(self.forwarding.distances(at)))),
        };
        let route = Route::find(&self.forwarding, from, &destination)?;
        let compared = cache.all.len().saturating_sub(ROUTES_COMPARED);
        let same = cache.all[compared..].iter().position(|other| **other == route);
        Some(same.map(|at| compared + at).unwrap_or_else(|| {
            cache.all.push(Arc::new(route));
            cache.all.len() - 1
        }))
    }
}

/// Returns the arrival time of the last packet of a train that leaves a host on the link `first`. `streams`
/// is the number of queue pairs. `entropy` is true if each packet has its own source port.
fn last_arrival(
    first: LinkHop,
    route: Option<&Route>,
    train: &[PacketRun],
    (streams, entropy): (usize, bool),
    released: Picos,
) -> Picos {
    let Some(route) = route else {
        return path_arrival(&[first], train, released);
    };
    if route.is_wide(streams, entropy) {
        return stages_arrival(&route.stages(first, streams, entropy), train, released);
    }
    let paths = route.single_paths(first);
    let times = paths.iter().map(|path| path_arrival(path, train, released));
    times.min().unwrap_or(Picos::ZERO)
}
