//! The least time that a message takes: to its last byte at the receiver, with no other traffic, no window and no congestion control,
//! over all paths and queue pairs that it may use.
//!
//! Slowdowns are completion times over this, so it must never be more than what a message takes, and no less than what it takes alone.
//!
//! - **Path.** What switches forward decides where packets may go: routes, LAGs, VLANs, and shortest paths where they bridge ([`route`]).
//!   A queue pair whose packets are hashed takes one path: the best of them counts. Where switches may divide its packets, or each
//!   packet has a source port of its own, and for messages over several queue pairs, links of the same distance count together.
//! - **Packets.** Each has the length that the host gives it: headers by verb and place in the message, padding, FCS, the smallest
//!   frame, a tag where a VLAN has one ([`train`]).
//! - **Time.** Store and forward, exact to the picosecond, in a time that does not grow with the message ([`pipeline`]). Of a READ, the
//!   request travels first.
//!
//! A route is looked for once for each switch with sources and each destination; equal routes share their times.

mod forwarding;
mod pipeline;
mod route;
mod train;

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use xoff_units::Picos;

use super::lengths::PacketLengths;
use super::plan::FabricPlan;
use forwarding::{Destination, Forwarding, Ingress};
use pipeline::{Hop, Run, over_path, over_stages};
use route::{Route, TAG_BYTES};
use train::Framing;
use xoff_host::FixedLengths;
use xoff_rdma::{Transport, Verb};

/// New routes are compared with so many that were found before.
const ROUTES_COMPARED: usize = 64;

/// A message whose least time is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReferenceMessage {
    /// Index of the host that has the data.
    pub from: usize,
    /// Index of the host that gets it.
    pub to: usize,
    /// Payload in bytes.
    pub bytes: u64,
    /// Queue pairs that it is divided over evenly, at least 1.
    pub queue_pairs: u16,
    /// How it is carried. With a READ, `to` asks for the data.
    pub verb: Verb,
    /// Service of the queue pairs.
    pub service: Transport,
    /// Payload of a full packet in bytes.
    pub mtu: u32,
    /// Lengths of the queue pairs' packets.
    pub lengths: PacketLengths,
    /// Each packet has a UDP source port of its own ([`xoff_host::Entropy`]).
    pub entropy: bool,
}

/// What a plan says of a host.
#[derive(Clone, Copy, Debug)]
struct HostFacts {
    address: Option<IpAddr>,
    tagged: bool,
    fixed_lengths: Option<FixedLengths>,
}

/// Least times of messages on a fabric, computed when they are asked for.
#[derive(Debug)]
pub struct ReferenceTimes {
    forwarding: Forwarding,
    hosts: Vec<HostFacts>,
    found: RefCell<Found>,
}

/// What was computed before.
#[derive(Debug, Default)]
struct Found {
    /// By the switch that the destination is connected to.
    distances: HashMap<usize, Arc<Vec<u32>>>,
    /// Index of the route from a switch to a host; `None` if there is none.
    routes: HashMap<(usize, Ingress, usize), Option<usize>>,
    /// Different routes.
    all: Vec<Arc<Route>>,
    times: HashMap<TimeKey, Picos>,
}

/// All that the time of a message depends on: its routes there and, of a READ, back, with the links of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TimeKey {
    message: ReferenceMessage,
    there: Direction,
    back: Option<Direction>,
}

/// The way from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Direction {
    /// The link of the source.
    first: Hop,
    /// Index of the route behind it; `None` if the link leads to the destination.
    route: Option<usize>,
}

impl ReferenceTimes {
    /// Those on the fabric of a plan.
    pub fn new(plan: &FabricPlan) -> ReferenceTimes {
        let hosts = plan.hosts.iter().map(|host| HostFacts {
            address: host.ipv4.map(IpAddr::V4).or(host.ipv6.map(IpAddr::V6)),
            tagged: host.vlan.is_some(),
            fixed_lengths: host.fixed_lengths,
        });
        ReferenceTimes {
            forwarding: Forwarding::new(plan),
            hosts: hosts.collect(),
            found: RefCell::default(),
        }
    }

    /// From the moment at which a message is posted to its last byte at the receiver; `None` if no path of links leads there.
    pub fn least_time(&self, message: &ReferenceMessage) -> Option<Picos> {
        let mut found = self.found.borrow_mut();
        let there = self.direction(&mut found, message.from, message.to)?;
        let back = match message.verb {
            Verb::Read => Some(self.direction(&mut found, message.to, message.from)?),
            Verb::Send | Verb::Write => None,
        };
        let key = TimeKey {
            // Hosts of equal routes are alike.
            message: ReferenceMessage {
                from: 0,
                to: 0,
                ..*message
            },
            there,
            back,
        };
        if let Some(time) = found.times.get(&key) {
            return Some(*time);
        }
        let time = self.compute(&found, message, &key);
        found.times.insert(key, time);
        Some(time)
    }

    fn compute(&self, found: &Found, message: &ReferenceMessage, key: &TimeKey) -> Picos {
        let sender = self.hosts.get(message.from);
        let framing = Framing {
            mtu: message.mtu,
            ipv6: sender.is_some_and(|host| host.address.is_some_and(|address| address.is_ipv6())),
            transport: message.service,
            verb: message.verb,
            lengths: message.lengths,
            fixed: sender.and_then(|host| host.fixed_lengths),
        };
        let parts = u64::from(message.queue_pairs.max(1));
        let last_arrival = |direction: &Direction, train: &[Run], streams: u64, released: Picos| {
            let route = direction.route.map(|route| &*found.all[route]);
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
            let request = Run {
                frame_len: framing.request_len(),
                count: requests,
            };
            // Requests differ in their source ports no more than others of the queue pair do.
            last_arrival(back, &[request], requests, Picos::ZERO)
        };
        // Responses begin with the first request, and those to the last request follow it.
        let all = last_arrival(
            &key.there,
            &framing.train(message.bytes, parts),
            parts,
            requested(1),
        );
        let last = framing.train(message.bytes / parts, 1);
        all.max(last_arrival(&key.there, &last, 1, requested(parts)))
    }

    fn direction(&self, found: &mut Found, from: usize, to: usize) -> Option<Direction> {
        let link = self.forwarding.host_link(from)?;
        let tag_bytes = if self.hosts.get(from)?.tagged {
            TAG_BYTES
        } else {
            0
        };
        let destination = self.forwarding.host_node(to);
        let first = Hop {
            timing: link.timing,
            tag_bytes,
            latency: link.delay.saturating_add(self.forwarding.latency(link.to)),
        };
        if link.to == destination {
            return Some(Direction { first, route: None });
        }
        if !self.forwarding.is_switch(link.to) {
            return None;
        }
        let ingress = self.forwarding.ingress(link.to, link.to_port, None);
        let place = (link.to, ingress, destination);
        let route = match found.routes.get(&place) {
            Some(route) => *route,
            None => {
                let route = self.route(found, (link.to, ingress), to);
                found.routes.insert(place, route);
                route
            }
        };
        route.map(|route| Direction {
            first,
            route: Some(route),
        })
    }

    /// Looks for a route, and gives its index among the different ones.
    fn route(&self, found: &mut Found, from: (usize, Ingress), to: usize) -> Option<usize> {
        let at = self.forwarding.host_link(to)?.to;
        let distances = found.distances.entry(at);
        let destination = Destination {
            address: self.hosts.get(to)?.address?,
            node: self.forwarding.host_node(to),
            distances: Arc::clone(distances.or_insert_with(|| Arc::new(self.forwarding.distances(at)))),
        };
        let route = Route::find(&self.forwarding, from, &destination)?;
        let compared = found.all.len().saturating_sub(ROUTES_COMPARED);
        let same = found.all[compared..].iter().position(|other| **other == route);
        Some(same.map(|at| compared + at).unwrap_or_else(|| {
            found.all.push(Arc::new(route));
            found.all.len() - 1
        }))
    }
}

/// When the last packet of a train has arrived that leaves a host by its link `first`. `streams`: queue pairs, and whether their packets
/// differ in source ports.
fn last_arrival(
    first: Hop,
    route: Option<&Route>,
    train: &[Run],
    (streams, entropy): (usize, bool),
    released: Picos,
) -> Picos {
    let Some(route) = route else {
        return over_path(&[first], train, released);
    };
    if route.is_wide(streams, entropy) {
        return over_stages(&route.stages(first, streams, entropy), train, released);
    }
    let paths = route.single_paths(first);
    let times = paths.iter().map(|path| over_path(path, train, released));
    times.min().unwrap_or(Picos::ZERO)
}
