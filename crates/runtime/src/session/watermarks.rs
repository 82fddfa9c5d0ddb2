//! The three maxima that SONiC keeps of each watermark: user, persistent and periodic.
//!
//! The data plane keeps one peak value of each gauge since the last read-and-clear. The session keeps three
//! maxima for each gauge. To clear a watermark, the session first updates all three maxima with the peak of
//! the data plane, then resets the selected maximum. The packet path needs no extra work, and no
//! peak is lost.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use xoff_control::{WatermarkKind, WatermarkPart};
use xoff_telemetry::{PortReport, SwitchReport};

/// Default period of the periodic watermarks, as in SONiC. `WATERMARK_TABLE|TELEMETRY_INTERVAL` changes it.
pub(super) const DEFAULT_PERIOD: Duration = Duration::from_secs(120);

const KINDS: [WatermarkKind; 3] = [
    WatermarkKind::User,
    WatermarkKind::Persistent,
    WatermarkKind::Periodic,
];

/// Identifies the gauge of a peak value. A priority group or queue is identified by its port and number. A
/// pool is identified by its name, because the name stays the same in a new configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GaugeKey {
    Numbered {
        port: usize,
        number: usize,
        kind: GaugeKind,
    },
    Pool {
        name: String,
        kind: GaugeKind,
    },
}

/// The kinds of gauges that have a watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GaugeKind {
    GroupTotal,
    GroupShared,
    GroupHeadroom,
    QueueTotal,
    QueueShared,
    PoolShared,
    PoolHeadroom,
}

impl GaugeKind {
    fn belongs_to(self, part: WatermarkPart) -> bool {
        match part {
            WatermarkPart::All => true,
            WatermarkPart::PriorityGroupShared => matches!(self, GaugeKind::GroupShared),
            WatermarkPart::PriorityGroupHeadroom => matches!(self, GaugeKind::GroupHeadroom),
            WatermarkPart::Queue => matches!(self, GaugeKind::QueueShared | GaugeKind::QueueTotal),
            WatermarkPart::Pool => matches!(self, GaugeKind::PoolShared),
            WatermarkPart::HeadroomPool => matches!(self, GaugeKind::PoolHeadroom),
        }
    }
}

/// The peak of each gauge in bytes.
type Peaks = BTreeMap<GaugeKey, u64>;

/// The maxima of all watermarks up to the last read-and-clear of the data plane.
#[derive(Debug)]
pub(super) struct Watermarks {
    maxima: [Peaks; 3],
    /// Start of the present period of the periodic watermarks.
    period_start: Instant,
}

impl Watermarks {
    pub(super) fn new(now: Instant) -> Watermarks {
        Watermarks {
            maxima: Default::default(),
            period_start: now,
        }
    }

    /// Replaces the watermarks of a report by the maxima of a kind.
    pub(super) fn apply_to(&self, kind: WatermarkKind, report: &mut SwitchReport) {
        let maxima = &self.maxima[kind_index(kind)];
        visit_gauges(report, |key, watermark| {
            let before = maxima.get(&key).copied().unwrap_or(0);
            *watermark = before.max(*watermark);
        });
    }

    /// Updates all maxima with the watermarks in `cleared`, which the switch has read and cleared. Then resets
    /// a part of the maxima of one kind.
    pub(super) fn clear(&mut self, mut cleared: SwitchReport, kind: WatermarkKind, part: WatermarkPart) {
        for maxima in &mut self.maxima {
            visit_gauges(&mut cleared, |key, watermark| {
                let peak = maxima.entry(key).or_default();
                *peak = (*watermark).max(*peak);
            });
        }
        self.maxima[kind_index(kind)].retain(|key, _| match key {
            GaugeKey::Numbered { kind, .. } | GaugeKey::Pool { kind, .. } => !kind.belongs_to(part),
        });
    }

    /// Returns the rest of the present period.
    pub(super) fn remaining_period(&self, now: Instant, interval: Duration) -> Duration {
        interval.saturating_sub(now.saturating_duration_since(self.period_start))
    }

    /// Ends the period and resets the periodic maxima.
    pub(super) fn next_period(&mut self, cleared: SwitchReport, now: Instant) {
        self.clear(cleared, WatermarkKind::Periodic, WatermarkPart::All);
        self.period_start = now;
    }
}

fn kind_index(kind: WatermarkKind) -> usize {
    KINDS.iter().position(|known| *known == kind).unwrap_or(0)
}

/// Calls `visit` for each gauge with its watermark in bytes.
fn visit_gauges(report: &mut SwitchReport, mut visit: impl FnMut(GaugeKey, &mut u64)) {
    for (port, port_report) in report.ports.iter_mut().enumerate() {
        visit_port_gauges(port_report, |number, kind, watermark| {
            visit(GaugeKey::Numbered { port, number, kind }, watermark);
        });
    }
    for pool in &mut report.pools {
        let mut visit = |kind, watermark| {
            let name = pool.name.clone();
            visit(GaugeKey::Pool { name, kind }, watermark);
        };
        visit(GaugeKind::PoolShared, &mut pool.watermark_bytes);
        visit(GaugeKind::PoolHeadroom, &mut pool.headroom_watermark_bytes);
    }
}

/// Calls `visit` for each gauge of a port with the number of its priority group or queue.
fn visit_port_gauges(port: &mut PortReport, mut visit: impl FnMut(usize, GaugeKind, &mut u64)) {
    for (number, group) in port.priority_groups.iter_mut().enumerate() {
        visit(number, GaugeKind::GroupTotal, &mut group.watermark_bytes);
        visit(number, GaugeKind::GroupShared, &mut group.shared_watermark_bytes);
        visit(
            number,
            GaugeKind::GroupHeadroom,
            &mut group.headroom_watermark_bytes,
        );
    }
    for (number, queue) in port.queues.iter_mut().enumerate() {
        visit(number, GaugeKind::QueueTotal, &mut queue.watermark_bytes);
        visit(number, GaugeKind::QueueShared, &mut queue.shared_watermark_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_telemetry::samples::sample_snapshot;

    /// Returns the report of a switch. The watermarks of priority group 3 of port 0 and of the first pool have
    /// the given value, and all other watermarks are 0.
    fn report_with_watermark(bytes: u64) -> SwitchReport {
        let mut report = sample_snapshot().report;
        visit_gauges(&mut report, |_, watermark| *watermark = 0);
        report.ports[0].priority_groups[3].shared_watermark_bytes = bytes;
        report.ports[0].priority_groups[3].headroom_watermark_bytes = bytes;
        report.pools[0].watermark_bytes = bytes;
        report
    }

    /// Returns three watermarks of each kind: the shared use of priority group 3, the headroom of priority
    /// group 3, and the use of the pool.
    fn shown_peaks(watermarks: &Watermarks, peak: u64) -> [(u64, u64, u64); 3] {
        KINDS.map(|kind| {
            let mut report = report_with_watermark(peak);
            watermarks.apply_to(kind, &mut report);
            let group = &report.ports[0].priority_groups[3];
            (
                group.shared_watermark_bytes,
                group.headroom_watermark_bytes,
                report.pools[0].watermark_bytes,
            )
        })
    }

    #[test]
    fn kinds_and_parts_of_watermarks_are_cleared_independently() {
        let start = Instant::now();
        let mut watermarks = Watermarks::new(start);
        assert_eq!(shown_peaks(&watermarks, 9), [(9, 9, 9); 3]);
        watermarks.clear(
            report_with_watermark(9),
            WatermarkKind::User,
            WatermarkPart::PriorityGroupShared,
        );
        // The peak of the data plane now equals its present use.
        assert_eq!(shown_peaks(&watermarks, 5), [(5, 9, 9), (9, 9, 9), (9, 9, 9)]);
        assert_eq!(shown_peaks(&watermarks, 7), [(7, 9, 9), (9, 9, 9), (9, 9, 9)]);
        watermarks.next_period(report_with_watermark(7), start + DEFAULT_PERIOD);
        assert_eq!(shown_peaks(&watermarks, 2), [(7, 9, 9), (9, 9, 9), (2, 2, 2)]);
        watermarks.clear(
            report_with_watermark(2),
            WatermarkKind::Persistent,
            WatermarkPart::All,
        );
        assert_eq!(shown_peaks(&watermarks, 3), [(7, 9, 9), (3, 3, 3), (3, 3, 3)]);
        watermarks.clear(report_with_watermark(3), WatermarkKind::User, WatermarkPart::Pool);
        assert_eq!(shown_peaks(&watermarks, 0)[0], (7, 9, 0));
        watermarks.clear(
            report_with_watermark(0),
            WatermarkKind::User,
            WatermarkPart::PriorityGroupHeadroom,
        );
        assert_eq!(shown_peaks(&watermarks, 0)[0], (7, 0, 0));
    }

    #[test]
    fn a_period_ends_after_its_interval() {
        let start = Instant::now();
        let mut watermarks = Watermarks::new(start);
        let at_second = |second| start + Duration::from_secs(second);
        assert_eq!(
            watermarks.remaining_period(at_second(20), DEFAULT_PERIOD),
            Duration::from_secs(100)
        );
        assert_eq!(
            watermarks.remaining_period(at_second(121), DEFAULT_PERIOD),
            Duration::ZERO
        );
        watermarks.next_period(report_with_watermark(0), at_second(121));
        assert_eq!(
            watermarks.remaining_period(at_second(122), DEFAULT_PERIOD),
            Duration::from_secs(119)
        );
    }
}
