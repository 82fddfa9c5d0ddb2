//! Storm statistics of a watched queue.

use core::ops::{AddAssign, Sub};

use xoff_units::Picos;

/// State of a watched queue in its statistics (`PFC_WD_STATUS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchdogStatus {
    /// The queue is not in a storm.
    #[default]
    Operational,
    /// A storm was detected and has not ended.
    Stormed,
    /// The big red switch is on, so the queue drops all frames without a detected storm. SONiC shows this
    /// state as stormed.
    BigRedSwitch,
}

/// Numbers of frames of a queue during storms and while the big red switch was on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StormCounters {
    /// Frames sent from the queue (`TX_PACKETS`).
    pub tx_packets: u64,
    /// Frames for the queue that were dropped (`TX_DROPPED_PACKETS`). Frames that waited when the storm was
    /// detected are included.
    pub tx_dropped_packets: u64,
    /// Frames received and accepted in the priority groups of the queue (`RX_PACKETS`).
    pub rx_packets: u64,
    /// Frames received and dropped in the priority groups of the queue (`RX_DROPPED_PACKETS`).
    pub rx_dropped_packets: u64,
}

impl AddAssign for StormCounters {
    fn add_assign(&mut self, rhs: StormCounters) {
        self.tx_packets += rhs.tx_packets;
        self.tx_dropped_packets += rhs.tx_dropped_packets;
        self.rx_packets += rhs.rx_packets;
        self.rx_dropped_packets += rhs.rx_dropped_packets;
    }
}

impl Sub for StormCounters {
    type Output = StormCounters;
    fn sub(self, rhs: StormCounters) -> StormCounters {
        StormCounters {
            tx_packets: self.tx_packets - rhs.tx_packets,
            tx_dropped_packets: self.tx_dropped_packets - rhs.tx_dropped_packets,
            rx_packets: self.rx_packets - rhs.rx_packets,
            rx_dropped_packets: self.rx_dropped_packets - rhs.rx_dropped_packets,
        }
    }
}

/// Watchdog statistics of one queue (`PFC_WD_QUEUE_STATS_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchdogStats {
    /// Present state of the queue.
    pub status: WatchdogStatus,
    /// Number of detected storms (`DEADLOCK_DETECTED`).
    pub storms_detected: u64,
    /// Number of storms that have ended (`DEADLOCK_RESTORED`). During a storm, this number is one less than
    /// the number of detected storms.
    pub storms_restored: u64,
    /// Frames during all storms, and while the big red switch was on.
    pub total: StormCounters,
    /// Frames during the latest storm or period of the big red switch, including a current one (`*_LAST`).
    pub last: StormCounters,
    /// Model time at which the latest storm was detected. `None` if there was no storm.
    pub detected_at: Option<Picos>,
    /// Model time at which the latest ended storm was restored. `None` if no storm has ended.
    pub restored_at: Option<Picos>,
}

/// The statistics of a queue, and the values of its counters at the start of the current storm.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueStormStatistics {
    stats: WatchdogStats,
    /// Counter values of the queue that are already included in `stats`. `None` if no frames are
    /// being counted.
    counted_until: Option<StormCounters>,
}

impl QueueStormStatistics {
    /// Begins a storm or a period of the big red switch. `counters` are the current counters of the queue and
    /// its priority groups.
    pub(crate) fn begin_counting(&mut self, status: WatchdogStatus, now: Picos, counters: StormCounters) {
        self.stats.status = status;
        self.stats.last = StormCounters::default();
        self.counted_until = Some(counters);
        if status == WatchdogStatus::Stormed {
            self.stats.storms_detected += 1;
            self.stats.detected_at = Some(now);
        }
    }

    /// Ends the storm or the period of the big red switch.
    pub(crate) fn end_counting(&mut self, now: Picos, counters: StormCounters) {
        self.add_counts(counters);
        self.counted_until = None;
        if self.stats.status == WatchdogStatus::Stormed {
            self.stats.storms_restored += 1;
            self.stats.restored_at = Some(now);
        }
        self.stats.status = WatchdogStatus::Operational;
    }

    /// Adds the frames since the last call to the statistics.
    pub(crate) fn add_counts(&mut self, counters: StormCounters) {
        if let Some(counted_until) = self.counted_until.replace(counters) {
            self.stats.total += counters - counted_until;
            self.stats.last += counters - counted_until;
        } else {
            self.counted_until = None;
        }
    }

    /// Counts from `counters` on, after the queue has received other priority groups.
    pub(crate) fn restart_counts_from(&mut self, counters: StormCounters) {
        self.counted_until = self.counted_until.map(|_| counters);
    }

    /// Returns true if a storm was detected or frames were counted.
    pub(crate) fn has_counts(&self) -> bool {
        self.stats.storms_detected > 0 || self.stats.total != StormCounters::default()
    }

    /// Returns the statistics, including the frames up to `counters`.
    pub(crate) fn stats_at(&self, counters: StormCounters) -> WatchdogStats {
        let mut now = *self;
        now.add_counts(counters);
        now.stats
    }

    /// Clears the statistics. A current storm continues and still counts as detected.
    pub(crate) fn clear_statistics(&mut self, counters: StormCounters) {
        let status = self.stats.status;
        let stormed = status == WatchdogStatus::Stormed;
        self.stats = WatchdogStats {
            status,
            storms_detected: u64::from(stormed),
            detected_at: self.stats.detected_at.filter(|_| stormed),
            ..WatchdogStats::default()
        };
        self.restart_counts_from(counters);
    }
}
