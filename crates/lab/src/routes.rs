//! Computes the routes of a lab from its topology and writes them as SONiC tables. The switches therefore
//! need no routing protocol.
//!
//! Every switch becomes a router. Each link between switches gets a /31 network of 172.16.0.0/12, in the
//! order of the links. The first end of a link gets the lower address. Each switch with hosts gets a block of
//! 10.0.0.0/8. Each host gets a /31 network of the block of its switch. Other switches therefore need only
//! one route for all hosts of a switch.
//!
//! The next hops of a route are all neighbours that are one hop nearer to the destination. Several next hops
//! form an ECMP group. The table `NEIGH` contains static neighbour entries, and hosts know the MAC address of
//! their gateway. ARP is therefore not needed.
//!
//! The computed tables are the lowest configuration layer of a switch. The configuration of the switch can
//! override every field of this layer.

mod addresses;
mod computation;
mod tables;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::plan::{FarEnd, HostPlan, LinkPlan, SwitchPlan};

pub(super) use addresses::{AddressConflict, ipv4_gateway};

/// Hop count of a switch without a path to the destination.
const UNREACHABLE: u32 = u32::MAX;

/// A link to another switch, seen from one end.
#[derive(Clone, Debug)]
struct SwitchLink {
    /// Name of the port at this end.
    port: String,
    /// Index of the switch at the other end.
    peer_switch: usize,
    /// Address of this end.
    own_address: Ipv4Addr,
    /// Address of the other end.
    peer_address: Ipv4Addr,
}

/// A switch port with a host.
#[derive(Clone, Debug)]
struct HostPort {
    /// Name of the port.
    port: String,
    /// Index of the host.
    host: usize,
}

/// A switch with its links.
#[derive(Clone, Debug, Default)]
struct RouterNode {
    switch_links: Vec<SwitchLink>,
    host_ports: Vec<HostPort>,
    /// MTU of each port with a link, in bytes.
    mtus: Vec<(String, u32)>,
}

/// The switches of a lab and the links between them.
#[derive(Clone, Debug)]
pub(super) struct SwitchGraph {
    routers: Vec<RouterNode>,
}

/// A route that replaces the computed route to a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RouteOverridePlan {
    /// Index of the switch that has the route.
    pub(super) switch: usize,
    /// The destination prefix.
    pub(super) prefix: Ipv4Net,
    /// The next hops. If the list is empty, the switch drops packets to the prefix.
    pub(super) next_hops: Vec<Ipv4Addr>,
}

impl SwitchGraph {
    /// Builds the graph of a lab. Returns `None` if 172.16.0.0/12 is too small for the links
    /// between switches.
    pub(super) fn new(switch_count: usize, links: &[LinkPlan]) -> Option<SwitchGraph> {
        let mut routers = vec![RouterNode::default(); switch_count];
        let mut switch_links = 0;
        for link in links {
            let (a, port) = (link.switch, &link.port);
            routers[a].mtus.push((port.clone(), link.mtu));
            match &link.far {
                FarEnd::Host(host) => routers[a].host_ports.push(HostPort {
                    port: port.clone(),
                    host: *host,
                }),
                FarEnd::Switch { switch: b, port: far } => {
                    let (own, peer) = addresses::switch_link_addresses(switch_links)?;
                    switch_links += 1;
                    routers[*b].mtus.push((far.clone(), link.mtu));
                    routers[a].switch_links.push(SwitchLink {
                        port: port.clone(),
                        peer_switch: *b,
                        own_address: own,
                        peer_address: peer,
                    });
                    routers[*b].switch_links.push(SwitchLink {
                        port: far.clone(),
                        peer_switch: a,
                        own_address: peer,
                        peer_address: own,
                    });
                }
                FarEnd::External(_) => {}
            }
        }
        Some(SwitchGraph { routers })
    }

    /// Returns the number of hops from every switch to the switch `destination`, or [`UNREACHABLE`].
    fn hops_to(&self, destination: usize) -> Vec<u32> {
        let mut hops = vec![UNREACHABLE; self.routers.len()];
        let mut reached = Vec::with_capacity(self.routers.len());
        hops[destination] = 0;
        reached.push(destination);
        let mut next = 0;
        while let Some(&from) = reached.get(next) {
            next += 1;
            for link in &self.routers[from].switch_links {
                if hops[link.peer_switch] == UNREACHABLE {
                    hops[link.peer_switch] = hops[from] + 1;
                    reached.push(link.peer_switch);
                }
            }
        }
        hops
    }

    /// Replaces `next_hops` by the next hops of a switch towards a destination: the addresses of all neighbours
    /// that are nearer. `hops` contains the hop count from each switch to the destination.
    fn next_hops_towards(&self, switch: usize, hops: &[u32], next_hops: &mut Vec<Ipv4Addr>) {
        next_hops.clear();
        let own_hops = hops[switch];
        if own_hops == UNREACHABLE || own_hops == 0 {
            return;
        }
        let switch_links = self.routers[switch].switch_links.iter();
        let nearer = switch_links.filter(|link| hops[link.peer_switch] < own_hops);
        next_hops.extend(nearer.map(|link| link.peer_address));
    }

    /// Returns the connected component of each host, as the lowest index of a switch in this component.
    ///
    /// Two hosts have a path between them if they are in the same component.
    pub(super) fn connected_components(&self, host_count: usize) -> Vec<usize> {
        let mut of_switch = vec![usize::MAX; self.routers.len()];
        let mut of_host = vec![usize::MAX; host_count];
        for (switch, router) in self.routers.iter().enumerate() {
            if of_switch[switch] == usize::MAX {
                let hops = self.hops_to(switch);
                let reachable = of_switch
                    .iter_mut()
                    .zip(hops)
                    .filter(|(_, hops)| *hops != UNREACHABLE);
                reachable.for_each(|(component, _)| *component = switch);
            }
            router
                .host_ports
                .iter()
                .for_each(|host_port| of_host[host_port.host] = of_switch[switch]);
        }
        of_host
    }

    /// Returns the addresses of the next hops with the name `via`: a port, a neighbouring switch or a host.
    ///
    /// `names` contains the names of all switches. If the switch has no such port or neighbour, the result
    /// is empty.
    pub(super) fn next_hops(
        &self,
        switch: usize,
        via: &str,
        names: &[String],
        hosts: &[HostPlan],
    ) -> Vec<Ipv4Addr> {
        let router = &self.routers[switch];
        let to_switch = router
            .switch_links
            .iter()
            .filter(|link| link.port == via || names[link.peer_switch] == via);
        let to_host = router
            .host_ports
            .iter()
            .filter(|host_port| host_port.port == via || hosts[host_port.host].name == via);
        let switches = to_switch.map(|link| link.peer_address);
        switches
            .chain(to_host.map(|host_port| hosts[host_port.host].ipv4))
            .collect()
    }

    /// Returns the valid values of `via` in a route of a switch: the names of its ports and
    /// neighbouring switches.
    pub(super) fn port_and_neighbour_names(&self, switch: usize, names: &[String]) -> Vec<String> {
        let router = &self.routers[switch];
        let mut names_found: Vec<String> = router.switch_links.iter().map(|link| link.port.clone()).collect();
        names_found.extend(router.host_ports.iter().map(|host_port| host_port.port.clone()));
        for link in &router.switch_links {
            if !names_found.contains(&names[link.peer_switch]) {
                names_found.push(names[link.peer_switch].clone());
            }
        }
        names_found
    }

    /// Assigns addresses to all hosts and returns the host networks of each switch.
    ///
    /// If `fixed` is true for a host, the host keeps its address from the lab file.
    ///
    /// # Errors
    /// Fails if two networks overlap or if 10.0.0.0/8 is too small for the hosts.
    pub(super) fn assign_host_addresses(
        &self,
        hosts: &mut [HostPlan],
        fixed: &[bool],
    ) -> Result<Vec<HostNetworks>, AddressConflict> {
        addresses::assign_host_addresses(&self.routers, hosts, fixed)
    }

    /// Adds the layer with the computed routes to each switch and sets the gateway MAC address of each host.
    pub(super) fn add_route_layers(
        &self,
        switches: &mut [SwitchPlan],
        hosts: &mut [HostPlan],
        networks: &[HostNetworks],
        overrides: &[RouteOverridePlan],
    ) {
        tables::add_layers(self, switches, hosts, networks, overrides);
    }
}

/// The networks of the hosts at one switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostNetworks {
    /// The networks to which other switches have routes.
    advertised: Vec<Ipv4Net>,
    /// The gateway and the prefix length of each host of a switch, in the order of the host ports.
    gateways: Vec<(Ipv4Addr, u8)>,
}
