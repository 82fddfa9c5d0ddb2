//! Tables of link aggregation groups, as in `sonic-portchannel.yang`.
//!
//! The YANG model does not contain `static` and `members`. Some builds of SONiC write `static`, and old
//! files have `members`.

use super::{Field, Fields, Kind, Part, Table};

const NO_LACP: &str = "LACP is not implemented, a member takes part while its link is up";

pub(super) const TABLES: &[Table] = &[
    Table {
        name: "PORTCHANNEL",
        key: &[Part::Lag],
        fields: Fields::Named(LAG),
    },
    Table {
        name: "PORTCHANNEL_MEMBER",
        key: &[Part::LagReference, Part::Port],
        fields: Fields::Named(&[]),
    },
];

const TRUTH: Kind = Kind::Choice(&["true", "false"]);

const LAG: &[Field] = &[
    Field::required("admin_status", Kind::Choice(&["up", "down"])),
    Field::new("min_links", Kind::number(1, 1_024, "")),
    Field::new("mtu", Kind::number(1, 9216, "bytes")),
    Field::new("static", TRUTH),
    Field::label("description", Kind::Text(255)),
    Field::without_effect("members", Kind::Any, "PORTCHANNEL_MEMBER decides"),
    Field::without_effect("lacp_key", Kind::Any, NO_LACP),
    Field::only_as("fast_rate", TRUTH, "false", NO_LACP),
    Field::only_as("fallback", TRUTH, "false", NO_LACP),
    Field::without_effect("system_mac", Kind::Mac, NO_LACP),
    Field::only_as("tpid", Kind::Tpid, "0x8100", "the TPID of the members decides"),
    Field::without_effect(
        "mode",
        Kind::Choice(&["routed", "access", "trunk"]),
        "membership follows from VLAN_MEMBER alone",
    ),
];
