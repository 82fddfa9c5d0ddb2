//! The table `SWITCH_TRIMMING` for packet trimming.

use super::{FieldSchema, KeyPart, TableSchema, ValueKind};

/// Smallest length of a trimmed frame in bytes. This is the minimum length of an Ethernet frame, and
/// sufficient for two VLAN tags and an IPv6 header.
const TRIMMED_BYTES_MIN: i128 = 64;

pub(super) const TABLES: &[TableSchema] = &[TableSchema::named(
    "SWITCH_TRIMMING",
    &[KeyPart::Only("GLOBAL")],
    TRIMMING_FIELDS,
)];

const TRIMMING_FIELDS: &[FieldSchema] = &[
    FieldSchema::new(
        "size",
        ValueKind::number(TRIMMED_BYTES_MIN, u32::MAX as i128, "bytes"),
    ),
    FieldSchema::new("dscp_value", ValueKind::NumberOr(63, "from-tc")),
    FieldSchema::new("tc_value", ValueKind::number(0, 15, "")),
    FieldSchema::new("queue_index", ValueKind::NumberOr(7, "dynamic")),
];
