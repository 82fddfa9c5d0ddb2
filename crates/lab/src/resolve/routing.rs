//! Resolves `routes` of a lab file and computes the routes of all switches.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde_saphyr::{Location, Spanned};

use super::super::plan::{HostPlan, LinkPlan, SwitchPlan};
use super::super::routes::{RouteOverridePlan, SwitchGraph};
use super::node_kinds::entry_location;
use super::nodes::node_locations;
use super::{LabResolver, NodeIndex};
use xoff_lab_file::{NodeFields, RouteOverride};

impl LabResolver<'_> {
    /// Computes the addresses, neighbours and routes of all switches and adds them to the
    /// switch configurations.
    pub(super) fn resolve_routes(
        &mut self,
        overrides: &[Spanned<RouteOverride>],
        nodes: &[(Spanned<String>, NodeFields)],
        switches: &mut [SwitchPlan],
        hosts: &mut [HostPlan],
        links: &[LinkPlan],
    ) {
        let Some(graph) = SwitchGraph::new(switches.len(), links) else {
            let what = "172.16.0.0/12 has too few addresses for the links between switches";
            self.report_problem(
                Location::UNKNOWN,
                what,
                "write `routes: none` and routes of your own",
            );
            return;
        };
        let with_address: HashSet<&str> = nodes
            .iter()
            .filter(|(_, node)| node.ipv4.is_some())
            .map(|(name, _)| name.value.as_str())
            .collect();
        let has_address = |host: &HostPlan| {
            with_address.contains(host.name.as_str()) || super::super::routes::ipv4_gateway(host).is_some()
        };
        let fixed: Vec<bool> = hosts.iter().map(has_address).collect();
        self.component_of_host = Some(graph.connected_components(hosts.len()));
        let networks = match graph.assign_host_addresses(hosts, &fixed) {
            Ok(networks) => networks,
            Err(overlap) => {
                let name = overlap.host.map(|host| hosts[host].name.as_str());
                let location = name.and_then(|name| node_locations(nodes).get(name).copied());
                let location = location.unwrap_or(Location::UNKNOWN);
                let fix = "leave `ipv4` and `gateway` out, or give each host a network of its own, such as 192.168.1.1/31";
                self.report_problem(location, overlap.reason, fix);
                return;
            }
        };
        let mut resolved = Vec::with_capacity(overrides.len());
        for route in overrides {
            resolved.extend(self.resolve_override(&route.value, &graph, hosts));
        }
        graph.add_route_layers(switches, hosts, &networks, &resolved);
    }

    /// Resolves one entry of `routes`: the switch, the prefix and the next hops.
    fn resolve_override(
        &mut self,
        route: &RouteOverride,
        graph: &SwitchGraph,
        hosts: &[HostPlan],
    ) -> Option<RouteOverridePlan> {
        let switch = match self.nodes.get(&route.switch.value) {
            Some(&NodeIndex::Switch(switch)) => Some(switch),
            _ => {
                let what = format!("no switch is called \"{}\"", route.switch.value);
                let names = self.switches.iter().map(String::as_str);
                let fix = self.suggest(&route.switch.value, names, "switches");
                self.report_problem(route.switch.referenced, what, fix);
                None
            }
        };
        let prefix = self.parse_destination(&route.to, hosts);
        let (switch, prefix) = (switch?, prefix?);
        let mut next_hops: Vec<Ipv4Addr> = Vec::new();
        for via in &route.via.value.0 {
            let found = graph.next_hops(switch, &via.value, &self.switches, hosts);
            if found.is_empty() {
                let what = format!(
                    "{} has no port or neighbour \"{}\"",
                    route.switch.value, via.value
                );
                let names = graph.port_and_neighbour_names(switch, &self.switches);
                let names = names.iter().map(String::as_str);
                let fix = self.suggest(&via.value, names, "ports and neighbours");
                self.report_problem(entry_location(via.referenced, route.via.referenced), what, fix);
            }
            // The list may contain both a port and the switch behind it.
            next_hops.extend(found);
        }
        next_hops.sort_unstable();
        next_hops.dedup();
        Some(RouteOverridePlan {
            switch,
            prefix,
            next_hops,
        })
    }

    /// Returns the destination prefix of a route. The text is an IPv4 prefix or the name of a host. A host
    /// name means the address of the host.
    fn parse_destination(&mut self, to: &Spanned<String>, hosts: &[HostPlan]) -> Option<Ipv4Net> {
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
            let hosts = self.suggest(&to.value, self.hosts.iter().map(String::as_str), "hosts");
            let fix = format!("{hosts}; write a host or a prefix such as 10.0.1.0/24");
            self.report_problem(to.referenced, what, fix);
        }
        prefix
    }
}
