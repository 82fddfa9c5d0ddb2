//! Tables of router interfaces, static routes, neighbours and hash fields.
//!
//! The fields are those of SONiC's YANG models `sonic-interface`, `sonic-vlan`, `sonic-portchannel`,
//! `sonic-loopback-interface`, `sonic-static-route`, `sonic-neigh` and `sonic-hash`. The model has no
//! `mac_addr` for `INTERFACE`, but SONiC's interface manager accepts it there, as for VLANs and LAGs.

use super::{Field, Fields, Kind, Part, Table};

const NO_MPLS: &str = "MPLS and class-based forwarding are not implemented";
const NO_NAT: &str = "address translation is not implemented";
const NO_OVERLAY: &str = "tunnels and overlays are not implemented";
const NO_BGP: &str = "no routing protocol runs here";
const NO_BFD: &str = "BFD is not implemented";

/// A table of interfaces or of their addresses.
const fn interface(name: &'static str, on: &'static [Part], fields: &'static [Field]) -> Table {
    Table {
        name,
        key: on,
        fields: Fields::Named(fields),
    }
}

pub(super) const TABLES: &[Table] = &[
    interface("INTERFACE", &[Part::Port], OF_PORT),
    interface("INTERFACE", &[Part::Port, Part::Prefix], ADDRESS),
    interface("VLAN_INTERFACE", &[Part::VlanReference], OF_VLAN),
    interface("VLAN_INTERFACE", &[Part::VlanReference, Part::Prefix], ADDRESS),
    interface("PORTCHANNEL_INTERFACE", &[Part::LagReference], OF_PORT),
    interface(
        "PORTCHANNEL_INTERFACE",
        &[Part::LagReference, Part::Prefix],
        ADDRESS,
    ),
    interface("LOOPBACK_INTERFACE", &[Part::Loopback], OF_LOOPBACK),
    interface("LOOPBACK_INTERFACE", &[Part::Loopback, Part::Prefix], ADDRESS),
    Table {
        name: "STATIC_ROUTE",
        key: &[Part::Prefix],
        fields: Fields::Named(ROUTE),
    },
    Table {
        name: "STATIC_ROUTE",
        key: &[Part::Vrf, Part::Prefix],
        fields: Fields::Named(ROUTE),
    },
    Table {
        name: "NEIGH",
        key: &[Part::Interface, Part::Address],
        fields: Fields::Named(NEIGHBOUR),
    },
    Table {
        name: "SWITCH_HASH",
        key: &[Part::Only("GLOBAL")],
        fields: Fields::Named(HASH),
    },
];

const ENABLE: Kind = Kind::Choice(&["enable", "disable"]);
const ENABLED: Kind = Kind::Choice(&["enabled", "disabled"]);
const TRUTHS: Kind = Kind::Each(&Kind::Choice(&["true", "false"]));

const LINK_LOCAL_ONLY: Field = Field::new("ipv6_use_link_local_only", ENABLE);
const MAC: Field = Field::new("mac_addr", Kind::Mac);
const VRF: Field = Field::new("vrf_name", Kind::Vrf);
const NAT_ZONE: Field = Field::only_as("nat_zone", Kind::number(0, 3, ""), "0", NO_NAT);
const MPLS: Field = Field::only_as("mpls", ENABLE, "disable", NO_MPLS);
const LOOPBACK_ACTION: Field = Field::only_as(
    "loopback_action",
    Kind::Choice(&["drop", "forward"]),
    "forward",
    "a packet may leave by the interface it came in on",
);

const OF_PORT: &[Field] = &[
    LINK_LOCAL_ONLY,
    MAC,
    VRF,
    NAT_ZONE,
    MPLS,
    LOOPBACK_ACTION,
    Field::without_effect("vnet_name", Kind::Any, NO_OVERLAY),
];

const OF_VLAN: &[Field] = &[
    LINK_LOCAL_ONLY,
    MAC,
    VRF,
    NAT_ZONE,
    MPLS,
    LOOPBACK_ACTION,
    Field::only_as(
        "proxy_arp",
        ENABLED,
        "disabled",
        "the switch answers for its own addresses only",
    ),
    Field::only_as(
        "grat_arp",
        ENABLED,
        "disabled",
        "gratuitous ARP does not make a neighbour known",
    ),
    Field::only_as(
        "static_anycast_gateway",
        Kind::Choice(&["true", "false"]),
        "false",
        "anycast gateways are not implemented",
    ),
    Field::without_effect("vnet_name", Kind::Any, NO_OVERLAY),
];

const OF_LOOPBACK: &[Field] = &[
    VRF,
    NAT_ZONE,
    Field::only_as(
        "admin_status",
        Kind::Choice(&["up", "down"]),
        "up",
        "a loopback interface is always up",
    ),
];

const ADDRESS: &[Field] = &[
    Field::label("scope", Kind::Choice(&["global", "local"])),
    Field::new("family", Kind::Choice(&["IPv4", "IPv6"])),
    Field::label("secondary", Kind::Choice(&["true", "false"])),
];

/// Each field is a list in one string. All lists have the same length, and an empty item means the default.
const ROUTE: &[Field] = &[
    Field::new("nexthop", Kind::Each(&Kind::Address)),
    Field::new("ifname", Kind::Each(&Kind::Interface)),
    Field::new("distance", Kind::Each(&Kind::number(0, 255, ""))),
    Field::new("nexthop-vrf", Kind::Each(&Kind::Vrf)),
    Field::new("blackhole", TRUTHS),
    Field::only_as("advertise", TRUTHS, "false", NO_BGP),
    Field::only_as("bfd", TRUTHS, "false", NO_BFD),
];

const NEIGHBOUR: &[Field] = &[
    Field::new("neigh", Kind::Mac),
    Field::new("family", Kind::Choice(&["IPv4", "IPV4", "IPv6", "IPV6"])),
];

/// The hash fields of all flows, sorted.
pub(crate) const FIVE_TUPLE: &[&str] = &["DST_IP", "IP_PROTOCOL", "L4_DST_PORT", "L4_SRC_PORT", "SRC_IP"];
/// The additional hash field of RoCEv2 flows.
pub(crate) const DEST_QP: &str = "RDMA_BTH_DEST_QP";
/// Fields of `SWITCH_HASH` that concern packets that this switch hashes.
pub(crate) const ALL_HASHED: &[&str] = &[
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

const HASHED: Kind = Kind::Words(&[
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
const ALGORITHM: Kind = Kind::Choice(&[
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

const HASH: &[Field] = &[
    Field::new("ecmp_hash", HASHED),
    Field::new("ecmp_hash_ipv4", HASHED),
    Field::new("ecmp_hash_ipv6", HASHED),
    Field::new("ecmp_hash_ipv4_rdma", HASHED),
    Field::new("ecmp_hash_ipv6_rdma", HASHED),
    Field::without_effect("ecmp_hash_ipnip", HASHED, NO_TUNNELS),
    Field::new("lag_hash", HASHED),
    Field::new("lag_hash_ipv4", HASHED),
    Field::new("lag_hash_ipv6", HASHED),
    Field::new("lag_hash_ipv4_rdma", HASHED),
    Field::new("lag_hash_ipv6_rdma", HASHED),
    Field::without_effect("lag_hash_ipnip", HASHED, NO_TUNNELS),
    Field::without_effect("ecmp_hash_algorithm", ALGORITHM, ONE_FUNCTION),
    Field::without_effect("lag_hash_algorithm", ALGORITHM, ONE_FUNCTION),
];
