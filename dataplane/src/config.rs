//! Configuration of a switch, with all names resolved to indices.
//!
//! The `xoff` program reads SONiC's `config_db.json`, checks ranges and references, and builds a
//! [`SwitchConfig`]. The switch relies on these checks. An invalid value does not make the switch panic.

mod defaults;
mod routing;
mod trimming;
mod watchdog;

pub use crate::acl_table::{AclRule, AclTable};
pub use crate::balance::config::{
    AdvertiseConfig, BalancingConfig, CustomScheme, HashFields, LoadConfig, LoadMeasure, MemberSelection,
    NextHopBalancing, PortBalancing, RebalanceRule, SchemeConfig, SchemeKind,
};
pub use crate::egress::config::{QueueConfig, SchedulingMode, ShaperConfig, WredProfile};
pub use routing::{InterfaceAttachment, InterfaceConfig, RoutingConfig, StaticNeighbour};
pub use trimming::{TrimDscp, TrimQueue, TrimmingConfig};
pub use watchdog::{PortWatchdog, WatchdogAction, WatchdogConfig, WatchdogRule};

use crate::balance::config::BalancerSetup;
use crate::ids::{PRIORITIES, TRAFFIC_CLASSES};
use xoff_units::{LinkTiming, Picos};
use xoff_wire::parse::ParsedHeaders;

/// Configuration of a whole switch. Each value of this type is one generation. The switch applies a
/// generation completely or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchConfig {
    /// Host name, used in reports.
    pub name: String,
    /// Base MAC address (`DEVICE_METADATA.localhost.mac`).
    pub mac: [u8; 6],
    /// Seed of all random decisions of WRED. Each port has its own random stream.
    pub seed: u64,
    /// Size of a buffer cell in bytes (SAI `SHARED_BUFFER_CELL_SIZE`), 1 to 16384.
    pub cell_bytes: u32,
    /// Pipeline latency: the shortest time from the arrival of a frame's last bit to the start
    /// of its transmission.
    pub pipeline_latency: Picos,
    /// Where the switch decides about ECN marks and WRED drops.
    pub mark_point: MarkPoint,
    /// Age at which a learnt MAC address is removed.
    pub fdb_ageing: Picos,
    /// Largest number of learnt MAC addresses. When the table is full, frames to unknown
    /// addresses are flooded.
    pub fdb_entries_max: usize,
    /// Largest number of frames in the switch. Each copy of a flooded frame counts.
    pub frames_max: usize,
    /// The ports. A [`crate::PortId`] is an index into this list.
    pub ports: Vec<PortConfig>,
    /// Ingress and egress buffer pools.
    pub pools: Vec<PoolConfig>,
    /// Buffer profiles. Each profile belongs to one pool.
    pub profiles: Vec<BufferProfile>,
    /// Limits of whole ports in buffer pools. The list has at most one entry for each port and pool.
    pub port_profiles: Vec<PortProfile>,
    /// Link aggregation groups.
    pub lags: Vec<LagConfig>,
    /// Bridging between ports: transparent or by VLAN.
    pub bridging: BridgingConfig,
    /// Router interfaces, routes and neighbours.
    pub routing: RoutingConfig,
    /// Load balancing of next hop groups and LAGs.
    pub balancing: BalancingConfig,
    /// Settings of the PFC watchdog that apply to all ports.
    pub watchdog: WatchdogConfig,
    /// Packet trimming. `None`: full queues drop frames.
    pub trimming: Option<TrimmingConfig>,
}

impl SwitchConfig {
    /// Returns the settings for the load balancer.
    pub(crate) fn balancer_setup(&self) -> BalancerSetup<'_> {
        BalancerSetup {
            balancing: &self.balancing,
            seed: self.seed,
            hash_seed: self.routing.hash_seed,
            links: self.ports.iter().map(|port| port.link).collect(),
        }
    }
}

/// A link aggregation group with static members (`PORTCHANNEL`, `PORTCHANNEL_MEMBER`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LagConfig {
    /// Name, such as `PortChannel1`.
    pub name: String,
    /// Administrative state (`PORTCHANNEL.admin_status`).
    pub admin_up: bool,
    /// The LAG is up if at least this number of members is up (`min_links`). The value is at least 1.
    pub min_links: u16,
    /// Port indices of the members. A port is a member of at most one LAG.
    pub members: Vec<u16>,
}

/// Where the switch reads the queue length that decides about ECN marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkPoint {
    /// The mark is decided when a frame leaves, by the number of bytes that remain in the queue. Real chips
    /// do this (SONiC's `test_dequeue_ecn`).
    #[default]
    Dequeue,
    /// When a frame arrives, from the bytes that wait in front of it.
    Enqueue,
}

/// How the switch bridges frames between its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BridgingConfig {
    /// No VLAN is configured. All ports form one bridge that ignores VLAN tags.
    Transparent,
    /// VLANs with their members. A port without a VLAN forwards nothing.
    Vlans(Vec<VlanConfig>),
}

/// A VLAN and its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanConfig {
    /// VLAN id, 2 to 4094.
    pub id: u16,
    /// Ports and LAGs of the VLAN.
    pub members: Vec<VlanMemberConfig>,
}

/// Membership of a port or LAG in a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanMemberConfig {
    /// Index of the port. The value `ports.len() + n` is LAG *n* of [`SwitchConfig::lags`].
    pub port: u16,
    /// How the member's frames are tagged.
    pub tagging: TaggingMode,
}

/// How a VLAN member sends and receives frames (`VLAN_MEMBER.tagging_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaggingMode {
    /// Frames leave with the VLAN tag.
    Tagged,
    /// Frames leave without a tag. Untagged frames arrive in this VLAN.
    Untagged,
    /// Frames of this VLAN leave with VLAN id 0 and their priority. Untagged and priority-tagged frames that
    /// arrive belong to this VLAN.
    PriorityTagged,
}

/// Configuration of a port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortConfig {
    /// Name, such as `Ethernet0`.
    pub name: String,
    /// Source address of the port's PFC frames.
    pub mac: [u8; 6],
    /// Administrative state (`PORT.admin_status`).
    pub admin_up: bool,
    /// Longest frame in bytes, without Ethernet header, tags and FCS (`PORT.mtu`), 68 to 9216.
    pub mtu: u32,
    /// Speed of the link, and the bytes that a frame occupies on it.
    pub link: LinkTiming,
    /// TPID of the outer VLAN tag (`PORT.tpid`).
    pub tpid: u16,
    /// Maps that classify received frames.
    pub classify: ClassMaps,
    /// Priority flow control and 802.3x PAUSE.
    pub pfc: PfcConfig,
    /// PFC watchdog of the port. `None`: the watchdog does not watch the port.
    pub watchdog: Option<PortWatchdog>,
    /// DSCP of trimmed packets for each traffic class (`tc_to_dscp_map`). The value is `None` if the map has
    /// no entry for the class.
    pub tc_to_dscp: [Option<u8>; TRAFFIC_CLASSES],
    /// Buffer profile of each priority group: an index into [`SwitchConfig::profiles`], or [`NO_PROFILE`].
    pub pgs: [u16; PRIORITIES],
    /// The egress queues.
    pub queues: [QueueConfig; PRIORITIES],
    /// Shaper of the whole port, in addition to the model speed.
    pub shaper: Option<ShaperConfig>,
}

/// The header field that selects the traffic class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustMode {
    /// IP frames are classified by their DSCP. Other frames are classified by the 802.1p priority of their
    /// tag, and have class 0 without a tag.
    Dscp,
    /// 802.1p priority of the tag. Untagged frames have class 0.
    Pcp,
}

/// Maps from header fields to traffic class, queue and priority group (`PORT_QOS_MAP`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)] // in one cache line, but for high DSCPs
pub struct ClassMaps {
    /// Selects `dscp_to_tc` or `dot1p_to_tc`.
    pub trust: TrustMode,
    /// Traffic class to egress queue. The switch uses the map of the egress port.
    pub tc_to_queue: [u8; TRAFFIC_CLASSES],
    /// Traffic class to priority group. The switch uses the map of the ingress port.
    pub tc_to_pg: [u8; TRAFFIC_CLASSES],
    /// 802.1p priority to traffic class.
    pub dot1p_to_tc: [u8; PRIORITIES],
    /// DSCP to traffic class.
    pub dscp_to_tc: [u8; 64],
}

impl ClassMaps {
    /// Returns the traffic class (0 to 15) of a frame that arrives at a port with these maps.
    #[inline(always)]
    pub fn traffic_class(&self, parsed: &ParsedHeaders) -> u8 {
        let by_tag = |maps: &ClassMaps| match parsed.tag {
            Some(tag) => maps.dot1p_to_tc[usize::from(tag.pcp())],
            None => 0,
        };
        let tc = match (self.trust, parsed.dscp()) {
            (TrustMode::Dscp, Some(dscp)) => self.dscp_to_tc[usize::from(dscp & 63)],
            _ => by_tag(self),
        };
        tc % TRAFFIC_CLASSES as u8
    }

    /// Returns the priority group (0 to 7) of a traffic class (0 to 15) at an ingress port with these maps.
    #[inline(always)]
    pub fn priority_group(&self, tc: u8) -> u8 {
        self.tc_to_pg[usize::from(tc)] % PRIORITIES as u8
    }

    /// Returns the queue (0 to 7) of a traffic class (0 to 15) at an egress port with these maps.
    #[inline(always)]
    pub fn queue(&self, tc: u8) -> usize {
        usize::from(self.tc_to_queue[usize::from(tc)]) % PRIORITIES
    }
}

/// Priority flow control of a port (IEEE 802.1Q clause 36).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcConfig {
    /// Bit *n*: the port sends and honours PFC for priority *n* (`PORT_QOS_MAP.pfc_enable`).
    pub enabled: u8,
    /// Asymmetric PFC (`PORT.pfc_asym`): the port honours pauses of all priorities, but sends PFC only for
    /// the enabled priorities.
    pub asymmetric: bool,
    /// Pause quanta in an XOFF frame, 1 to 65535.
    pub pause_quanta: u16,
    /// Interval at which the port repeats XOFF while a priority group stays in XOFF.
    pub refresh: Picos,
    /// Priority to the egress queue that a received pause stops (`MAP_PFC_PRIORITY_TO_QUEUE`).
    pub priority_to_queue: [u8; PRIORITIES],
    /// Priority to the priority group whose XOFF the priority signals (`PFC_PRIORITY_TO_PRIORITY_GROUP_MAP`).
    pub priority_to_pg: [u8; PRIORITIES],
    /// How long a pause lasts.
    pub pauses: PauseModel,
    /// Response time in pause quanta (0 to 65535): the time from the arrival of a PFC or 802.3x pause to its
    /// effect. IEEE 802.3 31B.3.7 allows at most [`response_quanta_max`](crate::pfc::response_quanta_max).
    pub response_quanta: u16,
    /// 802.3x PAUSE of the whole port. This setting has no effect while any priority has PFC.
    pub global: GlobalPause,
}

/// 802.3x PAUSE of a whole port (SAI `GLOBAL_FLOW_CONTROL_MODE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalPause {
    /// True if a received PAUSE frame stops all queues of the port.
    pub honoured: bool,
    /// True if XOFF of a priority group with headroom pauses the peer.
    pub generated: bool,
}

/// How long a pause lasts, and when pause frames are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PauseModel {
    /// The model of IEEE 802.1Q. A pause lasts for its quanta, and the port repeats the pause frame while
    /// XOFF continues. One frame carries all priorities. The port builds the frame when the link is free,
    /// from the state at that moment.
    #[default]
    Timed,
    /// The model of the ns-3 RDMA simulators, for comparisons with them. A pause lasts until the resume and
    /// is not repeated. The port sends a separate frame for each change of each priority, in order. A frame
    /// is also sent if a later change has already reversed the change.
    UntilResumed {
        /// Number of bytes that a pause frame occupies on the link, with FCS. The simulators use 43 bytes.
        frame_bytes: u32,
    },
}

impl PfcConfig {
    /// Returns a bit mask. Bit *n* is set if the port honours received pauses of priority *n*.
    pub const fn honoured_priorities(&self) -> u8 {
        if self.asymmetric { 0xff } else { self.enabled }
    }

    /// Returns true if the port honours received 802.3x PAUSE frames: PAUSE is enabled and no priority
    /// honours PFC.
    pub const fn honours_global_pause(&self) -> bool {
        self.global.honoured && self.honoured_priorities() == 0
    }

    /// Returns true if the port signals XOFF with 802.3x PAUSE frames: PAUSE is enabled and no
    /// priority has PFC.
    pub const fn generates_global_pause(&self) -> bool {
        self.global.generated && self.honoured_priorities() == 0
    }

    /// Returns true if an enabled priority signals XOFF of priority group `pg`.
    pub fn signals_priority_group(&self, pg: u8) -> bool {
        (0..PRIORITIES).any(|p| self.enabled & (1 << p) != 0 && self.priority_to_pg[p] == pg)
    }
}

/// A buffer pool (`BUFFER_POOL`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Name, used in reports.
    pub name: String,
    /// Whether priority groups or queues use the pool.
    pub side: PoolSide,
    /// Shared space in bytes, rounded down to whole cells.
    pub size_bytes: u64,
    /// Size of the shared headroom pool in bytes. With 0, each priority group has private headroom.
    pub xoff_bytes: u64,
}

/// The users of a buffer pool (`BUFFER_POOL.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolSide {
    /// Priority groups use the pool.
    Ingress,
    /// Egress queues use the pool.
    Egress,
}

/// Profile index of a priority group or queue without a buffer (profile `NULL`). Such a group or queue admits
/// no frames.
pub const NO_PROFILE: u16 = u16::MAX;

/// A buffer profile (`BUFFER_PROFILE`). Sizes in bytes are rounded down to whole cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferProfile {
    /// Name, used in reports.
    pub name: String,
    /// Index into [`SwitchConfig::pools`].
    pub pool: u16,
    /// Number of reserved bytes. If the pool has no shared headroom and `size >= xoff`, this size includes
    /// the private headroom. In this case, only `size - xoff` is reserved.
    pub size_bytes: u64,
    /// Limit of the shared use.
    pub threshold: BufferThreshold,
    /// Headroom in bytes. A profile with headroom is lossless.
    pub xoff_bytes: u64,
    /// Total use in bytes at which the priority group leaves XOFF.
    pub xon_bytes: u64,
    /// The group leaves XOFF when its use is this many bytes below the use at which XOFF begins. With 0, this
    /// rule is not applied.
    pub xon_offset_bytes: u64,
    /// True if frames are trimmed when a queue of this profile is full (`packet_discard_action`). Trimming
    /// must also be configured for the switch.
    pub trim: bool,
}

/// An entry of `BUFFER_PORT_INGRESS_PROFILE_LIST` or `BUFFER_PORT_EGRESS_PROFILE_LIST`. The threshold of the
/// profile limits the total use of the profile's pool by all priority groups of the port (ingress list) or by
/// all queues of the port (egress list).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortProfile {
    /// Index of the port.
    pub port: u16,
    /// Index into [`SwitchConfig::profiles`].
    pub profile: u16,
}

/// Limit for the use of a pool's shared space by one priority group or queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferThreshold {
    /// The limit is `2^n` times the number of currently free shared cells, rounded down. The exponent `n` is
    /// -8 to 7.
    Dynamic(i8),
    /// A fixed number of bytes. 0 means no limit, as in SAI.
    Static(u64),
    /// The rule of the HPCC simulator, for comparisons with this simulator. See the module `mmu`. The
    /// profile's `size_bytes` is the reserve, `xoff_bytes` the headroom and `xon_offset_bytes` the resume
    /// offset. The size of the pool is the whole buffer. The rule applies to priority groups. A queue with
    /// this rule has no limit.
    Hpcc {
        /// The limit is the number of free shared bytes, shifted right by this number (0 to 31). With 3, the
        /// limit is one eighth of the free bytes.
        shift: u8,
    },
}
