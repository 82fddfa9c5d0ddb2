//! Buffer pools and profiles, and who uses which.

use super::{BYTES_MAX, Field, Fields, Kind, Part, Table};

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
        key: &[Part::Port, Part::Numbers],
        fields: Fields::Named(USER),
    },
];

const POOL: &[Field] = &[
    Field::required("type", Kind::Choice(&["ingress", "egress", "both"])),
    Field::required("mode", Kind::Choice(&["static", "dynamic"])),
    Field::new("size", Kind::number(1, BYTES_MAX as i128, "bytes")),
    Field::new("xoff", Kind::BYTES),
    Field::without_effect(
        "percentage",
        Kind::number(0, 100, "percent"),
        "pool sizes are taken as written, none is computed",
    ),
];

const PROFILE: &[Field] = &[
    Field::required("pool", Kind::Reference("BUFFER_POOL")),
    Field::required("size", Kind::BYTES),
    Field::new("dynamic_th", Kind::number(-8, 7, "")),
    // Tables write the chip's whole buffer, or the largest number there is, for "no limit".
    Field::new("static_th", Kind::number(0, u64::MAX as i128, "bytes")),
    Field::new("xoff", Kind::BYTES),
    Field::new("xon", Kind::BYTES),
    Field::new("xon_offset", Kind::BYTES),
    Field::only_as(
        "headroom_type",
        Kind::Choice(&["static", "dynamic"]),
        "static",
        "headroom is taken as written, none is computed",
    ),
    Field::new("packet_discard_action", Kind::Choice(&["drop", "trim"])),
];

const USER: &[Field] = &[Field::required(
    "profile",
    Kind::ReferenceOrNull("BUFFER_PROFILE"),
)];
