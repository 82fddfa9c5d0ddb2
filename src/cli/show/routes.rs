//! `show ip route` and `show ipv6 route`, in the format of FRR.

use std::fmt::Write as _;

use super::{TableArguments, connect, print_with_reason};
use xoff_control::{AddressFamily, RouteEntry, RouteHop};
use xoff_telemetry::failure::{Exit, Failure};

const LEGEND_IPV4: &str = "\
Codes: K - kernel route, C - connected, L - local, S - static,
       R - RIP, O - OSPF, I - IS-IS, B - BGP, E - EIGRP, N - NHRP,
       T - Table, v - VNC, V - VNC-Direct, A - Babel, F - PBR,
       f - OpenFabric, t - Table-Direct,
       > - selected route, * - FIB route, q - queued, r - rejected, b - backup
       t - trapped, o - offload failure

IPv4 unicast VRF default:
";
const LEGEND_IPV6: &str = "\
Codes: K - kernel route, C - connected, L - local, S - static,
       R - RIPng, O - OSPFv3, I - IS-IS, B - BGP, N - NHRP,
       T - Table, v - VNC, V - VNC-Direct, A - Babel, F - PBR,
       f - OpenFabric, t - Table-Direct,
       > - selected route, * - FIB route, q - queued, r - rejected, b - backup
       t - trapped, o - offload failure

IPv6 unicast VRF default:
";

/// Runs `show ip route` or `show ipv6 route`.
pub(super) fn show_routes(family: AddressFamily, options: &TableArguments) -> Result<Exit, Failure> {
    let routes = connect(&options.target)?.routes(family)?;
    let family_name = match family {
        AddressFamily::Ipv4 => "IPv4",
        AddressFamily::Ipv6 => "IPv6",
    };
    let reason = format!(
        "the switch has no route of {family_name}: the configuration has no {family_name} address of an interface and no \
         {family_name} entry in STATIC_ROUTE"
    );
    let empty = routes.is_empty().then_some(reason.as_str());
    print_with_reason(options.json, &routes, empty, |routes| list_routes(family, routes))
}

fn list_routes(family: AddressFamily, routes: &[RouteEntry]) -> String {
    let mut text = match family {
        AddressFamily::Ipv4 => LEGEND_IPV4,
        AddressFamily::Ipv6 => LEGEND_IPV6,
    }
    .to_owned();
    for route in routes {
        append_route_lines(&mut text, route);
    }
    text
}

/// Appends a line for each next hop of a route. A blackhole route has no next hop; it gets a line only if it
/// is a static route.
fn append_route_lines(text: &mut String, route: &RouteEntry) {
    let (code, distance) = match route.protocol.as_str() {
        "local" => ('L', String::new()),
        "connected" => ('C', String::new()),
        _ => ('S', format!(" [{}/0]", route.distance)),
    };
    let selected = if route.selected { '>' } else { ' ' };
    let start = format!("{code}{selected}{{}} {}{distance}", route.prefix);
    let age = format_age(route.age_s);
    if route.blackhole && code == 'S' {
        let star = if route.selected { "*" } else { " " };
        let start = start.replace("{}", star);
        let _ = writeln!(text, "{start} unreachable (blackhole), weight 1, {age}");
    }
    for (index, hop) in route.next_hops.iter().enumerate() {
        let star = if route.selected && hop.active { "*" } else { " " };
        let start = match index {
            0 => start.replace("{}", star),
            // Further next hops are aligned below the first one. `{}` in `start` is one character longer than
            // the star that replaces it.
            _ => format!("  {star}{:width$}", "", width = start.chars().count() - 4),
        };
        let _ = writeln!(
            text,
            "{start} {}, weight {}, {age}",
            next_hop_text(hop),
            hop.weight
        );
    }
}

fn next_hop_text(hop: &RouteHop) -> String {
    let inactive = if hop.active { "" } else { " inactive" };
    match hop.address {
        Some(address) => format!("via {address}, {}{inactive}", hop.interface),
        None => format!("is directly connected, {}{inactive}", hop.interface),
    }
}

/// Formats an age like FRR: `00:12:34`, `1d02h03m`, `01w2d03h`.
fn format_age(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match days {
        0 => format!("{hours:02}:{:02}:{:02}", minutes % 60, seconds % 60),
        1..7 => format!("{days}d{:02}h{:02}m", hours % 24, minutes % 60),
        _ => format!("{:02}w{}d{:02}h", days / 7, days % 7, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(address: Option<&str>, interface: &str) -> RouteHop {
        RouteHop {
            address: address.map(|address| address.parse().expect("an address")),
            interface: interface.to_owned(),
            weight: 1,
            active: true,
        }
    }

    fn route(prefix: &str, protocol: &str, distance: u8, next_hops: Vec<RouteHop>) -> RouteEntry {
        RouteEntry {
            prefix: prefix.to_owned(),
            protocol: protocol.to_owned(),
            distance,
            selected: true,
            blackhole: next_hops.is_empty(),
            next_hops,
            age_s: 12,
        }
    }

    #[test]
    fn routes_have_the_format_of_frr() {
        let weighted = RouteHop {
            weight: 3,
            ..hop(Some("10.0.0.3"), "Ethernet4")
        };
        let down = RouteHop {
            active: false,
            ..hop(Some("10.0.0.5"), "Ethernet8")
        };
        let not_selected = RouteEntry {
            selected: false,
            ..route(
                "10.3.0.0/16",
                "static",
                10,
                vec![hop(Some("10.0.0.1"), "Ethernet0")],
            )
        };
        let routes = [
            route("0.0.0.0/0", "static", 1, vec![hop(Some("10.0.0.1"), "Ethernet0")]),
            route("10.0.0.0/31", "connected", 0, vec![hop(None, "Ethernet0")]),
            route("10.0.0.0/32", "local", 0, vec![hop(None, "Ethernet0")]),
            route(
                "10.2.0.0/16",
                "static",
                1,
                vec![hop(Some("10.0.0.1"), "Ethernet0"), weighted, down],
            ),
            not_selected,
            route("192.168.0.255/32", "connected", 0, vec![]),
            route("198.18.0.0/15", "static", 1, vec![]),
        ];
        let expected = format!(
            "{LEGEND_IPV4}\
S>* 0.0.0.0/0 [1/0] via 10.0.0.1, Ethernet0, weight 1, 00:00:12
C>* 10.0.0.0/31 is directly connected, Ethernet0, weight 1, 00:00:12
L>* 10.0.0.0/32 is directly connected, Ethernet0, weight 1, 00:00:12
S>* 10.2.0.0/16 [1/0] via 10.0.0.1, Ethernet0, weight 1, 00:00:12
  *                   via 10.0.0.3, Ethernet4, weight 3, 00:00:12
                      via 10.0.0.5, Ethernet8 inactive, weight 1, 00:00:12
S   10.3.0.0/16 [10/0] via 10.0.0.1, Ethernet0, weight 1, 00:00:12
S>* 198.18.0.0/15 [1/0] unreachable (blackhole), weight 1, 00:00:12
"
        );
        assert_eq!(list_routes(AddressFamily::Ipv4, &routes), expected);
    }

    #[test]
    fn ages_have_the_format_of_frr() {
        for (seconds, text) in [
            (0, "00:00:00"),
            (86_399, "23:59:59"),
            (86_400 + 7_380, "1d02h03m"),
            (9 * 86_400 + 10_800, "01w2d03h"),
        ] {
            assert_eq!(format_age(seconds), text);
        }
    }
}
