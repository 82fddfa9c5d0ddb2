//! The buffer model of the switch.

use super::LOCALHOST;
use crate::db::ConfigDb;

/// Returns whether the dynamic buffer model is selected.
pub(super) fn is_dynamic_model_selected(db: &ConfigDb) -> bool {
    db.get("DEVICE_METADATA", LOCALHOST, "buffer_model").as_deref() == Some("dynamic")
}
