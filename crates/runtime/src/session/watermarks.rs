//! The three maxima that SONiC keeps of each watermark: user, persistent and periodic.
//!
//! The data plane keeps one peak value of each gauge since the last read-and-clear. The session keeps three
//! maxima for each gauge. To clear a watermark, the session first updates all three maxima with the peak of
//! the data plane, then resets the selected maximum. The packet path needs no extra work, and no
//! peak is lost.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use xoff_dataplane::counters::Occupancy;

use crate::control::{WatermarkKind, WatermarkPart};
use xoff_telemetry::{PortSnapshot, SwitchSnapshot};

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

/// The peak of each gauge in cells.
type Peaks = BTreeMap<GaugeKey, u32>;

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

    /// Replaces the peaks of a snapshot by the maxima of a kind.
    pub(super) fn apply_to(&self, kind: WatermarkKind, snapshot: &mut SwitchSnapshot) {
        let maxima = &self.maxima[kind_index(kind)];
        visit_gauges(snapshot, |key, gauge| {
            let before = maxima.get(&key).copied().unwrap_or(0);
            gauge.peak_cells = gauge.peak_cells.max(before);
        });
    }

    /// Updates all maxima with the peaks of a snapshot that was read and cleared. Then resets a part of the
    /// maxima of one kind.
    pub(super) fn clear(
        &mut self,
        mut cleared_snapshot: SwitchSnapshot,
        kind: WatermarkKind,
        part: WatermarkPart,
    ) {
        for maxima in &mut self.maxima {
            visit_gauges(&mut cleared_snapshot, |key, gauge| {
                let peak = maxima.entry(key).or_default();
                *peak = gauge.peak_cells.max(*peak);
            });
        }
        self.maxima[kind_index(kind)].retain(|key, _| match key {
            GaugeKey::Numbered { kind, .. } | GaugeKey::Pool { kind, .. } => !kind.belongs_to(part),
        });
    }

    /// Returns the rest of the present period.
    pub(super) fn period_left(&self, now: Instant, interval: Duration) -> Duration {
        interval.saturating_sub(now.saturating_duration_since(self.period_start))
    }

    /// Ends the period and resets the periodic maxima.
    pub(super) fn next_period(&mut self, cleared_snapshot: SwitchSnapshot, now: Instant) {
        self.clear(cleared_snapshot, WatermarkKind::Periodic, WatermarkPart::All);
        self.period_start = now;
    }
}

fn kind_index(kind: WatermarkKind) -> usize {
    KINDS.iter().position(|known| *known == kind).unwrap_or(0)
}

/// Calls `visit` for each gauge with a watermark.
fn visit_gauges(snapshot: &mut SwitchSnapshot, mut visit: impl FnMut(GaugeKey, &mut Occupancy)) {
    for (port, port_snapshot) in snapshot.ports.iter_mut().enumerate() {
        visit_port_gauges(port_snapshot, |number, kind, gauge| {
            visit(GaugeKey::Numbered { port, number, kind }, gauge);
        });
    }
    for pool in &mut snapshot.pools {
        let mut visit = |kind, gauge| {
            let name = pool.name.clone();
            visit(GaugeKey::Pool { name, kind }, gauge);
        };
        visit(GaugeKind::PoolShared, &mut pool.buffers.shared);
        visit(GaugeKind::PoolHeadroom, &mut pool.buffers.headroom);
    }
}

/// Calls `visit` for each gauge of a port with the number of its priority group or queue.
fn visit_port_gauges(port: &mut PortSnapshot, mut visit: impl FnMut(usize, GaugeKind, &mut Occupancy)) {
    for (number, group) in port.pgs.iter_mut().enumerate() {
        visit(number, GaugeKind::GroupTotal, &mut group.total);
        visit(number, GaugeKind::GroupShared, &mut group.shared);
        visit(number, GaugeKind::GroupHeadroom, &mut group.headroom);
    }
    for (number, queue) in port.queues.iter_mut().enumerate() {
        visit(number, GaugeKind::QueueTotal, &mut queue.total);
        visit(number, GaugeKind::QueueShared, &mut queue.shared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_telemetry::samples::sample_snapshot;

    /// Returns the snapshot of a switch. Priority group 3 of port 0 and the first pool have the given
    /// use and peak.
    fn snapshot_with_use(current_cells: u32, peak_cells: u32) -> SwitchSnapshot {
        let mut snapshot = sample_snapshot();
        let gauge = Occupancy {
            current_cells,
            peak_cells,
        };
        visit_gauges(&mut snapshot, |_, gauge| {
            *gauge = Occupancy {
                current_cells: 0,
                peak_cells: 0,
            }
        });
        snapshot.ports[0].pgs[3].shared = gauge;
        snapshot.ports[0].pgs[3].headroom = gauge;
        snapshot.pools[0].buffers.shared = gauge;
        snapshot
    }

    /// Returns three watermarks of each kind: the shared use of priority group 3, the headroom of priority
    /// group 3, and the use of the pool.
    fn shown_peaks(watermarks: &Watermarks, now: u32, peak: u32) -> [(u32, u32, u32); 3] {
        KINDS.map(|kind| {
            let mut snapshot = snapshot_with_use(now, peak);
            watermarks.apply_to(kind, &mut snapshot);
            let group = snapshot.ports[0].pgs[3];
            (
                group.shared.peak_cells,
                group.headroom.peak_cells,
                snapshot.pools[0].buffers.shared.peak_cells,
            )
        })
    }

    #[test]
    fn kinds_and_parts_of_watermarks_are_cleared_independently() {
        let start = Instant::now();
        let mut watermarks = Watermarks::new(start);
        assert_eq!(shown_peaks(&watermarks, 5, 9), [(9, 9, 9); 3]);
        watermarks.clear(
            snapshot_with_use(5, 9),
            WatermarkKind::User,
            WatermarkPart::PriorityGroupShared,
        );
        // The peak of the data plane now equals its present use.
        assert_eq!(shown_peaks(&watermarks, 5, 5), [(5, 9, 9), (9, 9, 9), (9, 9, 9)]);
        assert_eq!(shown_peaks(&watermarks, 5, 7), [(7, 9, 9), (9, 9, 9), (9, 9, 9)]);
        watermarks.next_period(snapshot_with_use(2, 7), start + DEFAULT_PERIOD);
        assert_eq!(shown_peaks(&watermarks, 2, 2), [(7, 9, 9), (9, 9, 9), (2, 2, 2)]);
        watermarks.clear(
            snapshot_with_use(2, 2),
            WatermarkKind::Persistent,
            WatermarkPart::All,
        );
        assert_eq!(shown_peaks(&watermarks, 0, 3), [(7, 9, 9), (3, 3, 3), (3, 3, 3)]);
        watermarks.clear(snapshot_with_use(0, 3), WatermarkKind::User, WatermarkPart::Pool);
        assert_eq!(shown_peaks(&watermarks, 0, 0)[0], (7, 9, 0));
        watermarks.clear(
            snapshot_with_use(0, 0),
            WatermarkKind::User,
            WatermarkPart::PriorityGroupHeadroom,
        );
        assert_eq!(shown_peaks(&watermarks, 0, 0)[0], (7, 0, 0));
    }

    #[test]
    fn a_period_ends_after_its_interval() {
        let start = Instant::now();
        let mut watermarks = Watermarks::new(start);
        let at_second = |second| start + Duration::from_secs(second);
        assert_eq!(
            watermarks.period_left(at_second(20), DEFAULT_PERIOD),
            Duration::from_secs(100)
        );
        assert_eq!(
            watermarks.period_left(at_second(121), DEFAULT_PERIOD),
            Duration::ZERO
        );
        watermarks.next_period(snapshot_with_use(0, 0), at_second(121));
        assert_eq!(
            watermarks.period_left(at_second(122), DEFAULT_PERIOD),
            Duration::from_secs(119)
        );
    }
}
