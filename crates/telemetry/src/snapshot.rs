//! A switch's counters and gauges at one moment, as its driver copies them out.

use xoff_dataplane::counters::{PgBuffers, PoolBuffers, PortCounters, QueueBuffers};
use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::pfc::PauseHistory;
use xoff_dataplane::{DropReason, SwitchEvent};

use super::{BalancingSnapshot, WatchdogReport};

/// One switch at one moment of model time.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchSnapshot {
    /// Host name of the switch.
    pub name: String,
    /// Model time of the copy, in nanoseconds.
    pub model_time_ns: u64,
    /// Buffer cell in bytes (SAI `SHARED_BUFFER_CELL_SIZE`): turns cells into bytes.
    pub cell_bytes: u32,
    /// Wall time in which the switch's thread had something to do, in nanoseconds since it started; `None` in virtual time.
    pub worker_busy_ns: Option<u64>,
    /// The ports, in the order of the configuration.
    pub ports: Vec<PortSnapshot>,
    /// The buffer pools.
    pub pools: Vec<PoolSnapshot>,
    /// What the switch has told its operator, in the order of its times.
    pub events: Vec<SwitchEvent>,
    /// The PFC watchdog, if it watches anything.
    pub watchdog: Option<WatchdogReport>,
    /// Groups of links, and who goes where.
    pub balancing: BalancingSnapshot,
}

/// One port at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct PortSnapshot {
    /// Name, such as `Ethernet0`.
    pub name: String,
    /// The network device behind it; none for a port without one.
    pub device: Option<String>,
    /// How frames are moved: `packet`, `tap`, `link`, `pnet` or `xdp`.
    pub backend: Option<String>,
    /// Configured up, and its device has a carrier.
    pub up: bool,
    /// Model speed in Mb/s.
    pub speed_mbps: u32,
    /// What the data plane counted.
    pub counters: PortCounters,
    /// Transmit time the host missed and could not catch up, in nanoseconds of model time.
    pub tx_deficit_ns: u64,
    /// Buffer use of the priority groups.
    pub pgs: [PgBuffers; PRIORITIES],
    /// Buffer use of the egress queues.
    pub queues: [QueueBuffers; PRIORITIES],
    /// Pauses that the peer asked for, per priority.
    pub pause_history: [PauseHistory; PRIORITIES],
    /// Bit *n*: PFC is on for priority *n* (`pfc_enable`).
    pub pfc_enabled: u8,
    /// Pauses of every priority are obeyed (`pfc_asym`).
    pub pfc_asymmetric: bool,
    /// Bit *n*: the peer pauses priority *n* now.
    pub paused: u8,
    /// Bit *n*: priority group *n* is in XOFF now.
    pub xoff: u8,
    /// Frames the host lost before the switch saw them; not a drop of the model, and a taint.
    pub host_lost: u64,
    /// Frames that came faster than the link and waited on "the wire".
    pub wire_waits: u64,
    /// Frames that passed and are missing in a recording of the port (`--pcap`).
    pub pcap_missed: u64,
    /// For each reason with a buffer limit behind it: the limit that decided the latest drop, in words.
    pub drop_limits: Vec<(DropReason, String)>,
}

/// One buffer pool at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSnapshot {
    /// Name, such as `ingress_lossless_pool`.
    pub name: String,
    /// Cells in use and their peaks.
    pub buffers: PoolBuffers,
}
