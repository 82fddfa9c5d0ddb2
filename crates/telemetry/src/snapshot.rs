//! Snapshots: copies of all counters and gauges of a switch at one model time.

use xoff_dataplane::counters::{PgBuffers, PoolBuffers, PortCounters, QueueBuffers};
use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::pfc::PauseHistory;
use xoff_dataplane::{DropReason, SwitchEvent};

use super::{BalancingSnapshot, WatchdogReport};

/// A copy of the counters and states of a switch at one model time.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchSnapshot {
    /// Host name of the switch.
    pub name: String,
    /// Model time of the snapshot in nanoseconds.
    pub model_time_ns: u64,
    /// Size of a buffer cell in bytes (`SAI_SWITCH_ATTR_SHARED_BUFFER_CELL_SIZE`).
    pub cell_bytes: u32,
    /// Wall time for which the switch worker was busy since its start, in nanoseconds. The value is `None` in
    /// virtual time.
    pub worker_busy_ns: Option<u64>,
    /// The ports in the order of the configuration.
    pub ports: Vec<PortSnapshot>,
    /// The ingress and egress pools.
    pub pools: Vec<PoolSnapshot>,
    /// The events of the switch in the order of their times.
    pub events: Vec<SwitchEvent>,
    /// The PFC watchdog. `None` if it watches no queue.
    pub watchdog: Option<WatchdogReport>,
    /// Load balancing groups and flow moves.
    pub balancing: BalancingSnapshot,
}

/// A copy of the counters and states of one port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortSnapshot {
    /// Name of the port, such as `Ethernet0`.
    pub name: String,
    /// Network device of the port. `None` for a port without a device.
    pub device: Option<String>,
    /// Port backend: `packet`, `tap`, `link`, `pnet` or `xdp`. The value is `None` if the port has no device.
    pub backend: Option<String>,
    /// Whether the port is configured up and its device has a carrier.
    pub up: bool,
    /// Model speed in Mb/s.
    pub speed_mbps: u32,
    /// Counters of the data plane.
    pub counters: PortCounters,
    /// Transmit deficit: the transmit time that was lost because the machine was too slow, in nanoseconds of
    /// model time.
    pub tx_deficit_ns: u64,
    /// Buffer use of the priority groups.
    pub pgs: [PgBuffers; PRIORITIES],
    /// Buffer use of the egress queues.
    pub queues: [QueueBuffers; PRIORITIES],
    /// Received pauses of each priority.
    pub pause_history: [PauseHistory; PRIORITIES],
    /// Priorities with PFC (`pfc_enable`). Bit *n* stands for priority *n*.
    pub pfc_enabled: u8,
    /// Whether the port honours pauses of all priorities (`pfc_asym`).
    pub pfc_asymmetric: bool,
    /// Priorities that the peer pauses now. Bit *n* stands for priority *n*.
    pub paused: u8,
    /// Priority groups that are in XOFF now. Bit *n* stands for priority group *n*.
    pub xoff: u8,
    /// Number of frames that the machine lost before they reached the switch. These frames are not drops of
    /// the model. They mark the run as tainted.
    pub host_lost: u64,
    /// Frames that arrived faster than the model speed and had to wait.
    pub wire_waits: u64,
    /// Frames that are missing in a recording of the port (`--pcap`).
    pub pcap_missed: u64,
    /// The buffer limit that caused the latest drop, for each drop reason with a limit.
    pub drop_limits: Vec<(DropReason, String)>,
}

/// A copy of the state of one buffer pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSnapshot {
    /// Name of the pool, such as `ingress_lossless_pool`.
    pub name: String,
    /// Cells in use now, and the watermarks.
    pub buffers: PoolBuffers,
}
