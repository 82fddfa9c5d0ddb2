//! Who is behind which port.

use std::collections::{BTreeMap, BTreeSet};

use xoff_dataplane::PortId;

use super::survey::{Glance, Mac, Sighting, Survey, is_group};
use crate::capture::{Direction, Record};
use crate::config::{PORTS_MAX, natural_order};
use crate::failure::Failure;

/// What is behind a port, as the command line says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behind {
    /// A station.
    Station(Mac),
    /// Whoever was captured on an interface, by its name or its number in the file.
    Interface(String),
}

/// How ports are found for what nothing was said about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ways {
    /// By interface if frames of several are in the file, else by sender.
    #[default]
    Auto,
    /// Every sender has a port of its own.
    Sender,
    /// Every interface of the capture is a port.
    Interface,
}

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Ports with what is behind them.
    pub ports: Vec<(String, Behind)>,
    /// One port for everything else.
    pub ingress: Option<String>,
    /// How the rest is spread.
    pub ways: Ways,
}

/// Why a frame of the capture is not offered to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skip {
    /// It left by its interface, so it is what a switch made of a frame, not what it got.
    Outbound,
    /// A switch sent it: it has the address of this one, or is flow control or another frame for the next bridge, of a
    /// device that sends nothing else.
    OfSwitch,
    /// Too little of it was captured to know who sent it.
    NoAddress,
}

impl Skip {
    /// In words, for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Skip::Outbound => "outbound",
            Skip::OfSwitch => "of_a_switch",
            Skip::NoAddress => "no_address",
        }
    }
}

/// Ports, and who is behind them.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// All ports, in the order of the switch.
    pub ports: Vec<String>,
    stations: BTreeMap<Mac, PortId>,
    interfaces: BTreeMap<usize, PortId>,
    /// Where everything else comes in.
    otherwise: Option<PortId>,
    by_interface: bool,
}

/// A mapping in the making.
struct Draft<'a> {
    survey: &'a Survey,
    ports: BTreeSet<String>,
    /// Ports that something is behind.
    taken: BTreeSet<String>,
    /// The configuration names no port: there are as many as it takes.
    grows: bool,
    stations: BTreeMap<Mac, String>,
    interfaces: BTreeMap<usize, String>,
}

impl Mapping {
    /// Spreads what is in a capture over the ports of a configuration; where that names none, over as many as it
    /// takes. `router` is the switch's own address, which is behind no port.
    ///
    /// # Errors
    /// There are too few ports, or what was asked for is not in the capture.
    pub fn plan(
        survey: &Survey,
        asked: &Asked,
        configured: &[String],
        router: Option<Mac>,
    ) -> Result<Mapping, Failure> {
        let mut draft = Draft {
            survey,
            ports: configured.iter().cloned().collect(),
            taken: BTreeSet::new(),
            grows: configured.is_empty(),
            stations: BTreeMap::new(),
            interfaces: BTreeMap::new(),
        };
        draft.obey(asked)?;
        let several = survey
            .frames_by_interface
            .iter()
            .filter(|frames| **frames > 0)
            .count()
            > 1;
        let by_interface = match asked.ways {
            Ways::Auto => several,
            Ways::Sender => false,
            Ways::Interface => true,
        };
        let others = |mac: &&Mac| Some(**mac) != router;
        match &asked.ingress {
            Some(port) => {
                draft.take(port);
                // The stations that only listen are elsewhere, or nothing could be forwarded.
                survey
                    .silent
                    .iter()
                    .filter(others)
                    .for_each(|mac| draft.settle_if_there_is_room(*mac));
            }
            None if by_interface => draft.spread_interfaces()?,
            None => {
                draft.spread_senders(router)?;
                survey
                    .silent
                    .iter()
                    .filter(others)
                    .for_each(|mac| draft.settle_if_there_is_room(*mac));
            }
        }
        while draft.grows && draft.ports.len() < 2 {
            draft.free_port();
        }
        Ok(draft.finish(asked.ingress.as_deref(), by_interface))
    }

    /// The port a frame comes in on.
    ///
    /// # Errors
    /// It comes in nowhere.
    pub fn port_of(&self, record: &Record, glance: &Glance) -> Result<PortId, Skip> {
        let interface = self.interfaces.get(&record.interface);
        if record.direction == Direction::Outbound && (self.by_interface || interface.is_some()) {
            return Err(Skip::Outbound);
        }
        let sender = glance.addresses.map(|(_, from)| from);
        let station = sender.and_then(|mac| self.stations.get(&mac));
        if let Some(&port) = station.or(interface) {
            return Ok(port);
        }
        match (self.otherwise, sender) {
            (Some(port), _) => Ok(port),
            (None, None) => Err(Skip::NoAddress),
            // No station has a group address; the switch is to say so.
            (None, Some(mac)) if is_group(mac) => Ok(PortId(0)),
            (None, Some(_)) => Err(Skip::OfSwitch),
        }
    }

    /// Where a station that was seen is, and on which port the frame came in that shows it. `None`: nobody knows.
    pub fn place_of(&self, sighting: &Sighting) -> Option<(PortId, PortId)> {
        let of = |mac: Mac| {
            let by_interface = || self.interfaces.get(&sighting.interface).copied();
            let here = mac == sighting.sender && !sighting.outbound;
            let on_interface = || here.then(by_interface).flatten();
            let of_sender = || (mac == sighting.sender).then_some(self.otherwise).flatten();
            self.stations
                .get(&mac)
                .copied()
                .or_else(on_interface)
                .or_else(of_sender)
        };
        Some((of(sighting.station)?, of(sighting.sender)?))
    }

    /// How many stations are known to be behind each port; those of an interface are not counted.
    pub fn stations_by_port(&self) -> Vec<usize> {
        let mut counts = vec![0; self.ports.len()];
        self.stations.values().for_each(|port| counts[port.index()] += 1);
        counts
    }

    /// Whether interfaces of the capture are ports.
    pub fn is_by_interface(&self) -> bool {
        self.by_interface
    }
}

impl Draft<'_> {
    /// Takes what was said on the command line.
    fn obey(&mut self, asked: &Asked) -> Result<(), Failure> {
        for (port, behind) in &asked.ports {
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

    fn take(&mut self, port: &str) {
        self.ports.insert(port.to_owned());
        self.taken.insert(port.to_owned());
    }

    /// A port that nothing is behind yet.
    fn free_port(&mut self) -> Option<String> {
        let mut free: Vec<&String> = self.ports.difference(&self.taken).collect();
        free.sort_by(|a, b| natural_order(a, b));
        let port = match free.first() {
            Some(port) => (*port).clone(),
            None if self.grows && self.ports.len() < PORTS_MAX => {
                let names = (0..).map(|n| format!("Ethernet{}", 4 * n));
                names.into_iter().find(|name| !self.ports.contains(name))?
            }
            None => return None,
        };
        self.take(&port);
        Some(port)
    }

    fn spread_senders(&mut self, router: Option<Mac>) -> Result<(), Failure> {
        let waiting: Vec<Mac> = self
            .survey
            .senders
            .iter()
            .copied()
            .filter(|mac| Some(*mac) != router)
            .collect();
        for mac in waiting {
            if self.stations.contains_key(&mac) {
                continue;
            }
            let port = self
                .free_port()
                .ok_or_else(|| self.too_few("stations", self.survey.senders.len()))?;
            self.stations.insert(mac, port);
        }
        Ok(())
    }

    fn settle_if_there_is_room(&mut self, mac: Mac) {
        if !self.stations.contains_key(&mac)
            && let Some(port) = self.free_port()
        {
            self.stations.insert(mac, port);
        }
    }

    /// Interfaces that are called as a port become that port, as in captures of xoff; others take what is free.
    fn spread_interfaces(&mut self) -> Result<(), Failure> {
        let used = |number: &usize| {
            self.survey.frames_by_interface[*number] > 0 && !self.interfaces.contains_key(number)
        };
        let waiting: Vec<usize> = (0..self.survey.interfaces.len()).filter(used).collect();
        let named = |number: &usize| {
            let name = self.survey.interfaces[*number].name.as_deref()?;
            let name = name.rsplit(':').next()?;
            let is_port = self.ports.contains(name) || self.grows && name.starts_with("Ethernet");
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
        for number in waiting {
            if self.interfaces.contains_key(&number) {
                continue;
            }
            let port = self
                .free_port()
                .ok_or_else(|| self.too_few("interfaces", self.survey.interfaces.len()))?;
            self.interfaces.insert(number, port);
        }
        Ok(())
    }

    fn too_few(&self, what: &str, count: usize) -> Failure {
        Failure::usage(format!("the capture has {count} {what}, the switch {} ports", self.ports.len()))
            .because(format!("each of the {what} is behind a port of its own unless you say otherwise"))
            .fix(
                "say who shares a port with --port Ethernet0=MAC,MAC, let all come in on one with --ingress PORT, or add \
                 ports to PORT of the configuration",
            )
    }

    fn finish(self, ingress: Option<&str>, by_interface: bool) -> Mapping {
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
            ports,
        }
    }
}
