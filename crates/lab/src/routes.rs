//! Routes that need no protocol: shortest paths over the lab's own topology, written as SONiC's tables.
//!
//! Every switch becomes a router. Each link between switches is a /31 of 172.16.0.0/12, in the order of the links, the
//! lower address at its first end. Each switch with hosts has a block of 10.0.0.0/8, and of that each of its hosts a
//! /31, so other switches need one route for all of them. A switch far from a destination has a route via every
//! neighbour that is one hop nearer: equal-cost paths. Neighbours are told in `NEIGH`, and hosts their gateway's
//! hardware address, so that nothing has to be asked for.
//!
//! What comes out is a layer of configuration under the switch's own ones, which may change any of it.

mod addresses;
mod tables;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::plan::{FarEnd, HostPlan, LinkPlan, SwitchPlan};

pub(super) use addresses::{Overlap, told};
pub(super) use tables::MADE;

/// Hops of a switch that a destination cannot be reached from.
const UNREACHABLE: u32 = u32::MAX;

/// A link to another switch, as seen from one of its ends.
#[derive(Clone, Debug)]
struct Edge {
    /// Name of the own port.
    port: String,
    /// The other switch.
    to: usize,
    /// The own address on the link, and the other end's.
    own: Ipv4Addr,
    peer: Ipv4Addr,
}

/// A host, as seen from its switch.
#[derive(Clone, Debug)]
struct Access {
    /// Name of the port.
    port: String,
    host: usize,
}

/// A switch and all that is connected to it.
#[derive(Clone, Debug, Default)]
struct Router {
    edges: Vec<Edge>,
    hosts: Vec<Access>,
    /// Largest packet of each port with a link, bytes.
    mtus: Vec<(String, u32)>,
}

/// Who is connected to whom.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    routers: Vec<Router>,
}

/// A route that replaces what shortest paths would give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Override {
    /// The switch that has it.
    pub(super) switch: usize,
    /// Its destinations.
    pub(super) prefix: Ipv4Net,
    /// Its next hops; none: what goes there is dropped.
    pub(super) next_hops: Vec<Ipv4Addr>,
}

impl Graph {
    /// The graph of so many switches; `None` if there are more links between switches than addresses for them.
    pub(super) fn new(switches: usize, links: &[LinkPlan]) -> Option<Graph> {
        let mut routers = vec![Router::default(); switches];
        let mut between = 0;
        for link in links {
            let (a, port) = (link.switch, &link.port);
            routers[a].mtus.push((port.clone(), link.mtu));
            match &link.far {
                FarEnd::Host(host) => routers[a].hosts.push(Access {
                    port: port.clone(),
                    host: *host,
                }),
                FarEnd::Switch { switch: b, port: far } => {
                    let (own, peer) = addresses::of_link(between)?;
                    between += 1;
                    routers[*b].mtus.push((far.clone(), link.mtu));
                    routers[a].edges.push(Edge {
                        port: port.clone(),
                        to: *b,
                        own,
                        peer,
                    });
                    routers[*b].edges.push(Edge {
                        port: far.clone(),
                        to: a,
                        own: peer,
                        peer: own,
                    });
                }
                FarEnd::External(_) => {}
            }
        }
        Some(Graph { routers })
    }

    /// Hops from every switch to one of them.
    fn hops_to(&self, destination: usize) -> Vec<u32> {
        let mut hops = vec![UNREACHABLE; self.routers.len()];
        let mut reached = Vec::with_capacity(self.routers.len());
        hops[destination] = 0;
        reached.push(destination);
        let mut next = 0;
        while let Some(&from) = reached.get(next) {
            next += 1;
            for edge in &self.routers[from].edges {
                if hops[edge.to] == UNREACHABLE {
                    hops[edge.to] = hops[from] + 1;
                    reached.push(edge.to);
                }
            }
        }
        hops
    }

    /// The addresses of those neighbours of a switch that are one hop nearer to where `hops` leads.
    fn nearer(&self, switch: usize, hops: &[u32]) -> Vec<Ipv4Addr> {
        let here = hops[switch];
        let edges = self.routers[switch].edges.iter();
        let nearer = edges.filter(|edge| here != UNREACHABLE && hops[edge.to] < here);
        nearer.map(|edge| edge.peer).collect()
    }

    /// The part of the topology that each host is in: the lowest switch from which it can be reached.
    pub(super) fn islands(&self, hosts: usize) -> Vec<usize> {
        let mut of_switch = vec![usize::MAX; self.routers.len()];
        let mut of_host = vec![usize::MAX; hosts];
        for (switch, router) in self.routers.iter().enumerate() {
            if of_switch[switch] == usize::MAX {
                let hops = self.hops_to(switch);
                let same = of_switch
                    .iter_mut()
                    .zip(hops)
                    .filter(|(_, hops)| *hops != UNREACHABLE);
                same.for_each(|(island, _)| *island = switch);
            }
            router
                .hosts
                .iter()
                .for_each(|access| of_host[access.host] = of_switch[switch]);
        }
        of_host
    }

    /// Where the port or the links to the switch of this name lead: addresses of next hops, none if there is no such.
    pub(super) fn next_hops(
        &self,
        switch: usize,
        via: &str,
        names: &[String],
        hosts: &[HostPlan],
    ) -> Vec<Ipv4Addr> {
        let router = &self.routers[switch];
        let to_switch = router
            .edges
            .iter()
            .filter(|edge| edge.port == via || names[edge.to] == via);
        let to_host = router
            .hosts
            .iter()
            .filter(|access| access.port == via || hosts[access.host].name == via);
        let switches = to_switch.map(|edge| edge.peer);
        switches
            .chain(to_host.map(|access| hosts[access.host].ipv4))
            .collect()
    }

    /// What may stand in a route's `via`: ports and neighbours of a switch.
    pub(super) fn ways(&self, switch: usize, names: &[String]) -> Vec<String> {
        let router = &self.routers[switch];
        let mut ways: Vec<String> = router.edges.iter().map(|edge| edge.port.clone()).collect();
        ways.extend(router.hosts.iter().map(|access| access.port.clone()));
        for edge in &router.edges {
            if !ways.contains(&names[edge.to]) {
                ways.push(names[edge.to].clone());
            }
        }
        ways
    }

    /// Gives hosts their addresses, except for those whose file says one (`fixed`).
    ///
    /// # Errors
    /// Two networks that overlap, or too many hosts for 10.0.0.0/8.
    pub(super) fn address_hosts(
        &self,
        hosts: &mut [HostPlan],
        fixed: &[bool],
    ) -> Result<Vec<Networks>, Overlap> {
        addresses::give(&self.routers, hosts, fixed)
    }

    /// Puts the layer with all routes under the configuration of each switch, and tells hosts their gateways' hardware
    /// addresses.
    pub(super) fn configure(
        &self,
        switches: &mut [SwitchPlan],
        hosts: &mut [HostPlan],
        networks: &[Networks],
        overrides: &[Override],
    ) {
        tables::write(self, switches, hosts, networks, overrides);
    }
}

/// The networks of a switch's hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Networks {
    /// What other switches have routes to.
    advertised: Vec<Ipv4Net>,
    /// The gateway of each host of the switch, with the length of its prefix, in the order of its links.
    gateways: Vec<(Ipv4Addr, u8)>,
}
