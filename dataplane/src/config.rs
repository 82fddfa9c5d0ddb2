//! What a switch is told to be: resolved values, no names to look up, no text.
//!
//! This is the core's side of a configuration. The `xoff` program reads SONiC's `config_db.json`, checks it
//! against ranges and references, and builds this; the core relies on that and panics on none of it.

mod balancing;
mod routing;
mod trimming;
mod watchdog;

pub use balancing::{
    AdvertiseConfig, BalancingConfig, HashFields, LoadConfig, Measure, NextHopBalancing, OwnScheme, Pick,
    PortBalancing, Rebalance, SchemeConfig, SchemeKind,
};
pub use routing::{Attachment, InterfaceConfig, RoutingConfig, StaticNeighbour};
pub use trimming::{AclRule, AclTable, TrimDscp, TrimQueue, TrimmingConfig};
pub use watchdog::{PortWatchdog, WatchdogAction, WatchdogConfig, WatchdogRule};

use crate::ids::{PRIORITIES, TRAFFIC_CLASSES};
use xoff_units::{LinkTiming, Picos};
use xoff_wire::parse::Parsed;

/// A whole switch. One value is one generation: it is applied as a whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchConfig {
    /// Host name, for reports.
    pub name: String,
    /// Base MAC address (`DEVICE_METADATA.localhost.mac`).
    pub mac: [u8; 6],
    /// Seed of every random decision (WRED); each port draws from a stream of its own.
    pub seed: u64,
    /// Buffer cell in bytes (SAI `SHARED_BUFFER_CELL_SIZE`), 1 to 16384.
    pub cell_bytes: u32,
    /// From the last bit of a frame to the earliest start of its departure.
    pub pipeline_latency: Picos,
    /// Where ECN and WRED are decided.
    pub mark_point: MarkPoint,
    /// Age after which a learnt MAC address is forgotten.
    pub fdb_ageing: Picos,
    /// Most MAC addresses learnt; beyond, frames flood and nothing is learnt.
    pub fdb_entries_max: usize,
    /// Most frames in the switch at once, copies counted.
    pub frames_max: usize,
    /// The ports; a [`crate::PortId`] is an index here.
    pub ports: Vec<PortConfig>,
    /// Buffer pools, ingress and egress.
    pub pools: Vec<PoolConfig>,
    /// Buffer profiles, each of one pool.
    pub profiles: Vec<BufferProfile>,
    /// What ports as a whole may use of pools: one entry for each port and pool at most.
    pub port_profiles: Vec<PortProfile>,
    /// Link aggregation groups.
    pub lags: Vec<LagConfig>,
    /// What connects the ports.
    pub bridging: Bridging,
    /// What connects the networks.
    pub routing: RoutingConfig,
    /// How groups of next hops and LAGs choose among their members.
    pub balancing: BalancingConfig,
    /// The PFC watchdog, as far as it is the same for all ports.
    pub watchdog: WatchdogConfig,
    /// Packet trimming; `None`: full queues drop.
    pub trimming: Option<TrimmingConfig>,
}

/// A link aggregation group with static members (`PORTCHANNEL`, `PORTCHANNEL_MEMBER`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LagConfig {
    /// Name, such as `PortChannel1`.
    pub name: String,
    /// `PORTCHANNEL.admin_status`.
    pub admin_up: bool,
    /// Fewest members that must be up for the group to be up (`min_links`), at least 1.
    pub min_links: u16,
    /// Indices of its ports; a port is in one group at most.
    pub members: Vec<u16>,
}

/// Where the queue length that decides on marking is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkPoint {
    /// When a frame leaves, by what remains behind it (real chips, SONiC's `test_dequeue_ecn`).
    #[default]
    Dequeue,
    /// When a frame arrives, by what waits before it.
    Enqueue,
}

/// What connects the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bridging {
    /// No VLAN is configured: all ports form one bridge that does not look at tags.
    Transparent,
    /// VLANs by id; a port outside all of them forwards nothing.
    Vlans(Vec<VlanConfig>),
}

/// A VLAN and its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanConfig {
    /// VLAN id, 2 to 4094.
    pub id: u16,
    /// Members.
    pub members: Vec<VlanMember>,
}

/// A port's place in a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanMember {
    /// Index of the port; `ports.len() + n` is group *n* of [`SwitchConfig::lags`].
    pub port: u16,
    /// How its frames are tagged.
    pub tagging: Tagging,
}

/// `VLAN_MEMBER.tagging_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tagging {
    /// Frames leave with the tag.
    Tagged,
    /// Frames leave without it, untagged frames arrive in this VLAN.
    Untagged,
    /// Frames leave with VLAN id 0 and their priority, untagged and priority-tagged frames arrive in this VLAN.
    PriorityTagged,
}

/// A port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortConfig {
    /// Name, such as `Ethernet0`.
    pub name: String,
    /// Address its PFC frames come from.
    pub mac: [u8; 6],
    /// `PORT.admin_status`.
    pub admin_up: bool,
    /// Largest frame without Ethernet header, tags and FCS (`PORT.mtu`), 68 to 9216.
    pub mtu: u32,
    /// Speed and serialisation.
    pub link: LinkTiming,
    /// Outer tag protocol id (`PORT.tpid`).
    pub tpid: u16,
    /// Classification of arriving frames.
    pub classify: ClassMaps,
    /// Flow control.
    pub pfc: PfcConfig,
    /// Its PFC watchdog; `None`: the port is not watched.
    pub watchdog: Option<PortWatchdog>,
    /// DSCP that a trimmed packet of a traffic class leaves with (`tc_to_dscp_map`); `None`: the map has no such class.
    pub tc_to_dscp: [Option<u8>; TRAFFIC_CLASSES],
    /// Buffer profile of each priority group: an index into [`SwitchConfig::profiles`], or [`NO_PROFILE`].
    pub pgs: [u16; PRIORITIES],
    /// The egress queues.
    pub queues: [QueueConfig; PRIORITIES],
    /// Shaper of the whole port, beside its model speed.
    pub shaper: Option<Shaper>,
}

/// Which header field classifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// DSCP of IP frames; others use the 802.1p priority of their tag, or class 0 without one.
    Dscp,
    /// 802.1p priority; untagged frames are class 0.
    Pcp,
}

/// Maps from header to traffic class to queue and priority group (`PORT_QOS_MAP`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)] // in one cache line, but for high DSCPs
pub struct ClassMaps {
    /// Which of the last two maps applies.
    pub trust: Trust,
    /// Traffic class to egress queue; the map of the *egress* port decides.
    pub tc_to_queue: [u8; TRAFFIC_CLASSES],
    /// Traffic class to priority group; the map of the *ingress* port decides.
    pub tc_to_pg: [u8; TRAFFIC_CLASSES],
    /// 802.1p priority to traffic class.
    pub dot1p_to_tc: [u8; PRIORITIES],
    /// DSCP to traffic class.
    pub dscp_to_tc: [u8; 64],
}

impl ClassMaps {
    /// The traffic class of a frame that arrives at a port with these maps, 0 to 15.
    #[inline(always)]
    pub fn traffic_class(&self, parsed: &Parsed) -> u8 {
        let by_tag = |maps: &ClassMaps| match parsed.tag {
            Some(tag) => maps.dot1p_to_tc[usize::from(tag.pcp())],
            None => 0,
        };
        let tc = match (self.trust, parsed.dscp()) {
            (Trust::Dscp, Some(dscp)) => self.dscp_to_tc[usize::from(dscp & 63)],
            _ => by_tag(self),
        };
        tc % TRAFFIC_CLASSES as u8
    }

    /// The priority group, 0 to 7, that a traffic class (0 to 15) is charged to at a port with these maps where it arrives.
    #[inline(always)]
    pub fn priority_group(&self, tc: u8) -> u8 {
        self.tc_to_pg[usize::from(tc)] % PRIORITIES as u8
    }

    /// The queue, 0 to 7, that a traffic class (0 to 15) leaves by at a port with these maps.
    #[inline(always)]
    pub fn queue(&self, tc: u8) -> usize {
        usize::from(self.tc_to_queue[usize::from(tc)]) % PRIORITIES
    }
}

/// Priority flow control of a port (IEEE 802.1Qbb).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcConfig {
    /// Bit *n*: priority *n* sends and honours PFC (`PORT_QOS_MAP.pfc_enable`).
    pub enabled: u8,
    /// `PORT.pfc_asym`: honour pause on all priorities, generate only for the enabled ones.
    pub asymmetric: bool,
    /// Quanta in an XOFF frame, 1 to 65535.
    pub pause_quanta: u16,
    /// XOFF is repeated this long after the last one while the group stays congested.
    pub refresh: Picos,
    /// Priority to egress queue that a received pause stops (`MAP_PFC_PRIORITY_TO_QUEUE`).
    pub priority_to_queue: [u8; PRIORITIES],
    /// Priority to priority group whose congestion it signals (`PFC_PRIORITY_TO_PRIORITY_GROUP_MAP`).
    pub priority_to_pg: [u8; PRIORITIES],
    /// What a pause means.
    pub pauses: PauseModel,
    /// From the arrival of a PFC or 802.3x pause to its effect, in pause quanta (512 bit times at the port's speed), 0 to 65535.
    /// IEEE 802.3 31B.3.7 allows at most [`response_quanta_max`](crate::pfc::response_quanta_max).
    pub response_quanta: u16,
    /// 802.3x pauses of the whole port; they are without effect while any priority has PFC.
    pub global: GlobalPause,
}

/// 802.3x pause of a whole port (SAI `GLOBAL_FLOW_CONTROL_MODE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalPause {
    /// A received pause stops all queues of the port.
    pub honoured: bool,
    /// Congestion of a priority group with headroom pauses the peer.
    pub generated: bool,
}

/// What a pause means, and what tells of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PauseModel {
    /// IEEE 802.1Qbb: a pause lasts its quanta and is repeated while it is meant. One frame names all classes concerned; it is
    /// composed when the link is free, from the state at that moment.
    #[default]
    Timed,
    /// As the ns-3 RDMA models have it, to be held against them: a pause lasts until its resume and is not repeated. Each
    /// change of each class is a frame of its own, sent in order, though the next change overtakes it.
    UntilResumed {
        /// Length of these frames in their senders' link time, FCS included; the models have 43 octets.
        frame_bytes: u32,
    },
}

impl PfcConfig {
    /// Priorities whose received pauses are obeyed.
    pub const fn honoured(&self) -> u8 {
        if self.asymmetric { 0xff } else { self.enabled }
    }

    /// Whether received 802.3x pauses are obeyed: where no priority's PFC is.
    pub const fn global_honoured(&self) -> bool {
        self.global.honoured && self.honoured() == 0
    }

    /// Whether congestion is signalled by 802.3x pauses: where no priority honours or sends PFC.
    pub const fn global_generated(&self) -> bool {
        self.global.generated && self.honoured() == 0
    }

    /// Whether congestion of priority group `pg` is signalled by some enabled priority.
    pub fn signals(&self, pg: u8) -> bool {
        (0..PRIORITIES).any(|p| self.enabled & (1 << p) != 0 && self.priority_to_pg[p] == pg)
    }
}

/// An egress queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueConfig {
    /// Buffer profile: an index into [`SwitchConfig::profiles`], of an egress pool, or [`NO_PROFILE`].
    pub profile: u16,
    /// Its turn on the link.
    pub schedule: Schedule,
    /// Its own shaper.
    pub shaper: Option<Shaper>,
    /// ECN marking and early drop.
    pub wred: Option<Wred>,
}

/// `SCHEDULER.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Before every DWRR queue; among strict ones the higher number first.
    Strict,
    /// Deficit weighted round robin in bytes, weight 1 to 100.
    Dwrr {
        /// Share relative to the port's other DWRR queues.
        weight: u8,
    },
}

/// A peak rate (`SCHEDULER.pir`, `pbs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaper {
    /// Bytes (of `mac_len`) per second, at least 1.
    pub bytes_per_second: u64,
    /// Bytes that may pass at once after idleness.
    pub burst_bytes: u32,
}

/// `WRED_PROFILE`, green: thresholds on the instantaneous queue length (SONiC programs weight 0).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wred {
    /// Probability is zero up to this many queued bytes.
    pub min_bytes: u64,
    /// Probability reaches `max_probability` here and is one beyond.
    pub max_bytes: u64,
    /// In units of 2^-32: 5 % is `(0.05 * 2^32)`; 2^32 is certain.
    pub max_probability: u64,
    /// Capable frames are marked CE.
    pub ecn: bool,
    /// Frames that cannot be marked are dropped instead (never in a lossless priority group).
    pub drop: bool,
}

/// `BUFFER_POOL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Name, for reports.
    pub name: String,
    /// Which side charges it.
    pub side: PoolSide,
    /// Shared bytes; cut down to whole cells.
    pub size_bytes: u64,
    /// Size of the shared headroom pool; 0: headroom is private to each group.
    pub xoff_bytes: u64,
}

/// `BUFFER_POOL.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolSide {
    /// Charged by priority groups.
    Ingress,
    /// Charged by queues.
    Egress,
}

/// In place of a profile's index: the group or queue has no buffer (profile `NULL`), nothing is admitted to it.
pub const NO_PROFILE: u16 = u16::MAX;

/// `BUFFER_PROFILE`. Byte sizes are cut down to whole cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferProfile {
    /// Name, for reports.
    pub name: String,
    /// Index into [`SwitchConfig::pools`].
    pub pool: u16,
    /// Reserved bytes. In the private headroom form (pool without shared headroom, `size >= xoff`) it contains
    /// the headroom, and only `size - xoff` is reserved.
    pub size_bytes: u64,
    /// Limit of shared use.
    pub threshold: Threshold,
    /// Headroom after XOFF; a profile with headroom is lossless.
    pub xoff_bytes: u64,
    /// Resume when total use falls to this.
    pub xon_bytes: u64,
    /// Resume this far below the XOFF point; 0: not used.
    pub xon_offset_bytes: u64,
    /// Frames that find a queue of this profile full are trimmed (`packet_discard_action`), if the switch trims at all.
    pub trim: bool,
}

/// An entry of `BUFFER_PORT_INGRESS_PROFILE_LIST` or `BUFFER_PORT_EGRESS_PROFILE_LIST`: of the profile, pool and threshold
/// hold for the port's use of that pool as a whole, by its priority groups or its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortProfile {
    /// Index of the port.
    pub port: u16,
    /// Index into [`SwitchConfig::profiles`].
    pub profile: u16,
}

/// How much of a pool's shared part one user may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// `2^n` times the free shared cells at that moment, rounded down; -8 to 7.
    Dynamic(i8),
    /// A fixed number of bytes; 0 is no limit (SAI).
    Static(u64),
    /// The rule of the HPCC simulator instead of that of chips, for runs that are held against it: see the module `mmu`. The
    /// profile's `size_bytes` is the reserve, `xoff_bytes` the headroom, `xon_offset_bytes` the resume offset; the pool's
    /// size is the whole buffer. For priority groups; a queue with it has no limit.
    Hpcc {
        /// The limit is the free shared bytes shifted right by this, 0 to 31; 3 is one eighth.
        shift: u8,
    },
}
