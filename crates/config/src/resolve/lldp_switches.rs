//! Whether the switch and its ports use LLDP.

use super::context::ResolveContext;
use crate::schema::GLOBAL;

pub(super) const TABLE: &str = "LLDP";
pub(super) const PORT_TABLE: &str = "LLDP_PORT";

/// Returns whether a port uses LLDP.
pub(super) fn has_lldp(context: &ResolveContext<'_>, port: &str) -> bool {
    is_lldp_on(context) && is_port_on(context, port)
}

/// Returns whether the switch uses LLDP.
pub(super) fn is_lldp_on(context: &ResolveContext<'_>) -> bool {
    context.db.entry(TABLE, GLOBAL).is_some() && context.text(TABLE, GLOBAL, "enabled") != Some("false")
}

/// Returns whether LLDP is not turned off at a port.
pub(super) fn is_port_on(context: &ResolveContext<'_>, port: &str) -> bool {
    context.text(PORT_TABLE, port, "enabled") != Some("false")
}
