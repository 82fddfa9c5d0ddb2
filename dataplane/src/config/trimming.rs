//! Packet trimming (`SWITCH_TRIMMING`): a frame that finds its queue full is cut short instead of dropped.

use ipnet::IpNet;

/// `SWITCH_TRIMMING|GLOBAL`. Queues trim whose buffer profile says so ([`super::BufferProfile::trim`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrimmingConfig {
    /// Octets that are left of a frame, FCS not counted; shorter frames are not touched (`size`).
    pub size_bytes: u32,
    /// DSCP of what is left (`dscp_value`, `tc_value`).
    pub dscp: TrimDscp,
    /// Where it is queued (`queue_index`).
    pub queue: TrimQueue,
    /// Packets that are dropped as if nothing were trimmed: rules with `DISABLE_TRIM`.
    pub exempt: Vec<AclTable>,
}

/// DSCP of a trimmed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimDscp {
    /// Symmetric: this one on all ports, 0 to 63.
    Fixed(u8),
    /// Asymmetric: what the egress port's [`super::PortConfig::tc_to_dscp`] has for this traffic class. A port that has nothing
    /// for it trims nothing.
    FromTc(u8),
}

/// Queue of a trimmed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimQueue {
    /// This one, 0 to 7.
    Fixed(u8),
    /// That of its new DSCP, by the egress port's maps (`dynamic`).
    Dynamic,
}

/// Rules at the ingress of some ports (`ACL_TABLE`), as far as they decide on trimming, or on adaptive routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclTable {
    /// Indices of the ports whose arrivals it looks at.
    pub ports: Vec<u16>,
    /// Its rules; the first that matches decides.
    pub rules: Vec<AclRule>,
}

/// `ACL_RULE`: matches what meets all its conditions; one without any matches every IP packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclRule {
    /// `SRC_IP`, `SRC_IPV6`.
    pub source: Option<IpNet>,
    /// `DST_IP`, `DST_IPV6`.
    pub destination: Option<IpNet>,
    /// `IP_PROTOCOL`, `NEXT_HEADER`.
    pub protocol: Option<u8>,
    /// `L4_SRC_PORT`, `L4_SRC_PORT_RANGE`: first and last.
    pub source_ports: Option<(u16, u16)>,
    /// `L4_DST_PORT`, `L4_DST_PORT_RANGE`: first and last.
    pub destination_ports: Option<(u16, u16)>,
    /// `DSCP`, of the packet as it arrives.
    pub dscp: Option<u8>,
    /// `PACKET_ACTION` is what the list is for, such as `DISABLE_TRIM`; otherwise it shields packets from rules behind it, as
    /// `FORWARD` does.
    pub exempts: bool,
}
