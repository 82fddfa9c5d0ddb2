//! The report of a switch. Reports of runs and replies of the control API contain it as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use xoff_dataplane::DropReason;
use xoff_dataplane::counters::{
    BufferOccupancy, PgBuffers, PgCounters, PoolBuffers, QueueBuffers, QueueCounters,
};
use xoff_dataplane::ids::{PRIORITIES, TRAFFIC_CLASSES};

use super::balancing::LoadBalancingReport;
use super::lldp::LldpReport;
use super::watchdog::{PauseHistoryReport, WatchdogReport};

/// The counters and states of one switch at one model time. Times are model time. Byte counts cover the frame
/// from the destination address to the FCS, including padding.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq)]
pub struct SwitchReport {
    /// Name of the switch (`DEVICE_METADATA|localhost hostname`).
    pub name: String,
    /// Model time of the report, in nanoseconds.
    pub model_time_ns: u64,
    /// Size of a buffer cell in bytes (`SAI_SWITCH_ATTR_SHARED_BUFFER_CELL_SIZE`).
    pub cell_bytes: u32,
    /// Wall time for which the switch worker thread had work since its start, in nanoseconds. The field is
    /// omitted in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_busy_ns: Option<u64>,
    /// `SAI_SWITCH_STAT_TX_TRIM_PACKETS`: trimmed packets that all ports have sent.
    #[serde(default)]
    pub tx_trim_packets: u64,
    /// `SAI_SWITCH_STAT_DROPPED_TRIM_PACKETS`: trimmed packets that all ports have dropped.
    #[serde(default)]
    pub dropped_trim_packets: u64,
    /// The ports in the order of the configuration.
    pub ports: Vec<PortReport>,
    /// The ingress pools and egress pools, in the order of the configuration. Built-in pools come last.
    pub pools: Vec<PoolReport>,
    /// The PFC watchdog. The field is omitted if no port has a watchdog and no event is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc_watchdog: Option<WatchdogReport>,
    /// Load balancing. The field is omitted if the switch has no load balancing group and does not count
    /// packets that arrive out of order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancing: Option<LoadBalancingReport>,
    /// LLDP and DCBX. The field is omitted if LLDP is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lldp: Option<LldpReport>,
}

/// The report of one port. Arrays with eight elements are indexed by priority, priority group or queue.
/// Arrays with sixteen elements are indexed by traffic class.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq)]
pub struct PortReport {
    /// Name of the port, such as `Ethernet0`.
    pub name: String,
    /// Name of the network device of the port. The value is null for a port without a device.
    pub device: Option<String>,
    /// Port backend: `packet`, `tap`, `link`, `pnet`, `xdp` or `stream`. The value is null if the port has no
    /// device.
    pub backend: Option<String>,
    /// Whether the port is configured up and its link is up.
    pub up: bool,
    /// Speed of the port in the model, in Mb/s (`PORT` `speed`).
    pub speed_mbps: u32,
    /// Share of `tx_span_ns` in which the link was busy, from 0 to 1. The busy time includes preambles, gaps
    /// and MAC control frames. The value is null before the port has sent a frame, and in a run without traffic.
    pub tx_utilisation: Option<f64>,
    /// Time from the start of the first frame that any port of the run sent to the end of the last frame, in
    /// nanoseconds. All ports have the same value, so equal traffic gives equal utilisations. Ports that have
    /// not sent a frame have the value 0.
    pub tx_span_ns: u64,
    /// The times from which [`set_common_tx_span`] computes the two fields above.
    #[serde(skip)]
    pub tx_times: TxTimes,
    /// Transmit deficit in nanoseconds: the time for which frames were waiting but the link was idle. The
    /// cause is a machine that is too slow. Without the deficit, the utilisation would be `tx_utilisation +
    /// tx_deficit_ns / tx_span_ns`.
    pub tx_deficit_ns: u64,
    /// Frames received, including dropped frames. PAUSE and PFC frames do not count.
    pub rx_packets: u64,
    /// `SAI_PORT_STAT_IF_IN_OCTETS`: bytes of the frames in `rx_packets`, with FCS, without preambles
    /// and gaps.
    pub rx_bytes: u64,
    /// Frames received, indexed by traffic class.
    pub rx_class_packets: [u64; TRAFFIC_CLASSES],
    /// Received frames that only the switch itself processes, such as ARP, neighbour discovery and echo
    /// requests. `rx_packets` includes these frames.
    #[serde(default)]
    pub rx_own_packets: u64,
    /// `SAI_PORT_STAT_IF_IN_NON_UCAST_PKTS`: received frames with a broadcast or multicast destination.
    /// `rx_packets` includes these frames.
    #[serde(default)]
    pub rx_non_unicast_packets: u64,
    /// Frames sent. PAUSE and PFC frames do not count.
    pub tx_packets: u64,
    /// `SAI_PORT_STAT_IF_OUT_OCTETS`: bytes of the frames in `tx_packets`, with FCS, without preambles
    /// and gaps.
    pub tx_bytes: u64,
    /// Frames sent, indexed by traffic class.
    pub tx_class_packets: [u64; TRAFFIC_CLASSES],
    /// `SAI_PORT_STAT_PFC_n_RX_PKTS`: PFC frames received with the enable bit of the priority, including XON
    /// frames. Indexed by priority.
    pub pfc_rx: [u64; PRIORITIES],
    /// `SAI_PORT_STAT_PFC_n_TX_PKTS`: PFC frames sent with the enable bit of the priority, including XON
    /// frames. Indexed by priority.
    pub pfc_tx: [u64; PRIORITIES],
    /// PFC frames received. A frame for several priorities is counted once.
    pub pfc_rx_frames: u64,
    /// PFC frames sent. A frame for several priorities is counted once.
    pub pfc_tx_frames: u64,
    /// `SAI_PORT_STAT_PFC_n_ON2OFF_RX_PKTS`: received pauses that stopped a running priority, indexed by
    /// priority. XOFF frames that extend a pause are not counted.
    pub pfc_on2off_rx: [u64; PRIORITIES],
    /// Number of times that a priority group entered the XOFF state, in which it pauses its peer. Indexed by
    /// priority group. The number of a priority group can differ from the priority.
    pub xoff_transitions: [u64; PRIORITIES],
    /// `SAI_PORT_STAT_PFC_n_RX_PAUSE_DURATION`: time for which the peer paused the priority, in nanoseconds,
    /// including a current pause. Indexed by priority.
    pub paused_ns: [u64; PRIORITIES],
    /// `SAI_PORT_STAT_PFC_n_TX_PAUSE_DURATION`: time for which this port paused the priority of its peer, in
    /// nanoseconds, including a current pause. Indexed by priority.
    pub pausing_ns: [u64; PRIORITIES],
    /// Whether the peer currently pauses the priority. Indexed by priority.
    pub paused_now: [bool; PRIORITIES],
    /// Whether a priority group currently pauses its peer (XOFF state). Indexed by priority group. The number
    /// of a priority group can differ from the priority.
    pub xoff_now: [bool; PRIORITIES],
    /// Whether PFC is enabled for the priority: by `pfc_enable`, or by the DCBX negotiation. Indexed by priority.
    #[serde(default)]
    pub pfc_enabled: [bool; PRIORITIES],
    /// Whether the class is lossless at this port: XOFF of its priority group pauses the peer. Indexed by
    /// traffic class.
    #[serde(default)]
    pub lossless_classes: [bool; TRAFFIC_CLASSES],
    /// Whether the port honours pauses of all priorities (`pfc_asym`).
    #[serde(default)]
    pub pfc_asymmetric: bool,
    /// History of the received pauses, indexed by priority.
    #[serde(default)]
    pub pause_history: [PauseHistoryReport; PRIORITIES],
    /// `SAI_PORT_STAT_PAUSE_RX_PKTS`: 802.3x PAUSE frames received, even if the port does not honour them.
    pub pause_rx: u64,
    /// `SAI_PORT_STAT_PAUSE_TX_PKTS`: 802.3x PAUSE frames sent.
    #[serde(default)]
    pub pause_tx: u64,
    /// MAC control frames that a user sent through the port (`send_mac_control`), whatever they contain. No
    /// other counter includes these frames.
    #[serde(default)]
    pub injected_control_frames: u64,
    /// Time for which the peer paused the whole port with 802.3x PAUSE frames, in nanoseconds.
    #[serde(default)]
    pub global_paused_ns: u64,
    /// Time for which this port paused its peer with 802.3x PAUSE frames, in nanoseconds.
    #[serde(default)]
    pub global_pausing_ns: u64,
    /// Valid link quality messages received. No other counter includes them.
    #[serde(default)]
    pub link_quality_rx_frames: u64,
    /// Link quality messages sent. No other counter includes them.
    #[serde(default)]
    pub link_quality_tx_frames: u64,
    /// `SAI_PORT_STAT_ECN_MARKED_PACKETS`: packets with an ECN mark (CE) that the switch set at this
    /// egress port.
    pub ecn_marked: u64,
    /// `SAI_PORT_STAT_TRIM_PACKETS`: packets that were trimmed because a queue of this port was full.
    #[serde(default)]
    pub trim_packets: u64,
    /// `SAI_PORT_STAT_TX_TRIM_PACKETS`: trimmed packets sent.
    #[serde(default)]
    pub tx_trim_packets: u64,
    /// `SAI_PORT_STAT_DROPPED_TRIM_PACKETS`: trimmed packets that were dropped or flushed.
    #[serde(default)]
    pub dropped_trim_packets: u64,
    /// Dropped frames by the name of the drop reason, such as `QUEUE_DROPPED_PACKETS`. Reasons without a drop
    /// are omitted. Drops for ingress reasons are counted at the ingress port, and drops for egress reasons
    /// at the egress port.
    pub drops: BTreeMap<String, u64>,
    /// Dropped frames by the name of the drop reason, indexed by traffic class. Reasons without a drop
    /// are omitted.
    pub drops_by_class: BTreeMap<String, [u64; TRAFFIC_CLASSES]>,
    /// For each drop reason that has a buffer limit: the limit that caused the latest drop. The text contains
    /// the name of the limit, and the numbers of used, allowed and requested cells.
    #[serde(default)]
    pub drop_limits: BTreeMap<String, String>,
    /// Number of frames that the machine lost before they reached the switch. This loss is outside the model
    /// and marks the run as tainted: the run proves nothing.
    pub host_lost: u64,
    /// Frames that arrived at the port faster than its link can carry them, and were therefore delayed.
    pub wire_waits: u64,
    /// Number of frames that are missing in the recording of the port (`--pcap`), because the file could not
    /// be written fast enough. The value is 0 until the end of a run. The switch has processed these frames,
    /// so they do not mark the run as tainted (a run that proves nothing).
    #[serde(default)]
    pub pcap_missed: u64,
    /// The connections and stops of a port on a stream socket. Missing for all other ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamReport>,
    /// Priority groups 0 to 7.
    pub priority_groups: Vec<PriorityGroupReport>,
    /// Egress queues 0 to 7.
    pub queues: Vec<QueueReport>,
}

/// The report of a port on a stream socket (backend `stream`).
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct StreamReport {
    /// Number of accepted connections.
    pub connections: u64,
    /// Number of connections that were refused because the port had a peer.
    pub refused_connections: u64,
    /// Number of connections that were closed because of a wrong frame length. Each taints the run.
    pub wrong_lengths: u64,
    /// Number of connections that ended inside a frame.
    pub truncated_frames: u64,
    /// Number of times that the port stopped reading because the switch paused a priority. A stopped stream holds the
    /// frames of all classes, because one stream carries all classes.
    pub stops: u64,
    /// Time for which the port did not read because of a pause, in nanoseconds of wall time.
    pub stopped_ns: u64,
}

/// The report of one priority group, with the names of SAI. Occupancies and watermarks are in bytes: the
/// number of used cells times the cell size. Watermarks are the largest occupancies since the last clear.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the serialised names are SAI's own and docs/report.md describes them"
)]
pub struct PriorityGroupReport {
    #[serde(rename = "SAI_INGRESS_PRIORITY_GROUP_STAT_PACKETS")]
    pub packets: u64,
    #[serde(rename = "SAI_INGRESS_PRIORITY_GROUP_STAT_BYTES")]
    pub bytes: u64,
    #[serde(rename = "SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS")]
    pub dropped_packets: u64,
    #[serde(rename = "SAI_INGRESS_PRIORITY_GROUP_STAT_CURR_OCCUPANCY_BYTES")]
    pub current_bytes: u64,
    #[serde(rename = "SAI_INGRESS_PRIORITY_GROUP_STAT_WATERMARK_BYTES")]
    pub watermark_bytes: u64,
    #[serde(rename = "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_CURR_OCCUPANCY_BYTES")]
    pub shared_current_bytes: u64,
    #[serde(rename = "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES")]
    pub shared_watermark_bytes: u64,
    #[serde(rename = "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_CURR_OCCUPANCY_BYTES")]
    pub headroom_current_bytes: u64,
    #[serde(rename = "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES")]
    pub headroom_watermark_bytes: u64,
}

/// The report of one egress queue, with the names of SAI. Occupancies and watermarks are in bytes: the number
/// of used cells times the cell size. Watermarks are the largest occupancies since the last clear.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the serialised names are SAI's own and docs/report.md describes them"
)]
pub struct QueueReport {
    #[serde(rename = "SAI_QUEUE_STAT_PACKETS")]
    pub packets: u64,
    #[serde(rename = "SAI_QUEUE_STAT_BYTES")]
    pub bytes: u64,
    #[serde(rename = "SAI_QUEUE_STAT_DROPPED_PACKETS")]
    pub dropped_packets: u64,
    #[serde(rename = "SAI_QUEUE_STAT_DROPPED_BYTES")]
    pub dropped_bytes: u64,
    #[serde(rename = "SAI_QUEUE_STAT_TRIM_PACKETS", default)]
    pub trim_packets: u64,
    #[serde(rename = "SAI_QUEUE_STAT_TX_TRIM_PACKETS", default)]
    pub tx_trim_packets: u64,
    #[serde(rename = "SAI_QUEUE_STAT_DROPPED_TRIM_PACKETS", default)]
    pub dropped_trim_packets: u64,
    #[serde(rename = "SAI_QUEUE_STAT_WRED_DROPPED_PACKETS")]
    pub wred_dropped_packets: u64,
    #[serde(rename = "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS")]
    pub ecn_marked_packets: u64,
    #[serde(rename = "SAI_QUEUE_STAT_WRED_ECN_MARKED_BYTES")]
    pub ecn_marked_bytes: u64,
    #[serde(rename = "SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES")]
    pub current_bytes: u64,
    #[serde(rename = "SAI_QUEUE_STAT_WATERMARK_BYTES")]
    pub watermark_bytes: u64,
    #[serde(rename = "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES")]
    pub shared_watermark_bytes: u64,
}

/// The report of one buffer pool, with the names of SAI. Occupancies and watermarks are in bytes: the number
/// of used cells times the cell size. Watermarks are the largest occupancies since the last clear.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the serialised names are SAI's own and docs/report.md describes them"
)]
pub struct PoolReport {
    /// Name of the pool, such as `ingress_lossless_pool`.
    pub name: String,
    #[serde(rename = "SAI_BUFFER_POOL_STAT_CURR_OCCUPANCY_BYTES")]
    pub current_bytes: u64,
    #[serde(rename = "SAI_BUFFER_POOL_STAT_WATERMARK_BYTES")]
    pub watermark_bytes: u64,
    #[serde(rename = "SAI_BUFFER_POOL_STAT_XOFF_ROOM_CURR_OCCUPANCY_BYTES")]
    pub headroom_current_bytes: u64,
    #[serde(rename = "SAI_BUFFER_POOL_STAT_XOFF_ROOM_WATERMARK_BYTES")]
    pub headroom_watermark_bytes: u64,
}

impl PortReport {
    /// Returns the number of dropped frames, as the sum over all reasons.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    /// Returns the number of frames that the port backend dropped before the switch received them. `rx_packets`
    /// does not include these frames.
    pub fn backend_dropped(&self) -> u64 {
        let reasons = [
            DropReason::Oversized,
            DropReason::ChecksumUnfinished,
            DropReason::BackendRefused,
        ];
        let counts = reasons.iter().filter_map(|reason| self.drops.get(reason.name()));
        counts.sum()
    }

    /// Returns the utilisation that the link would have without the transmit deficit:
    /// `tx_utilisation + tx_deficit_ns / tx_span_ns`. Returns `None` if the port has not sent a frame.
    pub fn tx_utilisation_with_deficit(&self) -> Option<f64> {
        let deficit = self.tx_deficit_ns as f64 / self.tx_span_ns.max(1) as f64;
        self.tx_utilisation.map(|utilisation| utilisation + deficit)
    }
}

/// The departures of a port, in picoseconds of model time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxTimes {
    /// Start of the first frame and end of the last frame. `None` before the port has sent a frame.
    pub first_and_last: Option<[u64; 2]>,
    /// Time for which frames occupied the link, with preambles and gaps.
    pub busy: u64,
}

/// Sets [`PortReport::tx_span_ns`] and [`PortReport::tx_utilisation`] of all ports of a run. The span of all
/// ports is the time from the first departure to the last departure of the run. With a span for each port, a
/// port that sends one burst would seem as busy as a port that sends all the time.
pub fn set_common_tx_span(switches: &mut [SwitchReport]) {
    let ports = || switches.iter().flat_map(|switch| &switch.ports);
    let times = ports().filter_map(|port| port.tx_times.first_and_last);
    let whole = times.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]);
    let span_ps = whole.map_or(0, |[first, last]| last.saturating_sub(first));
    for port in switches.iter_mut().flat_map(|switch| &mut switch.ports) {
        // Pause frames after the last data frame can make the busy time of a short run longer than its span.
        let has_sent = span_ps > 0 && port.tx_times.first_and_last.is_some();
        port.tx_span_ns = if has_sent { span_ps / 1_000 } else { 0 };
        port.tx_utilisation = has_sent.then(|| (port.tx_times.busy as f64 / span_ps as f64).min(1.0));
    }
}

impl PriorityGroupReport {
    /// Combines the counters and the buffer use of a priority group. `cell_bytes` is the size of a buffer
    /// cell in bytes.
    pub fn new(counters: &PgCounters, buffers: &PgBuffers, cell_bytes: u32) -> PriorityGroupReport {
        let (current_bytes, watermark_bytes) = gauge_in_bytes(buffers.total, cell_bytes);
        let (shared_current_bytes, shared_watermark_bytes) = gauge_in_bytes(buffers.shared, cell_bytes);
        let (headroom_current_bytes, headroom_watermark_bytes) = gauge_in_bytes(buffers.headroom, cell_bytes);
        PriorityGroupReport {
            packets: counters.packets,
            bytes: counters.bytes,
            dropped_packets: counters.dropped_packets,
            current_bytes,
            watermark_bytes,
            shared_current_bytes,
            shared_watermark_bytes,
            headroom_current_bytes,
            headroom_watermark_bytes,
        }
    }
}

impl QueueReport {
    /// Combines the counters and the buffer use of an egress queue. `cell_bytes` is the size of a buffer cell
    /// in bytes.
    pub fn new(counters: &QueueCounters, buffers: &QueueBuffers, cell_bytes: u32) -> QueueReport {
        let (current_bytes, watermark_bytes) = gauge_in_bytes(buffers.total, cell_bytes);
        QueueReport {
            packets: counters.packets,
            bytes: counters.bytes,
            dropped_packets: counters.dropped_packets,
            dropped_bytes: counters.dropped_bytes,
            trim_packets: counters.trim_packets,
            tx_trim_packets: counters.tx_trim_packets,
            dropped_trim_packets: counters.dropped_trim_packets,
            wred_dropped_packets: counters.wred_dropped_packets,
            ecn_marked_packets: counters.wred_ecn_marked_packets,
            ecn_marked_bytes: counters.wred_ecn_marked_bytes,
            current_bytes,
            watermark_bytes,
            shared_watermark_bytes: gauge_in_bytes(buffers.shared, cell_bytes).1,
        }
    }
}

impl PoolReport {
    /// Returns whether the pool has headroom. The report does not contain the configured headroom. The
    /// result is therefore true if headroom was used since the last clear, or if the name of the pool begins
    /// with `ingress_lossless`.
    pub fn has_headroom(&self) -> bool {
        self.headroom_watermark_bytes > 0 || self.name.starts_with("ingress_lossless")
    }

    /// Converts the buffer use of the pool `name`. `cell_bytes` is the size of a buffer cell in bytes.
    pub fn new(name: &str, buffers: &PoolBuffers, cell_bytes: u32) -> PoolReport {
        let (current_bytes, watermark_bytes) = gauge_in_bytes(buffers.shared, cell_bytes);
        let (headroom_current_bytes, headroom_watermark_bytes) = gauge_in_bytes(buffers.headroom, cell_bytes);
        PoolReport {
            name: name.to_owned(),
            current_bytes,
            watermark_bytes,
            headroom_current_bytes,
            headroom_watermark_bytes,
        }
    }
}

/// Returns the current occupancy and the watermark of a gauge, in bytes.
fn gauge_in_bytes(gauge: BufferOccupancy, cell_bytes: u32) -> (u64, u64) {
    let bytes = |cells: u32| u64::from(cells) * u64::from(cell_bytes);
    (bytes(gauge.current_cells), bytes(gauge.peak_cells))
}

/// Describes a drop reason in a sentence. `name` is the name of the reason in reports. Returns `None` for an
/// unknown name.
pub fn describe_drop(name: &str) -> Option<&'static str> {
    DropReason::ALL
        .iter()
        .find(|reason| reason.name() == name)
        .map(|reason| reason.describe())
}
