//! The PFC watchdog of a switch in JSON: what it is told, what it has seen and done, and each storm.

use serde::{Deserialize, Serialize};
use xoff_dataplane::{StormCounters, WatchdogStats, WatchdogStatus};

/// The PFC watchdog of a switch. Times of events are model time.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct WatchdogReport {
    /// `PFC_WD|GLOBAL POLL_INTERVAL`, or what holds without it, in milliseconds.
    pub poll_interval_ms: u64,
    /// `BIG_RED_SWITCH`: every watched queue drops.
    pub big_red_switch: bool,
    /// Whose rule holds for empty queues: `broadcom`, `nvidia` or `vs`.
    pub rule: String,
    /// Ports with a watchdog, in the order of the configuration.
    pub ports: Vec<WatchdogPort>,
    /// Watched queues, by port and number.
    pub queues: Vec<WatchdogQueue>,
    /// Storms, in the order of their detection.
    pub storms: Vec<StormReport>,
    /// Events that were not kept, since there were too many: `storms` ends before them.
    pub events_missed: u64,
}

/// What the watchdog of a port is told (`PFC_WD|<port>`).
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct WatchdogPort {
    /// Name of the port.
    pub port: String,
    /// `drop`, `forward` or `alert`.
    pub action: String,
    /// In milliseconds.
    pub detection_time_ms: u64,
    /// In milliseconds; null: storms are never over.
    pub restoration_time_ms: Option<u64>,
    /// Whether pauses are shown one by one.
    pub pfc_stat_history: bool,
    /// Numbers of the queues it watches.
    pub queues: Vec<u8>,
}

/// What the watchdog has seen and done at a queue, under the names of SONiC's `COUNTERS_DB`. Frames are those during storms:
/// sent by the queue, and received in its priority group of the port.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the serialised names are SONiC's own and docs/report.md describes them"
)]
pub struct WatchdogQueue {
    /// Name of the port.
    pub port: String,
    /// Number of the queue.
    pub queue: u8,
    #[serde(rename = "PFC_WD_STATUS")]
    pub status: String,
    #[serde(rename = "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED")]
    pub detected: u64,
    #[serde(rename = "PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED")]
    pub restored: u64,
    #[serde(rename = "PFC_WD_QUEUE_STATS_TX_PACKETS")]
    pub tx_packets: u64,
    #[serde(rename = "PFC_WD_QUEUE_STATS_TX_DROPPED_PACKETS")]
    pub tx_dropped_packets: u64,
    #[serde(rename = "PFC_WD_QUEUE_STATS_RX_PACKETS")]
    pub rx_packets: u64,
    #[serde(rename = "PFC_WD_QUEUE_STATS_RX_DROPPED_PACKETS")]
    pub rx_dropped_packets: u64,
    #[serde(rename = "PFC_WD_QUEUE_STATS_TX_PACKETS_LAST")]
    pub tx_packets_last: u64,
    #[serde(rename = "PFC_WD_QUEUE_STATS_TX_DROPPED_PACKETS_LAST")]
    pub tx_dropped_packets_last: u64,
    #[serde(rename = "PFC_WD_QUEUE_STATS_RX_PACKETS_LAST")]
    pub rx_packets_last: u64,
    #[serde(rename = "PFC_WD_QUEUE_STATS_RX_DROPPED_PACKETS_LAST")]
    pub rx_dropped_packets_last: u64,
}

impl WatchdogQueue {
    /// A queue of a port.
    pub fn new(port: &str, queue: u8, stats: &WatchdogStats) -> WatchdogQueue {
        let (total, last) = (&stats.total, &stats.last);
        WatchdogQueue {
            port: port.to_owned(),
            queue,
            status: match stats.status {
                WatchdogStatus::Operational => "operational",
                // As SONiC, which has no word of its own for the big red switch.
                WatchdogStatus::Stormed | WatchdogStatus::BigRedSwitch => "stormed",
            }
            .to_owned(),
            detected: stats.storms_detected,
            restored: stats.storms_restored,
            tx_packets: total.tx_packets,
            tx_dropped_packets: total.tx_dropped_packets,
            rx_packets: total.rx_packets,
            rx_dropped_packets: total.rx_dropped_packets,
            tx_packets_last: last.tx_packets,
            tx_dropped_packets_last: last.tx_dropped_packets,
            rx_packets_last: last.rx_packets,
            rx_dropped_packets_last: last.rx_dropped_packets,
        }
    }

    /// Whether a storm is on, or the big red switch.
    pub fn is_stormed(&self) -> bool {
        self.status == "stormed"
    }
}

/// A storm.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct StormReport {
    /// Name of the port whose peer held it.
    pub port: String,
    /// Number of the queue.
    pub queue: u8,
    /// What was done about it: `drop`, `forward` or `alert`.
    pub action: String,
    /// When it was detected, in nanoseconds.
    pub detected_ns: u64,
    /// How long the queue had been paused by then, or without progress if that is shorter, in nanoseconds.
    pub paused_ns: u64,
    /// When it was over, in nanoseconds; null: it is not.
    pub restored_ns: Option<u64>,
    /// Frames the queue sent during it.
    pub tx_packets: u64,
    /// Frames for the queue that were dropped, those that waited at its detection included.
    pub tx_dropped_packets: u64,
    /// Frames accepted in the queue's priority group of the port.
    pub rx_packets: u64,
    /// Frames dropped there.
    pub rx_dropped_packets: u64,
}

impl StormReport {
    /// Enters the frames of the storm.
    pub fn count(&mut self, storm: &StormCounters) {
        self.tx_packets = storm.tx_packets;
        self.tx_dropped_packets = storm.tx_dropped_packets;
        self.rx_packets = storm.rx_packets;
        self.rx_dropped_packets = storm.rx_dropped_packets;
    }
}

/// Pauses of one priority that a port has received (`show pfc counters --history`).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct PauseHistoryReport {
    /// Times the priority was stopped while it ran.
    pub transitions: u64,
    /// Time it was stopped, in nanoseconds.
    pub total_pause_ns: u64,
    /// How long the latest pause lasted, or has lasted so far, in nanoseconds.
    pub recent_pause_ns: u64,
    /// When the latest pause began, in nanoseconds of model time; null: there was none.
    pub recent_pause_at_ns: Option<u64>,
}
