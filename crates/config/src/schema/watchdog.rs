//! The table `PFC_WD` of the PFC watchdog.

use super::{Field, Fields, Kind, Part, Table};

/// Key of the entries of `PFC_WD` and `XOFF_PFC_WD` that concern the whole switch.
pub(crate) const GLOBAL: &str = "GLOBAL";

pub(super) const TABLES: &[Table] = &[
    Table {
        name: "PFC_WD",
        key: &[Part::Only(GLOBAL)],
        fields: Fields::Named(WHOLE),
    },
    Table {
        name: "PFC_WD",
        key: &[Part::Port],
        fields: Fields::Named(PORT),
    },
];

const SWITCHED: Kind = Kind::Choice(&["enable", "disable"]);

const WHOLE: &[Field] = &[
    Field::new("POLL_INTERVAL", Kind::number(100, 1_000, "ms")),
    Field::new("BIG_RED_SWITCH", SWITCHED),
];

const PORT: &[Field] = &[
    Field::new("action", Kind::Choice(&["drop", "forward", "alert"])),
    // SONiC's YANG model does not require the field, but orchagent refuses an entry without it.
    Field::required("detection_time", Kind::number(100, 5_000, "ms")),
    Field::new("restoration_time", Kind::number(100, 60_000, "ms")),
    Field::new("pfc_stat_history", SWITCHED),
];
