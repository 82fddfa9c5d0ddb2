//! ACL rules that exempt packets from trimming or adaptive routing.

use ipnet::IpNet;

/// ACL tables (`ACL_TABLE`). The rules of a table apply at the ingress of some ports, and exempt packets from
/// trimming or adaptive routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclTable {
    /// Indices of the ingress ports to which the table applies.
    pub ports: Vec<u16>,
    /// The rules. The first matching rule decides.
    pub rules: Vec<AclRule>,
}

/// A rule (`ACL_RULE`). A rule matches a packet that meets all its conditions. A rule without conditions
/// matches every IP packet.
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
    /// True if the rule exempts the packet, for example with `PACKET_ACTION` `DISABLE_TRIM`. False means that
    /// the packet is not exempt, and that later rules of the table are not tested (`FORWARD`).
    pub exempts: bool,
}
