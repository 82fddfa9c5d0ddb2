//! The counters of a switch. The switch worker thread updates the counters. Other threads read a copy, which
//! is made between bursts.

pub use crate::drop_counters::DropCounters;
use crate::ids::{PRIORITIES, TRAFFIC_CLASSES};

/// Counters of one priority group (`SAI_INGRESS_PRIORITY_GROUP_STAT_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PgCounters {
    /// Number of accepted frames.
    pub packets: u64,
    /// Bytes of the accepted frames (`mac_len`).
    pub bytes: u64,
    /// Number of frames that were dropped for lack of free buffer cells or by the PFC watchdog.
    pub dropped_packets: u64,
    /// Number of frames that the PFC watchdog dropped because of a storm at a queue of the port, or because
    /// of the big red switch. `dropped_packets` includes these frames.
    pub watchdog_dropped_packets: u64,
    /// Number of times that the group has entered XOFF.
    pub xoff_transitions: u64,
}

/// Counters of one egress queue (`SAI_QUEUE_STAT_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Number of sent frames.
    pub packets: u64,
    /// Bytes of the sent frames (`mac_len`).
    pub bytes: u64,
    /// Number of frames that were dropped at this queue because of its limit, by WRED, or by the PFC
    /// watchdog. A trimmed frame is counted as dropped at the queue that refused the frame, as in SAI
    /// (`SAI_BUFFER_PROFILE_PACKET_ADMISSION_FAIL_ACTION_DROP_AND_TRIM`). Frames that waited when the link
    /// went down are counted only in [`PortCounters::drops`].
    pub dropped_packets: u64,
    /// Bytes of the frames in `dropped_packets` (`mac_len`).
    pub dropped_bytes: u64,
    /// Number of frames that the PFC watchdog dropped. The watchdog drops the frames that wait when a storm
    /// is detected and the frames that arrive during the storm. The big red switch has the same effect.
    /// `dropped_packets` includes these frames.
    pub watchdog_dropped_packets: u64,
    /// `TRIM_PACKETS`: number of frames that were trimmed (shortened) because this queue was full. The port
    /// counts such a frame as a drop ([`PortCounters::drops`]) only if the trimmed frame was also dropped.
    pub trim_packets: u64,
    /// `TX_TRIM_PACKETS`: number of frames that this queue refused, and that the port then trimmed and sent
    /// through any of its queues.
    pub tx_trim_packets: u64,
    /// `DROPPED_TRIM_PACKETS`: number of frames that this queue refused, and that were dropped after
    /// trimming. The reason is that the second queue was full or was flushed.
    pub dropped_trim_packets: u64,
    /// `WRED_DROPPED_PACKETS`: number of frames in `dropped_packets` that WRED dropped.
    pub wred_dropped_packets: u64,
    /// `WRED_ECN_MARKED_PACKETS`: number of frames that were marked CE.
    pub wred_ecn_marked_packets: u64,
    /// `WRED_ECN_MARKED_BYTES`: bytes of the frames that were marked CE (`mac_len`).
    pub wred_ecn_marked_bytes: u64,
}

impl QueueCounters {
    /// Counts one dropped frame of `mac_len` bytes.
    pub(crate) fn count_drop(&mut self, mac_len: u32) {
        self.dropped_packets += 1;
        self.dropped_bytes += u64::from(mac_len);
    }
}

/// Totals of trimmed frames. `trimmed` is the sum of `sent`, `dropped` and the number of trimmed frames that
/// still wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimCounters {
    /// `TRIM_PACKETS`: number of trimmed frames.
    pub trimmed: u64,
    /// `TX_TRIM_PACKETS`: number of trimmed frames that were sent.
    pub sent: u64,
    /// `DROPPED_TRIM_PACKETS`: number of trimmed frames that were dropped.
    pub dropped: u64,
}

/// Counters of one port (`SAI_PORT_STAT_*`). PFC frames, PAUSE frames and link quality messages have their
/// own counters. The counters of frames and bytes do not include them. If such a frame is dropped, it is
/// counted as a received frame of traffic class 0 and as a drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortCounters {
    /// Number of received frames, including frames that were dropped later.
    pub rx_packets: u64,
    /// Bytes of the received frames (`mac_len`).
    pub rx_bytes: u64,
    /// Number of sent frames.
    pub tx_packets: u64,
    /// Bytes of the sent frames (`mac_len`).
    pub tx_bytes: u64,
    /// Time for which frames have occupied the link since the first data frame, in picoseconds. The time of
    /// MAC control frames is included. The utilisation is this time divided by a span, such as
    /// `tx_last_ps - tx_first_ps`.
    pub tx_busy_ps: u64,
    /// Model time in picoseconds at which the first data frame started. The value is `u64::MAX` if no data
    /// frame was sent.
    pub tx_first_ps: u64,
    /// Model time in picoseconds at which the last data frame ended, or 0 if no data frame was sent.
    pub tx_last_ps: u64,
    /// `ECN_MARKED_PACKETS`: number of frames that were marked CE at this port.
    pub ecn_marked: u64,
    /// Number of received frames of each traffic class.
    pub rx_class_packets: [u64; TRAFFIC_CLASSES],
    /// Number of sent frames of each traffic class.
    pub tx_class_packets: [u64; TRAFFIC_CLASSES],
    /// Counters of the priority groups 0 to 7.
    pub pgs: [PgCounters; PRIORITIES],
    /// Counters of the egress queues 0 to 7.
    pub queues: [QueueCounters; PRIORITIES],
    /// Number of received frames that the switch itself has processed, such as ARP and packets for the
    /// CPU port.
    pub rx_own_packets: u64,
    /// `IF_IN_NON_UCAST_PKTS`: number of received frames with a broadcast or multicast destination. Frames that
    /// the port dropped before the switch read their addresses are not included.
    pub rx_non_unicast_packets: u64,
    /// `PFC_n_RX_PKTS`: number of received PFC frames whose enable bit *n* is set, including XON frames.
    pub pfc_rx: [u64; PRIORITIES],
    /// `PFC_n_TX_PKTS`: number of sent PFC frames whose enable bit *n* is set, including XON frames.
    pub pfc_tx: [u64; PRIORITIES],
    /// Number of sent PFC frames.
    pub pfc_tx_frames: u64,
    /// Number of received PFC frames.
    pub pfc_rx_frames: u64,
    /// `PFC_n_ON2OFF_RX_PKTS`: number of received pauses that stopped the running priority *n*.
    pub pfc_on2off_rx: [u64; PRIORITIES],
    /// `PFC_n_RX_PAUSE_DURATION`: time for which the peer has paused priority *n* of this port, in
    /// picoseconds, including the current pause.
    pub rx_pause_ps: [u64; PRIORITIES],
    /// `PFC_n_TX_PAUSE_DURATION`: time for which this port has paused priority *n* of its peer, in
    /// picoseconds, including the current pause.
    pub tx_pause_ps: [u64; PRIORITIES],
    /// `PAUSE_RX_PKTS`: number of received 802.3x PAUSE frames, even if the port does not honour them.
    pub pause_rx: u64,
    /// `PAUSE_TX_PKTS`: number of sent 802.3x PAUSE frames.
    pub pause_tx: u64,
    /// Number of frames that [`Switch::send_mac_control`](crate::Switch::send_mac_control) accepted. No other
    /// counter includes these frames.
    pub injected_control_frames: u64,
    /// Time for which 802.3x PAUSE frames of the peer paused this port, in picoseconds, including
    /// the current pause.
    pub rx_global_pause_ps: u64,
    /// Time for which this port paused its peer with 802.3x PAUSE frames, in picoseconds, including the
    /// current pause.
    pub tx_global_pause_ps: u64,
    /// Number of sent link quality messages.
    pub link_quality_tx: u64,
    /// Number of received link quality messages, without messages that were dropped.
    pub link_quality_rx: u64,
    /// Number of dropped frames for each reason and traffic class. Drops for ingress reasons are counted at the
    /// ingress port, and drops for egress reasons at the egress port.
    pub drops: DropCounters,
}

impl Default for PortCounters {
    fn default() -> Self {
        PortCounters {
            rx_packets: 0,
            rx_bytes: 0,
            rx_class_packets: [0; TRAFFIC_CLASSES],
            rx_own_packets: 0,
            rx_non_unicast_packets: 0,
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
            injected_control_frames: 0,
            rx_global_pause_ps: 0,
            tx_global_pause_ps: 0,
            link_quality_tx: 0,
            link_quality_rx: 0,
            ecn_marked: 0,
            tx_busy_ps: 0,
            tx_first_ps: u64::MAX,
            tx_last_ps: 0,
            drops: DropCounters::default(),
            pgs: [PgCounters::default(); PRIORITIES],
            queues: [QueueCounters::default(); PRIORITIES],
        }
    }
}

impl PortCounters {
    /// Returns the trimming counters of the port, summed over its queues.
    pub fn trim_counters(&self) -> TrimCounters {
        self.queues
            .iter()
            .fold(TrimCounters::default(), |sum, queue| TrimCounters {
                trimmed: sum.trimmed + queue.trim_packets,
                sent: sum.sent + queue.tx_trim_packets,
                dropped: sum.dropped + queue.dropped_trim_packets,
            })
    }

    /// Returns the number of dropped frames of this port, for all reasons and traffic classes.
    pub fn dropped_frames(&self) -> u64 {
        self.drops.iter().flatten().sum()
    }
}

/// Cells in use, and the watermark since the last clear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferOccupancy {
    /// Cells in use now.
    pub current_cells: u32,
    /// `WATERMARK`: the largest number of cells in use since the last clear.
    pub peak_cells: u32,
}

/// Buffer use of a priority group (`SAI_INGRESS_PRIORITY_GROUP_STAT_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PgBuffers {
    /// Reserved, shared and headroom cells together (`CURR_OCCUPANCY_*`, `WATERMARK_*`).
    pub total: BufferOccupancy,
    /// Shared cells (`SHARED_*`).
    pub shared: BufferOccupancy,
    /// Headroom cells (`XOFF_ROOM_*`).
    pub headroom: BufferOccupancy,
    /// True if the group is in XOFF.
    pub xoff: bool,
}

/// Buffer use of an egress queue (`SAI_QUEUE_STAT_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueBuffers {
    /// Reserved and shared cells together (`CURR_OCCUPANCY_*`, `WATERMARK_*`).
    pub total: BufferOccupancy,
    /// Shared cells (`SHARED_*`).
    pub shared: BufferOccupancy,
}

/// Buffer use of a pool (`SAI_BUFFER_POOL_STAT_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolBuffers {
    /// Shared cells of the pool (`CURR_OCCUPANCY_*`, `WATERMARK_*`).
    pub shared: BufferOccupancy,
    /// Headroom cells of the pool's priority groups, private or from the shared headroom
    /// pool (`XOFF_ROOM_*`).
    pub headroom: BufferOccupancy,
}
