//! Routes that a program has computed from a topology. They are not in the tables of the configuration, since
//! the tables of a large fabric would need a thousand times the memory of the routes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};
use serde_json::{Map, Value, json};
use xoff_dataplane::route::{DISTANCE_STATIC, NextHop, RoutePath, RouteTarget};

use super::context::ResolveContext;
use super::interfaces::Interfaces;
use super::routes::{StaticRoute, find_next_hop_interface};
use crate::problem::Problem;

/// Computed static routes of one switch, and the sites of all networks. The routes have the same meaning as
/// the tables of [`ComputedRoutes::to_tables`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComputedRoutes {
    /// The lists of next hops. Several routes can have the same list. Packets to a route with an empty list
    /// are dropped.
    pub next_hop_lists: Vec<Vec<Ipv4Addr>>,
    /// The destination of each route, and the index of its next hops in `next_hop_lists`. Sorted by
    /// destination. Each destination occurs once.
    pub routes: Vec<(Ipv4Net, u32)>,
    /// The site of each network, 1 to 65535 ([`RouteTag::site`](xoff_dataplane::route::RouteTag::site)).
    /// Sorted by network. Switches can share this list.
    pub sites: Arc<[(Ipv4Net, u16)]>,
}

impl ComputedRoutes {
    /// The tables of [`ComputedRoutes::to_tables`].
    pub const TABLES: [&'static str; 2] = ["STATIC_ROUTE", "XOFF_LB_SITE"];

    /// Returns the tables with the same meaning: `STATIC_ROUTE`, and `XOFF_LB_SITE` if there are sites.
    pub fn to_tables(&self) -> Map<String, Value> {
        let route = |(prefix, list): &(Ipv4Net, u32)| {
            let hops = self.next_hops(*list).iter().map(Ipv4Addr::to_string);
            let hops: Vec<String> = hops.collect();
            let fields = match hops.is_empty() {
                true => json!({ "blackhole": "true" }),
                false => json!({ "nexthop": hops.join(",") }),
            };
            (prefix.to_string(), fields)
        };
        let site = |(network, site): &(Ipv4Net, u16)| {
            let fields = json!({ "site": site.to_string() });
            (network.to_string(), fields)
        };
        let [route_table, site_table] = ComputedRoutes::TABLES.map(str::to_owned);
        let mut tables = Map::new();
        tables.insert(
            route_table,
            Value::Object(self.routes.iter().map(route).collect()),
        );
        if !self.sites.is_empty() {
            tables.insert(site_table, Value::Object(self.sites.iter().map(site).collect()));
        }
        tables
    }

    fn next_hops(&self, list: u32) -> &[Ipv4Addr] {
        self.next_hop_lists.get(list as usize).map_or(&[], Vec::as_slice)
    }
}

/// Resolves the computed routes and adds them to `routes`, which stays sorted by prefix and distance. Routes
/// with the same next hops share one target.
pub(super) fn add_computed_routes(
    context: &mut ResolveContext<'_>,
    interfaces: &Interfaces,
    routes: &mut Vec<StaticRoute>,
) {
    let Some(computed) = context.options.computed_routes.clone() else {
        return;
    };
    let mut targets = BTreeMap::new();
    for (prefix, list) in &computed.routes {
        let prefix = IpNet::V4(*prefix);
        let target = match targets.get(list) {
            Some(target) => RouteTarget::clone(target),
            None => match resolve_next_hops(interfaces, prefix, computed.next_hops(*list)) {
                Ok(target) => {
                    targets.insert(*list, target.clone());
                    target
                }
                Err(problem) => {
                    context.report_entry_contradiction(*problem);
                    return;
                }
            },
        };
        routes.push(StaticRoute {
            prefix,
            distance: DISTANCE_STATIC,
            target,
        });
    }
    routes.sort_by_key(|route| (route.prefix, route.distance));
}

/// Returns the target of a route with these next hops.
fn resolve_next_hops(
    interfaces: &Interfaces,
    prefix: IpNet,
    next_hops: &[Ipv4Addr],
) -> Result<RouteTarget, Box<Problem>> {
    if next_hops.is_empty() {
        return Ok(RouteTarget::Blackhole);
    }
    let path = |address: &Ipv4Addr| -> Result<RoutePath, Box<Problem>> {
        let address = IpAddr::V4(*address);
        let key = prefix.to_string();
        let refuse = |why: String| {
            let problem = Problem::at_field(ComputedRoutes::TABLES[0], &key, "nexthop", why);
            Box::new(problem.with_value(address.to_string()))
        };
        let interface = find_next_hop_interface(interfaces, prefix, address, None, &refuse)?;
        let next_hop = NextHop { interface, address };
        Ok(RoutePath { next_hop, weight: 1 })
    };
    Ok(RouteTarget::Via(
        next_hops.iter().map(path).collect::<Result<_, _>>()?,
    ))
}
