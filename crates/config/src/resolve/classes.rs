//! Classification of frames: the maps from header fields to traffic class, queue and priority group.

use xoff_dataplane::config::{ClassMaps, TrustMode};

use super::context::ResolveContext;

const BINDINGS: &str = "PORT_QOS_MAP";

/// Resolves the maps of a port. Missing maps and missing entries map to 0.
pub(super) fn resolve_class_maps(context: &mut ResolveContext<'_>, port: &str) -> ClassMaps {
    let dot1p = context.text(BINDINGS, port, "dot1p_to_tc_map");
    // The DSCP map of the switch applies to ports without a map of their own.
    let own_dscp = context.text(BINDINGS, port, "dscp_to_tc_map");
    let global_dscp = || {
        context
            .text(BINDINGS, "global", "dscp_to_tc_map")
            .filter(|_| dot1p.is_none())
    };
    let dscp = own_dscp.or_else(global_dscp);
    let to_queue = context.text(BINDINGS, port, "tc_to_queue_map");
    let to_pg = context.text(BINDINGS, port, "tc_to_pg_map");
    if dscp.is_some() || dot1p.is_some() {
        for (map, name, target) in [
            (to_queue, "tc_to_queue_map", "queue 0"),
            (to_pg, "tc_to_pg_map", "priority group 0"),
        ] {
            if map.is_none() {
                context.warn_port(
                    port,
                    format!("PORT_QOS_MAP has no {name}: every traffic class uses {target}"),
                );
            }
        }
    }
    ClassMaps {
        trust: if dscp.is_none() && dot1p.is_some() {
            TrustMode::Pcp
        } else {
            TrustMode::Dscp
        },
        dscp_to_tc: read_map(context, "DSCP_TO_TC_MAP", dscp, |_| 0),
        dot1p_to_tc: read_map(context, "DOT1P_TO_TC_MAP", dot1p, |_| 0),
        tc_to_queue: read_map(context, "TC_TO_QUEUE_MAP", to_queue, |_| 0),
        tc_to_pg: read_map(context, "TC_TO_PRIORITY_GROUP_MAP", to_pg, |_| 0),
    }
}

/// Reads the map `name` of a table as an array. The field names of the map are the indices of the
/// array. `default` returns the value for an index that is not in the map. If `name` is `None`, all
/// values are defaults.
pub(super) fn read_map<const N: usize>(
    context: &ResolveContext<'_>,
    table: &str,
    name: Option<&str>,
    default: fn(usize) -> u8,
) -> [u8; N] {
    std::array::from_fn(|from| {
        let entry = name.and_then(|name| context.number(table, name, &from.to_string()));
        entry.map_or_else(|| default(from), |to| to as u8)
    })
}
