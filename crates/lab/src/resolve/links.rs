//! Resolves the links of a lab file and checks their endpoints.

use std::collections::HashSet;

use serde_saphyr::{Location, Spanned};

use super::super::plan::{FarEnd, HostPlan, LinkPlan, MTU_DEFAULT, TimeMode};
use super::super::units;
use super::nodes::node_locations;
use super::topology::MergedTopology;
use super::{LabResolver, NodeIndex};
use xoff_lab_file::{Endpoint, LinkFields};

/// Smallest MTU in bytes that IPv4 allows for a link (RFC 791).
const MTU_MIN: u32 = 68;
/// Largest MTU in bytes of a veth or tap device.
const MTU_MAX: u32 = 65_535;

/// An endpoint whose node exists.
enum ResolvedEndpoint {
    /// The index of a switch and the name of its port.
    Switch(usize, String),
    /// The index of a host.
    Host(usize),
    /// A network device of this machine.
    External(String),
}

impl LabResolver<'_> {
    /// Resolves all links. Reports endpoints that several links use, and links with the same name.
    pub(super) fn resolve_links(&mut self, links: &[Spanned<LinkFields>]) -> Vec<LinkPlan> {
        let mut used = HashSet::new();
        let mut names = HashSet::new();
        let mut plans = Vec::with_capacity(links.len());
        for link in links {
            for end in &link.value.endpoints.value {
                if !used.insert(end.value.to_string()) {
                    let what = format!("{} is used by more than one link", end.value);
                    self.report_problem(
                        end.referenced,
                        what,
                        "an interface has one link: use another interface",
                    );
                }
            }
            let Some(plan) = self.resolve_link(link) else {
                continue;
            };
            if !names.insert(plan.name.clone()) {
                let location = link
                    .value
                    .name
                    .as_ref()
                    .map_or(link.referenced, |name| name.referenced);
                self.report_problem(
                    location,
                    format!("there are two links called \"{}\"", plan.name),
                    "give each its own name",
                );
            }
            plans.push(plan);
        }
        plans
    }

    /// Resolves one link. `None` after an error.
    fn resolve_link(&mut self, link: &Spanned<LinkFields>) -> Option<LinkPlan> {
        let ends = &link.value.endpoints;
        let [a, b] = ends.value.as_slice() else {
            if self.left_out.has_list_elements && ends.value.len() < 2 {
                return None;
            }
            let what = format!("a link has two endpoints, this one has {}", ends.value.len());
            self.report_problem(
                ends.referenced,
                what,
                "write endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]",
            );
            return None;
        };
        let speed_mbps = link
            .value
            .speed
            .as_ref()
            .map(|text| self.parse_quantity(Some(text), 0, units::parse_speed_mbps, units::SPEED));
        let mtu = self.resolve_link_mtu(link.value.mtu.as_ref());
        let delay_ns = self.parse_quantity(
            link.value.delay.as_ref(),
            0,
            units::parse_duration_ns,
            units::DURATION,
        );
        let name = match &link.value.name {
            Some(name) => {
                self.check_name(name, "link");
                name.value.clone()
            }
            None => format!("{}--{}", a.value, b.value),
        };
        let (switch, port, far) = match (self.resolve_endpoint(a)?, self.resolve_endpoint(b)?) {
            (ResolvedEndpoint::Switch(switch, port), ResolvedEndpoint::Switch(other, far)) => {
                self.check_different_switches(ends, switch, other)?;
                (
                    switch,
                    port,
                    FarEnd::Switch {
                        switch: other,
                        port: far,
                    },
                )
            }
            (ResolvedEndpoint::Switch(switch, port), ResolvedEndpoint::Host(host))
            | (ResolvedEndpoint::Host(host), ResolvedEndpoint::Switch(switch, port)) => {
                (switch, port, FarEnd::Host(host))
            }
            (ResolvedEndpoint::Switch(switch, port), ResolvedEndpoint::External(device))
            | (ResolvedEndpoint::External(device), ResolvedEndpoint::Switch(switch, port)) => {
                (switch, port, FarEnd::External(device))
            }
            _ => {
                let what = format!("neither {} nor {} is a port of a switch", a.value, b.value);
                self.report_problem(
                    ends.referenced,
                    what,
                    "one end of a link is a switch, as in \"sw1:Ethernet0\"",
                );
                return None;
            }
        };
        Some(LinkPlan {
            name,
            switch,
            port,
            far,
            speed_mbps,
            delay_ns,
            mtu,
            host_mtu: mtu,
            device_mtu: None,
            source: self.file_and_line(link.referenced),
        })
    }

    /// Returns the MTU of a link in bytes.
    pub(super) fn resolve_link_mtu(&mut self, mtu: Option<&Spanned<u32>>) -> u32 {
        self.number_in_range(mtu, MTU_DEFAULT, MTU_MIN..=MTU_MAX, "bytes")
    }

    /// Reports a link between two ports of one switch.
    fn check_different_switches(
        &mut self,
        ends: &Spanned<Vec<Spanned<Endpoint>>>,
        a: usize,
        b: usize,
    ) -> Option<()> {
        let location = ends.referenced;
        if a == b {
            let what = format!("both ends of the link are ports of {}", self.switches[a]);
            self.report_problem(location, what, "connect different switches");
            return None;
        }
        Some(())
    }

    /// Resolves one endpoint of a link. `None` after an error.
    fn resolve_endpoint(&mut self, end: &Spanned<Endpoint>) -> Option<ResolvedEndpoint> {
        let (node, interface) = match &end.value {
            Endpoint::External { device } => {
                self.check_device_name(device, end.referenced);
                if self.time == TimeMode::Virtual {
                    let what = format!("{} is a device of this machine", end.value);
                    self.report_problem(
                        end.referenced,
                        what,
                        "in virtual time all hosts are model hosts: run the lab in real time",
                    );
                }
                return Some(ResolvedEndpoint::External(device.clone()));
            }
            Endpoint::Node { node, interface } => (node, interface),
        };
        match self.nodes.get(node) {
            Some(&NodeIndex::Switch(switch)) => {
                return Some(ResolvedEndpoint::Switch(switch, interface.clone()));
            }
            Some(&NodeIndex::Host(host)) => {
                self.check_device_name(interface, end.referenced);
                return Some(ResolvedEndpoint::Host(host));
            }
            None if self.left_out.keys.contains(node) => return None,
            None => {}
        }
        let names = self.switches.iter().chain(&self.hosts).map(String::as_str);
        let names = self.suggest(node, names, "nodes");
        let fix = format!("{names}; add {node} to them, or correct the name");
        self.report_problem(end.referenced, format!("no node is called \"{node}\""), fix);
        None
    }

    /// Sets the interface name of each host. Reports an error if a host has no link or more than one link.
    pub(super) fn assign_host_links(&mut self, topology: &MergedTopology, hosts: &mut [HostPlan]) {
        let mut linked = vec![false; hosts.len()];
        for end in topology.links.iter().flat_map(|link| &link.value.endpoints.value) {
            let Endpoint::Node { node, interface } = &end.value else {
                continue;
            };
            let Some(&NodeIndex::Host(host)) = self.nodes.get(node) else {
                continue;
            };
            if std::mem::replace(&mut linked[host], true) {
                let what = format!("host {node} has a second link");
                self.report_problem(end.referenced, what, "a host has one link: add another host");
            } else {
                hosts[host].interface.clone_from(interface);
            }
        }
        // The link of the host may be one that was left out because of an error.
        if self.left_out.has_list_elements {
            return;
        }
        let locations = node_locations(&topology.nodes);
        for (host, _) in hosts.iter().zip(linked).filter(|(_, linked)| !linked) {
            let location = locations.get(host.name.as_str()).copied();
            self.report_problem(
                location.unwrap_or(Location::UNKNOWN),
                format!("host {} has no link", host.name),
                format!(
                    "add `- endpoints: [\"{}:eth0\", \"SWITCH:PORT\"]` to the links",
                    host.name
                ),
            );
        }
    }
}
