//! Static routes of the table `STATIC_ROUTE`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use xoff_dataplane::config::InterfaceAttachment;
use xoff_dataplane::ids::InterfaceId;
use xoff_dataplane::route::{DISTANCE_STATIC, NextHop, RoutePath, RouteTarget};

use super::addresses::{
    address_family, explain_invalid_host_address, explain_invalid_host_of_network, explain_unroutable_prefix,
    is_link_local,
};
use super::context::ResolveContext;
use super::interfaces::Interfaces;
use crate::problem::Problem;
use crate::schema;
use xoff_units::{count_noun, nearest_name};

const TABLE: &str = "STATIC_ROUTE";
const WEIGHT_TABLE: &str = "XOFF_ROUTE";
/// The VRF of the management network.
const MANAGEMENT_VRF: &str = "mgmt";
const MANAGEMENT_NOTE: &str = "no effect: the management network is outside the data path of a switch";

/// A static route. An entry of `STATIC_ROUTE` with next hops of several distances gives several routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticRoute {
    /// The destination prefix without host bits.
    pub prefix: IpNet,
    /// Administrative distance, 1 to 255. Of several routes to the same prefix, the route with the lowest
    /// distance is used.
    pub distance: u8,
    /// The target of the route: next hops, an interface, or a blackhole that drops all packets.
    pub target: RouteTarget,
}

/// One item of the lists of an entry. All lists have the same length, and items with the same index
/// belong together.
struct RouteItem {
    distance: u8,
    destination: RouteDestination,
}

/// The destination of one item: a blackhole, an interface without a next hop, or a next hop.
#[derive(Clone, Copy, PartialEq)]
enum RouteDestination {
    Blackhole,
    Interface(InterfaceId),
    Via(RoutePath),
}

/// An entry of `STATIC_ROUTE` with its lists.
struct RouteEntry<'a> {
    key: &'a str,
    prefix: IpNet,
    lists: [(&'static str, Vec<&'a str>); 5],
}

impl RouteEntry<'_> {
    /// Returns an item of a list. Returns `None` if the list or the item is empty.
    fn list_item(&self, field: &str, index: usize) -> Option<&str> {
        let (_, list) = self.lists.iter().find(|(name, _)| *name == field)?;
        list.get(index).copied().filter(|item| !item.is_empty())
    }

    /// Creates an error for a field of this entry.
    fn problem(&self, field: &str, why: impl Into<String>) -> Problem {
        Problem::at_field(TABLE, self.key, field, why)
    }
}

/// Resolves all static routes. The result is sorted by prefix and distance.
pub(super) fn resolve_static_routes(
    context: &mut ResolveContext<'_>,
    interfaces: &Interfaces,
) -> Vec<StaticRoute> {
    let db = context.db;
    let mut weights = read_weights(context);
    let mut routes: BTreeMap<IpNet, Vec<StaticRoute>> = BTreeMap::new();
    for (key, _) in db.entries(TABLE) {
        let (vrf, prefix) = key.split_once('|').unwrap_or(("default", key));
        let Some(written) = schema::parse_prefix(prefix) else {
            continue;
        };
        let prefix = written.trunc();
        if vrf == MANAGEMENT_VRF || uses_management_network(context, key) {
            context.warn_entry(TABLE, key, MANAGEMENT_NOTE);
            weights.remove(&prefix);
            continue;
        }
        if vrf != "default" {
            let why = format!("VRFs are not implemented, expected default|{prefix} or {prefix}");
            context.report_error_within_entry(Problem::at_field(TABLE, key, "", why));
            continue;
        }
        if written != prefix {
            let why = format!(
                "the prefix has bits set beyond its length: the route is to {prefix}, as FRR reads it"
            );
            context.warn_entry(TABLE, key, why);
        }
        if let Some(why) = explain_unroutable_prefix(prefix) {
            context.report_error_within_entry(Problem::at_field(TABLE, key, "", why));
            weights.remove(&prefix);
            continue;
        }
        let lists = ["nexthop", "ifname", "distance", "blackhole", "nexthop-vrf"].map(|field| {
            (
                field,
                schema::split_list(context.text(TABLE, key, field).unwrap_or("")).collect(),
            )
        });
        let entry = RouteEntry { key, prefix, lists };
        let weights = weights.remove(&prefix).unwrap_or_default();
        let Some(items) = resolve_items(context, interfaces, &entry, &weights) else {
            continue;
        };
        let by_distance = group_by_distance(context, &entry, &items);
        if routes.insert(prefix, by_distance).is_some() {
            let why = format!("there is a route to {prefix} already");
            context.report_error_within_entry(
                entry
                    .problem("", why)
                    .with_fix("use one entry with lists of next hops"),
            );
        }
    }
    for (prefix, (key, _)) in weights {
        let why = format!("there is no route to {prefix}");
        context.report_entry_contradiction(
            Problem::at_field(WEIGHT_TABLE, key, "", why).with_fix(format!("add {prefix} to {TABLE}")),
        );
    }
    routes.into_values().flatten().collect()
}

/// Returns whether all next hops of a route belong to the management network.
fn uses_management_network(context: &ResolveContext<'_>, key: &str) -> bool {
    let list = |field: &str| schema::split_list(context.text(TABLE, key, field).unwrap_or(""));
    let is_management = |name: &str| {
        context.db.entry("MGMT_PORT", name).is_some()
            || context
                .db
                .keys("MGMT_INTERFACE")
                .any(|key| key.split('|').next() == Some(name))
    };
    let by_vrf = list("nexthop-vrf").count() > 0 && list("nexthop-vrf").all(|vrf| vrf == MANAGEMENT_VRF);
    by_vrf || (list("ifname").count() > 0 && list("ifname").all(is_management))
}

/// Reads the entries of `XOFF_ROUTE`. Returns the key and the list of weights for each prefix.
fn read_weights<'a>(context: &mut ResolveContext<'a>) -> BTreeMap<IpNet, (&'a str, Vec<&'a str>)> {
    let db = context.db;
    let mut all = BTreeMap::new();
    for (key, _) in db.entries(WEIGHT_TABLE) {
        let Some(prefix) = schema::parse_prefix(key) else {
            continue;
        };
        let list = schema::split_list(context.text(WEIGHT_TABLE, key, "weight").unwrap_or("")).collect();
        if all.insert(prefix, (key, list)).is_some() {
            let why = format!("another entry has weights for {prefix}");
            context.report_error_within_entry(
                Problem::at_field(WEIGHT_TABLE, key, "", why).with_fix("remove one of them"),
            );
        }
    }
    all
}

/// Resolves the items of the lists of an entry, and their weights in `XOFF_ROUTE`. If an item is not valid,
/// reports an error and returns `None`.
fn resolve_items(
    context: &mut ResolveContext<'_>,
    interfaces: &Interfaces,
    entry: &RouteEntry<'_>,
    (weights_key, weights): &(&str, Vec<&str>),
) -> Option<Vec<RouteItem>> {
    let count = common_list_length(context, entry)?;
    if !weights.is_empty() && weights.len() != count {
        let weight_count = count_noun(weights.len() as u64, "weight");
        let why = format!("{weight_count} for {}", count_noun(count as u64, "next hop"));
        context.report_entry_contradiction(
            Problem::at_field(WEIGHT_TABLE, weights_key, "weight", why)
                .with_fix("one for each, in the order of STATIC_ROUTE"),
        );
    }
    let mut items: Vec<RouteItem> = Vec::with_capacity(count);
    let mut all_valid = true;
    for index in 0..count {
        let distance = match entry
            .list_item("distance", index)
            .and_then(|text| text.parse().ok())
        {
            // SONiC uses 0 for the default distance of FRR.
            None | Some(0) => DISTANCE_STATIC,
            Some(distance) => distance,
        };
        let weight = weights.get(index).and_then(|text| text.parse().ok()).unwrap_or(1);
        match resolve_destination(interfaces, entry, index, weight) {
            Ok(destination)
                if items
                    .iter()
                    .any(|other| is_same_destination(other.destination, destination)) =>
            {
                let why = format!("item {} occurs twice", index + 1);
                context.report_entry_contradiction(
                    entry
                        .problem("", why)
                        .with_fix("XOFF_ROUTE weight gives a next hop a larger share"),
                );
                all_valid = false;
            }
            Ok(destination) => items.push(RouteItem {
                distance,
                destination,
            }),
            Err(problem) => {
                context.report_entry_contradiction(*problem);
                all_valid = false;
            }
        }
    }
    all_valid.then_some(items)
}

/// Returns whether two destinations are equal apart from their weights.
fn is_same_destination(a: RouteDestination, b: RouteDestination) -> bool {
    match (a, b) {
        (RouteDestination::Via(a), RouteDestination::Via(b)) => a.next_hop == b.next_hop,
        (a, b) => a == b,
    }
}

/// Returns the common length of all lists that are not empty. If the lengths differ or all lists are empty,
/// reports an error and returns `None`.
fn common_list_length(context: &mut ResolveContext<'_>, entry: &RouteEntry<'_>) -> Option<usize> {
    let mut present = entry.lists.iter().filter(|(_, list)| !list.is_empty());
    let Some((first, list)) = present.next() else {
        let problem = entry.problem("", "the route has neither nexthop, ifname nor blackhole");
        context.report_error_within_entry(problem.with_fix("name a next hop, or set blackhole to \"true\""));
        return None;
    };
    if let Some((other, others)) = present.find(|(_, other)| other.len() != list.len()) {
        let why = format!(
            "the lists must have the same length, but {first} has {}, {other} {}",
            count_noun(list.len() as u64, "item"),
            others.len()
        );
        context.report_error_within_entry(
            entry
                .problem(other, why)
                .with_fix("give one item for each next hop; an empty item is the default"),
        );
        return None;
    }
    Some(list.len())
}

/// Resolves the destination of the item with this index.
fn resolve_destination(
    interfaces: &Interfaces,
    entry: &RouteEntry<'_>,
    index: usize,
    weight: u16,
) -> Result<RouteDestination, Box<Problem>> {
    let refuse =
        |field: &str, value: &str, why: String| Box::new(entry.problem(field, why).with_value(value));
    if let Some(vrf) = entry
        .list_item("nexthop-vrf", index)
        .filter(|vrf| *vrf != "default")
    {
        let why = "VRFs are not implemented, expected default".to_owned();
        return Err(refuse("nexthop-vrf", vrf, why));
    }
    // SONiC uses the unspecified address for routes to an interface.
    let next_hop = entry
        .list_item("nexthop", index)
        .and_then(|text| text.parse::<IpAddr>().ok())
        .filter(|address| !address.is_unspecified());
    let ifname = entry.list_item("ifname", index);
    if entry.list_item("blackhole", index) == Some("true") {
        return match next_hop {
            None => Ok(RouteDestination::Blackhole),
            Some(address) => Err(refuse(
                "blackhole",
                "true",
                format!("item {} has the next hop {address} too", index + 1),
            )),
        };
    }
    let interface = match ifname {
        None => None,
        Some(name) => Some(
            interfaces
                .find(name)
                .ok_or_else(|| unknown_interface_problem(interfaces, entry, name))?,
        ),
    };
    if let Some((_, config)) = interface
        && config.attachment == InterfaceAttachment::Loopback
    {
        let why = "no host is reachable through a loopback interface".to_owned();
        return Err(refuse("ifname", &config.name, why));
    }
    match (next_hop, interface) {
        (None, None) => {
            let why = format!("item {} has neither nexthop, ifname nor blackhole", index + 1);
            Err(Box::new(entry.problem("", why).with_fix("name a next hop")))
        }
        (None, Some((id, _))) => Ok(RouteDestination::Interface(id)),
        (Some(address), interface) => {
            let refuse = |why: String| refuse("nexthop", &address.to_string(), why);
            let named = interface.map(|(id, _)| id);
            let interface = find_next_hop_interface(interfaces, entry.prefix, address, named, &refuse)?;
            let next_hop = NextHop { interface, address };
            Ok(RouteDestination::Via(RoutePath { next_hop, weight }))
        }
    }
}

/// Creates the error for an unknown interface.
fn unknown_interface_problem(interfaces: &Interfaces, entry: &RouteEntry<'_>, name: &str) -> Box<Problem> {
    let names = interfaces.list.iter().map(|interface| interface.name.as_str());
    let fix = match nearest_name(name, names) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("add {name} to the table of its kind, such as INTERFACE"),
    };
    Box::new(
        entry
            .problem("ifname", "there is no such interface")
            .with_value(name)
            .with_fix(fix),
    )
}

/// Returns the interface of a next hop of the route to `prefix`. `named` is the interface in `ifname`, if given.
/// Returns an error, made by `refuse`, if the address is not a valid next hop, or if no network of an interface
/// contains it.
pub(super) fn find_next_hop_interface(
    interfaces: &Interfaces,
    prefix: IpNet,
    address: IpAddr,
    named: Option<InterfaceId>,
    refuse: &impl Fn(String) -> Box<Problem>,
) -> Result<InterfaceId, Box<Problem>> {
    if address.is_ipv4() != prefix.addr().is_ipv4() {
        let (want, is) = (address_family(prefix.addr()), address_family(address));
        return Err(refuse(format!(
            "an {is} next hop of an {want} route is not implemented"
        )));
    }
    if let Some(why) = explain_invalid_host_address(address) {
        return Err(refuse(format!("not a valid next hop: {why}")));
    }
    if let Some(owner) = interfaces.find_by_address(address) {
        return Err(refuse(format!(
            "not a valid next hop: {} has this address itself",
            owner.name
        )));
    }
    if is_link_local(address) && named.is_none() {
        let problem = refuse("a link-local next hop needs an interface".to_owned());
        return Err(Box::new(problem.with_fix("name the interface in ifname")));
    }
    let found = match named {
        None => interfaces.find_by_network(address),
        Some(id) => {
            let networks = interfaces.list[id.index()].addresses.iter();
            networks
                .copied()
                .filter(|network| network.contains(&address))
                .max_by_key(IpNet::prefix_len)
                .map(|network| (id, network))
        }
    };
    let Some((interface, network)) = found else {
        let place = match named {
            None => "any interface".to_owned(),
            Some(id) => interfaces.list[id.index()].name.clone(),
        };
        let problem = refuse(format!("off-link: it is in no network of {place}"));
        return Err(Box::new(
            problem.with_fix("name a router in the network of an interface"),
        ));
    };
    if let Some(why) = explain_invalid_host_of_network(address, network) {
        return Err(refuse(format!("not a valid next hop: {why}")));
    }
    let config = &interfaces.list[interface.index()];
    if config.attachment == InterfaceAttachment::Loopback {
        return Err(refuse(format!(
            "no host is reachable through {}, a loopback interface",
            config.name
        )));
    }
    Ok(interface)
}

/// Groups the items of an entry into one route for each distance. Only the items with the lowest distance are
/// used, so a warning reports the number of items with higher distances.
fn group_by_distance(
    context: &mut ResolveContext<'_>,
    entry: &RouteEntry<'_>,
    items: &[RouteItem],
) -> Vec<StaticRoute> {
    let mut distances: BTreeMap<u8, Vec<RouteDestination>> = BTreeMap::new();
    for item in items {
        distances.entry(item.distance).or_default().push(item.destination);
    }
    if let Some((lowest, used)) = distances.first_key_value().filter(|_| distances.len() > 1) {
        let text = format!(
            "{} of {} next hops have no effect: only those of the lowest distance ({lowest}) are used",
            items.len() - used.len(),
            items.len()
        );
        context.warn_entry(TABLE, entry.key, text);
    }
    let mut routes = Vec::with_capacity(distances.len());
    for (distance, destinations) in distances {
        match combine_destinations(&destinations) {
            Some(target) => routes.push(StaticRoute {
                prefix: entry.prefix,
                distance,
                target,
            }),
            None => {
                let why = "a blackhole, or an interface without a next hop, cannot share a route with other next hops";
                let problem = entry.problem("", why);
                context.report_entry_contradiction(
                    problem.with_fix("give it a distance of its own, or remove it"),
                );
            }
        }
    }
    routes
}

/// Combines the destinations of a route into one target. Returns `None` if a blackhole or an interface is
/// combined with other destinations.
fn combine_destinations(destinations: &[RouteDestination]) -> Option<RouteTarget> {
    let path = |destination: &RouteDestination| match destination {
        RouteDestination::Via(path) => Some(*path),
        _ => None,
    };
    match destinations {
        [RouteDestination::Blackhole] => Some(RouteTarget::Blackhole),
        [RouteDestination::Interface(id)] => Some(RouteTarget::Connected(*id)),
        destinations => Some(RouteTarget::Via(
            destinations.iter().map(path).collect::<Option<_>>()?,
        )),
    }
}

/// Warns about static routes to networks that are directly connected to an interface. The switch prefers the
/// connected route.
pub(super) fn warn_connected_networks(
    context: &mut ResolveContext<'_>,
    interfaces: &Interfaces,
    routes: &[StaticRoute],
) {
    let mut owners: BTreeMap<IpNet, &str> = BTreeMap::new();
    for interface in &interfaces.list {
        for network in &interface.addresses {
            owners.entry(network.trunc()).or_insert(&interface.name);
        }
    }
    for route in routes {
        if let Some(name) = owners.get(&route.prefix) {
            let text = format!("no effect: {name} is connected to this network");
            context.warn_entry(TABLE, &route.prefix.to_string(), text);
        }
    }
}
