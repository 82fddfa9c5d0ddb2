//! A port mapping under construction.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use xoff_dataplane::PortId;

use super::{ConfiguredPorts, FrameSource, MappingOptions, PortMapping};
use crate::replay::mac_address::Mac;
use crate::replay::survey::CaptureSurvey;
use xoff_config::{PORTS_MAX, compare_naturally};
use xoff_telemetry::failure::Failure;

pub(super) struct MappingDraft<'a> {
    survey: &'a CaptureSurvey,
    configured: &'a ConfiguredPorts,
    ports: BTreeSet<String>,
    /// Ports that already have a station or an interface.
    used_ports: BTreeSet<String>,
    stations: BTreeMap<Mac, String>,
    interfaces: BTreeMap<usize, String>,
    interfaces_are_named: bool,
}

impl<'a> MappingDraft<'a> {
    pub(super) fn new(survey: &'a CaptureSurvey, configured: &'a ConfiguredPorts) -> MappingDraft<'a> {
        MappingDraft {
            survey,
            configured,
            ports: configured.names.iter().cloned().collect(),
            used_ports: BTreeSet::new(),
            stations: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            interfaces_are_named: false,
        }
    }

    /// Returns whether the mapping may add ports. If the configuration has no ports, the mapping adds as many
    /// ports as the capture needs.
    fn can_add_ports(&self) -> bool {
        self.configured.names.is_empty()
    }

    /// Applies the `--port` options.
    pub(super) fn apply_options(&mut self, options: &MappingOptions) -> Result<(), Failure> {
        for (port, behind) in &options.ports {
            self.mark_port_used(port);
            let before = match behind {
                FrameSource::Station(mac) => self.stations.insert(*mac, port.clone()),
                FrameSource::Interface(name) => self
                    .interfaces
                    .insert(self.find_interface(port, name)?, port.clone()),
            };
            if let Some(other) = before.filter(|other| other != port) {
                return Err(
                    Failure::usage("the same station or interface is mapped to two ports")
                        .at(format!("--port {other} and --port {port}"))
                        .fix("name it for one port only"),
                );
            }
        }
        Ok(())
    }

    /// Finds an interface of the capture by its name or number.
    fn find_interface(&self, port: &str, name: &str) -> Result<usize, Failure> {
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

    /// Adds a port to the list of used ports.
    pub(super) fn mark_port_used(&mut self, port: &str) {
        self.ports.insert(port.to_owned());
        self.used_ports.insert(port.to_owned());
    }

    /// Claims the first port that is up and unused. Adds a port if the configuration has none.
    fn claim_free_port(&mut self) -> Option<String> {
        let free = self.ports.difference(&self.used_ports);
        let mut free: Vec<&String> = free
            .filter(|port| !self.configured.down.contains(*port))
            .collect();
        free.sort_by(|a, b| compare_naturally(a, b));
        let port = match free.first() {
            Some(port) => (*port).clone(),
            None if self.can_add_ports() && self.ports.len() < PORTS_MAX => {
                // There are more candidate names than ports, so at least one name is unused.
                let mut names = (0..=self.ports.len()).map(|n| format!("Ethernet{}", 4 * n));
                names.find(|name| !self.ports.contains(name))?
            }
            None => return None,
        };
        self.mark_port_used(&port);
        Some(port)
    }

    /// Adds ports until there are `count` ports, unless the configuration defines the ports.
    pub(super) fn add_ports_up_to(&mut self, count: usize) {
        while self.can_add_ports() && self.ports.len() < count {
            self.claim_free_port();
        }
    }

    /// Assigns a port to each sender. If there are more senders than a switch can have ports, the
    /// remaining senders share ports.
    pub(super) fn assign_senders(&mut self) -> Result<(), Failure> {
        let router = self.configured.router;
        let senders = self.survey.senders.iter().copied();
        let senders = senders.filter(|mac| Some(*mac) != router && !self.stations.contains_key(mac));
        let mut waiting = senders.collect::<Vec<Mac>>().into_iter();
        while let Some(mac) = waiting.next() {
            match self.claim_free_port() {
                Some(port) => {
                    self.stations.insert(mac, port);
                }
                None if self.can_add_ports() => {
                    self.assign_shared_ports(std::iter::once(mac).chain(waiting));
                    return Ok(());
                }
                None => return Err(self.too_few_ports_error("stations", self.survey.senders.len())),
            }
        }
        Ok(())
    }

    /// Assigns each station (host) to a port, with several stations behind one port. The chosen port is the
    /// one whose stations exchange the fewest frames with the new station. If several ports have the same
    /// number of frames, the port with the fewest stations is selected.
    fn assign_shared_ports(&mut self, stations: impl Iterator<Item = Mac>) {
        let mut peers: HashMap<Mac, Vec<(Mac, u64)>> = HashMap::new();
        for (&(a, b), &frames) in &self.survey.conversations {
            peers.entry(a).or_default().push((b, frames));
            peers.entry(b).or_default().push((a, frames));
        }
        let mut ports: Vec<String> = self.used_ports.iter().cloned().collect();
        ports.sort_by(|a, b| compare_naturally(a, b));
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

    /// Assigns an unused port to each station that never sends, until no unused port is left.
    pub(super) fn assign_silent_stations(&mut self) {
        for &mac in &self.survey.silent_stations {
            if Some(mac) == self.configured.router || self.stations.contains_key(&mac) {
                continue;
            }
            let Some(port) = self.claim_free_port() else {
                return;
            };
            self.stations.insert(mac, port);
        }
    }

    /// Assigns a port to each interface with frames. If a port has the name of the interface, as in
    /// recordings of xoff, the interface gets this port. Otherwise the interface gets an unused port.
    pub(super) fn assign_interfaces(&mut self) -> Result<(), Failure> {
        let used = |number: &usize| {
            self.survey.frames_by_interface[*number] > 0 && !self.interfaces.contains_key(number)
        };
        let waiting: Vec<usize> = (0..self.survey.interfaces.len()).filter(used).collect();
        let named = |number: &usize| {
            let name = self.survey.interfaces[*number].name.as_deref()?;
            let name = name.rsplit(':').next()?;
            let is_port = self.ports.contains(name) || self.can_add_ports() && name.starts_with("Ethernet");
            (is_port && !self.used_ports.contains(name)).then(|| name.to_owned())
        };
        let by_name: Vec<(usize, String)> = waiting
            .iter()
            .filter_map(|number| Some((*number, named(number)?)))
            .collect();
        for (number, name) in by_name {
            if !self.used_ports.contains(&name) {
                self.mark_port_used(&name);
                self.interfaces.insert(number, name);
            }
        }
        self.interfaces_are_named = waiting.iter().all(|number| self.interfaces.contains_key(number));
        for number in waiting {
            if self.interfaces.contains_key(&number) {
                continue;
            }
            let port = self
                .claim_free_port()
                .ok_or_else(|| self.too_few_ports_error("interfaces", self.survey.interfaces.len()))?;
            self.interfaces.insert(number, port);
        }
        Ok(())
    }

    fn too_few_ports_error(&self, what: &str, count: usize) -> Failure {
        let ports = self.ports.difference(&self.configured.down).count();
        let down = match self.ports.len() - ports {
            0 => String::new(),
            down => format!(" that are up ({down} have admin_status down)"),
        };
        Failure::usage(format!(
            "the capture has {count} {what}, the switch {}{down}",
            xoff_telemetry::count_noun(ports as u64, "port")
        ))
            .because(format!("each of the {what} needs its own port unless an option maps it"))
            .fix(
                "share a port with --port Ethernet0=MAC,MAC, map all frames to one port with --ingress PORT, or add \
                 ports to PORT of the configuration",
            )
    }

    pub(super) fn into_mapping(self, ingress: Option<&str>, by_interface: bool) -> PortMapping {
        let mut ports: Vec<String> = self.ports.into_iter().collect();
        ports.sort_by(|a, b| compare_naturally(a, b));
        let ids: BTreeMap<&str, PortId> = ports
            .iter()
            .enumerate()
            .map(|(index, port)| (port.as_str(), PortId(index as u16)))
            .collect();
        PortMapping {
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
            default_port: ingress.map(|port| ids[port]),
            by_interface: by_interface && ingress.is_none(),
            interfaces_are_named: self.interfaces_are_named,
            ports,
        }
    }
}
