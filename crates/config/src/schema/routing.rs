//! Tables of router interfaces, static routes, neighbours and hash fields.
//!
//! The fields are those of these YANG models of SONiC: `sonic-interface`, `sonic-vlan`, `sonic-portchannel`,
//! `sonic-loopback-interface`, `sonic-static-route`, `sonic-neigh` and `sonic-hash`. The models have no field
//! `mac_addr` in `INTERFACE`. SONiC's interface manager accepts this field for ports, VLANs and LAGs.

use super::{FieldSchema, KeyPart, TableSchema, ValueKind};

const NO_MPLS: &str = "MPLS and class-based forwarding are not implemented";
const NO_NAT: &str = "address translation is not implemented";
const NO_OVERLAY: &str = "tunnels and overlays are not implemented";
const NO_BGP: &str = "xoff runs no routing protocol";
const NO_BFD: &str = "BFD is not implemented";

pub(super) const TABLES: &[TableSchema] = &[
    TableSchema::named("INTERFACE", &[KeyPart::Port], PORT_INTERFACE_FIELDS),
    TableSchema::named("INTERFACE", &[KeyPart::Port, KeyPart::Prefix], ADDRESS_FIELDS),
    TableSchema::named("VLAN_INTERFACE", &[KeyPart::VlanReference], VLAN_INTERFACE_FIELDS),
    TableSchema::named(
        "VLAN_INTERFACE",
        &[KeyPart::VlanReference, KeyPart::Prefix],
        ADDRESS_FIELDS,
    ),
    TableSchema::named(
        "PORTCHANNEL_INTERFACE",
        &[KeyPart::LagReference],
        PORT_INTERFACE_FIELDS,
    ),
    TableSchema::named(
        "PORTCHANNEL_INTERFACE",
        &[KeyPart::LagReference, KeyPart::Prefix],
        ADDRESS_FIELDS,
    ),
    TableSchema::named(
        "LOOPBACK_INTERFACE",
        &[KeyPart::Loopback],
        LOOPBACK_INTERFACE_FIELDS,
    ),
    TableSchema::named(
        "LOOPBACK_INTERFACE",
        &[KeyPart::Loopback, KeyPart::Prefix],
        ADDRESS_FIELDS,
    ),
    TableSchema::named("STATIC_ROUTE", &[KeyPart::Prefix], ROUTE_FIELDS),
    TableSchema::named("STATIC_ROUTE", &[KeyPart::Vrf, KeyPart::Prefix], ROUTE_FIELDS),
    TableSchema::named("NEIGH", &[KeyPart::Interface, KeyPart::Address], NEIGHBOUR_FIELDS),
    TableSchema::named("SWITCH_HASH", &[KeyPart::Only("GLOBAL")], HASH_TABLE_FIELDS),
];

const ENABLE: ValueKind = ValueKind::Choice(&["enable", "disable"]);
const ENABLED: ValueKind = ValueKind::Choice(&["enabled", "disabled"]);
const BOOLEAN_LIST: ValueKind = ValueKind::Each(&ValueKind::Choice(&["true", "false"]));

const LINK_LOCAL_ONLY: FieldSchema = FieldSchema::new("ipv6_use_link_local_only", ENABLE);
const MAC: FieldSchema = FieldSchema::new("mac_addr", ValueKind::Mac);
const VRF: FieldSchema = FieldSchema::new("vrf_name", ValueKind::Vrf);
const NAT_ZONE: FieldSchema = FieldSchema::fixed_value("nat_zone", ValueKind::number(0, 3, ""), "0", NO_NAT);
const MPLS: FieldSchema = FieldSchema::fixed_value("mpls", ENABLE, "disable", NO_MPLS);
const LOOPBACK_ACTION: FieldSchema = FieldSchema::fixed_value(
    "loopback_action",
    ValueKind::Choice(&["drop", "forward"]),
    "forward",
    "a packet may leave through its ingress interface",
);

const PORT_INTERFACE_FIELDS: &[FieldSchema] = &[
    LINK_LOCAL_ONLY,
    MAC,
    VRF,
    NAT_ZONE,
    MPLS,
    LOOPBACK_ACTION,
    FieldSchema::without_effect("vnet_name", ValueKind::Any, NO_OVERLAY),
];

const VLAN_INTERFACE_FIELDS: &[FieldSchema] = &[
    LINK_LOCAL_ONLY,
    MAC,
    VRF,
    NAT_ZONE,
    MPLS,
    LOOPBACK_ACTION,
    FieldSchema::fixed_value(
        "proxy_arp",
        ENABLED,
        "disabled",
        "the switch answers only for its own addresses",
    ),
    FieldSchema::fixed_value(
        "grat_arp",
        ENABLED,
        "disabled",
        "gratuitous ARP does not add a neighbour",
    ),
    FieldSchema::fixed_value(
        "static_anycast_gateway",
        ValueKind::Choice(&["true", "false"]),
        "false",
        "anycast gateways are not implemented",
    ),
    FieldSchema::without_effect("vnet_name", ValueKind::Any, NO_OVERLAY),
];

const LOOPBACK_INTERFACE_FIELDS: &[FieldSchema] = &[
    VRF,
    NAT_ZONE,
    FieldSchema::fixed_value(
        "admin_status",
        ValueKind::Choice(&["up", "down"]),
        "up",
        "a loopback interface is always up",
    ),
];

const ADDRESS_FIELDS: &[FieldSchema] = &[
    FieldSchema::label("scope", ValueKind::Choice(&["global", "local"])),
    FieldSchema::new("family", ValueKind::Choice(&["IPv4", "IPv6"])),
    FieldSchema::label("secondary", ValueKind::Choice(&["true", "false"])),
];

/// Each field is a list in one string, with one item for each next hop. All lists have the same length. An
/// empty item means the default.
const ROUTE_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("nexthop", ValueKind::Each(&ValueKind::Address)),
    FieldSchema::new("ifname", ValueKind::Each(&ValueKind::Interface)),
    FieldSchema::new("distance", ValueKind::Each(&ValueKind::number(0, 255, ""))),
    FieldSchema::new("nexthop-vrf", ValueKind::Each(&ValueKind::Vrf)),
    FieldSchema::new("blackhole", BOOLEAN_LIST),
    FieldSchema::fixed_value("advertise", BOOLEAN_LIST, "false", NO_BGP),
    FieldSchema::fixed_value("bfd", BOOLEAN_LIST, "false", NO_BFD),
];

const NEIGHBOUR_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("neigh", ValueKind::Mac),
    FieldSchema::new("family", ValueKind::Choice(&["IPv4", "IPV4", "IPv6", "IPV6"])),
];

/// The header fields that identify a flow (five-tuple), sorted by name.
pub(crate) const FIVE_TUPLE: &[&str] = &["DST_IP", "IP_PROTOCOL", "L4_DST_PORT", "L4_SRC_PORT", "SRC_IP"];
/// The additional hash field of RoCEv2 flows: the destination queue pair.
pub(crate) const DEST_QP: &str = "RDMA_BTH_DEST_QP";
/// Fields of `SWITCH_HASH` that are lists of hash fields. The fields for packets in IP-in-IP tunnels are
/// not included.
pub(crate) const HASH_FIELD_NAMES: &[&str] = &[
    "ecmp_hash",
    "ecmp_hash_ipv4",
    "ecmp_hash_ipv6",
    "ecmp_hash_ipv4_rdma",
    "ecmp_hash_ipv6_rdma",
    "lag_hash",
    "lag_hash_ipv4",
    "lag_hash_ipv6",
    "lag_hash_ipv4_rdma",
    "lag_hash_ipv6_rdma",
];

const HASH_FIELD_LIST: ValueKind = ValueKind::Words(&[
    "IN_PORT",
    "DST_MAC",
    "SRC_MAC",
    "ETHERTYPE",
    "VLAN_ID",
    "IP_PROTOCOL",
    "DST_IP",
    "SRC_IP",
    "L4_DST_PORT",
    "L4_SRC_PORT",
    "INNER_DST_MAC",
    "INNER_SRC_MAC",
    "INNER_ETHERTYPE",
    "INNER_IP_PROTOCOL",
    "INNER_DST_IP",
    "INNER_SRC_IP",
    "INNER_L4_DST_PORT",
    "INNER_L4_SRC_PORT",
    "IPV6_FLOW_LABEL",
    "RDMA_BTH_OPCODE",
    "RDMA_BTH_DEST_QP",
]);
const ALGORITHM: ValueKind = ValueKind::Choice(&[
    "CRC",
    "XOR",
    "RANDOM",
    "CRC_32LO",
    "CRC_32HI",
    "CRC_CCITT",
    "CRC_XOR",
]);
const ONE_FUNCTION: &str = "there is one hash function, with the seed XOFF_SWITCH hash_seed";
const NO_TUNNELS: &str = "packets in tunnels are hashed by their outer headers";

const HASH_TABLE_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("ecmp_hash", HASH_FIELD_LIST),
    FieldSchema::new("ecmp_hash_ipv4", HASH_FIELD_LIST),
    FieldSchema::new("ecmp_hash_ipv6", HASH_FIELD_LIST),
    FieldSchema::new("ecmp_hash_ipv4_rdma", HASH_FIELD_LIST),
    FieldSchema::new("ecmp_hash_ipv6_rdma", HASH_FIELD_LIST),
    FieldSchema::without_effect("ecmp_hash_ipnip", HASH_FIELD_LIST, NO_TUNNELS),
    FieldSchema::new("lag_hash", HASH_FIELD_LIST),
    FieldSchema::new("lag_hash_ipv4", HASH_FIELD_LIST),
    FieldSchema::new("lag_hash_ipv6", HASH_FIELD_LIST),
    FieldSchema::new("lag_hash_ipv4_rdma", HASH_FIELD_LIST),
    FieldSchema::new("lag_hash_ipv6_rdma", HASH_FIELD_LIST),
    FieldSchema::without_effect("lag_hash_ipnip", HASH_FIELD_LIST, NO_TUNNELS),
    FieldSchema::without_effect("ecmp_hash_algorithm", ALGORITHM, ONE_FUNCTION),
    FieldSchema::without_effect("lag_hash_algorithm", ALGORITHM, ONE_FUNCTION),
];
