//! A mapping under construction.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use xoff_dataplane::PortId;

use super::{Behind, ConfiguredPorts, Mapping, MappingOptions};
use crate::replay::survey::{Mac, Survey};
use xoff_config::{PORTS_MAX, natural_order};
use xoff_telemetry::failure::Failure;

pub(super) struct Draft<'a> {
    survey: &'a Survey,
    configured: &'a ConfiguredPorts,
    ports: BTreeSet<String>,
    /// Ports that something is behind.
    taken: BTreeSet<String>,
    stations: BTreeMap<Mac, String>,
    interfaces: BTreeMap<usize, String>,
    interfaces_are_named: bool,
}

impl<'a> Draft<'a> {
    pub(super) fn new(survey: &'a Survey, configured: &'a ConfiguredPorts) -> Draft<'a> {
        Draft {
            survey,
            configured,
            ports: configured.names.iter().cloned().collect(),
            taken: BTreeSet::new(),
            stations: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            interfaces_are_named: false,
        }
    }

    /// The configuration has no port: there are as many as needed.
    fn grows(&self) -> bool {
        self.configured.names.is_empty()
    }

    /// Places what the command line says.
    pub(super) fn apply_options(&mut self, options: &MappingOptions) -> Result<(), Failure> {
        for (port, behind) in &options.ports {
            self.take(port);
            let before = match behind {
                Behind::Station(mac) => self.stations.insert(*mac, port.clone()),
                Behind::Interface(name) => self.interfaces.insert(self.interface(port, name)?, port.clone()),
            };
            if let Some(other) = before.filter(|other| other != port) {
                return Err(Failure::usage("the same is said to be behind two ports")
                    .at(format!("--port {other} and --port {port}"))
                    .fix("say it of one port"));
            }
        }
        Ok(())
    }

    /// An interface of the capture by its name or number.
    fn interface(&self, port: &str, name: &str) -> Result<usize, Failure> {
        let interfaces = &self.survey.interfaces;
        let by_name = interfaces.iter().position(|is| is.name.as_deref() == Some(name));
        let by_number = || name.parse().ok().filter(|number| *number < interfaces.len());
        by_name.or_else(by_number).ok_or_else(|| {
            let names = interfaces.iter().enumerate();
            let names: Vec<String> = names
                .map(|(number, is)| match &is.name {
                    Some(name) => format!("{number} ({name})"),
                    None => number.to_string(),
                })
                .collect();
            Failure::usage(format!("the capture has no interface {name:?}"))
                .at(format!("--port {port}={name}"))
                .because(format!("its interfaces are {}", names.join(", ")))
                .fix("give the name or the number of one, or a hardware address such as 02:00:00:00:00:01")
        })
    }

    /// Marks a port as used.
    pub(super) fn take(&mut self, port: &str) {
        self.ports.insert(port.to_owned());
        self.taken.insert(port.to_owned());
    }

    /// Takes a port that is up and that nothing is behind yet.
    fn take_free_port(&mut self) -> Option<String> {
        let free = self.ports.difference(&self.taken);
        let mut free: Vec<&String> = free
            .filter(|port| !self.configured.down.contains(*port))
            .collect();
        free.sort_by(|a, b| natural_order(a, b));
        let port = match free.first() {
            Some(port) => (*port).clone(),
            None if self.grows() && self.ports.len() < PORTS_MAX => {
                // One name more than there are ports, so one is free.
                let mut names = (0..=self.ports.len()).map(|n| format!("Ethernet{}", 4 * n));
                names.find(|name| !self.ports.contains(name))?
            }
            None => return None,
        };
        self.take(&port);
        Some(port)
    }

    /// Adds ports until there are `count`, unless the configuration has the ports.
    pub(super) fn grow_to(&mut self, count: usize) {
        while self.grows() && self.ports.len() < count {
            self.take_free_port();
        }
    }

    /// Gives each sender a port of its own. With more senders than a switch can have ports, the rest share ports with stations that
    /// they do not talk to.
    pub(super) fn place_senders(&mut self) -> Result<(), Failure> {
        let router = self.configured.router;
        let senders = self.survey.senders.iter().copied();
        let senders = senders.filter(|mac| Some(*mac) != router && !self.stations.contains_key(mac));
        let mut waiting = senders.collect::<Vec<Mac>>().into_iter();
        while let Some(mac) = waiting.next() {
            match self.take_free_port() {
                Some(port) => {
                    self.stations.insert(mac, port);
                }
                None if self.grows() => {
                    self.share_ports(std::iter::once(mac).chain(waiting));
                    return Ok(());
                }
                None => return Err(self.too_few("stations", self.survey.senders.len())),
            }
        }
        Ok(())
    }

    /// Puts each station behind the port with the fewest frames to and from it, the least used one among equals.
    fn share_ports(&mut self, stations: impl Iterator<Item = Mac>) {
        let mut peers: HashMap<Mac, Vec<(Mac, u64)>> = HashMap::new();
        for (&(a, b), &frames) in &self.survey.conversations {
            peers.entry(a).or_default().push((b, frames));
            peers.entry(b).or_default().push((a, frames));
        }
        let mut ports: Vec<String> = self.taken.iter().cloned().collect();
        ports.sort_by(|a, b| natural_order(a, b));
        let mut stations_of: HashMap<String, usize> = HashMap::new();
        self.stations
            .values()
            .for_each(|port| *stations_of.entry(port.clone()).or_default() += 1);
        for station in stations {
            let mut frames_of: HashMap<&str, u64> = HashMap::new();
            for (peer, frames) in peers.get(&station).into_iter().flatten() {
                if let Some(port) = self.stations.get(peer) {
                    *frames_of.entry(port).or_default() += frames;
                }
            }
            let cost = |port: &&String| {
                let frames = frames_of.get(port.as_str()).copied().unwrap_or(0);
                (frames, stations_of.get(*port).copied().unwrap_or(0))
            };
            let Some(port) = ports.iter().min_by_key(cost).cloned() else {
                return;
            };
            *stations_of.entry(port.clone()).or_default() += 1;
            self.stations.insert(station, port);
        }
    }

    /// Gives each station that never sends a port of its own, as far as there are free ones.
    pub(super) fn place_silent_stations(&mut self) {
        for &mac in &self.survey.silent {
            if Some(mac) == self.configured.router || self.stations.contains_key(&mac) {
                continue;
            }
            let Some(port) = self.take_free_port() else { return };
            self.stations.insert(mac, port);
        }
    }

    /// Gives each interface with frames a port: the one of its name, as in captures of xoff, else a free one.
    pub(super) fn place_interfaces(&mut self) -> Result<(), Failure> {
        let used = |number: &usize| {
            self.survey.frames_by_interface[*number] > 0 && !self.interfaces.contains_key(number)
        };
        let waiting: Vec<usize> = (0..self.survey.interfaces.len()).filter(used).collect();
        let named = |number: &usize| {
            let name = self.survey.interfaces[*number].name.as_deref()?;
            let name = name.rsplit(':').next()?;
            let is_port = self.ports.contains(name) || self.grows() && name.starts_with("Ethernet");
            (is_port && !self.taken.contains(name)).then(|| name.to_owned())
        };
        let by_name: Vec<(usize, String)> = waiting
            .iter()
            .filter_map(|number| Some((*number, named(number)?)))
            .collect();
        for (number, name) in by_name {
            if !self.taken.contains(&name) {
                self.take(&name);
                self.interfaces.insert(number, name);
            }
        }
        self.interfaces_are_named = waiting.iter().all(|number| self.interfaces.contains_key(number));
        for number in waiting {
            if self.interfaces.contains_key(&number) {
                continue;
            }
            let port = self
                .take_free_port()
                .ok_or_else(|| self.too_few("interfaces", self.survey.interfaces.len()))?;
            self.interfaces.insert(number, port);
        }
        Ok(())
    }

    fn too_few(&self, what: &str, count: usize) -> Failure {
        let ports = self.ports.difference(&self.configured.down).count();
        let down = match self.ports.len() - ports {
            0 => String::new(),
            down => format!(" that are up ({down} have admin_status down)"),
        };
        Failure::usage(format!("the capture has {count} {what}, the switch {ports} ports{down}"))
            .because(format!("each of the {what} is behind a port of its own unless you say otherwise"))
            .fix(
                "say who shares a port with --port Ethernet0=MAC,MAC, let all come in on one with --ingress PORT, or add \
                 ports to PORT of the configuration",
            )
    }

    pub(super) fn finish(self, ingress: Option<&str>, by_interface: bool) -> Mapping {
        let mut ports: Vec<String> = self.ports.into_iter().collect();
        ports.sort_by(|a, b| natural_order(a, b));
        let ids: BTreeMap<&str, PortId> = ports
            .iter()
            .enumerate()
            .map(|(index, port)| (port.as_str(), PortId(index as u16)))
            .collect();
        Mapping {
            stations: self
                .stations
                .iter()
                .map(|(mac, port)| (*mac, ids[port.as_str()]))
                .collect(),
            interfaces: self
                .interfaces
                .iter()
                .map(|(number, port)| (*number, ids[port.as_str()]))
                .collect(),
            otherwise: ingress.map(|port| ids[port]),
            by_interface: by_interface && ingress.is_none(),
            interfaces_are_named: self.interfaces_are_named,
            ports,
        }
    }
}
