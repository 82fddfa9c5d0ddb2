//! Configuration of a switch, with all names resolved to indices.
//!
//! The `xoff` program reads SONiC's `config_db.json`, checks ranges and references, and builds a
//! [`SwitchConfig`]. The switch relies on these checks. A value outside its range, or an index without an
//! entry, can make the switch panic or give wrong results.

mod defaults;
mod lldp;
mod routing;
mod trimming;
mod watchdog;

pub use crate::acl_table::{AclRule, AclTable};
pub use crate::balance::config::{
    AdvertiseConfig, BalancingConfig, CustomScheme, HashFields, LoadConfig, LoadMeasure, MemberSelection,
    NextHopBalancing, PortBalancing, RebalanceRule, SchemeConfig, SchemeKind,
};
pub use crate::egress::config::{QueueConfig, SchedulingMode, ShaperConfig, WredProfile};
pub use lldp::LldpConfig;
pub use routing::{InterfaceAttachment, InterfaceConfig, RoutingConfig, StaticNeighbour};
pub use trimming::{TrimDscp, TrimQueue, TrimmingConfig};
pub use watchdog::{PortWatchdog, WatchdogAction, WatchdogConfig, WatchdogRule};

use crate::balance::config::BalancerSetup;
use crate::ids::{PRIORITIES, TRAFFIC_CLASSES};
use xoff_units::{LinkTiming, Picos};
use xoff_wire::parse::ParsedHeaders;

/// Configuration of a switch. Each value of this type is one complete version of the configuration (a
/// generation). The switch applies a version completely or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchConfig {
    /// Host name of the switch, for reports.
    pub name: String,
    /// Base MAC address (`DEVICE_METADATA.localhost.mac`).
    pub mac: [u8; 6],
    /// Seed of all random decisions of WRED and load balancing (`XOFF_SWITCH.seed`). Each port and each load
    /// balancing group has its own random generator.
    pub seed: u64,
    /// Size of a buffer cell in bytes (`XOFF_SWITCH.cell_size`, SAI `SHARED_BUFFER_CELL_SIZE`), 1 to 16384.
    pub cell_bytes: u32,
    /// Pipeline latency (`XOFF_SWITCH.pipeline_latency`): the shortest time from the arrival of a frame's
    /// last bit to the start of its transmission. Zero means that a frame may leave at once.
    pub pipeline_latency: Picos,
    /// The time at which the switch decides about ECN marks (`XOFF_SWITCH.mark_point`). WRED drops are always
    /// decided on arrival.
    pub mark_point: EcnMarkPoint,
    /// Time after the latest frame of a station at which its MAC address is removed
    /// (`XOFF_SWITCH.fdb_ageing`). With [`Picos::NEVER`], addresses are not removed.
    pub fdb_ageing: Picos,
    /// Largest number of learnt MAC addresses (`XOFF_SWITCH.fdb_entries`), at least 1. When the table is
    /// full, no address is learnt, and frames to unknown addresses are flooded.
    pub fdb_entries_max: usize,
    /// Largest number of frames in the egress queues (`XOFF_SWITCH.frames`), at least 1. Each copy of a
    /// flooded frame counts.
    pub frames_max: usize,
    /// The ports, at most 1024. A [`crate::PortId`] is an index in this list.
    pub ports: Vec<PortConfig>,
    /// Ingress and egress buffer pools.
    pub pools: Vec<PoolConfig>,
    /// Buffer profiles. Each profile belongs to one pool of `pools`.
    pub profiles: Vec<BufferProfile>,
    /// Limits of whole ports in buffer pools. The list has at most one entry for each port and pool.
    pub port_profiles: Vec<PortProfile>,
    /// Link aggregation groups (LAGs).
    pub lags: Vec<LagConfig>,
    /// Bridging between ports: transparent or by VLAN.
    pub bridging: BridgingConfig,
    /// Router interfaces, routes and static neighbours.
    pub routing: RoutingConfig,
    /// Load balancing of next-hop groups and LAGs.
    pub balancing: BalancingConfig,
    /// Settings of the PFC watchdog that apply to all ports.
    pub watchdog: WatchdogConfig,
    /// Packet trimming. `None`: full queues drop frames.
    pub trimming: Option<TrimmingConfig>,
    /// LLDP agent of the CPU port. `None`: the switch neither sends nor processes LLDP frames.
    pub lldp: Option<LldpConfig>,
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
    /// Name of the LAG, such as `PortChannel1`.
    pub name: String,
    /// Administrative state (`PORTCHANNEL.admin_status`).
    pub admin_up: bool,
    /// The LAG is up if at least this number of members is up (`min_links`). The value is at least 1.
    pub min_links: u16,
    /// The member ports, as indices in [`SwitchConfig::ports`], in any order. A port is a member of at most
    /// one LAG.
    pub members: Vec<u16>,
}

/// The time at which the switch reads the queue length that decides about an ECN mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMarkPoint {
    /// The mark is decided when a frame leaves, from the number of bytes that remain in the queue. Real chips
    /// do this (SONiC's `test_dequeue_ecn`).
    #[default]
    Dequeue,
    /// The mark is decided when a frame arrives, from the number of bytes that wait in front of it.
    Enqueue,
}

/// Bridging between the ports of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BridgingConfig {
    /// No VLAN is configured. All ports form one bridge, which ignores VLAN tags.
    Transparent,
    /// VLANs with their members, in ascending order of their ids. A port without a VLAN forwards nothing.
    Vlans(Vec<VlanConfig>),
}

/// A VLAN and its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanConfig {
    /// VLAN id, 2 to 4094.
    pub id: u16,
    /// Ports and LAGs that belong to the VLAN.
    pub members: Vec<VlanMemberConfig>,
}

/// Membership of a port or LAG in a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanMemberConfig {
    /// Index of the port in [`SwitchConfig::ports`]. The value `ports.len() + n` is LAG *n*
    /// of [`SwitchConfig::lags`].
    pub port: u16,
    /// Tagging of the frames that the member sends and receives.
    pub tagging: TaggingMode,
}

/// Tagging of the frames that a VLAN member sends and receives (`VLAN_MEMBER.tagging_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaggingMode {
    /// Frames leave with the VLAN tag. Frames with this tag are accepted.
    Tagged,
    /// Frames leave without a tag. Untagged frames that arrive belong to this VLAN.
    Untagged,
    /// Frames of this VLAN leave with VLAN id 0 and their priority. Untagged and priority-tagged frames that
    /// arrive belong to this VLAN.
    PriorityTagged,
}

/// Configuration of a port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortConfig {
    /// Name of the port, such as `Ethernet0`.
    pub name: String,
    /// MAC address of the port: the source address of its pause frames and link quality messages.
    pub mac: [u8; 6],
    /// Administrative state (`PORT.admin_status`).
    pub admin_up: bool,
    /// Longest frame in bytes, without Ethernet header, VLAN tags and FCS (`PORT.mtu`), 68 to 9216.
    pub mtu: u32,
    /// Speed of the link (`PORT.speed`), and the number of bytes that a frame occupies on the link.
    pub link: LinkTiming,
    /// TPID (ethertype) of the outer VLAN tag that the port recognises and writes (`PORT.tpid`), default
    /// 0x8100. Tags with another TPID are not VLAN tags for the port. The port can recognise only the TPIDs
    /// 0x8100, 0x88A8, 0x9100 and 0x9200.
    pub tpid: u16,
    /// Maps that classify received frames.
    pub classify: ClassMaps,
    /// Priority flow control and 802.3x PAUSE.
    pub pfc: PfcConfig,
    /// PFC watchdog of the port. `None`: the watchdog does not watch the port.
    pub watchdog: Option<PortWatchdog>,
    /// DSCP of trimmed packets for each traffic class (`tc_to_dscp_map`). An entry is `None` if the map has
    /// no entry for the class.
    pub tc_to_dscp: [Option<u8>; TRAFFIC_CLASSES],
    /// Buffer profile of each priority group: an index in [`SwitchConfig::profiles`], or [`NO_PROFILE`]. The
    /// profile belongs to an ingress pool.
    pub pgs: [u16; PRIORITIES],
    /// The eight egress queues. The index is the number of the queue.
    pub queues: [QueueConfig; PRIORITIES],
    /// Shaper of the whole port, which limits the rate in addition to the link speed. `None`: no shaper.
    pub shaper: Option<ShaperConfig>,
}

/// The header field that selects the traffic class of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustMode {
    /// IP frames are classified by their DSCP. Frames without an IP header are classified by the 802.1p
    /// priority of their VLAN tag. If such a frame has no tag, it has class 0.
    Dscp,
    /// All frames are classified by the 802.1p priority of their VLAN tag. Frames without a tag have class 0.
    Pcp,
}

/// Maps from header fields to traffic class, queue and priority group (`PORT_QOS_MAP`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)] // in one cache line, but for high DSCPs
pub struct ClassMaps {
    /// Selects `dscp_to_tc` or `dot1p_to_tc`.
    pub trust: TrustMode,
    /// Traffic class to egress queue, 0 to 7. The switch uses the map of the egress port.
    pub tc_to_queue: [u8; TRAFFIC_CLASSES],
    /// Traffic class to priority group, 0 to 7. The switch uses the map of the ingress port.
    pub tc_to_pg: [u8; TRAFFIC_CLASSES],
    /// 802.1p priority to traffic class, 0 to 15.
    pub dot1p_to_tc: [u8; PRIORITIES],
    /// DSCP to traffic class, 0 to 15.
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

    /// Returns the traffic class (0 to 15) of a frame with this DSCP (`None`: no IP) and this priority of its VLAN
    /// tag (`None`: no tag). The result is the same as that of [`ClassMaps::traffic_class`].
    pub fn traffic_class_of(&self, dscp: Option<u8>, pcp: Option<u8>) -> u8 {
        let tc = match (self.trust, dscp, pcp) {
            (TrustMode::Dscp, Some(dscp), _) => self.dscp_to_tc[usize::from(dscp & 63)],
            (_, _, Some(pcp)) => self.dot1p_to_tc[usize::from(pcp & 7)],
            (_, _, None) => 0,
        };
        tc % TRAFFIC_CLASSES as u8
    }

    /// Returns the priority group (0 to 7) of a traffic class (0 to 15) at an ingress port with these maps.
    /// Panics if `tc` is larger.
    #[inline(always)]
    pub fn priority_group(&self, tc: u8) -> u8 {
        self.tc_to_pg[usize::from(tc)] % PRIORITIES as u8
    }

    /// Returns the queue (0 to 7) of a traffic class (0 to 15) at an egress port with these maps. Panics if
    /// `tc` is larger.
    #[inline(always)]
    pub fn queue(&self, tc: u8) -> usize {
        usize::from(self.tc_to_queue[usize::from(tc)]) % PRIORITIES
    }
}

/// Priority flow control of a port (IEEE 802.1Q clause 36).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcConfig {
    /// Bit *n* is set if the port sends and honours PFC for priority *n* (`PORT_QOS_MAP.pfc_enable`).
    pub enabled: u8,
    /// Asymmetric PFC (`PORT.pfc_asym`): if true, the port honours pauses of all priorities, but sends PFC
    /// only for the enabled priorities.
    pub asymmetric: bool,
    /// Pause time in an XOFF frame (`XOFF_PORT.pause_quanta`), in pause quanta of 512 bit times, 1 to 65535.
    pub pause_quanta: u16,
    /// Interval at which the port repeats the XOFF frame while a priority group still pauses its peer
    /// (`XOFF_PORT.pause_refresh`), above 0. If the interval is longer than the pause, the peer resumes in
    /// between. Not used with [`PauseModel::UntilResumed`].
    pub refresh: Picos,
    /// The egress queue (0 to 7) that a received pause of each priority stops (`MAP_PFC_PRIORITY_TO_QUEUE`).
    pub priority_to_queue: [u8; PRIORITIES],
    /// The priority group (0 to 7) whose XOFF each priority signals (`PFC_PRIORITY_TO_PRIORITY_GROUP_MAP`).
    pub priority_to_pg: [u8; PRIORITIES],
    /// Model of pauses: how long a pause lasts, and when pause frames are sent. The default follows
    /// IEEE 802.1Q.
    pub pauses: PauseModel,
    /// Response time in pause quanta (`PORT.pause_response_quanta`): the time from the arrival of a PFC or
    /// 802.3x pause to its effect. IEEE 802.3 31B.3.7 allows at most
    /// [`response_quanta_max`](crate::pfc::response_quanta_max). 0 means no delay.
    pub response_quanta: u16,
    /// 802.3x PAUSE of the whole port. This setting has no effect while the port honours PFC for
    /// any priority.
    pub global: GlobalPause,
}

/// 802.3x PAUSE of a whole port (`XOFF_PORT.flow_control`, SAI `GLOBAL_FLOW_CONTROL_MODE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalPause {
    /// True if a received PAUSE frame stops all queues of the port (`rx` or `both`).
    pub honoured: bool,
    /// True if XOFF of a priority group with headroom pauses the peer (`tx` or `both`).
    pub generated: bool,
}

/// How long a pause lasts, and when pause frames are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PauseModel {
    /// The model of IEEE 802.1Q. A pause lasts for its pause time, and the port repeats the pause frame while
    /// XOFF continues. One frame carries all priorities. The port builds the frame when the link is free,
    /// from the state at that moment.
    #[default]
    Timed,
    /// The model of the ns-3 RDMA simulators, for comparisons with them. A pause lasts until the resume and
    /// is not repeated. The port sends a separate frame for each change of each priority, in the order of the
    /// changes. A frame is sent even for a change that a later change has already reversed.
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

    /// Returns true if the port honours received 802.3x PAUSE frames: [`GlobalPause::honoured`] is set, and
    /// the port honours PFC for no priority. A link uses either PFC or 802.3x PAUSE (IEEE 802.1Q 36.1.1).
    pub const fn honours_global_pause(&self) -> bool {
        self.global.honoured && self.honoured_priorities() == 0
    }

    /// Returns true if the port signals XOFF with 802.3x PAUSE frames: [`GlobalPause::generated`] is set, and
    /// the port honours PFC for no priority. A link uses either PFC or 802.3x PAUSE (IEEE 802.1Q 36.1.1).
    pub const fn generates_global_pause(&self) -> bool {
        self.global.generated && self.honoured_priorities() == 0
    }

    /// Returns true if XOFF of the priority group `pg` (0 to 7) is signalled with PFC: an enabled priority is
    /// mapped to this group in `priority_to_pg`.
    pub fn signals_priority_group(&self, pg: u8) -> bool {
        (0..PRIORITIES).any(|p| self.enabled & (1 << p) != 0 && self.priority_to_pg[p] == pg)
    }
}

/// A buffer pool (`BUFFER_POOL`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Name of the pool, for reports.
    pub name: String,
    /// The users of the pool: priority groups or egress queues.
    pub side: PoolSide,
    /// Size of the shared space in bytes. Reserved space and headroom are not included.
    pub size_bytes: u64,
    /// Size of the shared headroom pool in bytes (`BUFFER_POOL.xoff`). With 0, each priority group has its
    /// own headroom.
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

/// Profile index for a priority group or queue without a buffer profile (profile `NULL`). Such a group or
/// queue admits no frames.
pub const NO_PROFILE: u16 = u16::MAX;

/// A buffer profile (`BUFFER_PROFILE`). Sizes in bytes are rounded down to whole cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferProfile {
    /// Name of the profile, for reports.
    pub name: String,
    /// Index of the pool in [`SwitchConfig::pools`].
    pub pool: u16,
    /// Reserved space in bytes (`size`). If the pool has no shared headroom and `size_bytes >= xoff_bytes`,
    /// `size_bytes` also includes the headroom. In this case, only the difference is reserved.
    pub size_bytes: u64,
    /// Limit of the shared space that one group or queue may use.
    pub threshold: BufferThreshold,
    /// Headroom in bytes (`xoff`). A profile with headroom is lossless.
    pub xoff_bytes: u64,
    /// Total use in bytes at or below which the priority group leaves XOFF (`xon`).
    pub xon_bytes: u64,
    /// Distance in bytes between the use at which a priority group pauses its peer (XOFF) and the lower use
    /// at which its peer may resume (`xon_offset`). With less than one cell, only `xon_bytes` decides.
    pub xon_offset_bytes: u64,
    /// True if frames are trimmed when a queue of this profile is full (`packet_discard_action`). Trimming
    /// must also be configured for the switch.
    pub trim: bool,
}

/// An entry of `BUFFER_PORT_INGRESS_PROFILE_LIST` or `BUFFER_PORT_EGRESS_PROFILE_LIST`. The threshold of the
/// profile is a limit for the whole port: for the shared space that all its priority groups (ingress list),
/// or all its queues (egress list), use in the pool of the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortProfile {
    /// Index of the port in [`SwitchConfig::ports`].
    pub port: u16,
    /// Index of the profile in [`SwitchConfig::profiles`].
    pub profile: u16,
}

/// Limit of one priority group or queue: the largest part of the shared space of its pool that it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferThreshold {
    /// The limit is `2^n` times the number of currently free shared cells, rounded down. The exponent `n` is
    /// -8 to 7.
    Dynamic(i8),
    /// A fixed number of bytes. 0 means no limit, as in SAI.
    Static(u64),
    /// The buffer rule of the HPCC simulator, for comparisons between xoff and this simulator (see the module
    /// `mmu`). The `size_bytes` of the profile is the reserve, `xoff_bytes` is the headroom, and
    /// `xon_offset_bytes` is the resume offset. The size of the pool is the whole buffer. The rule applies to
    /// priority groups. A queue with this rule has no limit.
    Hpcc {
        /// The limit is the number of free shared cells, shifted right by this number (0 to 31). With 3, the
        /// limit is one eighth of the free cells.
        shift: u8,
    },
}
