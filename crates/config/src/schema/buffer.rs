//! Tables of buffer pools and buffer profiles, tables that bind profiles to ports, priority groups and
//! queues, and tables with the inputs of computed sizes.

use super::{FieldSchema, KeyPart, TableFields, TableSchema, ValueKind};

pub(super) const TABLES: &[TableSchema] = &[
    TableSchema::named("BUFFER_POOL", &[KeyPart::Object], POOL_FIELDS),
    TableSchema::named("BUFFER_PROFILE", &[KeyPart::Object], PROFILE_FIELDS),
    TableSchema::named(
        "BUFFER_PG",
        &[KeyPart::Port, KeyPart::Numbers],
        PROFILE_REFERENCE_FIELDS,
    ),
    TableSchema::named(
        "BUFFER_QUEUE",
        &[KeyPart::Port, KeyPart::Queues],
        PROFILE_REFERENCE_FIELDS,
    ),
    TableSchema::named(
        "BUFFER_PORT_INGRESS_PROFILE_LIST",
        &[KeyPart::Port],
        PROFILE_LIST_FIELDS,
    ),
    TableSchema::named(
        "BUFFER_PORT_EGRESS_PROFILE_LIST",
        &[KeyPart::Port],
        PROFILE_LIST_FIELDS,
    ),
    TableSchema::named(
        "WATERMARK_TABLE",
        &[KeyPart::Only("TELEMETRY_INTERVAL")],
        WATERMARK_FIELDS,
    ),
    TableSchema::new(
        "CABLE_LENGTH",
        &[KeyPart::Object],
        TableFields::ByPort(ValueKind::Cable),
    ),
    TableSchema::named(
        "DEFAULT_LOSSLESS_BUFFER_PARAMETER",
        &[KeyPart::Object],
        LOSSLESS_PARAMETER_FIELDS,
    ),
    TableSchema::named(
        "LOSSLESS_TRAFFIC_PATTERN",
        &[KeyPart::Object],
        TRAFFIC_PATTERN_FIELDS,
    ),
];

const POOL_FIELDS: &[FieldSchema] = &[
    FieldSchema::required("type", ValueKind::Choice(&["ingress", "egress", "both"])),
    FieldSchema::required("mode", ValueKind::Choice(&["static", "dynamic"])),
    FieldSchema::new("size", ValueKind::BYTES),
    FieldSchema::new("xoff", ValueKind::BYTES),
    FieldSchema::new("percentage", ValueKind::number(0, 255, "percent")),
];

const PROFILE_FIELDS: &[FieldSchema] = &[
    FieldSchema::required("pool", ValueKind::Reference("BUFFER_POOL")),
    // The size can be missing if the headroom is computed: see `resolve/buffer_profiles.rs`.
    FieldSchema::new("size", ValueKind::BYTES),
    FieldSchema::new("dynamic_th", ValueKind::number(-8, 7, "")),
    // For "no limit", files use the size of the whole buffer or the largest number.
    FieldSchema::new("static_th", ValueKind::number(0, u64::MAX as i128, "bytes")),
    FieldSchema::new("xoff", ValueKind::BYTES),
    FieldSchema::new("xon", ValueKind::BYTES),
    FieldSchema::new("xon_offset", ValueKind::BYTES),
    FieldSchema::new("headroom_type", ValueKind::Choice(&["static", "dynamic"])),
    FieldSchema::new("packet_discard_action", ValueKind::Choice(&["drop", "trim"])),
    FieldSchema::without_effect(
        "mode",
        ValueKind::Any,
        "the threshold follows from dynamic_th or static_th",
    ),
];

const PROFILE_REFERENCE_FIELDS: &[FieldSchema] = &[FieldSchema::required(
    "profile",
    ValueKind::ReferenceOrNull("BUFFER_PROFILE"),
)];

const PROFILE_LIST_FIELDS: &[FieldSchema] = &[FieldSchema::required(
    "profile_list",
    ValueKind::References("BUFFER_PROFILE"),
)];

/// The interval of periodic watermarks.
const WATERMARK_FIELDS: &[FieldSchema] = &[FieldSchema::required(
    "interval",
    ValueKind::number(1, 1_000_000, "s"),
)];

const LOSSLESS_PARAMETER_FIELDS: &[FieldSchema] = &[
    FieldSchema::required("default_dynamic_th", ValueKind::number(-8, 7, "")),
    FieldSchema::new("over_subscribe_ratio", ValueKind::number(0, u16::MAX as i128, "")),
    FieldSchema::new("max_headroom_size", ValueKind::BYTES),
];

const TRAFFIC_PATTERN_FIELDS: &[FieldSchema] = &[
    FieldSchema::required("mtu", ValueKind::number(1, 9_216, "bytes")),
    FieldSchema::required("small_packet_percentage", ValueKind::number(0, 100, "percent")),
];
