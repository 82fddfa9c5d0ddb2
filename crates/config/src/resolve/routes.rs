//! Static routes of the table `STATIC_ROUTE`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use xoff_dataplane::config::Attachment;
use xoff_dataplane::ids::InterfaceId;
use xoff_dataplane::route::{DISTANCE_STATIC, NextHop, Path, Target};

use super::addresses::{family, is_link_local, not_a_host, not_of_network, not_routable};
use super::context::Context;
use super::interfaces::Interfaces;
use crate::problem::Problem;
use crate::schema;

const TABLE: &str = "STATIC_ROUTE";
const WEIGHTS: &str = "XOFF_ROUTE";
/// The VRF of the management network.
const MANAGEMENT_VRF: &str = "mgmt";
const MANAGEMENT: &str = "no effect: the management network is outside the data path of a switch";

/// A static route. An entry with next hops of several distances gives several routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticRoute {
    /// The destination prefix without host bits.
    pub prefix: IpNet,
    /// Administrative distance. Among routes to the same prefix, the lowest distance is preferred.
    pub distance: u8,
    /// The next hops, the interface or the blackhole of the route.
    pub target: Target,
}

/// One item of the parallel lists of a route.
struct Item {
    distance: u8,
    way: Way,
}

/// The destination of one item.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Blackhole,
    Interface(InterfaceId),
    Via(Path),
}

/// An entry of `STATIC_ROUTE` with its lists.
struct Entry<'a> {
    key: &'a str,
    prefix: IpNet,
    lists: [(&'static str, Vec<&'a str>); 5],
}

impl Entry<'_> {
    /// Returns an item of a list, or `None` if the list or the item is empty.
    fn item(&self, field: &str, at: usize) -> Option<&str> {
        let (_, list) = self.lists.iter().find(|(name, _)| *name == field)?;
        list.get(at).copied().filter(|item| !item.is_empty())
    }

    /// Creates an error for a field of this entry.
    fn problem(&self, field: &str, why: impl Into<String>) -> Problem {
        Problem::at(TABLE, self.key, field, why)
    }
}

/// Resolves all static routes.
pub(super) fn resolve(context: &mut Context<'_>, interfaces: &Interfaces) -> Vec<StaticRoute> {
    let db = context.db;
    let mut weights = weights(context);
    let mut routes: BTreeMap<IpNet, Vec<StaticRoute>> = BTreeMap::new();
    for (key, _) in db.entries(TABLE) {
        let (vrf, prefix) = key.split_once('|').unwrap_or(("default", key));
        let Some(written) = schema::parse_prefix(prefix) else {
            continue;
        };
        let prefix = written.trunc();
        if vrf == MANAGEMENT_VRF || leaves_by_management(context, key) {
            context.warn_entry(TABLE, key, MANAGEMENT);
            weights.remove(&prefix);
            continue;
        }
        if vrf != "default" {
            let why = format!("VRFs are not implemented, expected default|{prefix} or {prefix}");
            context.own_problem(Problem::at(TABLE, key, "", why));
            continue;
        }
        if written != prefix {
            let why = format!(
                "the prefix has bits set beyond its length: the route is to {prefix}, as FRR reads it"
            );
            context.warn_entry(TABLE, key, why);
        }
        if let Some(why) = not_routable(prefix) {
            context.own_problem(Problem::at(TABLE, key, "", why));
            weights.remove(&prefix);
            continue;
        }
        let lists = ["nexthop", "ifname", "distance", "blackhole", "nexthop-vrf"].map(|field| {
            (
                field,
                schema::items(context.text(TABLE, key, field).unwrap_or("")).collect(),
            )
        });
        let entry = Entry { key, prefix, lists };
        let weights = weights.remove(&prefix).unwrap_or_default();
        let Some(items) = items(context, interfaces, &entry, &weights) else {
            continue;
        };
        let by_distance = by_distance(context, &entry, &items);
        if routes.insert(prefix, by_distance).is_some() {
            let why = format!("there is a route to {prefix} already");
            context.own_problem(
                entry
                    .problem("", why)
                    .fix("make it one, several next hops are lists"),
            );
        }
    }
    for (prefix, (key, _)) in weights {
        let why = format!("there is no route to {prefix}");
        context.problem(Problem::at(WEIGHTS, key, "", why).fix(format!("add {prefix} to {TABLE}")));
    }
    let routes: Vec<StaticRoute> = routes.into_values().flatten().collect();
    hidden(context, interfaces, &routes);
    routes
}

/// Whether all next hops of a route belong to the management network.
fn leaves_by_management(context: &Context<'_>, key: &str) -> bool {
    let list = |field: &str| schema::items(context.text(TABLE, key, field).unwrap_or(""));
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

/// Reads the weights and keys of `XOFF_ROUTE` by prefix.
fn weights<'a>(context: &mut Context<'a>) -> BTreeMap<IpNet, (&'a str, Vec<&'a str>)> {
    let db = context.db;
    let mut all = BTreeMap::new();
    for (key, _) in db.entries(WEIGHTS) {
        let Some(prefix) = schema::parse_prefix(key) else {
            continue;
        };
        let list = schema::items(context.text(WEIGHTS, key, "weight").unwrap_or("")).collect();
        if all.insert(prefix, (key, list)).is_some() {
            let why = format!("there are weights for {prefix} already");
            context.own_problem(Problem::at(WEIGHTS, key, "", why).fix("make it one"));
        }
    }
    all
}

/// Resolves the items of the parallel lists. Returns `None` after an error.
fn items(
    context: &mut Context<'_>,
    interfaces: &Interfaces,
    entry: &Entry<'_>,
    (weights_key, weights): &(&str, Vec<&str>),
) -> Option<Vec<Item>> {
    let count = length(context, entry)?;
    if !weights.is_empty() && weights.len() != count {
        let why = format!("{} weights for {count} next hops", weights.len());
        context.problem(
            Problem::at(WEIGHTS, weights_key, "weight", why)
                .fix("one for each, in the order of STATIC_ROUTE"),
        );
    }
    let mut items: Vec<Item> = Vec::with_capacity(count);
    let mut whole = true;
    for at in 0..count {
        let distance = match entry.item("distance", at).and_then(|text| text.parse().ok()) {
            // SONiC uses 0 for the default distance of FRR.
            None | Some(0) => DISTANCE_STATIC,
            Some(distance) => distance,
        };
        let weight = weights.get(at).and_then(|text| text.parse().ok()).unwrap_or(1);
        match way(interfaces, entry, at, weight) {
            Ok(way) if items.iter().any(|other| same_way(other.way, way)) => {
                let why = format!("item {} is there twice", at + 1);
                context.problem(
                    entry
                        .problem("", why)
                        .fix("XOFF_ROUTE weight gives a next hop a larger share"),
                );
                whole = false;
            }
            Ok(way) => items.push(Item { distance, way }),
            Err(problem) => {
                context.problem(*problem);
                whole = false;
            }
        }
    }
    whole.then_some(items)
}

/// Whether two destinations are equal apart from their weights.
fn same_way(a: Way, b: Way) -> bool {
    match (a, b) {
        (Way::Via(a), Way::Via(b)) => a.next_hop == b.next_hop,
        (a, b) => a == b,
    }
}

/// Returns the common length of all lists that are not empty.
fn length(context: &mut Context<'_>, entry: &Entry<'_>) -> Option<usize> {
    let mut present = entry.lists.iter().filter(|(_, list)| !list.is_empty());
    let Some((first, list)) = present.next() else {
        let problem = entry.problem(
            "",
            "the route leads nowhere: there is neither nexthop, ifname nor blackhole",
        );
        context.own_problem(problem.fix("name a next hop, or say blackhole \"true\""));
        return None;
    };
    if let Some((other, others)) = present.find(|(_, other)| other.len() != list.len()) {
        let why = format!(
            "the lists must be in step, and {first} has {} items, {other} {}",
            list.len(),
            others.len()
        );
        context.own_problem(
            entry
                .problem(other, why)
                .fix("one item for each next hop; an empty one is the default"),
        );
        return None;
    }
    Some(list.len())
}

/// Resolves the destination of the item with this index.
fn way(interfaces: &Interfaces, entry: &Entry<'_>, at: usize, weight: u16) -> Result<Way, Box<Problem>> {
    let refuse = |field: &str, value: &str, why: String| Box::new(entry.problem(field, why).value(value));
    if let Some(vrf) = entry.item("nexthop-vrf", at).filter(|vrf| *vrf != "default") {
        let why = "VRFs are not implemented, expected default".to_owned();
        return Err(refuse("nexthop-vrf", vrf, why));
    }
    // SONiC uses the unspecified address for routes to an interface.
    let next_hop = entry
        .item("nexthop", at)
        .and_then(|text| text.parse::<IpAddr>().ok())
        .filter(|address| !address.is_unspecified());
    let ifname = entry.item("ifname", at);
    if entry.item("blackhole", at) == Some("true") {
        return match next_hop {
            None => Ok(Way::Blackhole),
            Some(address) => Err(refuse(
                "blackhole",
                "true",
                format!("item {} has the next hop {address} too", at + 1),
            )),
        };
    }
    let interface = match ifname {
        None => None,
        Some(name) => Some(
            interfaces
                .find(name)
                .ok_or_else(|| no_interface(interfaces, entry, name))?,
        ),
    };
    if let Some((_, config)) = interface
        && config.attachment == Attachment::Loopback
    {
        let why = "there is nobody behind a loopback interface".to_owned();
        return Err(refuse("ifname", &config.name, why));
    }
    match (next_hop, interface) {
        (None, None) => {
            let why = format!("item {} has neither nexthop, ifname nor blackhole", at + 1);
            Err(Box::new(entry.problem("", why).fix("name a next hop")))
        }
        (None, Some((id, _))) => Ok(Way::Interface(id)),
        (Some(address), interface) => {
            let interface = neighbour(interfaces, entry, address, interface.map(|(id, _)| id))?;
            let next_hop = NextHop { interface, address };
            Ok(Way::Via(Path { next_hop, weight }))
        }
    }
}

/// Creates the error for an unknown interface.
fn no_interface(interfaces: &Interfaces, entry: &Entry<'_>, name: &str) -> Box<Problem> {
    let names = interfaces.list.iter().map(|interface| interface.name.as_str());
    let fix = match schema::nearest(name, names) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("add {name} to the table of its kind, such as INTERFACE"),
    };
    Box::new(
        entry
            .problem("ifname", "there is no such interface")
            .value(name)
            .fix(fix),
    )
}

/// Returns the interface of a next hop. `named` is the interface in `ifname`.
fn neighbour(
    interfaces: &Interfaces,
    entry: &Entry<'_>,
    address: IpAddr,
    named: Option<InterfaceId>,
) -> Result<InterfaceId, Box<Problem>> {
    let refuse = |why: String| Box::new(entry.problem("nexthop", why).value(address.to_string()));
    if address.is_ipv4() != entry.prefix.addr().is_ipv4() {
        let (want, is) = (family(entry.prefix.addr()), family(address));
        return Err(refuse(format!(
            "an {is} next hop of an {want} route is not implemented"
        )));
    }
    if let Some(why) = not_a_host(address) {
        return Err(refuse(format!("no next hop: {why}")));
    }
    if let Some(owner) = interfaces.owner(address) {
        return Err(refuse(format!(
            "no next hop: {} has this address itself",
            owner.name
        )));
    }
    if is_link_local(address) && named.is_none() {
        let problem = refuse("a link-local address says nothing without its interface".to_owned());
        return Err(Box::new(problem.fix("name it in ifname")));
    }
    let found = match named {
        None => interfaces.towards(address),
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
            problem.fix("name a router in the network of an interface"),
        ));
    };
    if let Some(why) = not_of_network(address, network) {
        return Err(refuse(format!("no next hop: {why}")));
    }
    let config = &interfaces.list[interface.index()];
    if config.attachment == Attachment::Loopback {
        return Err(refuse(format!(
            "there is nobody behind {}, a loopback interface",
            config.name
        )));
    }
    Ok(interface)
}

/// Groups items by distance. Only the routes with the lowest distance are used, because no event makes
/// others active.
fn by_distance(context: &mut Context<'_>, entry: &Entry<'_>, items: &[Item]) -> Vec<StaticRoute> {
    let mut distances: BTreeMap<u8, Vec<Way>> = BTreeMap::new();
    for item in items {
        distances.entry(item.distance).or_default().push(item.way);
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
    for (distance, ways) in distances {
        match target(&ways) {
            Some(target) => routes.push(StaticRoute {
                prefix: entry.prefix,
                distance,
                target,
            }),
            None => {
                let why =
                    "a blackhole, or an interface without a next hop, cannot share a route with other ways";
                let problem = entry.problem("", why);
                context.problem(problem.fix("give it a distance of its own, or remove it"));
            }
        }
    }
    routes
}

/// Combines destinations into one target. Returns `None` if they exclude each other.
fn target(ways: &[Way]) -> Option<Target> {
    let path = |way: &Way| match way {
        Way::Via(path) => Some(*path),
        _ => None,
    };
    match ways {
        [Way::Blackhole] => Some(Target::Blackhole),
        [Way::Interface(id)] => Some(Target::Connected(*id)),
        ways => Some(Target::Via(ways.iter().map(path).collect::<Option<_>>()?)),
    }
}

/// Warns about routes to a network that is connected to an interface, because the connected route is
/// preferred.
fn hidden(context: &mut Context<'_>, interfaces: &Interfaces, routes: &[StaticRoute]) {
    for route in routes {
        let same = |net: &&IpNet| net.trunc() == route.prefix;
        let has = |interface: &&xoff_dataplane::config::InterfaceConfig| {
            interface.addresses.iter().any(|net| same(&net))
        };
        if let Some(interface) = interfaces.list.iter().find(has) {
            let text = format!("no effect: {} is connected to this network", interface.name);
            context.warn_entry(TABLE, &route.prefix.to_string(), text);
        }
    }
}
