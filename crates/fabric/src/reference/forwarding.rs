//! Determines how the switches of a plan forward packets: by routes, or by bridging on a shortest path.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use xoff_dataplane::config::{
    BridgingConfig, InterfaceAttachment, SchemeKind, SwitchConfig, TaggingMode, VlanMemberConfig,
};
use xoff_dataplane::route::{Fib, FibEntry, Route};
use xoff_dataplane::{InterfaceId, LinkTiming, Picos};

use crate::plan::{FabricPlan, LinkEnd};

/// How a switch handles a packet after its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum IngressState {
    /// The packet arrived at a router interface and is routed.
    Routed,
    /// The packet is bridged in the VLAN with this id. `None`: it belongs to no VLAN.
    Bridged(Option<u16>),
}

/// A link out of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct EgressLink {
    /// Index of the egress port. 0 for a host.
    pub(super) port: u16,
    /// Node at the other end of the link.
    pub(super) to: usize,
    /// Index of the port at the other end. 0 for a host.
    pub(super) to_port: u16,
    /// Speed and framing of the sender.
    pub(super) timing: LinkTiming,
    pub(super) delay: Picos,
    /// Pipeline latency of the switch at the other end. Zero for a host.
    pub(super) latency: Picos,
    /// The node at the other end, or the first switch that forwards in the same way
    /// ([`FabricForwarding::find_representatives`]).
    pub(super) representative: usize,
    /// True if the port at the other end is a router interface.
    pub(super) leads_to_router: bool,
}

/// A route of a switch whose prefix contains the address of a host.
#[derive(Clone, Copy, Debug)]
struct RouteToHosts<'a> {
    route: &'a Route,
    entry: FibEntry,
}

/// Forwarding configuration of one switch.
#[derive(Debug)]
struct SwitchForwarding {
    fib: Arc<Fib>,
    interfaces: Vec<InterfaceAttachment>,
    /// Member ports of each LAG.
    lags: Vec<Vec<u16>>,
    bridging: BridgingConfig,
    /// For each port: true if the port or its LAG is a router interface.
    routed: Vec<bool>,
    /// Pipeline latency of the switch.
    latency: Picos,
    /// True if the switch may send the packets of one queue pair over several links.
    spreads: bool,
}

/// A destination host.
#[derive(Clone, Debug)]
pub(super) struct DestinationHost {
    pub(super) address: IpAddr,
    pub(super) node: usize,
    /// Switch of the host.
    pub(super) switch: usize,
    /// Number of links from every switch to the switch of the host, after the first use. Only bridging and searches
    /// without routes use it. Hosts of one switch share it.
    pub(super) distances: Arc<OnceLock<Vec<u32>>>,
}

/// Forwarding of all switches, and the links of all nodes. The node numbers start at 0. The switches come
/// first, then the hosts.
#[derive(Debug)]
pub(super) struct FabricForwarding {
    switches: Vec<SwitchForwarding>,
    /// Links out of each node.
    links: Vec<Vec<EgressLink>>,
    /// For each switch and port: the index of the link of the port in `links`.
    links_of_ports: Vec<Vec<Option<u32>>>,
}

/// Number of switches with the same neighbours, but different forwarding, with which a switch is compared.
const REPRESENTATIVES_COMPARED: usize = 8;

impl FabricForwarding {
    pub(super) fn new(plan: &FabricPlan) -> FabricForwarding {
        let switches: Vec<SwitchForwarding> = plan
            .switches
            .iter()
            .map(|config| SwitchForwarding::new(config))
            .collect();
        let mut links = vec![Vec::new(); switches.len() + plan.hosts.len()];
        let place = |end: LinkEnd| match end {
            LinkEnd::Switch { switch, port } => (switch as usize, port),
            LinkEnd::Host(host) => (plan.switches.len() + host as usize, 0),
        };
        let timing = |end: LinkEnd| match end {
            LinkEnd::Switch { switch, port } => {
                let ports = &plan.switches.get(switch as usize)?.ports;
                ports.get(usize::from(port)).map(|port| port.link)
            }
            LinkEnd::Host(host) => plan.hosts.get(host as usize).map(|host| host.nic.link),
        };
        for link in &plan.links {
            for (from, to) in [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])] {
                let ((node, port), (to, to_port)) = (place(from), place(to));
                if let Some(timing) = timing(from) {
                    let next = switches.get(to);
                    links[node].push(EgressLink {
                        port,
                        to,
                        to_port,
                        timing,
                        delay: link.delay,
                        latency: next.map_or(Picos::ZERO, |switch| switch.latency),
                        representative: to,
                        leads_to_router: next.is_some_and(|switch| switch.is_routed(to_port)),
                    });
                }
            }
        }
        let links_of_ports = links[..switches.len()].iter().map(|links| {
            let ports = links.iter().map(|link| usize::from(link.port) + 1).max();
            let mut links_of_ports = vec![None; ports.unwrap_or_default()];
            for (index, link) in links.iter().enumerate() {
                links_of_ports[usize::from(link.port)] = Some(index as u32);
            }
            links_of_ports
        });
        let mut forwarding = FabricForwarding {
            links_of_ports: links_of_ports.collect(),
            switches,
            links,
        };
        let representatives = forwarding.find_representatives(plan);
        for link in forwarding.links.iter_mut().flatten() {
            link.representative = representatives.get(link.to).copied().unwrap_or(link.to);
        }
        forwarding
    }

    /// Returns the representative of each switch: the first switch that forwards packets to hosts in the same way, to
    /// the same neighbours, over links with the same ports, speeds and delays. For example, the core switches of a fat
    /// tree that are connected to the same aggregation switches forward in the same way. The links of both switches
    /// have the same indices. The work is linear in the links, and in the routes of switches with the same neighbours.
    fn find_representatives(&self, plan: &FabricPlan) -> Vec<usize> {
        let mut representatives: Vec<usize> = (0..self.switches.len()).collect();
        let mut similar: BTreeMap<Vec<(u16, usize)>, Vec<usize>> = BTreeMap::new();
        for switch in (0..self.switches.len()).filter(|switch| self.only_routes(*switch)) {
            let links = self.links[switch].iter();
            let neighbours = links.map(|link| (link.port, link.to)).collect();
            similar.entry(neighbours).or_default().push(switch);
        }
        let hosts = plan.hosts.iter().flat_map(|host| {
            let ipv4 = host.ipv4.map(IpAddr::V4);
            ipv4.into_iter().chain(host.ipv6.map(IpAddr::V6))
        });
        let mut hosts: Vec<IpAddr> = hosts.collect();
        hosts.sort_unstable();
        for switches in similar.values().filter(|switches| switches.len() > 1) {
            let mut known: Vec<(usize, Vec<RouteToHosts<'_>>)> = Vec::new();
            for &switch in switches {
                let routes = self.switches[switch].routes_to_hosts(&hosts);
                let same = known
                    .iter()
                    .find(|(other, others)| self.forwards_like((switch, &routes), (*other, others)));
                match same {
                    Some((same, _)) => representatives[switch] = *same,
                    None if known.len() < REPRESENTATIVES_COMPARED => known.push((switch, routes)),
                    None => {}
                }
            }
        }
        representatives
    }

    /// Makes each switch its own representative.
    #[cfg(test)]
    pub(super) fn represent_no_others(&mut self) {
        for link in self.links.iter_mut().flatten() {
            link.representative = link.to;
        }
    }

    /// Returns whether a switch and all its neighbours route the packets that the switch receives and sends.
    fn only_routes(&self, switch: usize) -> bool {
        let mut links = self.links[switch].iter();
        links.all(|link| {
            self.switches[switch].is_routed(link.port) && (link.leads_to_router || !self.is_switch(link.to))
        })
    }

    /// Returns whether two switches with the same neighbours that only route send packets to the same
    /// neighbours, over links of the same kind. Each switch has its routes to hosts.
    fn forwards_like(
        &self,
        (switch, routes): (usize, &[RouteToHosts<'_>]),
        (other, others): (usize, &[RouteToHosts<'_>]),
    ) -> bool {
        let mut links = self.links[switch].iter().zip(&self.links[other]);
        let (switch, other) = (&self.switches[switch], &self.switches[other]);
        links.all(|(a, b)| (a.timing, a.delay) == (b.timing, b.delay))
            && switch.sends_like(other)
            && routes.len() == others.len()
            && routes.iter().zip(others).all(|(own, others)| {
                own.route.prefix == others.route.prefix
                    && switch
                        .interfaces_of(own.entry)
                        .eq(other.interfaces_of(others.entry))
            })
    }

    pub(super) fn is_switch(&self, node: usize) -> bool {
        node < self.switches.len()
    }

    pub(super) fn host_node(&self, host: usize) -> usize {
        self.switches.len() + host
    }

    /// Returns the link of a host. Returns `None` if the host has no link.
    pub(super) fn host_link(&self, host: usize) -> Option<EgressLink> {
        self.links.get(self.host_node(host))?.first().copied()
    }

    pub(super) fn latency(&self, node: usize) -> Picos {
        self.switches
            .get(node)
            .map_or(Picos::ZERO, |switch| switch.latency)
    }

    /// Returns whether a switch may send the packets of one flow over several links.
    pub(super) fn spreads_packets(&self, switch: usize) -> bool {
        self.switches[switch].spreads
    }

    pub(super) fn switch_count(&self) -> usize {
        self.switches.len()
    }

    pub(super) fn egress(&self, node: usize, link: usize) -> &EgressLink {
        &self.links[node][link]
    }

    /// Returns the number of links from every switch to the switch `destination`. The number is [`u32::MAX`] if no
    /// path exists. Hosts do not forward packets.
    fn distances(&self, destination: usize) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.switches.len()];
        if !self.is_switch(destination) {
            return distances;
        }
        distances[destination] = 0;
        let mut queue = VecDeque::from([destination]);
        while let Some(node) = queue.pop_front() {
            for link in self.links[node].iter().filter(|link| self.is_switch(link.to)) {
                if distances[link.to] == u32::MAX {
                    distances[link.to] = distances[node] + 1;
                    queue.push_back(link.to);
                }
            }
        }
        distances
    }

    /// Returns how a switch handles a packet that enters at `port`. `tag` is the VLAN id in the tag of the
    /// packet. `None` means that the packet has no tag.
    pub(super) fn ingress(&self, switch: usize, port: u16, tag: Option<u16>) -> IngressState {
        let forwarder = &self.switches[switch];
        if forwarder.is_routed(port) {
            return IngressState::Routed;
        }
        let BridgingConfig::Vlans(vlans) = &forwarder.bridging else {
            return IngressState::Bridged(tag);
        };
        let tag = tag.filter(|tag| *tag > 0);
        let own = vlans.iter().find(|vlan| {
            let mut members = vlan.members.iter();
            members.any(|member| {
                member.tagging != TaggingMode::Tagged && forwarder.ports_of(member.port).contains(&port)
            })
        });
        IngressState::Bridged(tag.or(own.map(|vlan| vlan.id)))
    }

    /// Returns the links on which a switch may forward a packet. Each entry is the index of a link of this
    /// switch and the VLAN id in the tag on this link. `None` means that the packet has no tag.
    pub(super) fn next_links(
        &self,
        switch: usize,
        ingress: IngressState,
        destination: &DestinationHost,
    ) -> Vec<(usize, Option<u16>)> {
        let forwarder = &self.switches[switch];
        let interfaces = match ingress {
            IngressState::Bridged(vlan) if !forwarder.has_interface(vlan) => Vec::new(),
            _ => forwarder.interfaces_to(destination.address),
        };
        let mut next = Vec::new();
        for interface in interfaces {
            match forwarder.interfaces.get(interface.index()) {
                Some(InterfaceAttachment::Port(port)) => {
                    next.extend(self.links_of_ports(switch, std::slice::from_ref(port)))
                }
                Some(InterfaceAttachment::Lag(lag)) => {
                    next.extend(self.links_of_ports(switch, forwarder.lag(usize::from(*lag))));
                }
                Some(InterfaceAttachment::Vlan(vlan)) => {
                    next.extend(self.bridged_links(switch, Some(*vlan), destination))
                }
                Some(InterfaceAttachment::Loopback) | None => {}
            }
        }
        if let (true, IngressState::Bridged(vlan)) = (next.is_empty(), ingress) {
            next = self.bridged_links(switch, vlan, destination);
        }
        next.sort_unstable();
        next.dedup();
        next
    }

    /// Returns the links on shortest paths to the destination. The configuration of the switch has no effect.
    pub(super) fn shortest_path_links(
        &self,
        switch: usize,
        destination: &DestinationHost,
    ) -> Vec<(usize, Option<u16>)> {
        let links = self.links[switch].iter().enumerate();
        let closer = links.filter(|(_, link)| self.is_closer(switch, link, destination));
        closer.map(|(at, _)| (at, None)).collect()
    }

    fn is_closer(&self, switch: usize, link: &EgressLink, destination: &DestinationHost) -> bool {
        let distances = || {
            let distances = &destination.distances;
            distances.get_or_init(|| self.distances(destination.switch))
        };
        link.to == destination.node || self.is_switch(link.to) && distances()[link.to] < distances()[switch]
    }

    fn links_of_ports(&self, switch: usize, ports: &[u16]) -> impl Iterator<Item = (usize, Option<u16>)> {
        let links_of_ports = &self.links_of_ports[switch];
        let own = ports
            .iter()
            .filter_map(|port| links_of_ports.get(usize::from(*port)).copied().flatten());
        own.map(|at| (at as usize, None))
    }

    /// Returns the links on which a switch forwards a packet of a VLAN towards the destination.
    fn bridged_links(
        &self,
        switch: usize,
        vlan: Option<u16>,
        destination: &DestinationHost,
    ) -> Vec<(usize, Option<u16>)> {
        let closer = |link: &EgressLink| self.is_closer(switch, link, destination);
        let links = || self.links[switch].iter().enumerate();
        let vlans = match &self.switches[switch].bridging {
            BridgingConfig::Transparent => {
                return links()
                    .filter(|(_, link)| closer(link))
                    .map(|(at, _)| (at, vlan))
                    .collect();
            }
            BridgingConfig::Vlans(vlans) => vlans,
        };
        let members = vlans
            .iter()
            .filter(|of| Some(of.id) == vlan)
            .flat_map(|of| &of.members);
        let mut next = Vec::new();
        for VlanMemberConfig { port, tagging } in members {
            let ports = self.switches[switch].ports_of(*port);
            let tag = match tagging {
                TaggingMode::Tagged => vlan,
                TaggingMode::Untagged => None,
                TaggingMode::PriorityTagged => Some(0),
            };
            let own = links().filter(|(_, link)| ports.contains(&link.port) && closer(link));
            next.extend(own.map(|(at, _)| (at, tag)));
        }
        next
    }
}

impl SwitchForwarding {
    fn new(config: &SwitchConfig) -> SwitchForwarding {
        let interfaces = config.routing.interfaces.iter();
        let interfaces: Vec<InterfaceAttachment> = interfaces.map(|interface| interface.attachment).collect();
        let lags: Vec<Vec<u16>> = config.lags.iter().map(|lag| lag.members.clone()).collect();
        let mut routed = vec![false; config.ports.len()];
        for attachment in &interfaces {
            let ports = match attachment {
                InterfaceAttachment::Port(port) => vec![*port],
                InterfaceAttachment::Lag(lag) => lags.get(usize::from(*lag)).cloned().unwrap_or_default(),
                InterfaceAttachment::Vlan(_) | InterfaceAttachment::Loopback => Vec::new(),
            };
            for port in ports {
                if let Some(routed) = routed.get_mut(usize::from(port)) {
                    *routed = true;
                }
            }
        }
        SwitchForwarding {
            fib: Arc::clone(&config.routing.fib),
            interfaces,
            lags,
            bridging: config.bridging.clone(),
            routed,
            latency: config.pipeline_latency,
            spreads: spreads_packets(config),
        }
    }

    fn lag(&self, lag: usize) -> &[u16] {
        self.lags.get(lag).map_or(&[], Vec::as_slice)
    }

    /// Returns the ports of a VLAN member. A number from the port count on is a LAG.
    fn ports_of(&self, member: u16) -> Vec<u16> {
        match usize::from(member).checked_sub(self.routed.len()) {
            None => vec![member],
            Some(lag) => self.lag(lag).to_vec(),
        }
    }

    fn has_interface(&self, vlan: Option<u16>) -> bool {
        let own = |of: &InterfaceAttachment| matches!(of, InterfaceAttachment::Vlan(id) if Some(*id) == vlan);
        self.interfaces.iter().any(own)
    }

    /// Returns the router interfaces on which a packet to `destination` leaves the switch. The list is empty
    /// if no route exists.
    fn interfaces_to(&self, destination: IpAddr) -> Vec<InterfaceId> {
        let entry = self.fib.lookup(destination);
        entry.map_or_else(Vec::new, |entry| self.interfaces_of(entry).collect())
    }

    /// Returns the router interfaces of a look-up result.
    fn interfaces_of(&self, entry: FibEntry) -> impl Iterator<Item = InterfaceId> {
        let next_hops = self.fib.next_hops();
        let (single, members) = match entry {
            FibEntry::Connected(interface) => (Some(interface), &[][..]),
            FibEntry::NextHop(hop) => (Some(next_hops[hop.index()].interface), &[][..]),
            FibEntry::Group(group) => (None, &self.fib.groups()[group.index()].members[..]),
            FibEntry::Local | FibEntry::Blackhole => (None, &[][..]),
        };
        let members = members.iter().map(|(hop, _)| next_hops[hop.index()].interface);
        single.into_iter().chain(members)
    }

    /// Returns whether a port or its LAG is a router interface.
    fn is_routed(&self, port: u16) -> bool {
        self.routed.get(usize::from(port)) == Some(&true)
    }

    /// Returns the routes whose prefixes contain the address of at least one host. `hosts` contains the sorted
    /// addresses of all hosts. The routes of links and of the addresses of switches are not included.
    fn routes_to_hosts(&self, hosts: &[IpAddr]) -> Vec<RouteToHosts<'_>> {
        let routes = self.fib.routes();
        let contains_host = |(route, _): &(&Route, FibEntry)| {
            let first = hosts.partition_point(|host| *host < route.prefix.network());
            hosts.get(first).is_some_and(|host| route.prefix.contains(host))
        };
        let to_hosts = routes.filter(contains_host);
        to_hosts
            .map(|(route, entry)| RouteToHosts { route, entry })
            .collect()
    }

    /// Returns whether two switches have the same interfaces and send packets after the same time. The result is
    /// `false` for switches with interfaces in VLANs.
    fn sends_like(&self, other: &SwitchForwarding) -> bool {
        let mut interfaces = self.interfaces.iter();
        let has_vlans = interfaces.any(|interface| matches!(interface, InterfaceAttachment::Vlan(_)));
        !has_vlans
            && (self.latency, self.spreads) == (other.latency, other.spreads)
            && self.interfaces == other.interfaces
            && self.lags == other.lags
    }
}

/// Returns whether any load balancing scheme of a switch may spread the packets of one queue pair over
/// several links.
fn spreads_packets(config: &SwitchConfig) -> bool {
    let balancing = &config.balancing;
    let ports = balancing.ports.iter().map(|port| port.scheme);
    let next_hops = balancing.next_hops.iter().map(|hop| hop.scheme);
    let groups = config.routing.fib.groups().iter().map(|group| group.tag.scheme);
    let used = ports
        .chain(next_hops)
        .chain(groups)
        .chain(balancing.lags.iter().copied());
    let schemes = used.chain([balancing.default_scheme]).flatten();
    let kinds = schemes.filter_map(|scheme| balancing.schemes.get(usize::from(scheme)));
    let mut spreading = kinds.filter(|scheme| match scheme.kind {
        SchemeKind::Hash | SchemeKind::Fixed { .. } | SchemeKind::Cluster { .. } => false,
        SchemeKind::Flowlet { .. }
        | SchemeKind::PerPacket { .. }
        | SchemeKind::RoundRobin
        | SchemeKind::Drill { .. }
        | SchemeKind::Custom(_) => true,
    });
    spreading.next().is_some()
}
