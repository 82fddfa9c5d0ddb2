//! Tables of link aggregation groups, as in `sonic-portchannel.yang`.
//!
//! The YANG model does not contain `static` and `members`. Some builds of SONiC write `static`, and old
//! files have `members`.

use super::{FieldSchema, KeyPart, TableSchema, ValueKind};

const NO_LACP: &str = "LACP is not implemented and a member is active while its link is up";

pub(super) const TABLES: &[TableSchema] = &[
    TableSchema::named("PORTCHANNEL", &[KeyPart::Lag], LAG_FIELDS),
    TableSchema::named("PORTCHANNEL_MEMBER", &[KeyPart::LagReference, KeyPart::Port], &[]),
];

const BOOLEAN: ValueKind = ValueKind::Choice(&["true", "false"]);

const LAG_FIELDS: &[FieldSchema] = &[
    FieldSchema::required("admin_status", ValueKind::Choice(&["up", "down"])),
    FieldSchema::new("min_links", ValueKind::number(1, 1_024, "")),
    FieldSchema::new("mtu", ValueKind::number(1, 9216, "bytes")),
    FieldSchema::new("static", BOOLEAN),
    FieldSchema::label("description", ValueKind::Text(255)),
    FieldSchema::without_effect(
        "members",
        ValueKind::Any,
        "PORTCHANNEL_MEMBER defines the members",
    ),
    FieldSchema::without_effect("lacp_key", ValueKind::Any, NO_LACP),
    FieldSchema::fixed_value("fast_rate", BOOLEAN, "false", NO_LACP),
    FieldSchema::fixed_value("fallback", BOOLEAN, "false", NO_LACP),
    FieldSchema::without_effect("system_mac", ValueKind::Mac, NO_LACP),
    FieldSchema::fixed_value(
        "tpid",
        ValueKind::Tpid,
        "0x8100",
        "the members use their own TPID",
    ),
    FieldSchema::without_effect(
        "mode",
        ValueKind::Choice(&["routed", "access", "trunk"]),
        "VLAN_MEMBER alone defines the membership",
    ),
];
