//! Layer 3: interfaces, routes, neighbours and hashing.

use std::sync::Arc;

use xoff_dataplane::config::RoutingConfig;
use xoff_dataplane::ids::InterfaceId;
use xoff_dataplane::route::{Fib, Rib, Route, RouteSource, RouteTag};

use super::balancing::ResolvedBalancing;
use super::computed_routes::add_computed_routes;
use super::context::ResolveContext;
use super::hash_fields::HASH_TABLE;
use super::interfaces::{self, InterfaceParents, Interfaces};
use super::routes::{self, StaticRoute};
use super::{LOCALHOST, SWITCH, neighbours};
use crate::problem::Problem;
use crate::schema;

/// The resolved layer-3 configuration, with the sources of its routes.
pub(super) struct ResolvedRouting {
    pub(super) config: RoutingConfig,
    pub(super) rib: Rib,
    pub(super) static_routes: Vec<StaticRoute>,
}

/// Resolves all layer-3 tables.
pub(super) fn resolve_routing(
    context: &mut ResolveContext<'_>,
    parents: &InterfaceParents<'_>,
    balancing: &ResolvedBalancing,
    seed: u64,
) -> ResolvedRouting {
    warn_unsupported_hash_fields(context);
    let interfaces = interfaces::resolve_interfaces(context, parents);
    let mut static_routes = routes::resolve_static_routes(context, &interfaces);
    add_computed_routes(context, &interfaces, &mut static_routes);
    routes::warn_connected_networks(context, &interfaces, &static_routes);
    let rib = build_rib(&interfaces, &static_routes, balancing);
    let fib = build_first_fib(context, &rib);
    let neighbours = neighbours::resolve_neighbours(context, &interfaces);
    interfaces::warn_unusable_interfaces(context, &interfaces);
    let default = RoutingConfig::default();
    let number = |field: &str| context.number(SWITCH, LOCALHOST, field);
    let config = RoutingConfig {
        fib: Arc::new(fib),
        hash_seed: number("hash_seed").unwrap_or_else(|| hash_seed(seed, parents.mac)),
        resilient_buckets: number("resilient_buckets")
            .map(|buckets| buckets as u16)
            .filter(|buckets| *buckets > 0),
        neighbours_max: number("neighbours").map_or(default.neighbours_max, |most| most as usize),
        hold_frames: number("neighbour_hold").map_or(default.hold_frames, |most| most as usize),
        icmp_errors_per_second: number("icmp_rate")
            .map_or(default.icmp_errors_per_second, |rate| rate as u32),
        neighbours,
        interfaces: interfaces.list,
    };
    if config.neighbours.len() > config.neighbours_max {
        let why = format!(
            "NEIGH has {} neighbours, but the limit is {}",
            config.neighbours.len(),
            config.neighbours_max
        );
        context.report_entry_contradiction(
            Problem::at_field(SWITCH, LOCALHOST, "neighbours", why).with_fix("raise neighbours"),
        );
    }
    ResolvedRouting {
        config,
        rib,
        static_routes,
    }
}

/// Returns the default of `XOFF_SWITCH|localhost hash_seed`, derived from the seed and the base MAC address
/// of the switch.
///
/// All switches of a lab have the same seed. Their MAC addresses differ, so each switch has a different
/// hash seed.
pub fn hash_seed(seed: u64, mac: [u8; 6]) -> u64 {
    let bytes = seed.to_be_bytes().into_iter().chain(mac);
    super::ports::fnv1a_hash(&bytes.collect::<Vec<_>>())
}

/// Collects all sources of routes: the addresses and networks of interfaces, and the static routes.
fn build_rib(interfaces: &Interfaces, statics: &[StaticRoute], balancing: &ResolvedBalancing) -> Rib {
    let mut rib = Rib::new();
    for (index, interface) in interfaces.list.iter().enumerate() {
        rib.set_interface(InterfaceId(index as u16), interface);
    }
    for StaticRoute {
        prefix,
        distance,
        target,
    } in statics
    {
        let route = Route {
            prefix: *prefix,
            target: target.clone(),
            tag: RouteTag::default(),
        };
        rib.set_route(RouteSource::Static, *distance, route);
    }
    // Networks of the switch itself get the tag of their site as well.
    rib.set_tags(|prefix| balancing.route_tag(prefix));
    rib
}

/// Computes the first forwarding table from all sources of routes. If the forwarding table exceeds a limit,
/// reports an error about the whole table `STATIC_ROUTE` and returns an empty forwarding table.
fn build_first_fib(context: &mut ResolveContext<'_>, rib: &Rib) -> Fib {
    rib.next_generation(&Fib::default()).unwrap_or_else(|error| {
        context.report_entry_contradiction(Problem::at_field("STATIC_ROUTE", "", "", error.to_string()));
        Fib::default()
    })
}

/// Warns about lists in `SWITCH_HASH` that are not the five-tuple. Lists that also apply to RoCEv2 can
/// contain the destination queue pair too.
fn warn_unsupported_hash_fields(context: &mut ResolveContext<'_>) {
    for field in schema::HASH_FIELD_NAMES {
        let Some(list) = context.db.get(HASH_TABLE, "GLOBAL", field) else {
            continue;
        };
        let mut fields: Vec<&str> = schema::split_list(&list).collect();
        fields.sort_unstable();
        fields.dedup();
        if !field.ends_with("_ipv4") && !field.ends_with("_ipv6") {
            fields.retain(|field| *field != schema::DEST_QP);
        }
        if fields != schema::FIVE_TUPLE {
            let text = format!(
                "{field} {list:?} has no effect: the hash fields are {}, and for RoCEv2 also {} if it is listed",
                schema::FIVE_TUPLE.join(", "),
                schema::DEST_QP
            );
            context.warn_entry(HASH_TABLE, "GLOBAL", text);
        }
    }
}
