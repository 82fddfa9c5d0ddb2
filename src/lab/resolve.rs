//! From a lab file to a plan: names resolved, defaults filled in, everything wrong told at once.

mod kinds;
mod nodes;
mod workload;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_saphyr::{Location, Spanned};

use super::file::{Endpoint, LabFile, Link};
use super::plan::{FarEnd, LabPlan, LinkPlan, MTU_DEFAULT};
use super::problem::Problems;
use super::units;

/// Longest name of a lab or node: it becomes part of a socket's name, of which there are 107 bytes.
const NAME_MAX: usize = 48;
/// Smallest MTU that IPv4 allows a link (RFC 791), bytes.
const MTU_MIN: u32 = 68;
/// Largest MTU of a veth or tap, bytes.
const MTU_MAX: u32 = 65_535;

/// Reads a lab file, and the configurations that it names, and checks all of it.
///
/// # Errors
/// Everything that is wrong with it, each with file, line, what is allowed and what to do.
pub fn load(path: &Path) -> Result<LabPlan, Problems> {
    let file = path.display().to_string();
    match fs::read_to_string(path) {
        Ok(text) => parse(&text, &file, path.parent().unwrap_or(Path::new(""))),
        Err(error) => {
            let mut problems = Problems::default();
            let fix = "give the path of a lab file, such as testbeds/incast.xoff.yml";
            problems.push(
                &file,
                Location::UNKNOWN,
                format!("cannot read the lab file: {error}"),
                fix,
            );
            Err(problems)
        }
    }
}

/// Checks the text of a lab file. `file` is its name for messages; paths in it are relative to `folder`.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, file: &str, folder: &Path) -> Result<LabPlan, Problems> {
    let mut resolver = Resolver {
        file,
        folder,
        problems: Problems::default(),
        hosts: Vec::new(),
        models: Vec::new(),
        switches: Vec::new(),
    };
    let lab: LabFile = match serde_saphyr::from_str(text) {
        Ok(lab) => lab,
        Err(error) => {
            let at = error.location().unwrap_or(Location::UNKNOWN);
            let what = plain(&error.without_snippet().to_string());
            resolver.problems.push(file, at, what, "");
            return Err(resolver.problems);
        }
    };
    let plan = resolver.lab(&lab);
    if resolver.problems.0.is_empty() {
        Ok(plan)
    } else {
        Err(resolver.problems)
    }
}

/// The parser's message without its own place, which is ours to print.
fn plain(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    match line.rfind(" at line ").or(line.rfind(" (line ")) {
        Some(at) => line[..at].to_owned(),
        None => line.to_owned(),
    }
}

struct Resolver<'a> {
    file: &'a str,
    folder: &'a Path,
    problems: Problems,
    /// Names of nodes, by their index in the plan.
    hosts: Vec<String>,
    switches: Vec<String>,
    /// Names of those hosts that send and receive flows.
    models: Vec<String>,
}

impl Resolver<'_> {
    fn wrong(&mut self, at: Location, what: impl Into<String>, fix: impl Into<String>) {
        self.problems.push(self.file, at, what, fix);
    }

    /// A quantity in a field, or its default.
    fn quantity<T>(
        &mut self,
        text: Option<&Spanned<String>>,
        default: T,
        read: fn(&str) -> Option<T>,
        allowed: &str,
    ) -> T {
        let Some(text) = text else { return default };
        match read(&text.value) {
            Some(value) => value,
            None => {
                self.wrong(
                    text.referenced,
                    format!("\"{}\" is not allowed here", text.value),
                    format!("write {allowed}"),
                );
                default
            }
        }
    }

    /// A number in a field, or its default.
    fn number<T: Copy + PartialOrd + std::fmt::Display>(
        &mut self,
        value: Option<&Spanned<T>>,
        default: T,
        range: std::ops::RangeInclusive<T>,
    ) -> T {
        let Some(value) = value else { return default };
        if !range.contains(&value.value) {
            let fix = format!("write a number from {} to {}", range.start(), range.end());
            self.wrong(value.referenced, format!("{} is out of range", value.value), fix);
            return default;
        }
        value.value
    }

    fn name(&mut self, name: &Spanned<String>, of: &str) {
        let text = &name.value;
        let well_formed = text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.len() <= NAME_MAX
            && text
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_');
        if !well_formed {
            let fix =
                format!("use 1 to {NAME_MAX} letters, digits, '-' and '_', the first a letter or digit");
            self.wrong(
                name.referenced,
                format!("\"{text}\" cannot be the name of a {of}"),
                fix,
            );
        }
    }

    fn source(&self, at: Location) -> String {
        format!("{}:{}", self.file, at.line())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    fn lab(&mut self, lab: &LabFile) -> LabPlan {
        self.name(&lab.name, "lab");
        let (switches, mut hosts) = self.nodes(&lab.topology.nodes);
        let links = self.links(&lab.topology.links);
        for (index, name) in self.hosts.clone().into_iter().enumerate() {
            let mut ends = lab
                .topology
                .links
                .iter()
                .flat_map(|link| &link.value.endpoints.value)
                .filter_map(|end| match &end.value {
                    Endpoint::Node { node, interface } if *node == name => Some((end.referenced, interface)),
                    _ => None,
                });
            let (first, second) = (ends.next(), ends.next());
            match first {
                Some((_, interface)) => hosts[index].interface.clone_from(interface),
                None => self.wrong(
                    lab.topology
                        .nodes
                        .0
                        .iter()
                        .find(|(n, _)| n.value == name)
                        .map_or(Location::UNKNOWN, |(n, _)| n.referenced),
                    format!("host {name} has no link"),
                    format!("add `- endpoints: [\"{name}:eth0\", \"SWITCH:PORT\"]` to the links"),
                ),
            }
            if let Some((at, _)) = second {
                self.wrong(
                    at,
                    format!("host {name} has a second link"),
                    "a host has one link: add another host",
                );
            }
        }
        let workload = self.workload(lab.workload.as_ref(), &links);
        LabPlan {
            name: lab.name.value.clone(),
            switches,
            hosts,
            links,
            workload,
        }
    }

    fn links(&mut self, links: &[Spanned<Link>]) -> Vec<LinkPlan> {
        let mut used = HashSet::new();
        let mut plans = Vec::new();
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
            plans.extend(self.link(link));
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
        let (near, far) = match (self.end(a)?, self.end(b)?) {
            (End::Switch(switch, port), End::Far(far)) | (End::Far(far), End::Switch(switch, port)) => {
                ((switch, port), far)
            }
            (End::Switch(..), End::Switch(..)) => {
                let fix = "connect a switch to hosts and external devices; switches among themselves come in a later version";
                self.wrong(
                    ends.referenced,
                    format!("{} and {} are both switch ports", a.value, b.value),
                    fix,
                );
                return None;
            }
            (End::Far(_), End::Far(_)) => {
                let what = format!("neither {} nor {} is a port of a switch", a.value, b.value);
                self.wrong(
                    ends.referenced,
                    what,
                    "one end of a link is a switch, as in \"sw1:Ethernet0\"",
                );
                return None;
            }
        };
        let source = self.source(link.referenced);
        Some(LinkPlan {
            switch: near.0,
            port: near.1,
            far,
            speed_mbps,
            mtu,
            source,
        })
    }

    fn end(&mut self, end: &Spanned<Endpoint>) -> Option<End> {
        let (node, interface) = match &end.value {
            Endpoint::External { device } => {
                self.device_name(device, end.referenced);
                return Some(End::Far(FarEnd::External(device.clone())));
            }
            Endpoint::Node { node, interface } => (node, interface),
        };
        if let Some(switch) = self.switches.iter().position(|name| name == node) {
            return Some(End::Switch(switch, interface.clone()));
        }
        if let Some(host) = self.hosts.iter().position(|name| name == node) {
            self.device_name(interface, end.referenced);
            return Some(End::Far(FarEnd::Host(host)));
        }
        let known: Vec<&str> = self
            .switches
            .iter()
            .chain(&self.hosts)
            .map(String::as_str)
            .collect();
        let fix = format!(
            "the nodes are {}; add {node} to them, or correct the name",
            known.join(", ")
        );
        self.wrong(end.referenced, format!("no node is called \"{node}\""), fix);
        None
    }

    /// The rule of `net`, told with the place in the file.
    fn device_name(&mut self, name: &str, at: Location) {
        if let Err(error) = crate::net::check_name(name) {
            self.wrong(at, error.to_string(), "");
        }
    }
}

enum End {
    Switch(usize, String),
    Far(FarEnd),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Node { node, interface } => write!(f, "{node}:{interface}"),
            Endpoint::External { device } => write!(f, "external:{device}"),
        }
    }
}

#[cfg(test)]
mod tests;
