//! Where the switches of a plan forward packets to: from routes where they route, towards the destination where they bridge.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use xoff_dataplane::config::{Attachment, Bridging, SchemeKind, SwitchConfig, Tagging, VlanMember};
use xoff_dataplane::route::{FibEntry, Fib};
use xoff_dataplane::{InterfaceId, LinkTiming, Picos};

use crate::plan::{End, FabricPlan};

/// How a packet is in a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Ingress {
    /// It arrived at a router interface.
    Routed,
    /// It is in this VLAN; `None` where no VLAN is configured.
    Bridged(Option<u16>),
}

/// A link out of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Egress {
    /// Index of the port; 0 of a host.
    pub(super) port: u16,
    /// Node at the other end, and its port.
    pub(super) to: usize,
    pub(super) to_port: u16,
    pub(super) timing: LinkTiming,
    pub(super) delay: Picos,
}

/// A switch, as far as it decides where packets go.
#[derive(Debug)]
struct Forwarder {
    fib: Arc<Fib>,
    interfaces: Vec<Attachment>,
    /// Members of each LAG.
    lags: Vec<Vec<u16>>,
    bridging: Bridging,
    /// By port: it is a router interface, or its LAG is.
    routed: Vec<bool>,
    latency: Picos,
    spreads: bool,
}

/// A host that packets go to.
#[derive(Clone, Debug)]
pub(super) struct Destination {
    pub(super) address: IpAddr,
    pub(super) node: usize,
    /// Links from every node to the switch that it is connected to; [`u32::MAX`] where there is no path.
    pub(super) distances: Arc<Vec<u32>>,
}

/// Switches and hosts with their links. Nodes are numbered: switches first, then hosts.
#[derive(Debug)]
pub(super) struct Forwarding {
    switches: Vec<Forwarder>,
    /// By node.
    links: Vec<Vec<Egress>>,
}

impl Forwarding {
    pub(super) fn new(plan: &FabricPlan) -> Forwarding {
        let switches: Vec<Forwarder> = plan.switches.iter().map(Forwarder::new).collect();
        let mut links = vec![Vec::new(); switches.len() + plan.hosts.len()];
        let place = |end: End| match end {
            End::Switch { switch, port } => (switch as usize, port),
            End::Host(host) => (plan.switches.len() + host as usize, 0),
        };
        let timing = |end: End| match end {
            End::Switch { switch, port } => {
                let ports = &plan.switches.get(switch as usize)?.ports;
                ports.get(usize::from(port)).map(|port| port.link)
            }
            End::Host(host) => plan.hosts.get(host as usize).map(|host| host.nic.link),
        };
        for link in &plan.links {
            for (from, to) in [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])] {
                let ((node, port), (to, to_port)) = (place(from), place(to));
                if let Some(timing) = timing(from) {
                    links[node].push(Egress {
                        port,
                        to,
                        to_port,
                        timing,
                        delay: link.delay,
                    });
                }
            }
        }
        Forwarding { switches, links }
    }

    pub(super) fn is_switch(&self, node: usize) -> bool {
        node < self.switches.len()
    }

    pub(super) fn host_node(&self, host: usize) -> usize {
        self.switches.len() + host
    }

    /// The link of a host.
    pub(super) fn host_link(&self, host: usize) -> Option<Egress> {
        self.links.get(self.host_node(host))?.first().copied()
    }

    pub(super) fn latency(&self, node: usize) -> Picos {
        self.switches
            .get(node)
            .map_or(Picos::ZERO, |switch| switch.latency)
    }

    /// Whether packets of one flow may leave a switch by several links.
    pub(super) fn spreads(&self, switch: usize) -> bool {
        self.switches[switch].spreads
    }

    pub(super) fn switch_count(&self) -> usize {
        self.switches.len()
    }

    pub(super) fn egress(&self, node: usize, link: usize) -> &Egress {
        &self.links[node][link]
    }

    /// Links from every node to `destination`; [`u32::MAX`] where there is no path. Hosts forward nothing.
    pub(super) fn distances(&self, destination: usize) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.links.len()];
        distances[destination] = 0;
        let mut queue = VecDeque::from([destination]);
        while let Some(node) = queue.pop_front() {
            if node != destination && !self.is_switch(node) {
                continue;
            }
            for link in &self.links[node] {
                if distances[link.to] == u32::MAX {
                    distances[link.to] = distances[node] + 1;
                    queue.push_back(link.to);
                }
            }
        }
        distances
    }

    /// How a packet is in a switch that it enters by a port, `tag` being the VLAN id in it.
    pub(super) fn ingress(&self, switch: usize, port: u16, tag: Option<u16>) -> Ingress {
        let forwarder = &self.switches[switch];
        if forwarder.routed.get(usize::from(port)) == Some(&true) {
            return Ingress::Routed;
        }
        let Bridging::Vlans(vlans) = &forwarder.bridging else {
            return Ingress::Bridged(tag);
        };
        let tag = tag.filter(|tag| *tag > 0);
        let own = vlans.iter().find(|vlan| {
            let mut members = vlan.members.iter();
            members.any(|member| {
                member.tagging != Tagging::Tagged && forwarder.ports_of(member.port).contains(&port)
            })
        });
        Ingress::Bridged(tag.or(own.map(|vlan| vlan.id)))
    }

    /// The links by which a switch may send a packet on, with the VLAN id of the tag that it has there.
    pub(super) fn next(
        &self,
        switch: usize,
        ingress: Ingress,
        destination: &Destination,
    ) -> Vec<(usize, Option<u16>)> {
        let forwarder = &self.switches[switch];
        let interfaces = match ingress {
            Ingress::Bridged(vlan) if !forwarder.has_interface(vlan) => Vec::new(),
            _ => forwarder.interfaces_to(destination.address),
        };
        let mut next = Vec::new();
        for interface in interfaces {
            match forwarder.interfaces.get(interface.index()) {
                Some(Attachment::Port(port)) => next.extend(self.links_of(switch, &[*port])),
                Some(Attachment::Lag(lag)) => {
                    next.extend(self.links_of(switch, forwarder.lag(usize::from(*lag))));
                }
                Some(Attachment::Vlan(vlan)) => next.extend(self.bridged(switch, Some(*vlan), destination)),
                Some(Attachment::Loopback) | None => {}
            }
        }
        if let (true, Ingress::Bridged(vlan)) = (next.is_empty(), ingress) {
            next = self.bridged(switch, vlan, destination);
        }
        next.sort_unstable();
        next.dedup();
        next
    }

    /// The links on shortest paths to the destination, whatever switches are configured to do.
    pub(super) fn shortest(&self, switch: usize, destination: &Destination) -> Vec<(usize, Option<u16>)> {
        let links = self.links[switch].iter().enumerate();
        let closer = links.filter(|(_, link)| self.is_closer(switch, link, destination));
        closer.map(|(at, _)| (at, None)).collect()
    }

    fn is_closer(&self, switch: usize, link: &Egress, destination: &Destination) -> bool {
        let distances = &destination.distances;
        link.to == destination.node || self.is_switch(link.to) && distances[link.to] < distances[switch]
    }

    fn links_of(&self, switch: usize, ports: &[u16]) -> Vec<(usize, Option<u16>)> {
        let links = self.links[switch].iter().enumerate();
        let own = links.filter(|(_, link)| ports.contains(&link.port));
        own.map(|(at, _)| (at, None)).collect()
    }

    /// The links towards the destination in a VLAN.
    fn bridged(
        &self,
        switch: usize,
        vlan: Option<u16>,
        destination: &Destination,
    ) -> Vec<(usize, Option<u16>)> {
        let closer = |link: &Egress| self.is_closer(switch, link, destination);
        let links = || self.links[switch].iter().enumerate();
        let vlans = match &self.switches[switch].bridging {
            Bridging::Transparent => {
                return links()
                    .filter(|(_, link)| closer(link))
                    .map(|(at, _)| (at, vlan))
                    .collect();
            }
            Bridging::Vlans(vlans) => vlans,
        };
        let members = vlans
            .iter()
            .filter(|of| Some(of.id) == vlan)
            .flat_map(|of| &of.members);
        let mut next = Vec::new();
        for VlanMember { port, tagging } in members {
            let ports = self.switches[switch].ports_of(*port);
            let tag = match tagging {
                Tagging::Tagged => vlan,
                Tagging::Untagged => None,
                Tagging::PriorityTagged => Some(0),
            };
            let own = links().filter(|(_, link)| ports.contains(&link.port) && closer(link));
            next.extend(own.map(|(at, _)| (at, tag)));
        }
        next
    }
}

impl Forwarder {
    fn new(config: &SwitchConfig) -> Forwarder {
        let interfaces = config.routing.interfaces.iter();
        let interfaces: Vec<Attachment> = interfaces.map(|interface| interface.attachment).collect();
        let lags: Vec<Vec<u16>> = config.lags.iter().map(|lag| lag.members.clone()).collect();
        let mut routed = vec![false; config.ports.len()];
        for attachment in &interfaces {
            let ports = match attachment {
                Attachment::Port(port) => vec![*port],
                Attachment::Lag(lag) => lags.get(usize::from(*lag)).cloned().unwrap_or_default(),
                Attachment::Vlan(_) | Attachment::Loopback => Vec::new(),
            };
            for port in ports {
                if let Some(routed) = routed.get_mut(usize::from(port)) {
                    *routed = true;
                }
            }
        }
        Forwarder {
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

    /// The ports of a member of a VLAN, which may be a LAG.
    fn ports_of(&self, member: u16) -> Vec<u16> {
        match usize::from(member).checked_sub(self.routed.len()) {
            None => vec![member],
            Some(lag) => self.lag(lag).to_vec(),
        }
    }

    fn has_interface(&self, vlan: Option<u16>) -> bool {
        let own = |of: &Attachment| matches!(of, Attachment::Vlan(id) if Some(*id) == vlan);
        self.interfaces.iter().any(own)
    }

    /// The router interfaces that lead to a destination.
    fn interfaces_to(&self, destination: IpAddr) -> Vec<InterfaceId> {
        let next_hops = self.fib.next_hops();
        match self.fib.lookup(destination) {
            Some(FibEntry::Connected(interface)) => vec![interface],
            Some(FibEntry::NextHop(hop)) => vec![next_hops[hop.index()].interface],
            Some(FibEntry::Group(group)) => {
                let members = self.fib.groups()[group.index()].members.iter();
                members.map(|(hop, _)| next_hops[hop.index()].interface).collect()
            }
            Some(FibEntry::Local | FibEntry::Blackhole) | None => Vec::new(),
        }
    }
}

/// Whether any group of links of a switch may divide the packets of one queue pair.
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
        | SchemeKind::Own(_) => true,
    });
    spreading.next().is_some()
}
