//! Describes the flow moves that a new configuration causes. A load balancing group is a set of next hops
//! or LAG members. If the scheme of a group changes, flows of this group can move from one member to
//! another member.

use std::collections::BTreeMap;

use ipnet::IpNet;
use xoff_dataplane::config::{HashFields, InterfaceAttachment, SchemeConfig, SchemeKind, SwitchConfig};
use xoff_dataplane::route::{NextHop, Route, RouteTarget};

/// Returns one line for each pair of an old and a new scheme. The line names the first group that changes
/// from the old to the new scheme, and the number of further groups.
pub(super) fn describe_scheme_changes(old: &SwitchConfig, new: &SwitchConfig) -> Vec<String> {
    let old_schemes: BTreeMap<IpNet, SchemeConfig> = route_schemes(old).collect();
    let mut changes: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let mut add_change = |old_scheme: &SchemeConfig, new_scheme: &SchemeConfig, name: String| {
        if old_scheme != new_scheme {
            let same_name = old_scheme.name == new_scheme.name;
            let to = if same_name {
                format!("{} with other parameters", new_scheme.name)
            } else {
                new_scheme.name.clone()
            };
            changes
                .entry((old_scheme.name.clone(), to))
                .or_default()
                .push(name);
        }
    };
    for (prefix, new_scheme) in route_schemes(new) {
        if let Some(old_scheme) = old_schemes.get(&prefix) {
            add_change(old_scheme, &new_scheme, prefix.to_string());
        }
    }
    for (index, lag) in new.lags.iter().enumerate() {
        if let Some(old_index) = old.lags.iter().position(|other| other.name == lag.name) {
            add_change(
                &lag_scheme(old, old_index),
                &lag_scheme(new, index),
                lag.name.clone(),
            );
        }
    }
    changes
        .into_iter()
        .map(|((old_name, new_name), names)| {
            let more = match names.len() {
                1 => String::new(),
                n => format!(" and {} more", n - 1),
            };
            format!(
                "load balancing of {}{more}: {old_name} becomes {new_name}, and flows are assigned again",
                names[0]
            )
        })
        .collect()
}

/// Returns the load-balancing scheme of each route with several next hops.
fn route_schemes(config: &SwitchConfig) -> impl Iterator<Item = (IpNet, SchemeConfig)> {
    config
        .routing
        .fib
        .routes()
        .filter_map(|(route, _)| match &route.target {
            RouteTarget::Via(paths) if paths.len() > 1 => Some((route.prefix, route_scheme(config, route))),
            _ => None,
        })
}

/// Returns the load-balancing scheme of a route. The scheme of the route has priority, then the scheme of the
/// first member that has one, then the default. `dataplane/src/balance/table.rs` has the same rule.
fn route_scheme(config: &SwitchConfig, route: &Route) -> SchemeConfig {
    let RouteTarget::Via(paths) = &route.target else {
        return default_scheme();
    };
    let mut member_schemes = paths.iter().map(|path| next_hop_scheme(config, path.next_hop));
    scheme_or_default(
        config,
        route
            .tag
            .scheme
            .or_else(|| member_schemes.find_map(|scheme| scheme)),
    )
}

/// Returns the index of the scheme of a next hop. If the next hop has no scheme, returns the scheme of the
/// port to which the next hop is attached. Returns `None` if neither has a scheme.
fn next_hop_scheme(config: &SwitchConfig, hop: NextHop) -> Option<u16> {
    let settings = config
        .balancing
        .next_hops
        .iter()
        .find(|settings| settings.address == hop.address);
    if let Some(scheme) = settings.and_then(|settings| settings.scheme) {
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

/// Returns the scheme of a LAG. If the LAG has no scheme, returns the scheme of its first member that has
/// one, or else the default.
fn lag_scheme(config: &SwitchConfig, index: usize) -> SchemeConfig {
    let own = config.balancing.lags.get(index).copied().flatten();
    let mut members = config.lags[index].members.iter();
    let of_port = |port: &u16| config.balancing.ports.get(usize::from(*port))?.scheme;
    scheme_or_default(config, own.or_else(|| members.find_map(of_port)))
}

/// Returns the scheme with the index `scheme`, or the default scheme for `None`.
fn scheme_or_default(config: &SwitchConfig, scheme: Option<u16>) -> SchemeConfig {
    let scheme = scheme.or(config.balancing.default_scheme);
    let scheme = scheme.and_then(|index| config.balancing.schemes.get(usize::from(index)));
    scheme.cloned().unwrap_or_else(default_scheme)
}

/// Returns the scheme of a switch without the table `XOFF_LB`: a static hash of the five-tuple.
fn default_scheme() -> SchemeConfig {
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
        let options = ResolveOptions {
            ports: vec!["Ethernet0".to_owned(), "Ethernet4".to_owned()],
            ..ResolveOptions::default()
        };
        load(&[("test", &text)], &options)
            .unwrap_or_else(|problems| panic!("{problems}"))
            .resolved
            .config
    }

    #[test]
    fn groups_whose_scheme_changes_are_listed() {
        let (ecmp, drill) = (
            config(""),
            config(r#", "XOFF_LB": {"global": {"scheme": "drill"}}"#),
        );
        assert_eq!(describe_scheme_changes(&ecmp, &ecmp), [""; 0]);
        assert_eq!(
            describe_scheme_changes(&ecmp, &drill),
            ["load balancing of 10.2.0.0/24 and 2 more: ecmp becomes drill, and flows are assigned again"]
        );
        let group_scheme = config(
            r#", "XOFF_LB": {"global": {"scheme": "drill"}}, "XOFF_LB_GROUP": {"10.3.0.0/16": {"scheme": "letflow"}}"#,
        );
        assert_eq!(
            describe_scheme_changes(&drill, &group_scheme),
            ["load balancing of 10.3.0.0/24: drill becomes letflow, and flows are assigned again"]
        );
        let other_parameters = config(
            r#", "XOFF_LB": {"global": {"scheme": "drill"}}, "XOFF_LB_GROUP": {"10.3.0.0/16": {"scheme": "letflow"}},
               "XOFF_LB_SCHEME": {"letflow": {"idle_time": "5"}}"#,
        );
        assert_eq!(
            describe_scheme_changes(&group_scheme, &other_parameters),
            [
                "load balancing of 10.3.0.0/24: letflow becomes letflow with other parameters, and flows are assigned again"
            ]
        );
    }
}
