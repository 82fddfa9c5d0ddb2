//! Tables of VLANs and their members.

use super::{Field, Fields, Kind, Part, Table};

const NO_DHCP: &str = "DHCP is not relayed";

pub(super) const TABLES: &[Table] = &[
    Table {
        name: "VLAN",
        key: &[Part::Vlan],
        fields: Fields::Named(VLAN),
    },
    Table {
        name: "VLAN_MEMBER",
        key: &[Part::VlanReference, Part::PortOrLag],
        fields: Fields::Named(MEMBER),
    },
];

const VLAN: &[Field] = &[
    Field::new("vlanid", Kind::number(2, 4094, "")),
    Field::label("alias", Kind::Text(128)),
    Field::label("description", Kind::Text(255)),
    Field::only_as(
        "admin_status",
        Kind::Choice(&["up", "down"]),
        "up",
        "a VLAN is always up",
    ),
    Field::new("mtu", Kind::number(1, 9216, "bytes")),
    Field::without_effect("members", Kind::Any, "VLAN_MEMBER decides"),
    Field::without_effect("mac", Kind::Any, "VLAN_INTERFACE mac_addr decides"),
    Field::without_effect("host_ifname", Kind::Any, "a VLAN has no device of the host"),
    Field::without_effect("dhcp_servers", Kind::Any, NO_DHCP),
    Field::without_effect("dhcpv6_servers", Kind::Any, NO_DHCP),
];

const MEMBER: &[Field] = &[Field::required(
    "tagging_mode",
    Kind::Choice(&["tagged", "untagged", "priority_tagged"]),
)];
