//! Which flows a new configuration places anew: those of groups whose scheme is another one.

use std::collections::BTreeMap;

use ipnet::IpNet;
use xoff_dataplane::config::{HashFields, InterfaceAttachment, SchemeConfig, SchemeKind, SwitchConfig};
use xoff_dataplane::route::{NextHop, Route, RouteTarget};

/// One line for each pair of schemes between which groups change.
pub(super) fn moves(old: &SwitchConfig, new: &SwitchConfig) -> Vec<String> {
    let before: BTreeMap<IpNet, SchemeConfig> = of_routes(old).collect();
    let mut changes: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let mut enter = |was: &SchemeConfig, is: &SchemeConfig, name: String| {
        if was != is {
            let same_name = was.name == is.name;
            let to = if same_name {
                format!("{} with other figures", is.name)
            } else {
                is.name.clone()
            };
            changes.entry((was.name.clone(), to)).or_default().push(name);
        }
    };
    for (prefix, is) in of_routes(new) {
        if let Some(was) = before.get(&prefix) {
            enter(was, &is, prefix.to_string());
        }
    }
    for (index, lag) in new.lags.iter().enumerate() {
        if let Some(old_index) = old.lags.iter().position(|other| other.name == lag.name) {
            enter(&of_lag(old, old_index), &of_lag(new, index), lag.name.clone());
        }
    }
    changes
        .into_iter()
        .map(|((was, is), names)| {
            let more = match names.len() {
                1 => String::new(),
                n => format!(" and {} more", n - 1),
            };
            format!(
                "load balancing of {}{more}: {was} becomes {is}, and flows are placed anew",
                names[0]
            )
        })
        .collect()
}

/// The scheme of each route with several next hops.
fn of_routes(config: &SwitchConfig) -> impl Iterator<Item = (IpNet, SchemeConfig)> {
    config
        .routing
        .fib
        .routes()
        .filter_map(|(route, _)| match &route.target {
            RouteTarget::Via(paths) if paths.len() > 1 => Some((route.prefix, of_route(config, route))),
            _ => None,
        })
}

/// The rule is the core's (`dataplane/src/balance/table.rs`): the route's own, a member's, the default.
fn of_route(config: &SwitchConfig, route: &Route) -> SchemeConfig {
    let RouteTarget::Via(paths) = &route.target else {
        return plain();
    };
    let mut of_members = paths.iter().map(|path| of_next_hop(config, path.next_hop));
    named(
        config,
        route.tag.scheme.or_else(|| of_members.find_map(|scheme| scheme)),
    )
}

fn of_next_hop(config: &SwitchConfig, hop: NextHop) -> Option<u16> {
    let told = config
        .balancing
        .next_hops
        .iter()
        .find(|told| told.address == hop.address);
    if let Some(scheme) = told.and_then(|told| told.scheme) {
        return Some(scheme);
    }
    let interface = config.routing.interfaces.get(hop.interface.index())?;
    let port = match interface.attachment {
        InterfaceAttachment::Port(port) => port,
        InterfaceAttachment::Lag(lag) => *config.lags.get(usize::from(lag))?.members.first()?,
        InterfaceAttachment::Vlan(_) | InterfaceAttachment::Loopback => return None,
    };
    config.balancing.ports.get(usize::from(port))?.scheme
}

fn of_lag(config: &SwitchConfig, index: usize) -> SchemeConfig {
    let own = config.balancing.lags.get(index).copied().flatten();
    let mut members = config.lags[index].members.iter();
    let of_port = |port: &u16| config.balancing.ports.get(usize::from(*port))?.scheme;
    named(config, own.or_else(|| members.find_map(of_port)))
}

fn named(config: &SwitchConfig, scheme: Option<u16>) -> SchemeConfig {
    let scheme = scheme.or(config.balancing.default_scheme);
    let scheme = scheme.and_then(|index| config.balancing.schemes.get(usize::from(index)));
    scheme.cloned().unwrap_or_else(plain)
}

/// What the router does by itself.
fn plain() -> SchemeConfig {
    SchemeConfig {
        hash: HashFields::FiveTuple,
        ..SchemeConfig::new("ecmp", SchemeKind::Hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_config::{ResolveOptions, load};

    fn config(tables: &str) -> SwitchConfig {
        let text = format!(
            r#"{{"INTERFACE": {{"Ethernet0": {{}}, "Ethernet0|10.1.0.0/31": {{}}, "Ethernet4": {{}}, "Ethernet4|10.1.0.2/31": {{}}}},
                "PORTCHANNEL": {{"PortChannel1": {{"admin_status": "up"}}}},
                "STATIC_ROUTE": {{"10.2.0.0/24": {{"nexthop": "10.1.0.1,10.1.0.3"}}, "10.3.0.0/24": {{"nexthop": "10.1.0.1,10.1.0.3"}},
                                  "10.4.0.0/24": {{"nexthop": "10.1.0.1"}}}}{tables}}}"#
        );
        let how = ResolveOptions {
            ports: vec!["Ethernet0".to_owned(), "Ethernet4".to_owned()],
            ..ResolveOptions::default()
        };
        load(&[("test", &text)], &how)
            .unwrap_or_else(|problems| panic!("{problems}"))
            .resolved
            .config
    }

    #[test]
    fn groups_that_change_their_scheme_are_named() {
        let (plain, drill) = (
            config(""),
            config(r#", "XOFF_LB": {"global": {"scheme": "drill"}}"#),
        );
        assert_eq!(moves(&plain, &plain), [""; 0]);
        assert_eq!(
            moves(&plain, &drill),
            ["load balancing of 10.2.0.0/24 and 2 more: ecmp becomes drill, and flows are placed anew"]
        );
        let one = config(
            r#", "XOFF_LB": {"global": {"scheme": "drill"}}, "XOFF_LB_GROUP": {"10.3.0.0/16": {"scheme": "letflow"}}"#,
        );
        assert_eq!(
            moves(&drill, &one),
            ["load balancing of 10.3.0.0/24: drill becomes letflow, and flows are placed anew"]
        );
        let figures = config(
            r#", "XOFF_LB": {"global": {"scheme": "drill"}}, "XOFF_LB_GROUP": {"10.3.0.0/16": {"scheme": "letflow"}},
               "XOFF_LB_SCHEME": {"letflow": {"idle_time": "5"}}"#,
        );
        assert_eq!(
            moves(&one, &figures),
            [
                "load balancing of 10.3.0.0/24: letflow becomes letflow with other figures, and flows are placed anew"
            ]
        );
    }
}
