//! The first pass over a capture: its stations, its interfaces and its first time stamp.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;

use xoff_wire::parse::VlanTag;

use super::header::ParsedHeader;
use xoff_capture::{CapturedFrame, Direction, Interface, ReadError, Reader, UnusableReason};

/// A hardware address.
pub type Mac = [u8; 6];

/// A group address: multicast or broadcast.
pub(super) fn is_group(mac: Mac) -> bool {
    mac[0] & 1 != 0
}

/// A frame in which an address was met for the first time, in its VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The station.
    pub station: Mac,
    /// The sender of the frame: the station itself, or one that sent to it.
    pub sender: Mac,
    /// The interface of the frame.
    pub interface: usize,
    /// The frame left by that interface, so its sender is not behind it.
    pub outbound: bool,
    /// The outer tag of the frame.
    pub tag: Option<VlanTag>,
}

/// What is in a capture.
#[derive(Debug, Default)]
pub struct Survey {
    /// Usable frames.
    pub frames: u64,
    /// Frames that cannot be used, by reason.
    pub unusable: BTreeMap<UnusableReason, u64>,
    /// Usable frames of each interface.
    pub frames_by_interface: Vec<u64>,
    /// The interfaces.
    pub interfaces: Vec<Interface>,
    /// The first time stamp, in nanoseconds since 1970; `None` if no frame has one.
    pub first_ns: Option<i64>,
    /// Stations that send, in the order of their first frames.
    pub senders: Vec<Mac>,
    /// Stations that never send, in the order of the first frames to them.
    pub silent: Vec<Mac>,
    /// Every address in every VLAN it was met in.
    pub observations: Vec<Observation>,
    /// Frames between two stations, whichever sent them, by address in ascending order.
    pub conversations: HashMap<(Mac, Mac), u64>,
    /// Frames of which only a part is stored.
    pub partial: u64,
    /// Frames of which so little is stored that their traffic class is unknown.
    pub without_class: u64,
    /// Why the capture ends early.
    pub cut: Option<ReadError>,
}

impl Survey {
    /// Reads a capture to its end.
    ///
    /// # Errors
    /// It has no usable frame and is no capture, is damaged, or is not of Ethernet. A capture that ends early is no error if there are
    /// frames before: see [`Survey::cut`].
    pub fn of(source: impl Read) -> Result<Survey, ReadError> {
        let mut reader = Reader::new(source)?;
        let mut survey = Survey::default();
        let mut seen = SeenAddresses::default();
        loop {
            match reader.next_frame() {
                Ok(Some(record)) => survey.add(&record, &mut seen),
                Ok(None) => break,
                Err(error) if error.ends_capture() => {
                    survey.cut = Some(error);
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
        survey.silent.retain(|mac| !seen.senders.contains(mac));
        match survey.cut.take() {
            Some(error) if survey.total_frames() == 0 && error.is_damage() => Err(error),
            cut => Ok(Survey { cut, ..survey }),
        }
    }

    /// Frames of the capture, usable or not.
    pub fn total_frames(&self) -> u64 {
        self.frames + self.unusable.values().sum::<u64>()
    }

    fn add(&mut self, record: &CapturedFrame, seen: &mut SeenAddresses) {
        self.first_ns = self.first_ns.or(record.at_ns);
        self.frames += 1;
        self.partial += u64::from((record.data.len() as u32) < record.len);
        if self.frames_by_interface.len() <= record.interface {
            self.frames_by_interface.resize(record.interface + 1, 0);
        }
        self.frames_by_interface[record.interface] += 1;
        let header = ParsedHeader::of(record);
        let Some((to, from)) = header.addresses else {
            return;
        };
        self.without_class += u64::from(header.lacks_class);
        if is_group(from) || header.is_link_local() {
            return;
        }
        if seen.senders.insert(from) {
            self.senders.push(from);
        }
        if !is_group(to) {
            if seen.receivers.insert(to) {
                self.silent.push(to);
            }
            *self
                .conversations
                .entry((from.min(to), from.max(to)))
                .or_default() += 1;
        }
        for station in [from, to].into_iter().filter(|mac| !is_group(*mac)) {
            let observation = Observation {
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

/// Addresses met so far.
#[derive(Debug, Default)]
struct SeenAddresses {
    senders: HashSet<Mac>,
    receivers: HashSet<Mac>,
    /// Station, whether it sent, whether the frame was outbound, VLAN.
    observations: HashSet<(Mac, bool, bool, Option<u16>)>,
}
