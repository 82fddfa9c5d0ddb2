//! Packet trimming (`SWITCH_TRIMMING`): a frame for a full queue is truncated instead of dropped.

use ipnet::IpNet;

/// Trimming of a switch (`SWITCH_TRIMMING|GLOBAL`). A queue trims if its buffer profile has
/// [`super::BufferProfile::trim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrimmingConfig {
    /// Bytes that remain of a trimmed frame, without FCS (`size`). Shorter frames are not trimmed.
    pub size_bytes: u32,
    /// DSCP of trimmed packets (`dscp_value`, `tc_value`).
    pub dscp: TrimDscp,
    /// Queue of trimmed packets (`queue_index`).
    pub queue: TrimQueue,
    /// Packets that are dropped instead of trimmed: ACL rules with `DISABLE_TRIM`.
    pub exempt: Vec<AclTable>,
}

/// DSCP of a trimmed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimDscp {
    /// Symmetric: the same DSCP, 0 to 63, on all ports.
    Fixed(u8),
    /// Asymmetric: the DSCP that [`super::PortConfig::tc_to_dscp`] of the egress port gives for this traffic
    /// class. A port without an entry for the class does not trim.
    FromTc(u8),
}

/// Queue of a trimmed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimQueue {
    /// A fixed queue, 0 to 7.
    Fixed(u8),
    /// The queue of the new DSCP according to the maps of the egress port (`dynamic`).
    Dynamic,
}

/// ACL rules at the ingress of some ports (`ACL_TABLE`) that exempt packets from trimming or adaptive
/// routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclTable {
    /// Indices of the ingress ports to which the table applies.
    pub ports: Vec<u16>,
    /// The rules. The first matching rule decides.
    pub rules: Vec<AclRule>,
}

/// A rule (`ACL_RULE`). It matches packets that meet all its conditions. A rule without conditions matches
/// every IP packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclRule {
    /// Source prefix (`SRC_IP`, `SRC_IPV6`).
    pub source: Option<IpNet>,
    /// Destination prefix (`DST_IP`, `DST_IPV6`).
    pub destination: Option<IpNet>,
    /// IP protocol (`IP_PROTOCOL`, `NEXT_HEADER`).
    pub protocol: Option<u8>,
    /// First and last source port (`L4_SRC_PORT`, `L4_SRC_PORT_RANGE`).
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port (`L4_DST_PORT`, `L4_DST_PORT_RANGE`).
    pub destination_ports: Option<(u16, u16)>,
    /// DSCP of the received packet (`DSCP`).
    pub dscp: Option<u8>,
    /// True if the rule exempts the packet, as `PACKET_ACTION` `DISABLE_TRIM` does. False protects the packet
    /// from later rules, as `FORWARD` does.
    pub exempts: bool,
}
