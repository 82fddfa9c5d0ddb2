//! The table `PFC_WD` of the PFC watchdog.

use super::{FieldSchema, KeyPart, TableFields, TableSchema, ValueKind};

/// Key of the entries of `PFC_WD` and `XOFF_PFC_WD` that concern the whole switch.
pub(crate) const GLOBAL: &str = "GLOBAL";

pub(super) const TABLES: &[TableSchema] = &[
    TableSchema {
        name: "PFC_WD",
        key: &[KeyPart::Only(GLOBAL)],
        fields: TableFields::Named(GLOBAL_FIELDS),
    },
    TableSchema {
        name: "PFC_WD",
        key: &[KeyPart::Port],
        fields: TableFields::Named(PORT_FIELDS),
    },
];

const ENABLED: ValueKind = ValueKind::Choice(&["enable", "disable"]);

const GLOBAL_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("POLL_INTERVAL", ValueKind::number(100, 1_000, "ms")),
    FieldSchema::new("BIG_RED_SWITCH", ENABLED),
];

const PORT_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("action", ValueKind::Choice(&["drop", "forward", "alert"])),
    // SONiC's YANG model does not require the field, but orchagent refuses an entry without it.
    FieldSchema::required("detection_time", ValueKind::number(100, 5_000, "ms")),
    FieldSchema::new("restoration_time", ValueKind::number(100, 60_000, "ms")),
    FieldSchema::new("pfc_stat_history", ENABLED),
];
