//! Tables for classification, flow control, scheduling and WRED.

use super::{FieldSchema, KeyPart, TableFields, TableSchema, ValueKind};

const ONE_COLOUR: &str = "every frame is green";
const NO_REMARKING: &str = "frames are not re-marked";
const NO_MPLS: &str = "MPLS and class-based forwarding are not implemented";

/// Returns a table that maps numbers to numbers.
const fn map_table(
    name: &'static str,
    from: (&'static str, u64),
    to: (&'static str, u64),
    used_max: u64,
) -> TableSchema {
    TableSchema::new(name, &[KeyPart::Object], TableFields::Map { from, to, used_max })
}

const DSCP: (&str, u64) = ("DSCP", 63);
const DOT1P: (&str, u64) = ("802.1p priority", 7);
const TC: (&str, u64) = ("traffic class", 15);
/// SONiC's models allow one digit, so the largest number is 9.
const QUEUE: (&str, u64) = ("queue", 9);
/// The last queue of a port.
const QUEUE_USED_MAX: u64 = 7;
const PG: (&str, u64) = ("priority group", 7);
const PFC: (&str, u64) = ("PFC priority", 7);

pub(super) const TABLES: &[TableSchema] = &[
    map_table("DSCP_TO_TC_MAP", DSCP, TC, TC.1),
    map_table("DOT1P_TO_TC_MAP", DOT1P, TC, TC.1),
    map_table("TC_TO_QUEUE_MAP", TC, QUEUE, QUEUE_USED_MAX),
    map_table("TC_TO_PRIORITY_GROUP_MAP", TC, PG, PG.1),
    map_table("TC_TO_DSCP_MAP", TC, DSCP, DSCP.1),
    map_table("MAP_PFC_PRIORITY_TO_QUEUE", PFC, QUEUE, QUEUE_USED_MAX),
    map_table("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", PFC, PG, PG.1),
    TableSchema::named("PORT_QOS_MAP", &[KeyPart::PortOrGlobal], PORT_QOS_MAP_FIELDS),
    TableSchema::named("WRED_PROFILE", &[KeyPart::Object], WRED_FIELDS),
    TableSchema::named("SCHEDULER", &[KeyPart::Object], SCHEDULER_FIELDS),
    TableSchema::named("QUEUE", &[KeyPart::Port, KeyPart::Queues], QUEUE_FIELDS),
];

const PORT_QOS_MAP_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("dscp_to_tc_map", ValueKind::Reference("DSCP_TO_TC_MAP")),
    FieldSchema::new("dot1p_to_tc_map", ValueKind::Reference("DOT1P_TO_TC_MAP")),
    FieldSchema::new("tc_to_queue_map", ValueKind::Reference("TC_TO_QUEUE_MAP")),
    FieldSchema::new("tc_to_pg_map", ValueKind::Reference("TC_TO_PRIORITY_GROUP_MAP")),
    FieldSchema::new(
        "pfc_to_queue_map",
        ValueKind::Reference("MAP_PFC_PRIORITY_TO_QUEUE"),
    ),
    FieldSchema::new(
        "pfc_to_pg_map",
        ValueKind::Reference("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"),
    ),
    FieldSchema::new("scheduler", ValueKind::Reference("SCHEDULER")),
    FieldSchema::new("pfc_enable", ValueKind::Priorities),
    FieldSchema::new("pfcwd_sw_enable", ValueKind::Priorities),
    FieldSchema::new("tc_to_dscp_map", ValueKind::Reference("TC_TO_DSCP_MAP")),
    FieldSchema::without_effect("tc_to_dot1p_map", ValueKind::Any, NO_REMARKING),
    FieldSchema::without_effect("dscp_to_fc_map", ValueKind::Any, NO_MPLS),
    FieldSchema::without_effect("exp_to_fc_map", ValueKind::Any, NO_MPLS),
    FieldSchema::without_effect("mpls_tc_to_tc_map", ValueKind::Any, NO_MPLS),
];

const BOOLEAN: ValueKind = ValueKind::Choice(&["true", "false"]);

const WRED_FIELDS: &[FieldSchema] = &[
    FieldSchema::new(
        "ecn",
        ValueKind::Choice(&[
            "ecn_none",
            "ecn_green",
            "ecn_yellow",
            "ecn_red",
            "ecn_green_yellow",
            "ecn_green_red",
            "ecn_yellow_red",
            "ecn_all",
        ]),
    ),
    FieldSchema::new("wred_green_enable", BOOLEAN),
    FieldSchema::new("green_min_threshold", ValueKind::BYTES),
    FieldSchema::new("green_max_threshold", ValueKind::BYTES),
    FieldSchema::new("green_drop_probability", ValueKind::number(0, 100, "percent")),
    FieldSchema::fixed_value("wred_yellow_enable", BOOLEAN, "false", ONE_COLOUR),
    FieldSchema::without_effect("yellow_min_threshold", ValueKind::BYTES, ONE_COLOUR),
    FieldSchema::without_effect("yellow_max_threshold", ValueKind::BYTES, ONE_COLOUR),
    FieldSchema::without_effect(
        "yellow_drop_probability",
        ValueKind::number(0, 100, "percent"),
        ONE_COLOUR,
    ),
    FieldSchema::fixed_value("wred_red_enable", BOOLEAN, "false", ONE_COLOUR),
    FieldSchema::without_effect("red_min_threshold", ValueKind::BYTES, ONE_COLOUR),
    FieldSchema::without_effect("red_max_threshold", ValueKind::BYTES, ONE_COLOUR),
    FieldSchema::without_effect(
        "red_drop_probability",
        ValueKind::number(0, 100, "percent"),
        ONE_COLOUR,
    ),
];

const SCHEDULER_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("type", ValueKind::Choice(&["DWRR", "WRR", "STRICT"])),
    // orchagent accepts 0.
    FieldSchema::new("weight", ValueKind::number(0, 100, "")),
    FieldSchema::new("pir", ValueKind::number(0, u64::MAX as i128, "bytes per second")),
    FieldSchema::new("pbs", ValueKind::number(0, u32::MAX as i128, "bytes")),
    FieldSchema::new("meter_type", ValueKind::Choice(&["bytes", "packets"])),
    FieldSchema::new("cir", ValueKind::number(0, u64::MAX as i128, "bytes per second")),
    FieldSchema::without_effect(
        "cbs",
        ValueKind::number(0, u32::MAX as i128, "bytes"),
        "only the peak rate limits a queue",
    ),
    FieldSchema::without_effect(
        "priority",
        ValueKind::number(0, 9, ""),
        "among strict-priority queues, the higher queue number is served first",
    ),
];

const QUEUE_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("scheduler", ValueKind::Reference("SCHEDULER")),
    FieldSchema::new("wred_profile", ValueKind::Reference("WRED_PROFILE")),
];
