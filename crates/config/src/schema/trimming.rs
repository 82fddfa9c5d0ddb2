//! The table `SWITCH_TRIMMING` for packet trimming.

use super::{Field, Fields, Kind, Part, Table};

/// Smallest size of a trimmed frame in bytes. It has room for two tags and an IPv6 header, and is the
/// minimum frame size.
const SIZE_MIN: i128 = 64;

pub(super) const TABLES: &[Table] = &[Table {
    name: "SWITCH_TRIMMING",
    key: &[Part::Only("GLOBAL")],
    fields: Fields::Named(GLOBAL),
}];

const GLOBAL: &[Field] = &[
    Field::new("size", Kind::number(SIZE_MIN, u32::MAX as i128, "bytes")),
    Field::new("dscp_value", Kind::NumberOr(63, "from-tc")),
    Field::new("tc_value", Kind::number(0, 15, "")),
    Field::new("queue_index", Kind::NumberOr(7, "dynamic")),
];
