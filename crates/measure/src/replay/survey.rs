//! The first pass over a capture. It finds the stations, the interfaces and the first time stamp.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;

use xoff_wire::parse::VlanTag;

use super::mac_address::{Mac, is_group_address};
use super::parsed_header::CapturedHeaders;
use xoff_capture::{CapturedFrame, Direction, Interface, ReadError, Reader, UnusableReason};

/// The first frame of a capture that shows a station in a VLAN. There are separate observations for the
/// station as sender and as destination, and for inbound and outbound frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationObservation {
    /// MAC address of the observed station.
    pub station: Mac,
    /// The sender of the frame: either the observed station itself, or a station that sent a frame to the
    /// observed station.
    pub sender: Mac,
    /// Index in [`CaptureSurvey::interfaces`] of the interface that captured the frame.
    pub interface: usize,
    /// True if the frame is outbound at the interface. Its sender is then not connected to this interface.
    pub outbound: bool,
    /// The outer VLAN tag of the frame, or `None` if the frame is untagged.
    pub tag: Option<VlanTag>,
}

/// The stations, interfaces and frame counts of a capture.
#[derive(Debug, Default)]
pub struct CaptureSurvey {
    /// Number of usable frames in the capture.
    pub frames: u64,
    /// Number of frames that the reader cannot use, for each reason.
    pub unusable: BTreeMap<UnusableReason, u64>,
    /// Number of usable frames of each interface, in the order of `interfaces`.
    pub frames_by_interface: Vec<u64>,
    /// The interfaces of the capture, in the order of the file.
    pub interfaces: Vec<Interface>,
    /// The first time stamp in nanoseconds since 1970, or `None` if no frame has a time stamp.
    pub first_ns: Option<i64>,
    /// MAC addresses that send frames, in the order of their first frames.
    pub senders: Vec<Mac>,
    /// MAC addresses that receive frames but never send, in the order of the first frames to them.
    pub silent_stations: Vec<Mac>,
    /// The first frames of every station in every VLAN.
    pub observations: Vec<StationObservation>,
    /// Number of frames between two stations, in both directions. The first address of the key is the
    /// lower one.
    pub conversations: HashMap<(Mac, Mac), u64>,
    /// Number of usable frames that were captured only in part.
    pub partial: u64,
    /// Number of frames of which the capture contains so few bytes that the traffic class is missing.
    pub without_class: u64,
    /// The reason for which the capture ends early, or `None` if it was read to its end.
    pub read_error: Option<ReadError>,
}

impl CaptureSurvey {
    /// Reads a capture to its end and collects its stations, interfaces and frame counts.
    ///
    /// # Errors
    /// The input is not a capture, is damaged before its first frame, or has no Ethernet interface.
    /// A capture that ends early after at least one frame is not an error.
    /// [`CaptureSurvey::read_error`] reports it.
    pub fn read(source: impl Read) -> Result<CaptureSurvey, ReadError> {
        let mut reader = Reader::new(source)?;
        let mut survey = CaptureSurvey::default();
        let mut seen = SeenAddresses::default();
        loop {
            match reader.next_frame() {
                Ok(Some(record)) => survey.add_frame(&record, &mut seen),
                Ok(None) => break,
                Err(error) if error.ends_capture() => {
                    survey.read_error = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if survey.frames == 0 {
            reader.check_link_types()?;
        }
        survey.interfaces = reader.interfaces().to_vec();
        survey.unusable.clone_from(reader.unusable());
        survey.frames_by_interface.resize(survey.interfaces.len(), 0);
        survey.silent_stations.retain(|mac| !seen.senders.contains(mac));
        match survey.read_error.take() {
            Some(error) if survey.total_frames() == 0 && error.is_invalid_content() => Err(error),
            read_error => Ok(CaptureSurvey { read_error, ..survey }),
        }
    }

    /// Returns the number of frames in the capture, including the unusable ones.
    pub fn total_frames(&self) -> u64 {
        self.frames + self.unusable.values().sum::<u64>()
    }

    fn add_frame(&mut self, record: &CapturedFrame, seen: &mut SeenAddresses) {
        self.first_ns = self.first_ns.or(record.at_ns);
        self.frames += 1;
        self.partial += u64::from((record.data.len() as u32) < record.len);
        if self.frames_by_interface.len() <= record.interface {
            self.frames_by_interface.resize(record.interface + 1, 0);
        }
        self.frames_by_interface[record.interface] += 1;
        let header = CapturedHeaders::of(record);
        let Some((to, from)) = header.addresses else {
            return;
        };
        self.without_class += u64::from(header.lacks_class);
        if is_group_address(from) || header.is_link_local() {
            return;
        }
        if seen.senders.insert(from) {
            self.senders.push(from);
        }
        if !is_group_address(to) {
            if seen.receivers.insert(to) {
                self.silent_stations.push(to);
            }
            *self
                .conversations
                .entry((from.min(to), from.max(to)))
                .or_default() += 1;
        }
        for station in [from, to].into_iter().filter(|mac| !is_group_address(*mac)) {
            let observation = StationObservation {
                station,
                sender: from,
                interface: record.interface,
                outbound: record.direction == Direction::Outbound,
                tag: header.parsed.tag,
            };
            let vid = observation.tag.map(VlanTag::vid);
            if seen
                .observations
                .insert((station, station == from, observation.outbound, vid))
            {
                self.observations.push(observation);
            }
        }
    }
}

/// The addresses that earlier frames of the capture contain.
#[derive(Debug, Default)]
struct SeenAddresses {
    senders: HashSet<Mac>,
    receivers: HashSet<Mac>,
    /// Each entry has four values: the station, whether the station sent the frame, whether the frame was
    /// outbound, and the VLAN.
    observations: HashSet<(Mac, bool, bool, Option<u16>)>,
}
