//! Layer 3: interfaces, routes, neighbours and hashing.

use std::sync::Arc;

use xoff_dataplane::config::RoutingConfig;
use xoff_dataplane::ids::InterfaceId;
use xoff_dataplane::route::{Fib, Rib, Route, RouteTag, Source};

use super::balancing::Balancing;
use super::context::Context;
use super::interfaces::{self, Ground, Interfaces};
use super::routes::{self, StaticRoute};
use super::{LOCALHOST, SWITCH, neighbours};
use crate::problem::Problem;
use crate::schema;

const HASH: &str = "SWITCH_HASH";

/// The resolved layer-3 configuration, with all sources of its routes.
pub(super) struct Routing {
    pub(super) config: RoutingConfig,
    pub(super) rib: Rib,
    pub(super) static_routes: Vec<StaticRoute>,
}

/// Resolves all layer-3 tables.
pub(super) fn resolve(
    context: &mut Context<'_>,
    ground: &Ground<'_>,
    balancing: &Balancing,
    seed: u64,
) -> Routing {
    hashing(context);
    let interfaces = interfaces::resolve(context, ground);
    let static_routes = routes::resolve(context, &interfaces);
    let rib = rib(&interfaces, &static_routes, balancing);
    let fib = first_generation(context, &rib);
    let neighbours = neighbours::resolve(context, &interfaces);
    interfaces::advise(context, &interfaces);
    let default = RoutingConfig::default();
    let number = |field: &str| context.number(SWITCH, LOCALHOST, field);
    let config = RoutingConfig {
        fib: Arc::new(fib),
        hash_seed: number("hash_seed").unwrap_or_else(|| hash_seed(seed, ground.mac)),
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
            "NEIGH has {}, and no more than {} fit",
            config.neighbours.len(),
            config.neighbours_max
        );
        context.problem(Problem::at(SWITCH, LOCALHOST, "neighbours", why).fix("raise neighbours"));
    }
    Routing {
        config,
        rib,
        static_routes,
    }
}

/// Derives the default of `hash_seed` from the seed and the base MAC address.
///
/// All switches of a lab have the same seed. The MAC address gives each switch a different hash.
pub fn hash_seed(seed: u64, mac: [u8; 6]) -> u64 {
    let bytes = seed.to_be_bytes().into_iter().chain(mac);
    super::ports::fnv1a(&bytes.collect::<Vec<_>>())
}

/// Collects all sources of routes: the addresses and networks of interfaces, and the static routes.
fn rib(interfaces: &Interfaces, statics: &[StaticRoute], balancing: &Balancing) -> Rib {
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
        rib.set(Source::Static, *distance, route);
    }
    // Networks of the switch itself get the tag of their site as well.
    rib.tag(|prefix| balancing.tag(prefix));
    rib
}

/// Computes the first generation of the forwarding table. A limit of the table is an error of the whole
/// table.
fn first_generation(context: &mut Context<'_>, rib: &Rib) -> Fib {
    rib.next_generation(&Fib::default()).unwrap_or_else(|error| {
        context.problem(Problem::at("STATIC_ROUTE", "", "", error.to_string()));
        Fib::default()
    })
}

/// Whether the hash of RoCEv2 flows includes the destination queue pair. `lists` is the common prefix of
/// the field names, `ecmp_hash` or `lag_hash`.
pub(super) fn hashes_queue_pairs(context: &Context<'_>, lists: &str) -> bool {
    ["", "_ipv4_rdma", "_ipv6_rdma"].iter().any(|of| {
        let list = context.db.get(HASH, "GLOBAL", &format!("{lists}{of}"));
        list.is_some_and(|list| schema::items(&list).any(|field| field == schema::DEST_QP))
    })
}

/// Warns about lists of hash fields with other fields than the five-tuple. RoCEv2 lists can also contain
/// the destination queue pair.
fn hashing(context: &mut Context<'_>) {
    for field in schema::ALL_HASHED {
        let Some(list) = context.db.get(HASH, "GLOBAL", field) else {
            continue;
        };
        let mut fields: Vec<&str> = schema::items(&list).collect();
        fields.sort_unstable();
        fields.dedup();
        if !field.ends_with("_ipv4") && !field.ends_with("_ipv6") {
            fields.retain(|field| *field != schema::DEST_QP);
        }
        if fields != schema::FIVE_TUPLE {
            let text = format!(
                "{field} {list:?} has no effect: flows are told apart by {}, and of RoCEv2 by {} where that is added",
                schema::FIVE_TUPLE.join(", "),
                schema::DEST_QP
            );
            context.warn_entry(HASH, "GLOBAL", text);
        }
    }
}
