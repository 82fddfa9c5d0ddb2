//! The table `PFC_WD` of the PFC watchdog.

use super::{FieldSchema, KeyPart, TableSchema, ValueKind};

/// Key of the entries of `PFC_WD` and `XOFF_PFC_WD` that concern the whole switch.
pub(crate) const GLOBAL: &str = "GLOBAL";

pub(super) const TABLES: &[TableSchema] = &[
    TableSchema::named("PFC_WD", &[KeyPart::Only(GLOBAL)], GLOBAL_FIELDS),
    TableSchema::named("PFC_WD", &[KeyPart::Port], PORT_FIELDS),
];

const ENABLED: ValueKind = ValueKind::Choice(&["enable", "disable"]);

const GLOBAL_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("POLL_INTERVAL", ValueKind::number(100, 1_000, "ms")),
    FieldSchema::new("BIG_RED_SWITCH", ENABLED),
];

const PORT_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("action", ValueKind::Choice(&["drop", "forward", "alert"])),
    // SONiC's YANG model does not require this field, but orchagent refuses an entry without this field.
    FieldSchema::required("detection_time", ValueKind::number(100, 5_000, "ms")),
    FieldSchema::new("restoration_time", ValueKind::number(100, 60_000, "ms")),
    FieldSchema::new("pfc_stat_history", ENABLED),
];
