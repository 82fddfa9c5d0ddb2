//! What a switch counts. Plain numbers with one writer; read as a copy between bursts.

use crate::drops::DropReason;
use crate::ids::{PRIORITIES, TRAFFIC_CLASSES};

/// Counters of one priority group (`SAI_INGRESS_PRIORITY_GROUP_STAT_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PgCounters {
    /// Frames accepted.
    pub packets: u64,
    /// Bytes accepted (`mac_len`).
    pub bytes: u64,
    /// Frames dropped for lack of cells or by the PFC watchdog.
    pub dropped_packets: u64,
    /// The part of `dropped_packets` that the PFC watchdog dropped because of a storm at a queue of the port.
    pub watchdog_dropped_packets: u64,
    /// Times the group went from XON to XOFF.
    pub xoff_transitions: u64,
}

/// Counters of one egress queue (`SAI_QUEUE_STAT_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Frames sent.
    pub packets: u64,
    /// Bytes sent (`mac_len`).
    pub bytes: u64,
    /// Frames dropped at this queue: at its limit, early by WRED, or by the PFC watchdog. A trimmed frame counts as dropped at the queue
    /// that refused it (SAI, `SAI_BUFFER_PROFILE_PACKET_ADMISSION_FAIL_ACTION_DROP_AND_TRIM`). Frames that waited when the link
    /// went down are in [`PortCounters::drops`] only.
    pub dropped_packets: u64,
    /// Bytes of `dropped_packets` (`mac_len`).
    pub dropped_bytes: u64,
    /// The part of `dropped_packets` that the PFC watchdog dropped: frames that waited when it found a storm, and frames for the queue
    /// during the storm.
    pub watchdog_dropped_packets: u64,
    /// `TRIM_PACKETS`: frames that found this queue full and were trimmed. They are no drops of the port
    /// ([`PortCounters::drops`]) unless what was left of them found no room either.
    pub trim_packets: u64,
    /// `TX_TRIM_PACKETS`: frames that this queue refused and that were sent trimmed, by whatever queue.
    pub tx_trim_packets: u64,
    /// `DROPPED_TRIM_PACKETS`: frames that this queue refused and that were dropped after trimming, because the other queue had no room or
    /// was emptied.
    pub dropped_trim_packets: u64,
    /// The part of `dropped_packets` that WRED dropped.
    pub wred_dropped_packets: u64,
    /// Frames marked CE.
    pub wred_ecn_marked_packets: u64,
    /// Bytes of frames marked CE.
    pub wred_ecn_marked_bytes: u64,
}

impl QueueCounters {
    /// Counts a frame of so many bytes (`mac_len`) as dropped.
    pub(crate) fn count_drop(&mut self, mac_len: u32) {
        self.dropped_packets += 1;
        self.dropped_bytes += u64::from(mac_len);
    }
}

/// What became of trimmed frames. `trimmed` is the sum of the others and of what still waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimCounters {
    /// `TRIM_PACKETS`.
    pub trimmed: u64,
    /// `TX_TRIM_PACKETS`.
    pub sent: u64,
    /// `DROPPED_TRIM_PACKETS`.
    pub dropped: u64,
}

/// Counters of one port (`SAI_PORT_STAT_*`). PFC, PAUSE and link quality messages are in their own counters only.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))] // what every frame counts comes first
pub struct PortCounters {
    /// Frames received, whatever became of them.
    pub rx_packets: u64,
    /// Bytes received (`mac_len`).
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent (`mac_len`).
    pub tx_bytes: u64,
    /// Time the link spent on frames, PFC included, since the first departure of an ordinary frame, in picoseconds
    /// (sum of wire times). Utilisation is `tx_busy_ps / (tx_last_ps - tx_first_ps)`.
    pub tx_busy_ps: u64,
    /// Start of the first departure of an ordinary frame, in picoseconds of model time; `u64::MAX` before it.
    pub tx_first_ps: u64,
    /// End of the last departure of an ordinary frame, in picoseconds of model time.
    pub tx_last_ps: u64,
    /// Frames marked CE on this port.
    pub ecn_marked: u64,
    /// Frames received, per traffic class.
    pub rx_class_packets: [u64; TRAFFIC_CLASSES],
    /// Frames sent, per traffic class.
    pub tx_class_packets: [u64; TRAFFIC_CLASSES],
    /// Per priority group.
    pub pgs: [PgCounters; PRIORITIES],
    /// Per egress queue.
    pub queues: [QueueCounters; PRIORITIES],
    /// Frames received that went to the switch's own protocols and nowhere else.
    pub rx_own_packets: u64,
    /// `PFC_n_RX_PKTS`: PFC frames received whose enable bit *n* is set, XON included.
    pub pfc_rx: [u64; PRIORITIES],
    /// `PFC_n_TX_PKTS`: PFC frames sent whose enable bit *n* is set, XON included.
    pub pfc_tx: [u64; PRIORITIES],
    /// PFC frames sent, whatever their bits.
    pub pfc_tx_frames: u64,
    /// PFC frames received, whatever their bits.
    pub pfc_rx_frames: u64,
    /// `PFC_n_ON2OFF_RX_PKTS`: received pauses that stopped a class that was running.
    pub pfc_on2off_rx: [u64; PRIORITIES],
    /// `PFC_n_RX_PAUSE_DURATION`: time this port was held paused by its peer, in picoseconds; the pause in progress included.
    pub rx_pause_ps: [u64; PRIORITIES],
    /// `PFC_n_TX_PAUSE_DURATION`: time this port asked its peer to pause, in picoseconds; the pause in progress included.
    pub tx_pause_ps: [u64; PRIORITIES],
    /// `PAUSE_RX_PKTS`: 802.3x PAUSE frames received, obeyed or not.
    pub pause_rx: u64,
    /// `PAUSE_TX_PKTS`: 802.3x PAUSE frames sent.
    pub pause_tx: u64,
    /// Time this port was held by 802.3x pauses of its peer, in picoseconds; the pause in progress included.
    pub rx_global_pause_ps: u64,
    /// Time this port asked its peer to pause altogether, in picoseconds; the pause in progress included.
    pub tx_global_pause_ps: u64,
    /// Link quality messages sent to the switch at the other end.
    pub link_quality_tx: u64,
    /// Link quality messages received and understood.
    pub link_quality_rx: u64,
    /// Drops, by reason and traffic class, where the frame was when it was dropped (ingress reasons on the
    /// ingress port, egress reasons on the egress port).
    pub drops: [[u64; TRAFFIC_CLASSES]; DropReason::COUNT],
}

impl Default for PortCounters {
    fn default() -> Self {
        PortCounters {
            rx_packets: 0,
            rx_bytes: 0,
            rx_class_packets: [0; TRAFFIC_CLASSES],
            rx_own_packets: 0,
            tx_packets: 0,
            tx_bytes: 0,
            tx_class_packets: [0; TRAFFIC_CLASSES],
            pfc_rx: [0; PRIORITIES],
            pfc_tx: [0; PRIORITIES],
            pfc_tx_frames: 0,
            pfc_rx_frames: 0,
            pfc_on2off_rx: [0; PRIORITIES],
            rx_pause_ps: [0; PRIORITIES],
            tx_pause_ps: [0; PRIORITIES],
            pause_rx: 0,
            pause_tx: 0,
            rx_global_pause_ps: 0,
            tx_global_pause_ps: 0,
            link_quality_tx: 0,
            link_quality_rx: 0,
            ecn_marked: 0,
            tx_busy_ps: 0,
            tx_first_ps: u64::MAX,
            tx_last_ps: 0,
            drops: [[0; TRAFFIC_CLASSES]; DropReason::COUNT],
            pgs: [PgCounters::default(); PRIORITIES],
            queues: [QueueCounters::default(); PRIORITIES],
        }
    }
}

impl PortCounters {
    /// Utilisation is measured from the next departure on.
    pub(crate) fn restart_utilisation(&mut self) {
        (self.tx_busy_ps, self.tx_first_ps, self.tx_last_ps) = (0, u64::MAX, 0);
    }

    /// `TRIM_PACKETS`, `TX_TRIM_PACKETS` and `DROPPED_TRIM_PACKETS` of the port: the sums of its queues.
    pub fn trims(&self) -> TrimCounters {
        self.queues
            .iter()
            .fold(TrimCounters::default(), |sum, queue| TrimCounters {
                trimmed: sum.trimmed + queue.trim_packets,
                sent: sum.sent + queue.tx_trim_packets,
                dropped: sum.dropped + queue.dropped_trim_packets,
            })
    }

    /// Frames dropped on this port, all reasons and classes.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().flatten().sum()
    }
}

/// Occupancy and its peak since the last clear, in cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    /// In use now.
    pub current_cells: u32,
    /// `WATERMARK`: most in use since the last clear.
    pub peak_cells: u32,
}

/// Buffer use of a priority group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PgBuffers {
    /// All three regions together.
    pub total: Gauge,
    /// `SHARED_*`.
    pub shared: Gauge,
    /// `XOFF_ROOM_*`: headroom.
    pub headroom: Gauge,
    /// The group is in XOFF.
    pub xoff: bool,
}

/// Buffer use of an egress queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueBuffers {
    /// Reserved and shared together.
    pub total: Gauge,
    /// `SHARED_*`.
    pub shared: Gauge,
}

/// Buffer use of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolBuffers {
    /// Shared cells.
    pub shared: Gauge,
    /// Cells of headroom in use by the pool's groups, private or shared headroom alike.
    pub headroom: Gauge,
}
