//! Tables of VLANs and their members.

use super::{FieldSchema, KeyPart, TableSchema, ValueKind};

const NO_DHCP: &str = "DHCP is not relayed";

pub(super) const TABLES: &[TableSchema] = &[
    TableSchema::named("VLAN", &[KeyPart::Vlan], VLAN_FIELDS),
    TableSchema::named(
        "VLAN_MEMBER",
        &[KeyPart::VlanReference, KeyPart::PortOrLag],
        MEMBER_FIELDS,
    ),
];

const VLAN_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("vlanid", ValueKind::number(2, 4094, "")),
    FieldSchema::label("alias", ValueKind::Text(128)),
    FieldSchema::label("description", ValueKind::Text(255)),
    FieldSchema::fixed_value(
        "admin_status",
        ValueKind::Choice(&["up", "down"]),
        "up",
        "a VLAN is always up",
    ),
    FieldSchema::new("mtu", ValueKind::number(1, 9216, "bytes")),
    FieldSchema::without_effect("members", ValueKind::Any, "VLAN_MEMBER defines the members"),
    FieldSchema::without_effect(
        "mac",
        ValueKind::Any,
        "VLAN_INTERFACE mac_addr sets the MAC address",
    ),
    FieldSchema::without_effect(
        "host_ifname",
        ValueKind::Any,
        "a VLAN has no network device on the host",
    ),
    FieldSchema::without_effect("dhcp_servers", ValueKind::Any, NO_DHCP),
    FieldSchema::without_effect("dhcpv6_servers", ValueKind::Any, NO_DHCP),
];

const MEMBER_FIELDS: &[FieldSchema] = &[FieldSchema::required(
    "tagging_mode",
    ValueKind::Choice(&["tagged", "untagged", "priority_tagged"]),
)];
