//! What a watched queue's storms have cost.

use core::ops::{AddAssign, Sub};

use xoff_units::Picos;

/// Where a watched queue stands (`PFC_WD_STATUS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchdogStatus {
    /// No storm.
    #[default]
    Operational,
    /// A storm was detected and not restored yet.
    Stormed,
    /// It drops because of the big red switch. SONiC shows this as stormed.
    BigRedSwitch,
}

/// Frames during storms, those of the big red switch included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StormCounters {
    /// Sent from the queue (`TX_PACKETS`).
    pub tx_packets: u64,
    /// For the queue and dropped, what waited at the detection included (`TX_DROPPED_PACKETS`).
    pub tx_dropped_packets: u64,
    /// Received in the queue's priority groups on its port, and accepted (`RX_PACKETS`).
    pub rx_packets: u64,
    /// Received there and dropped (`RX_DROPPED_PACKETS`).
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

/// What the watchdog has seen and done at one queue (`PFC_WD_QUEUE_STATS_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchdogStats {
    /// Where the queue stands.
    pub status: WatchdogStatus,
    /// Storms detected (`DEADLOCK_DETECTED`).
    pub storms_detected: u64,
    /// Storms that are over (`DEADLOCK_RESTORED`); one less than detected exactly while the queue is stormed.
    pub storms_restored: u64,
    /// Frames of all storms.
    pub total: StormCounters,
    /// Frames of the latest storm, which may still be on (`*_LAST`).
    pub last: StormCounters,
    /// When the latest storm was detected, in model time.
    pub detected_at: Option<Picos>,
    /// When a storm was last restored, in model time.
    pub restored_at: Option<Picos>,
}

/// The statistics of a queue, and the counters from which those of the present storm are told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    stats: WatchdogStats,
    /// The queue's counters up to which all is in `stats`; `None`: no storm is on.
    settled: Option<StormCounters>,
}

impl Account {
    /// A storm, or the big red switch, begins. `counters` are those of the queue and its groups since ever.
    pub(crate) fn open(&mut self, status: WatchdogStatus, now: Picos, counters: StormCounters) {
        self.stats.status = status;
        self.stats.last = StormCounters::default();
        self.settled = Some(counters);
        if status == WatchdogStatus::Stormed {
            self.stats.storms_detected += 1;
            self.stats.detected_at = Some(now);
        }
    }

    /// It is over.
    pub(crate) fn close(&mut self, now: Picos, counters: StormCounters) {
        self.settle(counters);
        self.settled = None;
        if self.stats.status == WatchdogStatus::Stormed {
            self.stats.storms_restored += 1;
            self.stats.restored_at = Some(now);
        }
        self.stats.status = WatchdogStatus::Operational;
    }

    /// Takes over what was counted up to now.
    pub(crate) fn settle(&mut self, counters: StormCounters) {
        if let Some(settled) = self.settled.replace(counters) {
            self.stats.total += counters - settled;
            self.stats.last += counters - settled;
        } else {
            self.settled = None;
        }
    }

    /// Other groups belong to the queue from now on: `counters` are to be counted from here.
    pub(crate) fn restart_from(&mut self, counters: StormCounters) {
        self.settled = self.settled.map(|_| counters);
    }

    /// Whether there was anything to count.
    pub(crate) fn has_counted(&self) -> bool {
        self.stats.storms_detected > 0 || self.stats.total != StormCounters::default()
    }

    /// The statistics as of `counters`.
    pub(crate) fn stats(&self, counters: StormCounters) -> WatchdogStats {
        let mut now = *self;
        now.settle(counters);
        now.stats
    }

    /// Forgets what was counted. A storm that is on stays on, and stays one that was detected.
    pub(crate) fn clear(&mut self, counters: StormCounters) {
        let status = self.stats.status;
        let stormed = status == WatchdogStatus::Stormed;
        self.stats = WatchdogStats {
            status,
            storms_detected: u64::from(stormed),
            detected_at: self.stats.detected_at.filter(|_| stormed),
            ..WatchdogStats::default()
        };
        self.restart_from(counters);
    }
}
