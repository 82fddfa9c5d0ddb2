//! The first pass over a capture: who is in it, on which interfaces, and from when to when.

use std::collections::HashSet;
use std::io::Read;

use xoff_dataplane::parse::{Parsed, Payload, Tag, parse_prefix};

use crate::capture::{Direction, Interface, ReadError, Reader, Record};

/// A hardware address.
pub type Mac = [u8; 6];

/// What a first look at a frame shows.
#[derive(Clone, Copy, Debug)]
pub struct Glance {
    /// What its headers say.
    pub parsed: Parsed,
    /// Destination and source; `None` where too little was captured.
    pub addresses: Option<(Mac, Mac)>,
}

impl Glance {
    /// Looks at a frame.
    pub fn of(record: &Record) -> Glance {
        let address = |at: usize| record.data.get(at..)?.first_chunk::<6>().copied();
        Glance {
            parsed: parse_prefix(&record.data, record.len as usize),
            addresses: address(0).zip(address(6)),
        }
    }

    /// Whether the frame ends at the next bridge: flow control, spanning tree, LLDP and their like. Switches send those
    /// too, so they do not make their sender a station.
    pub fn is_link_local(&self) -> bool {
        let reserved = |mac: Mac| mac[..5] == [0x01, 0x80, 0xc2, 0, 0] && mac[5] & 0xf0 == 0;
        self.parsed.payload == Payload::MacControl || self.addresses.is_some_and(|(to, _)| reserved(to))
    }
}

/// A group address: multicast or broadcast.
pub(super) fn is_group(mac: Mac) -> bool {
    mac[0] & 1 != 0
}

/// A frame in which an address was met for the first time, in its VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The station.
    pub station: Mac,
    /// The sender of the frame: the station itself, or who spoke to it.
    pub sender: Mac,
    /// The interface of the frame.
    pub interface: usize,
    /// The frame left by that interface, so its sender is not behind it.
    pub outbound: bool,
    /// The outer tag of the frame.
    pub tag: Option<Tag>,
}

/// What is in a capture.
#[derive(Debug, Default)]
pub struct Survey {
    /// Frames that can be read.
    pub frames: u64,
    /// Frames of each interface.
    pub frames_by_interface: Vec<u64>,
    /// The interfaces.
    pub interfaces: Vec<Interface>,
    /// When the first frame was seen, in nanoseconds since 1970.
    pub first_ns: i64,
    /// Stations that send, in the order of their first frames.
    pub senders: Vec<Mac>,
    /// Stations that are spoken to and never send, in the order of the first frames to them.
    pub silent: Vec<Mac>,
    /// Every address in every VLAN it was met in.
    pub sightings: Vec<Sighting>,
    /// Frames of which a part only was captured.
    pub partial: u64,
    /// Why the capture ends before its end.
    pub cut: Option<ReadError>,
}

impl Survey {
    /// Reads a capture to its end.
    ///
    /// # Errors
    /// It cannot be read. A capture that lacks its end is no error: see [`Survey::cut`].
    pub fn of(source: impl Read) -> Result<Survey, ReadError> {
        let mut reader = Reader::new(source)?;
        let mut survey = Survey::default();
        let mut met = Met::default();
        loop {
            match reader.next_record() {
                Ok(Some(record)) => survey.look_at(&record, &mut met),
                Ok(None) => break,
                Err(error) if error.is_cut() => {
                    survey.cut = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        survey.interfaces = reader.interfaces().to_vec();
        survey.frames_by_interface.resize(survey.interfaces.len(), 0);
        let spoken_to = std::mem::take(&mut survey.silent);
        survey.silent = spoken_to
            .into_iter()
            .filter(|mac| !met.senders.contains(mac))
            .collect();
        Ok(survey)
    }

    fn look_at(&mut self, record: &Record, met: &mut Met) {
        if self.frames == 0 {
            self.first_ns = record.at_ns.unwrap_or(0);
        }
        self.frames += 1;
        self.partial += u64::from((record.data.len() as u32) < record.len);
        if self.frames_by_interface.len() <= record.interface {
            self.frames_by_interface.resize(record.interface + 1, 0);
        }
        self.frames_by_interface[record.interface] += 1;
        let glance = Glance::of(record);
        let Some((to, from)) = glance.addresses else {
            return;
        };
        if is_group(from) || glance.is_link_local() {
            return;
        }
        if met.senders.insert(from) {
            self.senders.push(from);
        }
        if !is_group(to) && met.receivers.insert(to) {
            self.silent.push(to);
        }
        for station in [from, to].into_iter().filter(|mac| !is_group(*mac)) {
            let sighting = Sighting {
                station,
                sender: from,
                interface: record.interface,
                outbound: record.direction == Direction::Outbound,
                tag: glance.parsed.tag,
            };
            let vid = sighting.tag.map(Tag::vid);
            if met
                .sightings
                .insert((station, station == from, sighting.outbound, vid))
            {
                self.sightings.push(sighting);
            }
        }
    }
}

/// What has been met already.
#[derive(Debug, Default)]
struct Met {
    senders: HashSet<Mac>,
    receivers: HashSet<Mac>,
    /// Station, whether it sent, whether the frame was outbound, VLAN.
    sightings: HashSet<(Mac, bool, bool, Option<u16>)>,
}
