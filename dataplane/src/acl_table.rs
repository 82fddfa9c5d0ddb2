//! ACL rules that exempt packets from trimming or from load balancing.

use ipnet::IpNet;

/// An ACL table (`ACL_TABLE`). The rules of the table apply to packets that arrive at some ports. The rules
/// exempt packets from trimming or from load balancing by a scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclTable {
    /// Ingress ports to which the table applies, as indices in
    /// the list [`SwitchConfig::ports`](crate::config::SwitchConfig::ports).
    pub ports: Vec<u16>,
    /// The rules of the table, in descending order of `PRIORITY`. Only the first rule that matches a packet
    /// applies. A packet that matches no rule is not exempt.
    pub rules: Vec<AclRule>,
}

/// A rule of an ACL table (`ACL_RULE`). A rule matches a packet that meets all its conditions. A condition
/// with `None` is not tested. A rule without conditions matches every IP packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclRule {
    /// Source prefix (`SRC_IP`, `SRC_IPV6`).
    pub source: Option<IpNet>,
    /// Destination prefix (`DST_IP`, `DST_IPV6`).
    pub destination: Option<IpNet>,
    /// IP protocol number (`IP_PROTOCOL`). For IPv6, the next header in the fixed IPv6
    /// header (`NEXT_HEADER`).
    pub protocol: Option<u8>,
    /// First and last source port of UDP or TCP (`L4_SRC_PORT`, `L4_SRC_PORT_RANGE`), both included, the
    /// smaller first. A packet that is neither UDP nor TCP, or that is an IP fragment, does not match a rule
    /// with this condition.
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port of UDP or TCP (`L4_DST_PORT`, `L4_DST_PORT_RANGE`), both included, the
    /// smaller first. A packet that is neither UDP nor TCP, or that is an IP fragment, does not match a rule
    /// with this condition.
    pub destination_ports: Option<(u16, u16)>,
    /// DSCP of the received packet (`DSCP`), 0 to 63.
    pub dscp: Option<u8>,
    /// True if the rule exempts the packet, for example with the `PACKET_ACTION` `DISABLE_TRIM`. False means
    /// that the packet is not exempt, and that later rules of the table are not tested (`FORWARD`).
    pub exempts: bool,
}
