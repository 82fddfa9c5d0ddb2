//! Tables of adaptive routing and switching (ARS).
//!
//! The tables come from pull requests for SONiC (`doc/ARS/Local_ARS_HLD.md`). No release of SONiC has these
//! tables, so names can still change. `docs/load-balancing.md` describes the effect of the tables in xoff.

use super::{FieldSchema, KeyPart, TableSchema, ValueKind};

/// Name of the table of ARS objects.
const OBJECT_TABLE: &str = "ARS_OBJECT";

const FLOW_TABLE_PER_GROUP: &str = "each group has its own flow table (ARS_OBJECT max_flows)";

pub(super) const TABLES: &[TableSchema] = &[
    TableSchema::named("ARS_PROFILE", &[KeyPart::Object], PROFILE_FIELDS),
    TableSchema::named(OBJECT_TABLE, &[KeyPart::Object], OBJECT_FIELDS),
    TableSchema::named("ARS_INTERFACES", &[KeyPart::Port], INTERFACE_FIELDS),
    TableSchema::named("ARS_NEXTHOPS", &[KeyPart::Vrf, KeyPart::Address], NEXT_HOP_FIELDS),
    TableSchema::named("ARS_PORTCHANNELS", &[KeyPart::LagReference], PORTCHANNEL_FIELDS),
];

const BOOLEAN: ValueKind = ValueKind::Choice(&["true", "false"]);
const U16: ValueKind = ValueKind::number(0, u16::MAX as i128, "");
const U32: ValueKind = ValueKind::number(0, u32::MAX as i128, "");
const MBPS: ValueKind = ValueKind::number(0, u16::MAX as i128, "Mb/s");

const PROFILE_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("algorithm", ValueKind::Choice(&["ewma"])),
    FieldSchema::new(
        "ars_nhg_path_selector_mode",
        ValueKind::Choice(&["global", "interface", "nexthop"]),
    ),
    FieldSchema::new(
        "ars_lag_path_selector_mode",
        ValueKind::Choice(&["global", "interface"]),
    ),
    FieldSchema::new("default_ars_object", ValueKind::Reference(OBJECT_TABLE)),
    FieldSchema::fixed_value("max_flows", U32, "0", FLOW_TABLE_PER_GROUP),
    FieldSchema::new("sampling_interval", ValueKind::number(1, 1_000_000, "us")),
    FieldSchema::new("past_load_min_value", MBPS),
    FieldSchema::new("past_load_max_value", MBPS),
    FieldSchema::new("past_load_weight", U16),
    FieldSchema::new("future_load_min_value", MBPS),
    FieldSchema::new("future_load_max_value", MBPS),
    FieldSchema::new("future_load_weight", U16),
    FieldSchema::new("current_load_min_value", MBPS),
    FieldSchema::new("current_load_max_value", MBPS),
    FieldSchema::new("ipv4_enable", BOOLEAN),
    FieldSchema::new("ipv6_enable", BOOLEAN),
];

const OBJECT_FIELDS: &[FieldSchema] = &[
    FieldSchema::new(
        "assign_mode",
        ValueKind::Choice(&["per_flowlet_quality", "per_packet_quality"]),
    ),
    FieldSchema::new("flowlet_idle_time", ValueKind::number(2, 2_047, "us")),
    FieldSchema::new("max_flows", U32),
    FieldSchema::new("primary_path_threshold", U32),
    FieldSchema::new("alternative_path_cost", U32),
];

const INTERFACE_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("scaling_factor", ValueKind::number(0, 400, "")),
    FieldSchema::new("ars_obj_name", ValueKind::Reference(OBJECT_TABLE)),
];

const NEXT_HOP_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("ars_obj_name", ValueKind::Reference(OBJECT_TABLE)),
    FieldSchema::new("role", ValueKind::Choice(&["primary_path", "alternative_path"])),
];

const PORTCHANNEL_FIELDS: &[FieldSchema] = &[FieldSchema::new("alternative_path_members", ValueKind::Ports)];
