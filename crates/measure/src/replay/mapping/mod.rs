//! Maps the frames of a capture to the ingress ports of a switch.

mod choice;
mod mapping_draft;

use std::collections::{BTreeMap, BTreeSet};

use xoff_dataplane::PortId;

use self::mapping_draft::MappingDraft;
use super::mac_address::{Mac, is_group_address};
use super::parsed_header::CapturedHeaders;
use super::survey::{CaptureSurvey, StationObservation};
use xoff_capture::{CapturedFrame, Direction, UnusableReason};
use xoff_telemetry::failure::Failure;

/// The source of the frames that arrive at a port, as given by the option `--port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameSource {
    /// The station with this MAC address.
    Station(Mac),
    /// All frames that were captured on an interface. The text is the name of the interface, or its number in
    /// the capture, from 0.
    Interface(String),
}

/// The rule that selects ports for stations and interfaces that no option names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MappingMode {
    /// By sender or by interface: xoff uses the mode that loses fewer frames. If the capture has frames of
    /// only one interface, xoff uses the mode by sender.
    #[default]
    Auto,
    /// Each sender has its own port.
    Sender,
    /// Each interface of the capture is a port.
    Interface,
}

/// The options of the command line that select ingress ports.
#[derive(Clone, Debug, Default)]
pub struct MappingOptions {
    /// Names of ports, each with a source of its frames. A port can have several entries.
    pub ports: Vec<(String, FrameSource)>,
    /// Name of the port for all frames without an explicit mapping: they arrive at this port. `None` if
    /// `mode` selects the ports of these frames.
    pub ingress: Option<String>,
    /// Rule that selects ports for the frames that no entry of `ports` covers. Not used if `ingress` is set.
    pub mode: MappingMode,
}

/// The ports of a configuration, and the address of its router.
#[derive(Clone, Debug, Default)]
pub struct ConfiguredPorts {
    /// Names of all ports. If the list is empty, the switch gets as many ports as
    /// the capture needs.
    pub names: Vec<String>,
    /// Names of the ports with `admin_status` down. The mapping uses a port of this list only if an option
    /// names the port.
    pub down: BTreeSet<String>,
    /// MAC address of the switch itself, which is not behind a port. `None` if the address is unknown.
    pub router: Option<Mac>,
}

/// The reason for which a frame of the capture is not offered to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// The frame left through its interface, so it is a result of forwarding.
    Outbound,
    /// A switch sent the frame. There are two cases: the source is the MAC address of this switch, or the
    /// sender sends only frames of kinds that bridges do not forward.
    FromSwitch,
    /// The capture does not contain the addresses of the frame.
    NoAddress,
    /// The capture reader cannot use the frame, for the given reason.
    Unusable(UnusableReason),
}

impl SkipReason {
    /// Returns the name of the reason in reports, such as `outbound` or `no_address`.
    pub const fn name(self) -> &'static str {
        match self {
            SkipReason::Outbound => "outbound",
            SkipReason::FromSwitch => "of_a_switch",
            SkipReason::NoAddress => "no_address",
            SkipReason::Unusable(UnusableReason::LinkType) => "other_link_type",
            SkipReason::Unusable(UnusableReason::TooLong) => "too_long",
            SkipReason::Unusable(UnusableReason::UnknownInterface) => "unknown_interface",
            SkipReason::Unusable(UnusableReason::Malformed) => "malformed",
        }
    }

    /// Returns the explanation of the reason with the name `name`, such as "left out because they are
    /// outbound". The text follows a number of frames. An unknown name gives the text for malformed blocks.
    pub fn skip_reason_explanation(name: &str) -> &'static str {
        match name {
            "outbound" => "left out because they are outbound",
            "of_a_switch" => "left out because a switch sent them",
            "no_address" => "left out because their addresses were not captured",
            "other_link_type" => "left out because they are not Ethernet",
            "too_long" => "left out because they are longer than 262144 bytes",
            "unknown_interface" => "left out because the file does not describe their interface",
            _ => "left out because their block is malformed",
        }
    }
}

/// The mapping from stations and interfaces of a capture to the ports of a switch.
#[derive(Clone, Debug)]
pub struct PortMapping {
    /// Names of all ports, in the order of the switch's ports.
    pub ports: Vec<String>,
    stations: BTreeMap<Mac, PortId>,
    interfaces: BTreeMap<usize, PortId>,
    /// Ingress port of all other frames, or `None` if other frames are not replayed.
    default_port: Option<PortId>,
    by_interface: bool,
    /// True if each interface with frames has the same name as a port, as in a recording of xoff.
    interfaces_are_named: bool,
}

impl PortMapping {
    /// Assigns the stations of a capture to the ports of a configuration, by interface
    /// or by sender.
    ///
    /// # Errors
    /// The configuration has too few ports, or an option names an interface that is not
    /// in the capture.
    fn assign_ports(
        survey: &CaptureSurvey,
        options: &MappingOptions,
        configured: &ConfiguredPorts,
        by_interface: bool,
    ) -> Result<PortMapping, Failure> {
        let mut draft = MappingDraft::new(survey, configured);
        draft.apply_options(options)?;
        match &options.ingress {
            Some(port) => {
                draft.mark_port_used(port);
                // Stations that never send get other ports. Otherwise no frame could be forwarded.
                draft.assign_silent_stations();
            }
            None if by_interface => draft.assign_interfaces()?,
            None => {
                draft.assign_senders()?;
                draft.assign_silent_stations();
            }
        }
        draft.add_ports_up_to(2);
        Ok(draft.into_mapping(options.ingress.as_deref(), by_interface))
    }

    /// Returns the ingress port of a frame.
    ///
    /// # Errors
    /// Returns the reason for which the frame is not replayed.
    pub fn ingress_port_of(
        &self,
        record: &CapturedFrame,
        header: &CapturedHeaders,
    ) -> Result<PortId, SkipReason> {
        let interface = self.interfaces.get(&record.interface);
        if record.direction == Direction::Outbound && (self.by_interface || interface.is_some()) {
            return Err(SkipReason::Outbound);
        }
        let sender = header.addresses.map(|(_, from)| from);
        let station = sender.and_then(|mac| self.stations.get(&mac));
        if let Some(&port) = station.or(interface) {
            return Ok(port);
        }
        match (self.default_port, sender) {
            (Some(port), _) => Ok(port),
            (None, None) => Err(SkipReason::NoAddress),
            // No station has a group address as its source. The switch drops the frame and counts
            // it.
            (None, Some(mac)) if is_group_address(mac) => Ok(PortId(0)),
            (None, Some(_)) => Err(SkipReason::FromSwitch),
        }
    }

    /// Returns two ports: the port of the observed station, and the ingress port of the observed frame.
    /// Returns `None` if one of the ports is unknown.
    pub fn ports_of_observation(&self, observation: &StationObservation) -> Option<(PortId, PortId)> {
        let of = |mac: Mac| {
            let by_interface = || self.interfaces.get(&observation.interface).copied();
            let here = mac == observation.sender && !observation.outbound;
            let on_interface = || here.then(by_interface).flatten();
            let of_sender = || (mac == observation.sender).then_some(self.default_port).flatten();
            self.stations
                .get(&mac)
                .copied()
                .or_else(on_interface)
                .or_else(of_sender)
        };
        Some((of(observation.station)?, of(observation.sender)?))
    }

    /// Returns the number of known stations behind each port, in the order of `ports`. Stations of a mapped
    /// interface are not counted.
    pub fn stations_by_port(&self) -> Vec<usize> {
        let mut counts = vec![0; self.ports.len()];
        self.stations.values().for_each(|port| counts[port.index()] += 1);
        counts
    }

    /// Returns whether each interface of the capture is a port of the switch.
    pub fn is_by_interface(&self) -> bool {
        self.by_interface
    }

    /// Returns the names of the ports at which frames can arrive: ports of a station, ports of a capture
    /// interface, and the port for frames without an explicit mapping.
    pub fn ports_in_use(&self) -> BTreeSet<&str> {
        let used = self
            .stations
            .values()
            .chain(self.interfaces.values())
            .chain(&self.default_port);
        used.map(|port| self.ports[port.index()].as_str()).collect()
    }
}
