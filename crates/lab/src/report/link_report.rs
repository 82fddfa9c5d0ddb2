//! Traffic and load balance of links in a report.

use serde::{Deserialize, Serialize};
use xoff_dataplane::{LinkTiming, Picos};
use xoff_units::{jain_index, max_mean_ratio};

/// The report of one direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// Name of the link.
    pub name: String,
    /// The sending end of this direction: a switch port such as `leaf1:Ethernet16`, or the name of a host.
    pub from: String,
    /// The receiving end, in the same format as `from`.
    pub to: String,
    /// Speed of the sending end, in Mb/s.
    pub speed_mbps: u32,
    /// Frames sent since the start of the workload, without MAC control frames.
    pub tx_packets: u64,
    /// Bytes of the frames in `tx_packets`. The bytes of a frame are counted from the destination address to
    /// the FCS.
    pub tx_bytes: u64,
    /// Share of the time since the start of the workload for which frames, with preambles and gaps, occupied
    /// the link. The value 1 means that the link was always busy. `None` if no time has passed.
    pub utilisation: Option<f64>,
    /// Whether both ends are switches.
    pub between_switches: bool,
    /// Whether the workload could use this direction: the direction is on a shortest path from a sender to
    /// a receiver.
    pub usable: bool,
}

/// The load balance of the links between switches. Each direction of a link counts separately, and directions
/// that the workload could not use are left out. The load of a direction is the number of sent bytes, with
/// preambles and gaps, divided by the speed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkBalanceReport {
    /// Number *n* of usable link directions between switches.
    pub links: u32,
    /// Largest load divided by the mean load. The value is 1 if all loads are equal, and *n* if a single
    /// direction carries all traffic.
    pub max_mean_ratio: f64,
    /// Jain's fairness index `(sum x)^2 / (n * sum x^2)` of the *n* loads. The value is 1 if all loads are
    /// equal, and `1/n` if a single direction carries all traffic.
    pub jain_index: f64,
}

impl LinkBalanceReport {
    /// Computes the load balance of the links between switches. Returns `None` if the workload could use none
    /// of these links, or if they carried no traffic.
    pub fn of_links(links: &[LinkReport]) -> Option<LinkBalanceReport> {
        let balanced = links.iter().filter(|link| link.between_switches && link.usable);
        let loads: Vec<f64> = balanced.map(LinkReport::load).collect();
        Some(LinkBalanceReport {
            links: loads.len() as u32,
            max_mean_ratio: max_mean_ratio(&loads)?,
            jain_index: jain_index(&loads)?,
        })
    }
}

impl LinkReport {
    /// Returns the bytes on the link divided by the speed. The value is proportional to the time for which
    /// the link was busy.
    fn load(&self) -> f64 {
        let bytes = self.tx_bytes + self.tx_packets * u64::from(overhead_bytes_per_frame(self.speed_mbps));
        bytes as f64 / f64::from(self.speed_mbps.max(1))
    }

    pub(crate) fn utilisation_during(&self, span: Picos) -> Option<f64> {
        // A speed in Mb/s is a number of bits per microsecond.
        let span_us = span.0 as f64 / 1e6;
        (span.0 > 0).then(|| self.load() * 8.0 / span_us)
    }
}

/// Bytes of preamble, start delimiter and inter-frame gap of each frame.
fn overhead_bytes_per_frame(speed_mbps: u32) -> u32 {
    LinkTiming::ethernet(speed_mbps).overhead_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link_report(speed_mbps: u32, tx_bytes: u64, usable: bool) -> LinkReport {
        LinkReport {
            name: String::new(),
            from: String::new(),
            to: String::new(),
            speed_mbps,
            tx_packets: 0,
            tx_bytes,
            utilisation: None,
            between_switches: true,
            usable,
        }
    }

    #[test]
    fn balance_uses_usable_links_between_switches_and_their_speeds() {
        let equal = [
            link_report(100, 1_000, true),
            link_report(100, 1_000, true),
            link_report(100, 0, false),
        ];
        let balance = LinkBalanceReport::of_links(&equal).unwrap();
        assert_eq!(
            (balance.links, balance.max_mean_ratio, balance.jain_index),
            (2, 1.0, 1.0)
        );
        // Twice the bytes at twice the speed are the same load.
        let speeds = [link_report(100, 1_000, true), link_report(200, 2_000, true)];
        assert_eq!(LinkBalanceReport::of_links(&speeds).unwrap().max_mean_ratio, 1.0);
        // Loads 3, 1, 0, 0: the largest is three times the mean, and Jain's index 16 / (4 * 10).
        let uneven = [3_000, 1_000, 0, 0].map(|bytes| link_report(100, bytes, true));
        let balance = LinkBalanceReport::of_links(&uneven).unwrap();
        assert_eq!((balance.max_mean_ratio, balance.jain_index), (3.0, 0.4));
        assert_eq!(LinkBalanceReport::of_links(&[link_report(100, 0, true)]), None);
        let mut to_host = link_report(100, 1_000, true);
        to_host.between_switches = false;
        assert_eq!(LinkBalanceReport::of_links(&[to_host]), None);
    }

    #[test]
    fn utilisation_includes_preamble_and_gap() {
        let mut busy = link_report(100_000, 1_230 * 1_000, true);
        busy.tx_packets = 1_000;
        // 1250 bytes take 100 ns at 100 Gb/s.
        assert_eq!(busy.utilisation_during(Picos::from_micros(200)), Some(0.5));
        assert_eq!(busy.utilisation_during(Picos::ZERO), None);
    }
}
