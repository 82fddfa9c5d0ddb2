//! Tables for classification, flow control, scheduling and WRED.

use super::{Field, Fields, Kind, Part, Table};

const ONE_COLOUR: &str = "every frame is green";
const NO_REMARKING: &str = "frames are not re-marked";
const NO_MPLS: &str = "MPLS and class-based forwarding are not implemented";

/// A table that maps numbers to numbers.
const fn map(name: &'static str, from: (&'static str, u64), to: (&'static str, u64), used_max: u64) -> Table {
    Table {
        name,
        key: &[Part::Object],
        fields: Fields::Map { from, to, used_max },
    }
}

const DSCP: (&str, u64) = ("DSCP", 63);
const DOT1P: (&str, u64) = ("802.1p priority", 7);
const TC: (&str, u64) = ("traffic class", 15);
/// SONiC's models allow one digit.
const QUEUE: (&str, u64) = ("queue", 9);
/// The last queue of a port.
const QUEUE_USED_MAX: u64 = 7;
const PG: (&str, u64) = ("priority group", 7);
const PFC: (&str, u64) = ("PFC priority", 7);

pub(super) const TABLES: &[Table] = &[
    map("DSCP_TO_TC_MAP", DSCP, TC, TC.1),
    map("DOT1P_TO_TC_MAP", DOT1P, TC, TC.1),
    map("TC_TO_QUEUE_MAP", TC, QUEUE, QUEUE_USED_MAX),
    map("TC_TO_PRIORITY_GROUP_MAP", TC, PG, PG.1),
    map("TC_TO_DSCP_MAP", TC, DSCP, DSCP.1),
    map("MAP_PFC_PRIORITY_TO_QUEUE", PFC, QUEUE, QUEUE_USED_MAX),
    map("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", PFC, PG, PG.1),
    Table {
        name: "PORT_QOS_MAP",
        key: &[Part::PortOrGlobal],
        fields: Fields::Named(PORT_QOS_MAP),
    },
    Table {
        name: "WRED_PROFILE",
        key: &[Part::Object],
        fields: Fields::Named(WRED),
    },
    Table {
        name: "SCHEDULER",
        key: &[Part::Object],
        fields: Fields::Named(SCHEDULER),
    },
    Table {
        name: "QUEUE",
        key: &[Part::Port, Part::Queues],
        fields: Fields::Named(QUEUE_FIELDS),
    },
];

const PORT_QOS_MAP: &[Field] = &[
    Field::new("dscp_to_tc_map", Kind::Reference("DSCP_TO_TC_MAP")),
    Field::new("dot1p_to_tc_map", Kind::Reference("DOT1P_TO_TC_MAP")),
    Field::new("tc_to_queue_map", Kind::Reference("TC_TO_QUEUE_MAP")),
    Field::new("tc_to_pg_map", Kind::Reference("TC_TO_PRIORITY_GROUP_MAP")),
    Field::new("pfc_to_queue_map", Kind::Reference("MAP_PFC_PRIORITY_TO_QUEUE")),
    Field::new(
        "pfc_to_pg_map",
        Kind::Reference("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"),
    ),
    Field::new("scheduler", Kind::Reference("SCHEDULER")),
    Field::new("pfc_enable", Kind::Priorities),
    Field::new("pfcwd_sw_enable", Kind::Priorities),
    Field::new("tc_to_dscp_map", Kind::Reference("TC_TO_DSCP_MAP")),
    Field::without_effect("tc_to_dot1p_map", Kind::Any, NO_REMARKING),
    Field::without_effect("dscp_to_fc_map", Kind::Any, NO_MPLS),
    Field::without_effect("exp_to_fc_map", Kind::Any, NO_MPLS),
    Field::without_effect("mpls_tc_to_tc_map", Kind::Any, NO_MPLS),
];

const TRUTH: Kind = Kind::Choice(&["true", "false"]);

const WRED: &[Field] = &[
    Field::new(
        "ecn",
        Kind::Choice(&[
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
    Field::new("wred_green_enable", TRUTH),
    Field::new("green_min_threshold", Kind::BYTES),
    Field::new("green_max_threshold", Kind::BYTES),
    Field::new("green_drop_probability", Kind::number(0, 100, "percent")),
    Field::only_as("wred_yellow_enable", TRUTH, "false", ONE_COLOUR),
    Field::without_effect("yellow_min_threshold", Kind::BYTES, ONE_COLOUR),
    Field::without_effect("yellow_max_threshold", Kind::BYTES, ONE_COLOUR),
    Field::without_effect(
        "yellow_drop_probability",
        Kind::number(0, 100, "percent"),
        ONE_COLOUR,
    ),
    Field::only_as("wred_red_enable", TRUTH, "false", ONE_COLOUR),
    Field::without_effect("red_min_threshold", Kind::BYTES, ONE_COLOUR),
    Field::without_effect("red_max_threshold", Kind::BYTES, ONE_COLOUR),
    Field::without_effect(
        "red_drop_probability",
        Kind::number(0, 100, "percent"),
        ONE_COLOUR,
    ),
];

const SCHEDULER: &[Field] = &[
    Field::new("type", Kind::Choice(&["DWRR", "WRR", "STRICT"])),
    // orchagent accepts 0.
    Field::new("weight", Kind::number(0, 100, "")),
    Field::new("pir", Kind::number(0, u64::MAX as i128, "bytes per second")),
    Field::new("pbs", Kind::number(0, u32::MAX as i128, "bytes")),
    Field::new("meter_type", Kind::Choice(&["bytes", "packets"])),
    Field::new("cir", Kind::number(0, u64::MAX as i128, "bytes per second")),
    Field::without_effect(
        "cbs",
        Kind::number(0, u32::MAX as i128, "bytes"),
        "only the peak rate shapes",
    ),
    Field::without_effect(
        "priority",
        Kind::number(0, 9, ""),
        "among strict queues the higher queue number goes first",
    ),
];

const QUEUE_FIELDS: &[Field] = &[
    Field::new("scheduler", Kind::Reference("SCHEDULER")),
    Field::new("wred_profile", Kind::Reference("WRED_PROFILE")),
];
