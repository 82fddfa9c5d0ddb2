//! Which port of the switch a frame of a capture comes in on.

mod choice;
mod draft;

use std::collections::{BTreeMap, BTreeSet};

use xoff_dataplane::PortId;

use self::draft::Draft;
use super::header::ParsedHeader;
use super::survey::{Mac, Observation, Survey, is_group};
use xoff_capture::{CapturedFrame, Direction, UnusableReason};
use xoff_telemetry::failure::Failure;

/// What is behind a port, as the command line says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behind {
    /// A station.
    Station(Mac),
    /// Whoever was captured on an interface, by its name or its number in the file.
    Interface(String),
}

/// How ports are found for stations and interfaces that no option names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MappingMode {
    /// The one of the other two that drops fewer frames; by sender if frames of one interface only are in the file.
    #[default]
    Auto,
    /// Every sender has a port of its own.
    Sender,
    /// Every interface of the capture is a port.
    Interface,
}

/// How the user wants ports to be mapped.
#[derive(Clone, Debug, Default)]
pub struct MappingOptions {
    /// Ports with what is behind them.
    pub ports: Vec<(String, Behind)>,
    /// One port for everything else.
    pub ingress: Option<String>,
    /// How the rest is spread.
    pub mode: MappingMode,
}

/// The ports that a configuration has, and its router's address.
#[derive(Clone, Debug, Default)]
pub struct ConfiguredPorts {
    /// All of them. Empty: the switch has as many ports as the capture needs.
    pub names: Vec<String>,
    /// Those with `admin_status` down: no station is put behind them unless an option does.
    pub down: BTreeSet<String>,
    /// The switch's own address, which is behind no port.
    pub router: Option<Mac>,
}

/// Why a frame of the capture is not offered to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// It left by its interface: it is the result of forwarding rather than its input.
    Outbound,
    /// A switch sent it: its source is the address of this one, or it is flow control or another frame for the next bridge,
    /// from a device that sends nothing else.
    OfSwitch,
    /// Its addresses are not stored.
    NoAddress,
    /// The reader cannot use it.
    UnusableReason(UnusableReason),
}

impl SkipReason {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            SkipReason::Outbound => "outbound",
            SkipReason::OfSwitch => "of_a_switch",
            SkipReason::NoAddress => "no_address",
            SkipReason::UnusableReason(UnusableReason::LinkType) => "other_link_type",
            SkipReason::UnusableReason(UnusableReason::TooLong) => "too_long",
            SkipReason::UnusableReason(UnusableReason::UnknownInterface) => "unknown_interface",
            SkipReason::UnusableReason(UnusableReason::Malformed) => "malformed",
        }
    }

    /// Why frames with a reason of this name are left out, to follow their number.
    pub fn explain(name: &str) -> &'static str {
        match name {
            "outbound" => "left out because they left by their interface",
            "of_a_switch" => "left out because a switch sent them",
            "no_address" => "left out because no address of theirs was captured",
            "other_link_type" => "left out because they are not Ethernet",
            "too_long" => "left out because they are longer than 262144 bytes",
            "unknown_interface" => "left out because the file does not describe their interface",
            _ => "left out because their block contradicts itself",
        }
    }
}

/// Ports, and the stations and interfaces behind them.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// All ports, in the order of the switch.
    pub ports: Vec<String>,
    stations: BTreeMap<Mac, PortId>,
    interfaces: BTreeMap<usize, PortId>,
    /// Where everything else comes in.
    otherwise: Option<PortId>,
    by_interface: bool,
    /// Every interface with frames has the name of its port, as in a recording of xoff.
    interfaces_are_named: bool,
}

impl Mapping {
    /// Spreads the stations of a capture over the ports of a configuration, by interface or by sender.
    ///
    /// # Errors
    /// There are too few ports, or an option names an interface that is not in the capture.
    fn plan(
        survey: &Survey,
        options: &MappingOptions,
        configured: &ConfiguredPorts,
        by_interface: bool,
    ) -> Result<Mapping, Failure> {
        let mut draft = Draft::new(survey, configured);
        draft.apply_options(options)?;
        match &options.ingress {
            Some(port) => {
                draft.take(port);
                // The stations that never send are elsewhere, or nothing could be forwarded.
                draft.place_silent_stations();
            }
            None if by_interface => draft.place_interfaces()?,
            None => {
                draft.place_senders()?;
                draft.place_silent_stations();
            }
        }
        draft.grow_to(2);
        Ok(draft.finish(options.ingress.as_deref(), by_interface))
    }

    /// The port a frame comes in on.
    ///
    /// # Errors
    /// Why it comes in on none.
    pub fn port_of(&self, record: &CapturedFrame, header: &ParsedHeader) -> Result<PortId, SkipReason> {
        let interface = self.interfaces.get(&record.interface);
        if record.direction == Direction::Outbound && (self.by_interface || interface.is_some()) {
            return Err(SkipReason::Outbound);
        }
        let sender = header.addresses.map(|(_, from)| from);
        let station = sender.and_then(|mac| self.stations.get(&mac));
        if let Some(&port) = station.or(interface) {
            return Ok(port);
        }
        match (self.otherwise, sender) {
            (Some(port), _) => Ok(port),
            (None, None) => Err(SkipReason::NoAddress),
            // No station has a group address; the switch drops it and counts it.
            (None, Some(mac)) if is_group(mac) => Ok(PortId(0)),
            (None, Some(_)) => Err(SkipReason::OfSwitch),
        }
    }

    /// Where an observed station is, and on which port the observed frame came in. `None`: unknown.
    pub fn place_of(&self, observation: &Observation) -> Option<(PortId, PortId)> {
        let of = |mac: Mac| {
            let by_interface = || self.interfaces.get(&observation.interface).copied();
            let here = mac == observation.sender && !observation.outbound;
            let on_interface = || here.then(by_interface).flatten();
            let of_sender = || (mac == observation.sender).then_some(self.otherwise).flatten();
            self.stations
                .get(&mac)
                .copied()
                .or_else(on_interface)
                .or_else(of_sender)
        };
        Some((of(observation.station)?, of(observation.sender)?))
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

    /// Ports that an interface or a station is behind, or that everything else comes in on.
    pub fn ports_in_use(&self) -> BTreeSet<&str> {
        let used = self
            .stations
            .values()
            .chain(self.interfaces.values())
            .chain(&self.otherwise);
        used.map(|port| self.ports[port.index()].as_str()).collect()
    }
}
