//! A switch in JSON: the part that a run's report and the control socket's counters have in common.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use xoff_dataplane::DropReason;
use xoff_dataplane::counters::{
    Gauge, PgBuffers, PgCounters, PortCounters, QueueBuffers, QueueCounters, TrimCounters,
};
use xoff_dataplane::ids::{PRIORITIES, TRAFFIC_CLASSES};

use super::balancing::LoadBalancingReport;
use super::snapshot::{PoolSnapshot, PortSnapshot, SwitchSnapshot};
use super::watchdog::{PauseHistoryReport, WatchdogReport};

const PS_PER_NS: u64 = 1_000;

/// One switch. Times are model time; bytes are octets from destination address to FCS.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct SwitchReport {
    /// Host name of the switch.
    pub name: String,
    /// Model time of the reading, in nanoseconds since the switch started.
    pub model_time_ns: u64,
    /// `SAI_SWITCH_ATTR_SHARED_BUFFER_CELL_SIZE`: the unit of buffer accounting, in bytes.
    pub cell_bytes: u32,
    /// Wall time in which the switch's worker had something to do, in nanoseconds since it started; left out in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_busy_ns: Option<u64>,
    /// `SAI_SWITCH_STAT_TX_TRIM_PACKETS`: trimmed packets sent, the sum over the ports.
    #[serde(default)]
    pub tx_trim_packets: u64,
    /// `SAI_SWITCH_STAT_DROPPED_TRIM_PACKETS`: trimmed packets that were dropped after all, the sum over the ports.
    #[serde(default)]
    pub dropped_trim_packets: u64,
    /// The ports, in the order of the configuration.
    pub ports: Vec<PortReport>,
    /// The buffer pools.
    pub pools: Vec<PoolReport>,
    /// The PFC watchdog; left out where it watches nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc_watchdog: Option<WatchdogReport>,
    /// Groups of equal-cost next hops and LAGs; left out where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancing: Option<LoadBalancingReport>,
}

/// One port. In arrays of eight, the index is the priority, priority group or queue; in arrays of
/// sixteen, the traffic class.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct PortReport {
    /// Name, such as `Ethernet0`.
    pub name: String,
    /// The network device behind it; null for a port without one.
    pub device: Option<String>,
    /// How frames are moved: `packet`, `tap`, `link`, `pnet`, `xdp`; null without a device.
    pub backend: Option<String>,
    /// Configured up, and its device has a carrier.
    pub up: bool,
    /// Model speed in Mb/s.
    pub speed_mbps: u32,
    /// Sum of wire times (preamble and gap included) over `tx_span_ns`, 0 to 1; null before the first departure.
    pub tx_utilisation: Option<f64>,
    /// From the start of the first departure to the end of the last, in nanoseconds.
    pub tx_span_ns: u64,
    /// Time within the span that the host missed and could not catch up, in nanoseconds: the link stood idle for
    /// want of CPU, not of frames. `tx_utilisation + tx_deficit_ns / tx_span_ns` is what the model did.
    pub tx_deficit_ns: u64,
    /// Frames received, dropped ones included; PAUSE and PFC not.
    pub rx_packets: u64,
    /// `SAI_PORT_STAT_IF_IN_OCTETS`.
    pub rx_bytes: u64,
    /// Frames received per traffic class.
    pub rx_class_packets: [u64; TRAFFIC_CLASSES],
    /// Frames received that were for the switch itself, and went nowhere else: ARP, neighbour discovery, pings.
    #[serde(default)]
    pub rx_own_packets: u64,
    /// Frames sent; PAUSE and PFC not.
    pub tx_packets: u64,
    /// `SAI_PORT_STAT_IF_OUT_OCTETS`.
    pub tx_bytes: u64,
    /// Frames sent per traffic class.
    pub tx_class_packets: [u64; TRAFFIC_CLASSES],
    /// `SAI_PORT_STAT_PFC_n_RX_PKTS`: PFC frames received with the bit of the priority set, XON included.
    pub pfc_rx: [u64; PRIORITIES],
    /// `SAI_PORT_STAT_PFC_n_TX_PKTS`: PFC frames sent with the bit of the priority set, XON included.
    pub pfc_tx: [u64; PRIORITIES],
    /// PFC frames received, whatever their bits.
    pub pfc_rx_frames: u64,
    /// PFC frames sent, whatever their bits.
    pub pfc_tx_frames: u64,
    /// `SAI_PORT_STAT_PFC_n_ON2OFF_RX_PKTS`: received pauses that stopped a running priority.
    pub pfc_on2off_rx: [u64; PRIORITIES],
    /// Times a priority group of this port went from XON to XOFF.
    pub xoff_transitions: [u64; PRIORITIES],
    /// `SAI_PORT_STAT_PFC_n_RX_PAUSE_DURATION`: time the peer held this port's priority paused, in nanoseconds.
    pub paused_ns: [u64; PRIORITIES],
    /// `SAI_PORT_STAT_PFC_n_TX_PAUSE_DURATION`: time this port asked its peer to pause, in nanoseconds.
    pub pausing_ns: [u64; PRIORITIES],
    /// The peer pauses the priority at this moment.
    pub paused_now: [bool; PRIORITIES],
    /// The priority group is in XOFF at this moment.
    pub xoff_now: [bool; PRIORITIES],
    /// PFC is on for the priority (`pfc_enable`).
    #[serde(default)]
    pub pfc_enabled: [bool; PRIORITIES],
    /// Pauses of every priority are obeyed (`pfc_asym`).
    #[serde(default)]
    pub pfc_asymmetric: bool,
    /// Pauses that the peer asked for, of each priority.
    #[serde(default)]
    pub pause_history: [PauseHistoryReport; PRIORITIES],
    /// `SAI_PORT_STAT_PAUSE_RX_PKTS`: 802.3x PAUSE frames received.
    pub pause_rx: u64,
    /// `SAI_PORT_STAT_PAUSE_TX_PKTS`: 802.3x PAUSE frames sent.
    #[serde(default)]
    pub pause_tx: u64,
    /// Time the peer held the whole port by 802.3x pauses, in nanoseconds.
    #[serde(default)]
    pub global_paused_ns: u64,
    /// Time this port asked its peer to pause altogether, in nanoseconds.
    #[serde(default)]
    pub global_pausing_ns: u64,
    /// Link quality messages received and understood; they are in no other counter.
    #[serde(default)]
    pub link_quality_rx_frames: u64,
    /// Link quality messages sent.
    #[serde(default)]
    pub link_quality_tx_frames: u64,
    /// `SAI_PORT_STAT_ECN_MARKED_PACKETS`: frames marked CE.
    pub ecn_marked: u64,
    /// `SAI_PORT_STAT_TRIM_PACKETS`: packets that found a queue full and were trimmed, the sum over the queues.
    #[serde(default)]
    pub trim_packets: u64,
    /// `SAI_PORT_STAT_TX_TRIM_PACKETS`: trimmed packets sent.
    #[serde(default)]
    pub tx_trim_packets: u64,
    /// `SAI_PORT_STAT_DROPPED_TRIM_PACKETS`: trimmed packets that found no room either, or were flushed.
    #[serde(default)]
    pub dropped_trim_packets: u64,
    /// Frames dropped, by reason; reasons that never happened are left out.
    pub drops: BTreeMap<String, u64>,
    /// The same by traffic class: reason to sixteen counts.
    pub drops_by_class: BTreeMap<String, [u64; TRAFFIC_CLASSES]>,
    /// The buffer limit that decided the latest drop of each reason that has one: which limit, and cells in use,
    /// allowed and wanted.
    #[serde(default)]
    pub drop_limits: BTreeMap<String, String>,
    /// Frames the host lost before the switch saw them: outside the model, so each taints the run.
    pub host_lost: u64,
    /// Frames that came faster than the link carries and waited for their turn on the wire.
    pub wire_waits: u64,
    /// Frames that passed the port and are missing in its recording (`--pcap`), because it could not be written as fast;
    /// known at the end of a run, and no taint: the switch has them.
    #[serde(default)]
    pub pcap_missed: u64,
    /// Ingress priority groups 0 to 7.
    pub priority_groups: Vec<PriorityGroupReport>,
    /// Egress queues 0 to 7.
    pub queues: Vec<QueueReport>,
}

/// An ingress priority group, under SAI's names. Watermarks are peaks since the last clear, in bytes of whole cells.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
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

/// An egress queue, under SAI's names. Watermarks are peaks since the last clear, in bytes of whole cells.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
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

/// A buffer pool, under SAI's names. Watermarks are peaks since the last clear, in bytes of whole cells.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the serialised names are SAI's own and docs/report.md describes them"
)]
pub struct PoolReport {
    /// Name, such as `ingress_lossless_pool`.
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

impl SwitchReport {
    /// The JSON form of a snapshot.
    pub fn new(snapshot: &SwitchSnapshot) -> SwitchReport {
        let cell = snapshot.cell_bytes;
        let trims = |count: fn(TrimCounters) -> u64| -> u64 {
            let ports = snapshot.ports.iter();
            ports.map(|port| count(port.counters.trims())).sum()
        };
        SwitchReport {
            name: snapshot.name.clone(),
            model_time_ns: snapshot.model_time_ns,
            cell_bytes: cell,
            worker_busy_ns: snapshot.worker_busy_ns,
            tx_trim_packets: trims(|trims| trims.sent),
            dropped_trim_packets: trims(|trims| trims.dropped),
            ports: snapshot
                .ports
                .iter()
                .map(|port| PortReport::new(port, cell))
                .collect(),
            pools: snapshot
                .pools
                .iter()
                .map(|pool| PoolReport::new(pool, cell))
                .collect(),
            pfc_watchdog: snapshot.watchdog.clone(),
            load_balancing: LoadBalancingReport::new(&snapshot.balancing),
        }
    }
}

impl PortReport {
    /// Whether priority groups use each priority's own number is the configuration's choice; here the index of
    /// `xoff_transitions` and `xoff_now` is the group's.
    fn new(port: &PortSnapshot, cell_bytes: u32) -> PortReport {
        let counters = &port.counters;
        let trims = counters.trims();
        let (span_ps, utilisation) = utilisation(counters);
        let pgs = counters.pgs.iter().zip(&port.pgs);
        let queues = counters.queues.iter().zip(&port.queues);
        PortReport {
            name: port.name.clone(),
            device: port.device.clone(),
            backend: port.backend.clone(),
            up: port.up,
            speed_mbps: port.speed_mbps,
            tx_utilisation: utilisation,
            tx_span_ns: span_ps / PS_PER_NS,
            tx_deficit_ns: port.tx_deficit_ns,
            rx_packets: counters.rx_packets,
            rx_own_packets: counters.rx_own_packets,
            rx_bytes: counters.rx_bytes,
            rx_class_packets: counters.rx_class_packets,
            tx_packets: counters.tx_packets,
            tx_bytes: counters.tx_bytes,
            tx_class_packets: counters.tx_class_packets,
            pfc_rx: counters.pfc_rx,
            pfc_tx: counters.pfc_tx,
            pfc_rx_frames: counters.pfc_rx_frames,
            pfc_tx_frames: counters.pfc_tx_frames,
            pfc_on2off_rx: counters.pfc_on2off_rx,
            xoff_transitions: counters.pgs.map(|pg| pg.xoff_transitions),
            paused_ns: counters.rx_pause_ps.map(|ps| ps / PS_PER_NS),
            pausing_ns: counters.tx_pause_ps.map(|ps| ps / PS_PER_NS),
            paused_now: bits(port.paused),
            xoff_now: bits(port.xoff),
            pfc_enabled: bits(port.pfc_enabled),
            pfc_asymmetric: port.pfc_asymmetric,
            pause_history: port.pause_history.map(|history| PauseHistoryReport {
                transitions: history.transitions,
                total_pause_ns: history.total_pause_ps / PS_PER_NS,
                recent_pause_ns: history.recent_pause_ps / PS_PER_NS,
                recent_pause_at_ns: history.recent_pause_at.map(|at| at.as_nanos()),
            }),
            pause_rx: counters.pause_rx,
            pause_tx: counters.pause_tx,
            global_paused_ns: counters.rx_global_pause_ps / PS_PER_NS,
            global_pausing_ns: counters.tx_global_pause_ps / PS_PER_NS,
            link_quality_rx_frames: counters.link_quality_rx,
            link_quality_tx_frames: counters.link_quality_tx,
            ecn_marked: counters.ecn_marked,
            trim_packets: trims.trimmed,
            tx_trim_packets: trims.sent,
            dropped_trim_packets: trims.dropped,
            drops: happened(counters)
                .map(|(name, classes)| (name, classes.iter().sum()))
                .collect(),
            drops_by_class: happened(counters).collect(),
            drop_limits: limits(port),
            host_lost: port.host_lost,
            wire_waits: port.wire_waits,
            pcap_missed: port.pcap_missed,
            priority_groups: pgs
                .map(|(c, b)| PriorityGroupReport::new(c, b, cell_bytes))
                .collect(),
            queues: queues.map(|(c, b)| QueueReport::new(c, b, cell_bytes)).collect(),
        }
    }

    /// Frames dropped, whatever the reason.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    /// Utilisation with the recorded deficit added: what the link would have carried on a host that kept up.
    pub fn tx_utilisation_with_deficit(&self) -> Option<f64> {
        let deficit = self.tx_deficit_ns as f64 / self.tx_span_ns.max(1) as f64;
        self.tx_utilisation.map(|utilisation| utilisation + deficit)
    }
}

impl PriorityGroupReport {
    fn new(counters: &PgCounters, buffers: &PgBuffers, cell_bytes: u32) -> PriorityGroupReport {
        let (current_bytes, watermark_bytes) = in_bytes(buffers.total, cell_bytes);
        let (shared_current_bytes, shared_watermark_bytes) = in_bytes(buffers.shared, cell_bytes);
        let (headroom_current_bytes, headroom_watermark_bytes) = in_bytes(buffers.headroom, cell_bytes);
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
    fn new(counters: &QueueCounters, buffers: &QueueBuffers, cell_bytes: u32) -> QueueReport {
        let (current_bytes, watermark_bytes) = in_bytes(buffers.total, cell_bytes);
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
            shared_watermark_bytes: in_bytes(buffers.shared, cell_bytes).1,
        }
    }
}

impl PoolReport {
    /// Whether headroom was ever taken from it, or may be by its name: SONiC lists the ingress lossless pool alone.
    pub fn has_headroom(&self) -> bool {
        self.headroom_watermark_bytes > 0 || self.name.starts_with("ingress_lossless")
    }

    fn new(pool: &PoolSnapshot, cell_bytes: u32) -> PoolReport {
        let (current_bytes, watermark_bytes) = in_bytes(pool.buffers.shared, cell_bytes);
        let (headroom_current_bytes, headroom_watermark_bytes) = in_bytes(pool.buffers.headroom, cell_bytes);
        PoolReport {
            name: pool.name.clone(),
            current_bytes,
            watermark_bytes,
            headroom_current_bytes,
            headroom_watermark_bytes,
        }
    }
}

/// Current use and peak, in bytes.
fn in_bytes(gauge: Gauge, cell_bytes: u32) -> (u64, u64) {
    let bytes = |cells: u32| u64::from(cells) * u64::from(cell_bytes);
    (bytes(gauge.current_cells), bytes(gauge.peak_cells))
}

/// The span from first to last departure in picoseconds, and the part of it the link was busy.
fn utilisation(counters: &PortCounters) -> (u64, Option<f64>) {
    // `tx_first_ps` is the maximum before the first departure, so that an unused port has no span.
    let span_ps = counters.tx_last_ps.saturating_sub(counters.tx_first_ps);
    (
        span_ps,
        (span_ps > 0).then(|| counters.tx_busy_ps as f64 / span_ps as f64),
    )
}

/// The limits behind drops, by the reasons' names.
fn limits(port: &PortSnapshot) -> BTreeMap<String, String> {
    port.drop_limits
        .iter()
        .map(|(reason, limit)| (reason.name().to_owned(), limit.clone()))
        .collect()
}

/// The drop reasons that happened, with their counts per class.
fn happened(counters: &PortCounters) -> impl Iterator<Item = (String, [u64; TRAFFIC_CLASSES])> + '_ {
    DropReason::ALL
        .iter()
        .zip(&counters.drops)
        .filter(|(_, classes)| classes.iter().any(|&count| count > 0))
        .map(|(reason, classes)| (reason.name().to_owned(), *classes))
}

/// The bits of a mask, bit 0 first.
fn bits(mask: u8) -> [bool; PRIORITIES] {
    std::array::from_fn(|bit| mask & (1 << bit) != 0)
}

/// What a drop reason of a report means, in a sentence; nothing for a name this version does not know.
pub fn describe_drop(name: &str) -> Option<&'static str> {
    DropReason::ALL
        .iter()
        .find(|reason| reason.name() == name)
        .map(|reason| reason.describe())
}
