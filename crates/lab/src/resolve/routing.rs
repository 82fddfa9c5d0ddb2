//! `routes`: what the file says of them, and the routes that are made.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde_saphyr::{Location, Spanned};

use super::super::file::{Node, RouteOverride};
use super::super::plan::{HostPlan, LinkPlan, SwitchPlan};
use super::super::routes::{Graph, Override};
use super::kinds::known;
use super::{NodeIndex, Resolver, listed};

impl Resolver<'_> {
    /// Makes routes, addresses and neighbours for the whole lab.
    pub(super) fn routes(
        &mut self,
        overrides: &[Spanned<RouteOverride>],
        nodes: &[(Spanned<String>, Node)],
        switches: &mut [SwitchPlan],
        hosts: &mut [HostPlan],
        links: &[LinkPlan],
    ) {
        let Some(graph) = Graph::new(switches.len(), links) else {
            let what = "there are more links between switches than addresses for them in 172.16.0.0/12";
            self.wrong(
                Location::UNKNOWN,
                what,
                "write `routes: none` and routes of your own",
            );
            return;
        };
        let said = |host: &HostPlan| {
            let node = nodes.iter().find(|(name, _)| name.value == host.name);
            node.is_some_and(|(_, node)| node.ipv4.is_some()) || super::super::routes::told(host).is_some()
        };
        let fixed: Vec<bool> = hosts.iter().map(said).collect();
        self.island = Some(graph.islands(hosts.len()));
        let networks = match graph.address_hosts(hosts, &fixed) {
            Ok(networks) => networks,
            Err(overlap) => {
                let name = overlap.host.map(|host| hosts[host].name.as_str());
                let at = nodes.iter().find(|(node, _)| Some(node.value.as_str()) == name);
                let at = at.map_or(Location::UNKNOWN, |(name, _)| name.referenced);
                let fix = "leave `ipv4` and `gateway` out, or give each host a network of its own, such as 192.168.1.1/31";
                self.wrong(at, overlap.what, fix);
                return;
            }
        };
        let mut resolved = Vec::with_capacity(overrides.len());
        for route in overrides {
            resolved.extend(self.override_of(&route.value, &graph, hosts));
        }
        graph.configure(switches, hosts, &networks, &resolved);
    }

    fn override_of(&mut self, route: &RouteOverride, graph: &Graph, hosts: &[HostPlan]) -> Option<Override> {
        let switch = match self.nodes.get(&route.switch.value) {
            Some(&NodeIndex::Switch(switch)) => Some(switch),
            _ => {
                let what = format!("no switch is called \"{}\"", route.switch.value);
                let fix = format!("the switches are {}", listed(&self.switches));
                self.wrong(route.switch.referenced, what, fix);
                None
            }
        };
        let prefix = self.destination(&route.to, hosts);
        let (switch, prefix) = (switch?, prefix?);
        let mut next_hops: Vec<Ipv4Addr> = Vec::new();
        for via in &route.via.value.0 {
            let found = graph.next_hops(switch, &via.value, &self.switches, hosts);
            if found.is_empty() {
                let what = format!("{} has no way \"{}\"", route.switch.value, via.value);
                let fix = format!(
                    "its ports and neighbours are {}",
                    listed(&graph.ways(switch, &self.switches))
                );
                self.wrong(known(via.referenced, route.via.referenced), what, fix);
            }
            // A port and the switch behind it may both be named.
            next_hops.extend(found);
        }
        next_hops.sort_unstable();
        next_hops.dedup();
        Some(Override {
            switch,
            prefix,
            next_hops,
        })
    }

    fn destination(&mut self, to: &Spanned<String>, hosts: &[HostPlan]) -> Option<Ipv4Net> {
        if let Some(&NodeIndex::Host(host)) = self.nodes.get(&to.value) {
            return Some(Ipv4Net::from(hosts[host].ipv4));
        }
        let prefix = to
            .value
            .parse::<Ipv4Net>()
            .ok()
            .filter(|prefix| *prefix == prefix.trunc());
        if prefix.is_none() {
            let what = format!("\"{}\" is neither a host nor an IPv4 prefix", to.value);
            let fix = format!(
                "write a prefix such as 10.0.1.0/24, or a host: {}",
                listed(&self.hosts)
            );
            self.wrong(to.referenced, what, fix);
        }
        prefix
    }
}
