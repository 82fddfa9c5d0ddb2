//! Layer 3 put together: interfaces, routes, neighbours, how flows are spread.

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

/// Layer 3, and what it was made of.
pub(super) struct Routing {
    pub(super) config: RoutingConfig,
    pub(super) rib: Rib,
    pub(super) static_routes: Vec<StaticRoute>,
}

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

/// What `hash_seed` is where nobody says. Switches of one lab have one seed and should not all choose alike: the base address
/// tells them apart.
pub fn hash_seed(seed: u64, mac: [u8; 6]) -> u64 {
    let bytes = seed.to_be_bytes().into_iter().chain(mac);
    super::ports::fnv1a(&bytes.collect::<Vec<_>>())
}

/// Everything that offers a route: the interfaces' addresses and networks, and `STATIC_ROUTE`.
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
    // The switch's own networks too: their site is its own.
    rib.tag(|prefix| balancing.tag(prefix));
    rib
}

/// The first generation of the routes. What is too much for it is a limit of the tables, not of one entry.
fn first_generation(context: &mut Context<'_>, rib: &Rib) -> Fib {
    rib.next_generation(&Fib::default()).unwrap_or_else(|error| {
        context.problem(Problem::at("STATIC_ROUTE", "", "", error.to_string()));
        Fib::default()
    })
}

/// Whether flows of RoCEv2 are told apart by their destination queue pair too: by one of the lists `ecmp_hash...`, or `lag_hash...`,
/// that concern them.
pub(super) fn hashes_queue_pairs(context: &Context<'_>, lists: &str) -> bool {
    ["", "_ipv4_rdma", "_ipv6_rdma"].iter().any(|of| {
        let list = context.db.get(HASH, "GLOBAL", &format!("{lists}{of}"));
        list.is_some_and(|list| schema::items(&list).any(|field| field == schema::DEST_QP))
    })
}

/// Flows are told apart by the five-tuple, those of RoCEv2 by the destination queue pair too if that is said. Lists that say so say what
/// is done anyway.
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
