//! The three maxima that SONiC keeps of every watermark: of the user, persistent, periodic.
//!
//! The data plane keeps one peak, since it was last taken. Each time something is to be cleared all peaks are taken at once and
//! go into all three maxima; then what was asked for starts again. So nothing is done for a frame, and no peak is lost.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use xoff_dataplane::counters::Occupancy;

use crate::control::{WatermarkKind, WatermarkPart};
use xoff_telemetry::{PortSnapshot, SwitchSnapshot};

/// Periodic watermarks start again after this long, unless `WATERMARK_TABLE|TELEMETRY_INTERVAL` says otherwise (SONiC).
pub(super) const INTERVAL: Duration = Duration::from_secs(120);

const KINDS: [WatermarkKind; 3] = [
    WatermarkKind::User,
    WatermarkKind::Persistent,
    WatermarkKind::Periodic,
];

/// What a peak belongs to: a port and one of eight, or a pool, which keeps its name in a new configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Numbered { port: usize, number: usize, of: Of },
    Pool { name: String, of: Of },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    GroupTotal,
    GroupShared,
    GroupHeadroom,
    QueueTotal,
    QueueShared,
    PoolShared,
    PoolHeadroom,
}

impl Of {
    fn is_part_of(self, part: WatermarkPart) -> bool {
        match part {
            WatermarkPart::All => true,
            WatermarkPart::PriorityGroupShared => matches!(self, Of::GroupShared),
            WatermarkPart::PriorityGroupHeadroom => matches!(self, Of::GroupHeadroom),
            WatermarkPart::Queue => matches!(self, Of::QueueShared | Of::QueueTotal),
            WatermarkPart::Pool => matches!(self, Of::PoolShared),
            WatermarkPart::HeadroomPool => matches!(self, Of::PoolHeadroom),
        }
    }
}

/// Peaks in cells.
type Peaks = BTreeMap<Place, u32>;

/// The maxima up to the last time the data plane's peaks were taken.
#[derive(Debug)]
pub(super) struct Watermarks {
    kept: [Peaks; 3],
    /// When the present period of the periodic ones began.
    began: Instant,
}

impl Watermarks {
    pub(super) fn new(now: Instant) -> Watermarks {
        Watermarks {
            kept: Default::default(),
            began: now,
        }
    }

    /// Puts the maxima of a kind in place of the peaks of a snapshot.
    pub(super) fn show(&self, kind: WatermarkKind, snapshot: &mut SwitchSnapshot) {
        let kept = &self.kept[index(kind)];
        each(snapshot, |place, gauge| {
            let before = kept.get(&place).copied().unwrap_or(0);
            gauge.peak_cells = gauge.peak_cells.max(before);
        });
    }

    /// Takes over peaks that the data plane has given up, and starts a part of a kind again.
    pub(super) fn clear(&mut self, mut taken: SwitchSnapshot, kind: WatermarkKind, part: WatermarkPart) {
        for kept in &mut self.kept {
            each(&mut taken, |place, gauge| {
                let kept = kept.entry(place).or_default();
                *kept = gauge.peak_cells.max(*kept);
            });
        }
        self.kept[index(kind)].retain(|place, _| match place {
            Place::Numbered { of, .. } | Place::Pool { of, .. } => !of.is_part_of(part),
        });
    }

    /// How long the present period still lasts.
    pub(super) fn period_left(&self, now: Instant, interval: Duration) -> Duration {
        interval.saturating_sub(now.saturating_duration_since(self.began))
    }

    /// The period is over: the periodic maxima start again.
    pub(super) fn next_period(&mut self, taken: SwitchSnapshot, now: Instant) {
        self.clear(taken, WatermarkKind::Periodic, WatermarkPart::All);
        self.began = now;
    }
}

fn index(kind: WatermarkKind) -> usize {
    KINDS.iter().position(|known| *known == kind).unwrap_or(0)
}

fn each(snapshot: &mut SwitchSnapshot, mut visit: impl FnMut(Place, &mut Occupancy)) {
    for (port, of_port) in snapshot.ports.iter_mut().enumerate() {
        each_of_port(of_port, |number, of, gauge| {
            visit(Place::Numbered { port, number, of }, gauge);
        });
    }
    for pool in &mut snapshot.pools {
        let mut visit = |of, gauge| {
            let name = pool.name.clone();
            visit(Place::Pool { name, of }, gauge);
        };
        visit(Of::PoolShared, &mut pool.buffers.shared);
        visit(Of::PoolHeadroom, &mut pool.buffers.headroom);
    }
}

fn each_of_port(port: &mut PortSnapshot, mut visit: impl FnMut(usize, Of, &mut Occupancy)) {
    for (number, group) in port.pgs.iter_mut().enumerate() {
        visit(number, Of::GroupTotal, &mut group.total);
        visit(number, Of::GroupShared, &mut group.shared);
        visit(number, Of::GroupHeadroom, &mut group.headroom);
    }
    for (number, queue) in port.queues.iter_mut().enumerate() {
        visit(number, Of::QueueTotal, &mut queue.total);
        visit(number, Of::QueueShared, &mut queue.shared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_telemetry::samples::sample_snapshot;

    /// A switch whose group 3 of port 0 holds `now` and held `peak` since it was last asked.
    fn at(now: u32, peak: u32) -> SwitchSnapshot {
        let mut snapshot = sample_snapshot();
        let gauge = Occupancy {
            current_cells: now,
            peak_cells: peak,
        };
        each(&mut snapshot, |_, gauge| {
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

    /// The watermarks of group 3: shared and headroom, by kind; then that of the pool.
    fn shown(watermarks: &Watermarks, now: u32, peak: u32) -> [(u32, u32, u32); 3] {
        KINDS.map(|kind| {
            let mut snapshot = at(now, peak);
            watermarks.show(kind, &mut snapshot);
            let group = snapshot.ports[0].pgs[3];
            (
                group.shared.peak_cells,
                group.headroom.peak_cells,
                snapshot.pools[0].buffers.shared.peak_cells,
            )
        })
    }

    #[test]
    fn each_kind_starts_again_by_itself_and_part_by_part() {
        let start = Instant::now();
        let mut watermarks = Watermarks::new(start);
        assert_eq!(shown(&watermarks, 5, 9), [(9, 9, 9); 3]);
        watermarks.clear(at(5, 9), WatermarkKind::User, WatermarkPart::PriorityGroupShared);
        // The data plane's peak is what is in use now.
        assert_eq!(shown(&watermarks, 5, 5), [(5, 9, 9), (9, 9, 9), (9, 9, 9)]);
        assert_eq!(shown(&watermarks, 5, 7), [(7, 9, 9), (9, 9, 9), (9, 9, 9)]);
        watermarks.next_period(at(2, 7), start + INTERVAL);
        assert_eq!(shown(&watermarks, 2, 2), [(7, 9, 9), (9, 9, 9), (2, 2, 2)]);
        watermarks.clear(at(2, 2), WatermarkKind::Persistent, WatermarkPart::All);
        assert_eq!(shown(&watermarks, 0, 3), [(7, 9, 9), (3, 3, 3), (3, 3, 3)]);
        watermarks.clear(at(0, 3), WatermarkKind::User, WatermarkPart::Pool);
        assert_eq!(shown(&watermarks, 0, 0)[0], (7, 9, 0));
        watermarks.clear(
            at(0, 0),
            WatermarkKind::User,
            WatermarkPart::PriorityGroupHeadroom,
        );
        assert_eq!(shown(&watermarks, 0, 0)[0], (7, 0, 0));
    }

    #[test]
    fn a_period_ends_when_its_interval_is_over() {
        let start = Instant::now();
        let mut watermarks = Watermarks::new(start);
        let at_second = |second| start + Duration::from_secs(second);
        assert_eq!(
            watermarks.period_left(at_second(20), INTERVAL),
            Duration::from_secs(100)
        );
        assert_eq!(watermarks.period_left(at_second(121), INTERVAL), Duration::ZERO);
        watermarks.next_period(at(0, 0), at_second(121));
        assert_eq!(
            watermarks.period_left(at_second(122), INTERVAL),
            Duration::from_secs(119)
        );
    }
}
