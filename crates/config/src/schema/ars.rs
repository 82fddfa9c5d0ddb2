//! Tables of adaptive routing and switching (ARS).
//!
//! The tables are those of the pull requests for SONiC's local ARS design (`doc/ARS/Local_ARS_HLD.md`). No
//! release of SONiC has these tables, so their names can change. `docs/load-balancing.md` describes their
//! effect in xoff.

use super::{Field, Fields, Kind, Part, Table};

/// Name of the table of ARS objects.
const OBJECTS: &str = "ARS_OBJECT";

const ONE_TABLE: &str = "each group has a flow table of its own (ARS_OBJECT max_flows)";

pub(super) const TABLES: &[Table] = &[
    Table {
        name: "ARS_PROFILE",
        key: &[Part::Object],
        fields: Fields::Named(PROFILE),
    },
    Table {
        name: OBJECTS,
        key: &[Part::Object],
        fields: Fields::Named(OBJECT),
    },
    Table {
        name: "ARS_INTERFACES",
        key: &[Part::Port],
        fields: Fields::Named(INTERFACE),
    },
    Table {
        name: "ARS_NEXTHOPS",
        key: &[Part::Vrf, Part::Address],
        fields: Fields::Named(NEXT_HOP),
    },
    Table {
        name: "ARS_PORTCHANNELS",
        key: &[Part::LagReference],
        fields: Fields::Named(PORTCHANNEL),
    },
];

const TRUTH: Kind = Kind::Choice(&["true", "false"]);
const U16: Kind = Kind::number(0, u16::MAX as i128, "");
const U32: Kind = Kind::number(0, u32::MAX as i128, "");
const MBPS: Kind = Kind::number(0, u16::MAX as i128, "Mb/s");

const PROFILE: &[Field] = &[
    Field::new("algorithm", Kind::Choice(&["ewma"])),
    Field::new(
        "ars_nhg_path_selector_mode",
        Kind::Choice(&["global", "interface", "nexthop"]),
    ),
    Field::new(
        "ars_lag_path_selector_mode",
        Kind::Choice(&["global", "interface"]),
    ),
    Field::new("default_ars_object", Kind::Reference(OBJECTS)),
    Field::only_as("max_flows", U32, "0", ONE_TABLE),
    Field::new("sampling_interval", Kind::number(1, 1_000_000, "us")),
    Field::new("past_load_min_value", MBPS),
    Field::new("past_load_max_value", MBPS),
    Field::new("past_load_weight", U16),
    Field::new("future_load_min_value", MBPS),
    Field::new("future_load_max_value", MBPS),
    Field::new("future_load_weight", U16),
    Field::new("current_load_min_value", MBPS),
    Field::new("current_load_max_value", MBPS),
    Field::new("ipv4_enable", TRUTH),
    Field::new("ipv6_enable", TRUTH),
];

const OBJECT: &[Field] = &[
    Field::new(
        "assign_mode",
        Kind::Choice(&["per_flowlet_quality", "per_packet_quality"]),
    ),
    Field::new("flowlet_idle_time", Kind::number(2, 2_047, "us")),
    Field::new("max_flows", U32),
    Field::new("primary_path_threshold", U32),
    Field::new("alternative_path_cost", U32),
];

const INTERFACE: &[Field] = &[
    Field::new("scaling_factor", Kind::number(0, 400, "")),
    Field::new("ars_obj_name", Kind::Reference(OBJECTS)),
];

const NEXT_HOP: &[Field] = &[
    Field::new("ars_obj_name", Kind::Reference(OBJECTS)),
    Field::new("role", Kind::Choice(&["primary_path", "alternative_path"])),
];

const PORTCHANNEL: &[Field] = &[Field::new("alternative_path_members", Kind::Ports)];
