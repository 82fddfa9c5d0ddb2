//! Stages between the headers and the way of a frame: its class, and the ports behind addresses.

use std::hint::black_box;

use xoff_dataplane::config::{ClassMaps, TrustMode};
use xoff_dataplane::stages::{Fdb, MacAddress};
use xoff_dataplane::{LogicalPort, Picos};
use xoff_wire::VlanTag;
use xoff_wire::parse::{ParsedHeaders, parse};

use super::FLOWS;
use xoff_measure::frame_cost::BURST;
use xoff_measure::frame_cost::{Load, run_bursts};

/// Maps the headers of 64 frames in turn: of eight classes, on ports that trust DSCP; each fourth one tagged, on one that trusts the
/// tag.
#[derive(Debug)]
pub(super) struct Classifying {
    /// Maps of the ports: by DSCP, by tag.
    maps: [ClassMaps; 2],
    /// What the headers say, and which port it came in by.
    frames: Vec<(ParsedHeaders, usize)>,
}

impl Classifying {
    pub(super) fn new() -> Classifying {
        let dscp = ClassMaps {
            // Groups and queues that are not the class itself, as a configuration may have them.
            tc_to_pg: std::array::from_fn(|tc| 7 - tc as u8 % 8),
            tc_to_queue: std::array::from_fn(|tc| (tc as u8 + 1) % 8),
            ..crate::switch_config::port_config(0).classify
        };
        let tag = ClassMaps {
            trust: TrustMode::Pcp,
            ..dscp
        };
        Classifying {
            maps: [dscp, tag],
            frames: (0..FLOWS).map(classified_frame).collect(),
        }
    }

    /// Traffic class, priority group and queue of a frame.
    #[inline(always)]
    fn classify(&self, (parsed, port): &(ParsedHeaders, usize)) -> (u8, u8, usize) {
        let maps = &self.maps[port % 2];
        let tc = maps.traffic_class(parsed);
        // The queue is the egress port's to say.
        (tc, maps.priority_group(tc), self.maps[0].queue(tc))
    }
}

/// What the headers of frame `n` say, and whether the port it comes in by trusts DSCP (0) or the tag (1). Class `n % 8` by either.
fn classified_frame(n: u32) -> (ParsedHeaders, usize) {
    let class = (n % 8) as u8;
    let tagged = n / 8 % 4 == 3;
    // DSCP that must not count where the tag is trusted.
    let dscp = if tagged { 7 - class } else { class };
    let addresses = ([10, 0, 0, 1].into(), [10, 0, 1, n as u8].into());
    let mut frame =
        xoff_measure::frame_cost::roce_frame(1_082, [2; 6], [4; 6], addresses.0, addresses.1, dscp, n);
    if tagged {
        let VlanTag { tpid, tci } = VlanTag::dot1q(class, 100);
        let octets = [tpid.to_be_bytes(), tci.to_be_bytes()].concat();
        frame.splice(12..12, octets);
    }
    (parse(&frame), usize::from(tagged))
}

impl Load for Classifying {
    fn run(&mut self, frames: u64) -> u64 {
        let mut at = 0;
        run_bursts(frames, || {
            for frame in &self.frames[at..at + BURST] {
                black_box(self.classify(black_box(frame)));
            }
            at = (at + BURST) % self.frames.len();
        })
    }

    fn check(&self) -> Result<(), String> {
        for (n, frame) in self.frames.iter().enumerate() {
            let class = n % 8;
            let found = self.classify(frame);
            if found != (class as u8, 7 - class as u8, (class + 1) % 8) {
                return Err(format!("frame {n} is of class, group and queue {found:?}"));
            }
        }
        Ok(())
    }
}

/// Addresses that are known.
const STATIONS: u32 = 1_000;
/// Ports that they are behind.
const PORTS: u32 = 8;
/// The VLAN of all of them.
const VLAN: u16 = 100;

/// Learns the source and looks up the destination of 64 frames in turn: of pairs of stations that talk to each other, among 1000.
#[derive(Debug)]
pub(super) struct MacLookup {
    fdb: Fdb,
    now: Picos,
    /// How frames begin, and the port each comes in by.
    frames: Vec<([u8; 64], LogicalPort)>,
}

impl MacLookup {
    pub(super) fn new() -> MacLookup {
        let mut fdb = Fdb::new(4_096, Picos::from_millis(600_000));
        for n in 0..STATIONS {
            fdb.learn(Picos::ZERO, VLAN, MacAddress::from_bytes(station(n)), port_of(n));
        }
        let frame = |n: u32| {
            let (from, to) = (nth_station(n), nth_station(n ^ 1));
            let mut frame = [0; 64];
            frame[..6].copy_from_slice(&station(to));
            frame[6..12].copy_from_slice(&station(from));
            (frame, port_of(from))
        };
        MacLookup {
            fdb,
            now: Picos::ZERO,
            frames: (0..FLOWS).map(frame).collect(),
        }
    }
}

/// The station that sends frame `n`: spread over all of them.
fn nth_station(n: u32) -> u32 {
    n * 389 % STATIONS
}

fn station(n: u32) -> [u8; 6] {
    let [.., high, low] = n.to_be_bytes();
    [2, 0, 0, port_of(n).0 as u8, high, low]
}

fn port_of(n: u32) -> LogicalPort {
    LogicalPort((n % PORTS) as u16)
}

impl Load for MacLookup {
    fn run(&mut self, frames: u64) -> u64 {
        let mut at = 0;
        run_bursts(frames, || {
            self.now = self.now.saturating_add(Picos::from_nanos(1));
            for (frame, port) in &self.frames[at..at + BURST] {
                if let Some((destination, source)) = MacAddress::destination_and_source(black_box(frame)) {
                    self.fdb.learn(self.now, VLAN, source, *port);
                    black_box(self.fdb.lookup(self.now, VLAN, destination));
                }
            }
            at = (at + BURST) % self.frames.len();
        })
    }

    fn check(&self) -> Result<(), String> {
        for n in 0..STATIONS {
            let found = self
                .fdb
                .lookup(self.now, VLAN, MacAddress::from_bytes(station(n)));
            if found != Some(port_of(n)) {
                return Err(format!("station {n} is behind {found:?}, not {:?}", port_of(n)));
            }
        }
        match self
            .fdb
            .lookup(self.now, VLAN, MacAddress::from_bytes(station(STATIONS)))
        {
            None => Ok(()),
            Some(port) => Err(format!("a station that never spoke is behind {port:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_is_not_the_expected_one_is_found() {
        let mut load = Classifying::new();
        load.maps[1].trust = TrustMode::Dscp;
        assert!(load.check().is_err());
    }

    #[test]
    fn a_station_that_has_moved_is_found() {
        let mut load = MacLookup::new();
        load.frames[5].1 = LogicalPort(9);
        load.run(64);
        assert!(load.check().unwrap_err().contains("LogicalPort(9)"));
    }
}
