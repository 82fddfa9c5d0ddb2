//! The report of the PFC watchdog: configuration, counters and storms.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use xoff_dataplane::{StormCounters, WatchdogStats, WatchdogStatus};

/// The report of the PFC watchdog of a switch. The watchdog detects storms: queues that the peer pauses for
/// too long.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct WatchdogReport {
    /// Poll interval in milliseconds (`PFC_WD|GLOBAL` `POLL_INTERVAL`).
    pub poll_interval_ms: u64,
    /// True if the big red switch is on (`PFC_WD|GLOBAL` `BIG_RED_SWITCH`). In this state, all watched queues
    /// drop their frames.
    pub big_red_switch: bool,
    /// The rule that decides whether a paused queue without waiting frames is in a storm
    /// (`XOFF_PFC_WD|GLOBAL` `rule`): `broadcom`, `nvidia` or `vs`.
    /// [`WatchdogRule`](xoff_dataplane::config::WatchdogRule) explains the rules.
    pub rule: String,
    /// Ports with a watchdog, in the order of the configuration.
    pub ports: Vec<WatchdogPort>,
    /// Watched queues, in the order of the ports and then of the queue numbers.
    pub queues: Vec<WatchdogQueue>,
    /// Storms in the order of their detection.
    pub storms: Vec<StormReport>,
    /// Number of events that did not fit into the list of events. Storms of these events are missing
    /// in `storms`.
    pub events_missed: u64,
}

/// The watchdog configuration of a port (`PFC_WD|<port>`).
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct WatchdogPort {
    /// Name of the port.
    pub port: String,
    /// Watchdog action (`action`): `drop`, `forward` or `alert`.
    /// [`WatchdogAction`](xoff_dataplane::config::WatchdogAction) explains the actions.
    pub action: String,
    /// Detection time in milliseconds (`detection_time`).
    pub detection_time_ms: u64,
    /// Restoration time in milliseconds (`restoration_time`). If the value is null, a storm is
    /// never restored.
    pub restoration_time_ms: Option<u64>,
    /// Whether the history of received pauses is reported (`pfc_stat_history`, [`PauseHistoryReport`]).
    pub pfc_stat_history: bool,
    /// Numbers of the watched queues, 0 to 7: the queues of the priorities in `PORT_QOS_MAP.pfcwd_sw_enable`.
    pub queues: Vec<u8>,
}

/// The watchdog counters of a queue, with the names of SONiC `COUNTERS_DB`. The frame counters cover only the
/// time of storms and the time for which the big red switch was on. TX counters count frames of the queue. RX
/// counters count frames received in the priority groups of the queue at the same port. Counters with `LAST`
/// cover only the latest storm, or the latest time for which the big red switch was on.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the serialised names are SONiC's own and docs/report.md describes them"
)]
pub struct WatchdogQueue {
    /// Name of the port.
    pub port: String,
    /// Number of the queue, 0 to 7.
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
    /// Converts the counters of a queue. `port` is the name of the port, and `queue` is the number of
    /// the queue.
    pub fn new(port: &str, queue: u8, stats: &WatchdogStats) -> WatchdogQueue {
        let (total, last) = (&stats.total, &stats.last);
        WatchdogQueue {
            port: port.to_owned(),
            queue,
            status: match stats.status {
                WatchdogStatus::Operational => "operational",
                // SONiC has no separate status for the big red switch.
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

    /// Returns whether the queue is in a storm or the big red switch is on.
    pub fn is_in_pause_storm(&self) -> bool {
        self.status == "stormed"
    }
}

/// The report of one storm.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct StormReport {
    /// Name of the port.
    pub port: String,
    /// Number of the queue, 0 to 7.
    pub queue: u8,
    /// The watchdog action of the storm: `drop`, `forward` or `alert`.
    pub action: String,
    /// Model time of the detection in nanoseconds.
    pub detected_ns: u64,
    /// Time for which the queue was paused before the detection, in nanoseconds. If the queue sent frames
    /// during the pause, only the time after these frames is included.
    pub paused_ns: u64,
    /// Model time of the restoration in nanoseconds. The value is null if the storm is not over.
    pub restored_ns: Option<u64>,
    /// Frames that the queue sent during the storm.
    pub tx_packets: u64,
    /// Frames for the queue that were dropped during the storm, including the frames that waited at
    /// the detection.
    pub tx_dropped_packets: u64,
    /// Frames received and accepted in the priority groups of the queue during the storm.
    pub rx_packets: u64,
    /// Frames received and dropped in the priority groups of the queue during the storm.
    pub rx_dropped_packets: u64,
}

impl StormReport {
    /// Sets the four frame counters from the counters of a storm.
    pub fn set_counters(&mut self, storm: &StormCounters) {
        self.tx_packets = storm.tx_packets;
        self.tx_dropped_packets = storm.tx_dropped_packets;
        self.rx_packets = storm.rx_packets;
        self.rx_dropped_packets = storm.rx_dropped_packets;
    }
}

/// The received pauses of one priority of a port (`show pfc counters --history`).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct PauseHistoryReport {
    /// Number of pauses. An XOFF that extends a pause is not counted.
    pub transitions: u64,
    /// Total pause time in nanoseconds of model time.
    pub total_pause_ns: u64,
    /// Duration of the latest pause in nanoseconds of model time. For a pause that has not ended, the time so
    /// far. The value is 0 if the port has received no pause.
    pub recent_pause_ns: u64,
    /// Model time at which the latest pause began, in nanoseconds. The value is null if the port has received
    /// no pause.
    pub recent_pause_at_ns: Option<u64>,
}
