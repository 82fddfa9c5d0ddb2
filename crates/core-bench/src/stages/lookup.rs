//! Loads for classification and for the MAC address table.

use std::hint::black_box;

use xoff_dataplane::config::{ClassMaps, TrustMode};
use xoff_dataplane::stages::{Fdb, MacAddress};
use xoff_dataplane::{LogicalPort, Picos};
use xoff_wire::VlanTag;
use xoff_wire::parse::{ParsedHeaders, parse};

use super::FLOWS;
use xoff_measure::frame_cost::BURST_FRAMES;
use xoff_measure::frame_cost::{FrameLoad, run_bursts};

/// Classifies 64 frames in turn. The frames use eight traffic classes.
///
/// Three quarters of the frames arrive at a port that trusts the DSCP. The last quarter of the frames has a
/// VLAN tag and arrives at a port that trusts the priority in the tag.
#[derive(Debug)]
pub(super) struct ClassificationLoad {
    /// Maps of the port that trusts the DSCP and of the port that trusts the tag.
    maps: [ClassMaps; 2],
    /// Parsed headers and ingress port of each frame.
    frames: Vec<(ParsedHeaders, usize)>,
}

impl ClassificationLoad {
    pub(super) fn new() -> ClassificationLoad {
        let dscp = ClassMaps {
            // The numbers of priority groups and queues differ from the traffic class, so the check finds a
            // wrong map.
            tc_to_pg: std::array::from_fn(|tc| 7 - tc as u8 % 8),
            tc_to_queue: std::array::from_fn(|tc| (tc as u8 + 1) % 8),
            ..crate::switch_config::port_config(0).classify
        };
        let tag = ClassMaps {
            trust: TrustMode::Pcp,
            ..dscp
        };
        ClassificationLoad {
            maps: [dscp, tag],
            frames: (0..FLOWS).map(headers_and_port).collect(),
        }
    }

    /// Returns the traffic class, the priority group and the queue of a frame.
    #[inline(always)]
    fn classify(&self, (parsed, port): &(ParsedHeaders, usize)) -> (u8, u8, usize) {
        let maps = &self.maps[port % 2];
        let tc = maps.traffic_class(parsed);
        // The maps of the egress port select the queue.
        (tc, maps.priority_group(tc), self.maps[0].queue(tc))
    }
}

/// Returns the headers and the ingress port of frame `n`. Port 0 trusts the DSCP, and port 1 trusts the tag.
/// The traffic class is `n % 8` at both ports.
fn headers_and_port(n: u32) -> (ParsedHeaders, usize) {
    let class = (n % 8) as u8;
    let tagged = n / 8 % 4 == 3;
    // The DSCP of a tagged frame belongs to another class, because the port must not use the DSCP.
    let dscp = if tagged { 7 - class } else { class };
    let addresses = ([10, 0, 0, 1].into(), [10, 0, 1, n as u8].into());
    let mut frame =
        xoff_measure::frame_cost::roce_frame(1_082, [2; 6], [4; 6], addresses.0, addresses.1, dscp, n);
    if tagged {
        let VlanTag { tpid, tci } = VlanTag::dot1q(class, 100);
        let tag = [tpid.to_be_bytes(), tci.to_be_bytes()].concat();
        frame.splice(12..12, tag);
    }
    (parse(&frame), usize::from(tagged))
}

impl FrameLoad for ClassificationLoad {
    fn run(&mut self, frames: u64) -> u64 {
        let mut first = 0;
        run_bursts(frames, || {
            for frame in &self.frames[first..first + BURST_FRAMES] {
                black_box(self.classify(black_box(frame)));
            }
            first = (first + BURST_FRAMES) % self.frames.len();
        })
    }

    fn check(&self) -> Result<(), String> {
        for (n, frame) in self.frames.iter().enumerate() {
            let class = n % 8;
            let found = self.classify(frame);
            if found != (class as u8, 7 - class as u8, (class + 1) % 8) {
                return Err(format!("frame {n} has the class, group and queue {found:?}"));
            }
        }
        Ok(())
    }
}

/// Number of MAC addresses in the table.
const STATIONS: u32 = 1_000;
/// Number of ports of the stations.
const PORTS: u32 = 8;
/// VLAN of all stations.
const VLAN: u16 = 100;

/// Learns the source and looks up the destination of 64 frames in turn.
///
/// The frames belong to pairs of stations that send to each other. The table contains 1000 stations.
#[derive(Debug)]
pub(super) struct MacLookupLoad {
    fdb: Fdb,
    now: Picos,
    /// First bytes and ingress port of each frame.
    frames: Vec<([u8; 64], LogicalPort)>,
}

impl MacLookupLoad {
    pub(super) fn new() -> MacLookupLoad {
        let mut fdb = Fdb::new(4_096, Picos::from_millis(600_000));
        for n in 0..STATIONS {
            fdb.learn(
                Picos::ZERO,
                VLAN,
                MacAddress::from_bytes(station_mac(n)),
                station_port(n),
            );
        }
        let frame = |n: u32| {
            let (from, to) = (sending_station(n), sending_station(n ^ 1));
            let mut frame = [0; 64];
            frame[..6].copy_from_slice(&station_mac(to));
            frame[6..12].copy_from_slice(&station_mac(from));
            (frame, station_port(from))
        };
        MacLookupLoad {
            fdb,
            now: Picos::ZERO,
            frames: (0..FLOWS).map(frame).collect(),
        }
    }
}

/// Returns the number of the station that sends frame `n`. The senders are spread over all stations.
fn sending_station(n: u32) -> u32 {
    n * 389 % STATIONS
}

fn station_mac(station: u32) -> [u8; 6] {
    let [.., high, low] = station.to_be_bytes();
    [2, 0, 0, station_port(station).0 as u8, high, low]
}

fn station_port(station: u32) -> LogicalPort {
    LogicalPort((station % PORTS) as u16)
}

impl FrameLoad for MacLookupLoad {
    fn run(&mut self, frames: u64) -> u64 {
        let mut first = 0;
        run_bursts(frames, || {
            self.now = self.now.saturating_add(Picos::from_nanos(1));
            for (frame, port) in &self.frames[first..first + BURST_FRAMES] {
                if let Some((destination, source)) = MacAddress::destination_and_source(black_box(frame)) {
                    self.fdb.learn(self.now, VLAN, source, *port);
                    black_box(self.fdb.lookup(self.now, VLAN, destination));
                }
            }
            first = (first + BURST_FRAMES) % self.frames.len();
        })
    }

    fn check(&self) -> Result<(), String> {
        for n in 0..STATIONS {
            let found = self
                .fdb
                .lookup(self.now, VLAN, MacAddress::from_bytes(station_mac(n)));
            if found != Some(station_port(n)) {
                return Err(format!("station {n} is at {found:?}, not {:?}", station_port(n)));
            }
        }
        match self
            .fdb
            .lookup(self.now, VLAN, MacAddress::from_bytes(station_mac(STATIONS)))
        {
            None => Ok(()),
            Some(port) => Err(format!("a station that sent no frame is at {port:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_reports_a_wrong_trust_mode() {
        let mut load = ClassificationLoad::new();
        load.maps[1].trust = TrustMode::Dscp;
        assert!(load.check().is_err());
    }

    #[test]
    fn the_check_reports_a_station_at_another_port() {
        let mut load = MacLookupLoad::new();
        load.frames[5].1 = LogicalPort(9);
        load.run(64);
        assert!(load.check().unwrap_err().contains("LogicalPort(9)"));
    }
}
