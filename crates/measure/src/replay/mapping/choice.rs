//! The choice between a mapping by interface and one by sender.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use xoff_dataplane::PortId;
use xoff_wire::parse::VlanTag;

use super::{ConfiguredPorts, Mapping, MappingMode, MappingOptions, SkipReason};
use crate::replay::header::ParsedHeader;
use crate::replay::survey::{Mac, Survey, is_group};
use xoff_capture::{ReadError, Reader};
use xoff_telemetry::failure::Failure;

/// What becomes of the frames of a capture under a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MappingEffect {
    /// Frames that come in on a port.
    offered: u64,
    /// Frames that are not forwarded only because of the mapping: their destination is behind the port they come in on, or they are
    /// left out as outbound although their sender is seen nowhere else.
    lost: u64,
}

impl Mapping {
    /// Maps the stations of a capture to the ports of a configuration. Where the options leave the choice and the capture has frames of
    /// several interfaces, the mapping that loses fewer frames is taken, the one by interface among equals. `read` opens the capture
    /// once more to count those frames.
    ///
    /// # Errors
    /// There are too few ports for any mapping, an option names what is not in the capture, or the capture cannot be read.
    pub fn choose<R: Read>(
        survey: &Survey,
        options: &MappingOptions,
        configured: &ConfiguredPorts,
        read: impl Fn() -> Result<Reader<R>, Failure>,
    ) -> Result<Mapping, Failure> {
        let several = survey
            .frames_by_interface
            .iter()
            .filter(|frames| **frames > 0)
            .count()
            > 1;
        let plan = |by_interface| Mapping::plan(survey, options, configured, by_interface);
        match options.mode {
            MappingMode::Interface => return plan(true),
            MappingMode::Auto if several && options.ingress.is_none() => {}
            MappingMode::Auto | MappingMode::Sender => return plan(false),
        }
        let (by_interface, by_sender) = match (plan(true), plan(false)) {
            (Ok(by_interface), Ok(by_sender)) => (by_interface, by_sender),
            (Ok(only), Err(_)) | (Err(_), Ok(only)) => return Ok(only),
            (Err(error), Err(_)) => return Err(error),
        };
        let effect = |mapping: &Mapping| {
            let mut reader = read()?;
            Ok::<_, Failure>(mapping.effect(survey, configured.router, &mut reader))
        };
        let of_interface = effect(&by_interface)?;
        // A recording of a switch: its interfaces are the ports, whatever the frames looked like when they left.
        if of_interface.lost == 0 || by_interface.interfaces_are_named && of_interface.offered > 0 {
            return Ok(by_interface);
        }
        Ok(match of_interface.lost <= effect(&by_sender)?.lost {
            true => by_interface,
            false => by_sender,
        })
    }

    /// Counts the frames that a bridge would lose with this mapping. It learns as the bridge does; the capture's end is that of its last
    /// readable frame.
    fn effect(&self, survey: &Survey, router: Option<Mac>, reader: &mut Reader<impl Read>) -> MappingEffect {
        let mut effect = MappingEffect::default();
        let heard = survey
            .observations
            .iter()
            .filter(|seen| seen.station == seen.sender && !seen.outbound);
        let heard: HashSet<Mac> = heard.map(|seen| seen.station).collect();
        let mut learnt: HashMap<(Option<u16>, Mac), PortId> = HashMap::new();
        for seen in &survey.observations {
            if let Some((port, _)) = self.place_of(seen) {
                learnt.insert((seen.tag.map(VlanTag::vid), seen.station), port);
            }
        }
        while let Ok::<_, ReadError>(Some(record)) = reader.next_frame() {
            let header = ParsedHeader::of(&record);
            let port = self.port_of(&record, &header);
            effect.offered += u64::from(port.is_ok());
            let Some((to, from)) = header.addresses.filter(|_| !header.is_link_local()) else {
                continue;
            };
            let vid = header.parsed.tag.map(VlanTag::vid);
            match port {
                Ok(port) if to != from && !is_group(from) => {
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
