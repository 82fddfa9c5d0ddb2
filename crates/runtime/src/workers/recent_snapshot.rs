//! The latest snapshot of a switch, and a limit of the number of snapshots per second.
//!
//! The switch forwards no frame while it takes a snapshot. Clients of the control API must not slow down the packet
//! path, so a client that asks too often gets the latest snapshot again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use xoff_telemetry::SwitchSnapshot;

/// Interval in which the permission for one more snapshot is added. If the permissions are used up, a snapshot is at
/// most as old as this interval.
const PERMISSION_INTERVAL: Duration = Duration::from_millis(10);
/// Largest number of saved permissions. A client that asks now and then always gets the present state.
const PERMISSIONS_MAX: u32 = 20;

/// The permissions to take snapshots.
#[derive(Debug)]
struct SnapshotPermissions {
    count: u32,
    /// Time of the latest added permission.
    added_at: Instant,
}

impl SnapshotPermissions {
    /// Uses a permission. Returns `false` if there is none at the time `now`.
    fn use_permission(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.added_at);
        let added = u32::try_from(elapsed.as_nanos() / PERMISSION_INTERVAL.as_nanos()).unwrap_or(u32::MAX);
        self.count = self.count.saturating_add(added).min(PERMISSIONS_MAX);
        self.added_at = match added {
            0..PERMISSIONS_MAX => self.added_at + PERMISSION_INTERVAL * added,
            _ => now,
        };
        let is_permitted = self.count > 0;
        self.count = self.count.saturating_sub(1);
        is_permitted
    }
}

/// The latest snapshot of a switch.
#[derive(Debug)]
pub(super) struct RecentSnapshot {
    /// Number of commands that have changed the switch.
    changes: AtomicU64,
    state: Mutex<(SnapshotPermissions, Option<(u64, SwitchSnapshot)>)>,
}

impl RecentSnapshot {
    pub(super) fn new(now: Instant) -> RecentSnapshot {
        let permissions = SnapshotPermissions {
            count: PERMISSIONS_MAX,
            added_at: now,
        };
        RecentSnapshot {
            changes: AtomicU64::new(0),
            state: Mutex::new((permissions, None)),
        }
    }

    /// Records that a command that changes the switch was sent. Snapshots from before are not used again.
    pub(super) fn record_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the snapshot that `take` takes. If the permissions are used up at the time `now`, returns the latest
    /// snapshot again, unless a command has changed the switch since. Returns `None` if `take` does.
    pub(super) fn read(
        &self,
        now: Instant,
        take: impl FnOnce() -> Option<SwitchSnapshot>,
    ) -> Option<SwitchSnapshot> {
        let changes = self.changes.load(Ordering::Acquire);
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let is_permitted = state.0.use_permission(now);
            if let (false, Some((at_change, snapshot))) = (is_permitted, &state.1)
                && *at_change == changes
            {
                return Some(snapshot.clone());
            }
        }
        let snapshot = take()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = Some((changes, snapshot.clone()));
        Some(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A snapshot with a number, to tell snapshots apart.
    fn numbered(number: u64) -> SwitchSnapshot {
        let mut snapshot = SwitchSnapshot::default();
        snapshot.report.worker_busy_ns = Some(number);
        snapshot
    }

    #[test]
    fn a_client_that_asks_too_often_gets_the_latest_snapshot_again() {
        let start = Instant::now();
        let recent = RecentSnapshot::new(start);
        let mut taken = 0;
        let mut read_at = |micros: u64, recent: &RecentSnapshot| {
            let snapshot = recent.read(start + Duration::from_micros(micros), || {
                taken += 1;
                Some(numbered(taken))
            });
            snapshot.and_then(|snapshot| snapshot.report.worker_busy_ns)
        };
        for number in 1..=20 {
            assert_eq!(read_at(0, &recent), Some(number), "the present state");
        }
        assert_eq!(read_at(0, &recent), Some(20));
        assert_eq!(read_at(9_999, &recent), Some(20));
        // A permission every 10 ms.
        assert_eq!(read_at(10_000, &recent), Some(21));
        assert_eq!(read_at(10_001, &recent), Some(21));
        // One thousand reads per second need one hundred snapshots.
        let numbers: Vec<_> = (0..1_000).map(|n| read_at(20_000 + n * 1_000, &recent)).collect();
        assert_eq!(numbers.last(), Some(&Some(121)));
        // After a pause, the present state again, several times.
        assert_eq!(read_at(60_000_000, &recent), Some(122));
        assert_eq!(read_at(60_000_000, &recent), Some(123));
    }

    #[test]
    fn a_snapshot_from_before_a_change_is_not_used_again() {
        let start = Instant::now();
        let recent = RecentSnapshot::new(start);
        for number in 0..40 {
            assert!(recent.read(start, || Some(numbered(number))).is_some());
        }
        recent.record_change();
        let read = |number| {
            let snapshot = recent.read(start, || Some(numbered(number)));
            snapshot.and_then(|snapshot| snapshot.report.worker_busy_ns)
        };
        assert_eq!(read(77), Some(77));
        assert_eq!(read(78), Some(77));
    }

    #[test]
    fn a_switch_that_has_ended_has_no_snapshot() {
        let start = Instant::now();
        let recent = RecentSnapshot::new(start);
        assert_eq!(recent.read(start, || None), None);
    }
}
