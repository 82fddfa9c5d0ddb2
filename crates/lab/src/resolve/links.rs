//! The links of a lab file: their ends, and what lies between.

use std::collections::HashSet;

use serde_saphyr::{Location, Spanned};

use super::super::file::{Endpoint, Link};
use super::super::plan::{FarEnd, HostPlan, LinkPlan, MTU_DEFAULT, TimeMode};
use super::super::units;
use super::topology::Topology;
use super::{NodeIndex, Resolver, listed};

/// Smallest MTU that IPv4 allows a link (RFC 791), bytes.
const MTU_MIN: u32 = 68;
/// Largest MTU of a veth or tap, bytes.
const MTU_MAX: u32 = 65_535;

enum End {
    Switch(usize, String),
    Host(usize),
    External(String),
}

impl Resolver<'_> {
    pub(super) fn links(&mut self, links: &[Spanned<Link>]) -> Vec<LinkPlan> {
        let mut used = HashSet::new();
        let mut names = HashSet::new();
        let mut plans = Vec::with_capacity(links.len());
        for link in links {
            for end in &link.value.endpoints.value {
                if !used.insert(end.value.to_string()) {
                    let what = format!("{} is used by more than one link", end.value);
                    self.wrong(
                        end.referenced,
                        what,
                        "an interface carries one cable: use another one",
                    );
                }
            }
            let Some(plan) = self.link(link) else { continue };
            if !names.insert(plan.name.clone()) {
                let at = link
                    .value
                    .name
                    .as_ref()
                    .map_or(link.referenced, |name| name.referenced);
                self.wrong(
                    at,
                    format!("there are two links called \"{}\"", plan.name),
                    "give each its own name",
                );
            }
            plans.push(plan);
        }
        plans
    }

    fn link(&mut self, link: &Spanned<Link>) -> Option<LinkPlan> {
        let ends = &link.value.endpoints;
        let [a, b] = ends.value.as_slice() else {
            let what = format!("a link has two endpoints, this one has {}", ends.value.len());
            self.wrong(
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
            .map(|text| self.quantity(Some(text), 0, units::speed_mbps, units::SPEED));
        let mtu = self.number(link.value.mtu.as_ref(), MTU_DEFAULT, MTU_MIN..=MTU_MAX);
        let delay_ns = self.quantity(link.value.delay.as_ref(), 0, units::duration_ns, units::DURATION);
        let name = match &link.value.name {
            Some(name) => {
                self.name(name, "link");
                name.value.clone()
            }
            None => format!("{}--{}", a.value, b.value),
        };
        let (switch, port, far) = match (self.end(a)?, self.end(b)?) {
            (End::Switch(switch, port), End::Switch(other, far)) => {
                self.between_switches(ends, switch, other)?;
                (
                    switch,
                    port,
                    FarEnd::Switch {
                        switch: other,
                        port: far,
                    },
                )
            }
            (End::Switch(switch, port), End::Host(host)) | (End::Host(host), End::Switch(switch, port)) => {
                (switch, port, FarEnd::Host(host))
            }
            (End::Switch(switch, port), End::External(device))
            | (End::External(device), End::Switch(switch, port)) => (switch, port, FarEnd::External(device)),
            _ => {
                let what = format!("neither {} nor {} is a port of a switch", a.value, b.value);
                self.wrong(
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
            source: self.source(link.referenced),
        })
    }

    fn between_switches(&mut self, ends: &Spanned<Vec<Spanned<Endpoint>>>, a: usize, b: usize) -> Option<()> {
        let at = ends.referenced;
        if a == b {
            let what = format!("both ends of the link are ports of {}", self.switches[a]);
            self.wrong(at, what, "connect different switches");
            return None;
        }
        Some(())
    }

    fn end(&mut self, end: &Spanned<Endpoint>) -> Option<End> {
        let (node, interface) = match &end.value {
            Endpoint::External { device } => {
                self.device_name(device, end.referenced);
                if self.time == TimeMode::Virtual {
                    let what = format!("{} is a device of this machine", end.value);
                    self.wrong(
                        end.referenced,
                        what,
                        "in virtual time there are models only: leave out --virtual",
                    );
                }
                return Some(End::External(device.clone()));
            }
            Endpoint::Node { node, interface } => (node, interface),
        };
        match self.nodes.get(node) {
            Some(&NodeIndex::Switch(switch)) => return Some(End::Switch(switch, interface.clone())),
            Some(&NodeIndex::Host(host)) => {
                self.device_name(interface, end.referenced);
                return Some(End::Host(host));
            }
            None => {}
        }
        let fix = format!(
            "the nodes are {}; add {node} to them, or correct the name",
            listed(self.switches.iter().chain(&self.hosts))
        );
        self.wrong(end.referenced, format!("no node is called \"{node}\""), fix);
        None
    }

    /// Gives each host the name of its interface, and says which have no link or two.
    pub(super) fn one_link_each(&mut self, topology: &Topology, hosts: &mut [HostPlan]) {
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
                self.wrong(end.referenced, what, "a host has one link: add another host");
            } else {
                hosts[host].interface.clone_from(interface);
            }
        }
        for (host, _) in hosts.iter().zip(linked).filter(|(_, linked)| !linked) {
            let mut nodes = topology.nodes.iter();
            let at = nodes
                .find(|(name, _)| name.value == host.name)
                .map_or(Location::UNKNOWN, |(name, _)| name.referenced);
            self.wrong(
                at,
                format!("host {} has no link", host.name),
                format!(
                    "add `- endpoints: [\"{}:eth0\", \"SWITCH:PORT\"]` to the links",
                    host.name
                ),
            );
        }
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Node { node, interface } => write!(f, "{node}:{interface}"),
            Endpoint::External { device } => write!(f, "external:{device}"),
        }
    }
}
