//! Tables of buffer pools and buffer profiles, their users, and the inputs of computed sizes.

use super::{Field, Fields, Kind, Part, Table};

pub(super) const TABLES: &[Table] = &[
    Table {
        name: "BUFFER_POOL",
        key: &[Part::Object],
        fields: Fields::Named(POOL),
    },
    Table {
        name: "BUFFER_PROFILE",
        key: &[Part::Object],
        fields: Fields::Named(PROFILE),
    },
    Table {
        name: "BUFFER_PG",
        key: &[Part::Port, Part::Numbers],
        fields: Fields::Named(USER),
    },
    Table {
        name: "BUFFER_QUEUE",
        key: &[Part::Port, Part::Queues],
        fields: Fields::Named(USER),
    },
    Table {
        name: "BUFFER_PORT_INGRESS_PROFILE_LIST",
        key: &[Part::Port],
        fields: Fields::Named(PROFILE_LIST),
    },
    Table {
        name: "BUFFER_PORT_EGRESS_PROFILE_LIST",
        key: &[Part::Port],
        fields: Fields::Named(PROFILE_LIST),
    },
    Table {
        name: "WATERMARK_TABLE",
        key: &[Part::Only("TELEMETRY_INTERVAL")],
        fields: Fields::Named(WATERMARK),
    },
    Table {
        name: "CABLE_LENGTH",
        key: &[Part::Object],
        fields: Fields::ByPort(Kind::Cable),
    },
    Table {
        name: "DEFAULT_LOSSLESS_BUFFER_PARAMETER",
        key: &[Part::Object],
        fields: Fields::Named(LOSSLESS_PARAMETER),
    },
    Table {
        name: "LOSSLESS_TRAFFIC_PATTERN",
        key: &[Part::Object],
        fields: Fields::Named(TRAFFIC_PATTERN),
    },
];

const POOL: &[Field] = &[
    Field::required("type", Kind::Choice(&["ingress", "egress", "both"])),
    Field::required("mode", Kind::Choice(&["static", "dynamic"])),
    Field::new("size", Kind::BYTES),
    Field::new("xoff", Kind::BYTES),
    Field::new("percentage", Kind::number(0, 255, "percent")),
];

const PROFILE: &[Field] = &[
    Field::required("pool", Kind::Reference("BUFFER_POOL")),
    // The size can be missing if the headroom is computed: see `resolve/profiles.rs`.
    Field::new("size", Kind::BYTES),
    Field::new("dynamic_th", Kind::number(-8, 7, "")),
    // Files use the whole buffer of the chip or the largest number for "no limit".
    Field::new("static_th", Kind::number(0, u64::MAX as i128, "bytes")),
    Field::new("xoff", Kind::BYTES),
    Field::new("xon", Kind::BYTES),
    Field::new("xon_offset", Kind::BYTES),
    Field::new("headroom_type", Kind::Choice(&["static", "dynamic"])),
    Field::new("packet_discard_action", Kind::Choice(&["drop", "trim"])),
    Field::without_effect(
        "mode",
        Kind::Any,
        "the threshold follows from dynamic_th or static_th",
    ),
];

const USER: &[Field] = &[Field::required(
    "profile",
    Kind::ReferenceOrNull("BUFFER_PROFILE"),
)];

const PROFILE_LIST: &[Field] = &[Field::required(
    "profile_list",
    Kind::References("BUFFER_PROFILE"),
)];

/// The interval of periodic watermarks.
const WATERMARK: &[Field] = &[Field::required("interval", Kind::number(1, 1_000_000, "s"))];

const LOSSLESS_PARAMETER: &[Field] = &[
    Field::required("default_dynamic_th", Kind::number(-8, 7, "")),
    Field::new("over_subscribe_ratio", Kind::number(0, u16::MAX as i128, "")),
    Field::new("max_headroom_size", Kind::BYTES),
];

const TRAFFIC_PATTERN: &[Field] = &[
    Field::required("mtu", Kind::number(1, 9_216, "bytes")),
    Field::required("small_packet_percentage", Kind::number(0, 100, "percent")),
];
