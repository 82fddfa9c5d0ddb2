//! Chooses between a mapping by interface and a mapping by sender.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use xoff_dataplane::PortId;
use xoff_wire::parse::VlanTag;

use super::{ConfiguredPorts, MappingMode, MappingOptions, PortMapping, SkipReason};
use crate::replay::mac_address::{Mac, is_group_address};
use crate::replay::parsed_header::CapturedHeaders;
use crate::replay::survey::CaptureSurvey;
use xoff_capture::{ReadError, Reader};
use xoff_telemetry::failure::Failure;

/// The number of frames that a mapping offers to the switch, and the number that it loses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MappingFrameCounts {
    /// Frames that have an ingress port.
    offered: u64,
    /// Number of frames that are not forwarded because of the mapping. There are two cases: the destination
    /// of a frame is behind its ingress port, or the sender of an outbound frame has no inbound frame.
    lost: u64,
}

impl PortMapping {
    /// Maps the stations of a capture to the ports of a configuration. There are two kinds of mappings: by
    /// sender and by interface. If the options allow both and the capture has frames of several
    /// interfaces, the mapping with fewer lost frames is selected. If both mappings lose the same number
    /// of frames, the mapping by interface is selected. To count lost frames, the function opens the
    /// capture again with `read`.
    ///
    /// # Errors
    /// The configuration has too few ports, an option names an interface that is not in the
    /// capture, or the capture cannot be read.
    pub fn choose<R: Read>(
        survey: &CaptureSurvey,
        options: &MappingOptions,
        configured: &ConfiguredPorts,
        read: impl Fn() -> Result<Reader<R>, Failure>,
    ) -> Result<PortMapping, Failure> {
        let several = survey
            .frames_by_interface
            .iter()
            .filter(|frames| **frames > 0)
            .count()
            > 1;
        let assign = |by_interface| PortMapping::assign_ports(survey, options, configured, by_interface);
        match options.mode {
            MappingMode::Interface => return assign(true),
            MappingMode::Auto if several && options.ingress.is_none() => {}
            MappingMode::Auto | MappingMode::Sender => return assign(false),
        }
        let (by_interface, by_sender) = match (assign(true), assign(false)) {
            (Ok(by_interface), Ok(by_sender)) => (by_interface, by_sender),
            (Ok(only), Err(_)) | (Err(_), Ok(only)) => return Ok(only),
            (Err(error), Err(_)) => return Err(error),
        };
        let effect = |mapping: &PortMapping| {
            let mut reader = read()?;
            Ok::<_, Failure>(mapping.count_frames(survey, configured.router, &mut reader))
        };
        let of_interface = effect(&by_interface)?;
        // In a recording of a switch, the interfaces are the ports, even if frames were changed before
        // they left.
        if of_interface.lost == 0 || by_interface.interfaces_are_named && of_interface.offered > 0 {
            return Ok(by_interface);
        }
        Ok(match of_interface.lost <= effect(&by_sender)?.lost {
            true => by_interface,
            false => by_sender,
        })
    }

    /// Counts the frames that a learning bridge would lose with this mapping. The count stops at
    /// the first frame that cannot be read.
    fn count_frames(
        &self,
        survey: &CaptureSurvey,
        router: Option<Mac>,
        reader: &mut Reader<impl Read>,
    ) -> MappingFrameCounts {
        let mut effect = MappingFrameCounts::default();
        let heard = survey
            .observations
            .iter()
            .filter(|seen| seen.station == seen.sender && !seen.outbound);
        let heard: HashSet<Mac> = heard.map(|seen| seen.station).collect();
        let mut learnt: HashMap<(Option<u16>, Mac), PortId> = HashMap::new();
        for seen in &survey.observations {
            if let Some((port, _)) = self.ports_of_observation(seen) {
                learnt.insert((seen.tag.map(VlanTag::vid), seen.station), port);
            }
        }
        while let Ok::<_, ReadError>(Some(record)) = reader.next_frame() {
            let header = CapturedHeaders::of(&record);
            let port = self.ingress_port_of(&record, &header);
            effect.offered += u64::from(port.is_ok());
            let Some((to, from)) = header.addresses.filter(|_| !header.is_link_local()) else {
                continue;
            };
            let vid = header.parsed.tag.map(VlanTag::vid);
            match port {
                Ok(port) if to != from && !is_group_address(from) => {
                    learnt.insert((vid, from), port);
                    effect.lost += u64::from(learnt.get(&(vid, to)) == Some(&port));
                }
                Err(SkipReason::Outbound) => {
                    effect.lost += u64::from(!heard.contains(&from) && Some(from) != router);
                }
                _ => {}
            }
        }
        effect
    }
}
