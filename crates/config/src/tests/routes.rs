//! Tests of `STATIC_ROUTE`, `XOFF_ROUTE`, `NEIGH`, `SWITCH_HASH` and the routing fields of `XOFF_SWITCH`.

use xoff_dataplane::route::RouteTarget;

use super::{load_config, load_errors, load_text, load_warnings};

const PORTS: [&str; 3] = ["Ethernet0", "Ethernet4", "Ethernet8"];

const INTERFACES: &str = r#"
    "INTERFACE": {"Ethernet0": {}, "Ethernet0|10.0.0.0/31": {}, "Ethernet0|2001:db8:0::1/64": {},
                  "Ethernet4": {}, "Ethernet4|10.0.0.2/31": {}, "Ethernet4|10.0.4.1/24": {},
                  "Ethernet8": {}},
    "LOOPBACK_INTERFACE": {"Loopback0": {}, "Loopback0|10.8.0.1/24": {}}"#;

fn config_text(more: &str) -> String {
    format!("{{{INTERFACES}, {more}}}")
}

/// Formats each static route as one line, with interfaces by their numbers.
#[track_caller]
fn route_lines(more: &str) -> Vec<String> {
    let loaded =
        load_text(&config_text(more), &PORTS).unwrap_or_else(|problems| panic!("refused:\n{problems}"));
    let line = |route: &crate::StaticRoute| {
        let target = match &route.target {
            RouteTarget::Local => "local".to_owned(),
            RouteTarget::Blackhole => "blackhole".to_owned(),
            RouteTarget::Connected(interface) => format!("interface {}", interface.0),
            RouteTarget::Via(paths) => {
                let path = |path: &xoff_dataplane::route::RoutePath| {
                    format!(
                        "{} at {} x{}",
                        path.next_hop.address, path.next_hop.interface.0, path.weight
                    )
                };
                paths.iter().map(path).collect::<Vec<_>>().join(", ")
            }
        };
        format!("{} [{}] {target}", route.prefix, route.distance)
    };
    loaded.resolved.static_routes.iter().map(line).collect()
}

#[test]
fn routes_with_one_and_several_next_hops_are_resolved() {
    let more = r#""STATIC_ROUTE": {
        "default|192.0.2.0/24": {"nexthop": "10.0.0.1,10.0.0.3", "ifname": "Ethernet0,Ethernet4", "distance": "0,0"},
        "0.0.0.0/0": {"nexthop": "10.0.0.1", "advertise": "false", "bfd": "false"},
        "198.51.100.0/24": {"nexthop": "10.0.0.1,10.0.4.7", "nexthop-vrf": "default,", "distance": "20,20"},
        "198.51.100.128/25": {"nexthop": ["10.0.0.1", "10.0.0.3"]},
        "203.0.113.0/24": {"blackhole": "true"},
        "203.0.114.0/24": {"nexthop": "0.0.0.0", "ifname": "Ethernet8"},
        "2001:db8:8::/48": {"nexthop": "2001:db8::2"},
        "2001:db8:9::/48": {"nexthop": "fe80::2", "ifname": "Ethernet0"}},
        "XOFF_ROUTE": {"198.51.100.0/24": {"weight": "3,"}}"#;
    assert_eq!(
        route_lines(more),
        [
            "0.0.0.0/0 [1] 10.0.0.1 at 0 x1",
            "192.0.2.0/24 [1] 10.0.0.1 at 0 x1, 10.0.0.3 at 1 x1",
            "198.51.100.0/24 [20] 10.0.0.1 at 0 x3, 10.0.4.7 at 1 x1",
            "198.51.100.128/25 [1] 10.0.0.1 at 0 x1, 10.0.0.3 at 1 x1",
            "203.0.113.0/24 [1] blackhole",
            "203.0.114.0/24 [1] interface 2",
            "2001:db8:8::/48 [1] 2001:db8::2 at 0 x1",
            "2001:db8:9::/48 [1] fe80::2 at 0 x1",
        ]
    );
}

#[test]
fn only_the_lowest_distance_is_used() {
    let more = r#""STATIC_ROUTE": {"192.0.2.0/24": {"nexthop": "10.0.0.1,10.0.0.3,", "distance": "10,1,250", "blackhole": "false,false,true"}}"#;
    assert_eq!(
        route_lines(more),
        [
            "192.0.2.0/24 [1] 10.0.0.3 at 1 x1",
            "192.0.2.0/24 [10] 10.0.0.1 at 0 x1",
            "192.0.2.0/24 [250] blackhole",
        ]
    );
    let fib = load_config(&config_text(more), &PORTS).routing.fib;
    assert_eq!(fib.next_hops().len(), 1, "only the nearest are looked up");
    let text = config_text(more);
    let said: Vec<String> = load_warnings(&text, &PORTS);
    assert!(
        said.contains(
            &"STATIC_ROUTE|192.0.2.0/24: 2 of 3 next hops have no effect: only those of the lowest distance (1) are used"
                .to_owned()
        ),
        "{said:?}"
    );
}

#[test]
fn routing_protocol_fields_are_noted() {
    let more = r#""STATIC_ROUTE": {"10.0.4.0/24": {"nexthop": "10.0.0.1", "advertise": "true"},
        "192.0.2.0/24": {"nexthop": "10.0.0.1,10.0.0.3", "bfd": "false,true"}}"#;
    let said: Vec<String> = load_warnings(&config_text(more), &PORTS)
        .into_iter()
        .filter(|line| line.contains("STATIC_ROUTE"))
        .collect();
    assert_eq!(
        said,
        [
            "no effect: STATIC_ROUTE advertise \"true\" (xoff runs no routing protocol); STATIC_ROUTE bfd \"false,true\" \
             (BFD is not implemented)",
            "STATIC_ROUTE|10.0.4.0/24: no effect: Ethernet4 is connected to this network",
        ]
    );
}

/// Asserts that each of these tables, added to the interfaces, is refused with this message.
#[track_caller]
fn assert_all_refused(cases: &[(&str, &str)]) {
    for (more, line) in cases {
        assert_eq!(load_errors(&config_text(more), &PORTS), [*line], "{more}");
    }
}

#[test]
fn longest_prefix_match_selects_the_route() {
    use xoff_dataplane::ids::InterfaceId;
    use xoff_dataplane::route::FibEntry;
    let more = r#""STATIC_ROUTE": {"0.0.0.0/0": {"nexthop": "10.0.0.1,10.0.0.3"}, "10.9.0.0/16": {"nexthop": "10.0.4.7"},
        "10.9.9.0/24": {"blackhole": "true"}}"#;
    let fib = load_config(&config_text(more), &PORTS).routing.fib;
    let find = |address: &str| fib.lookup(address.parse().expect("an address"));
    assert!(matches!(find("192.0.2.1"), Some(FibEntry::Group(_))));
    assert!(matches!(find("10.9.0.1"), Some(FibEntry::NextHop(_))));
    assert_eq!(find("10.9.9.1"), Some(FibEntry::Blackhole));
    assert_eq!(find("10.0.4.9"), Some(FibEntry::Connected(InterfaceId(1))));
    assert_eq!(find("10.0.0.2"), Some(FibEntry::Local));
    assert_eq!(
        find("10.8.0.9"),
        Some(FibEntry::Blackhole),
        "nobody is behind a loopback"
    );
    assert_eq!(find("2001:db8:9::1"), None);
}

#[test]
fn too_many_next_hops_are_refused() {
    let hops: Vec<String> = (2..=253)
        .flat_map(|b| (0..3).map(move |a| format!("10.77.{a}.{b}")))
        .collect();
    let text = format!(
        r#"{{"INTERFACE": {{"Ethernet0": {{}}, "Ethernet0|10.77.4.1/16": {{}}}},
            "STATIC_ROUTE": {{"10.9.0.0/16": {{"nexthop": "{}"}}}}}}"#,
        hops.join(",")
    );
    assert_eq!(
        load_errors(&text, &["Ethernet0"]),
        ["STATIC_ROUTE: 10.9.0.0/16: a route via more than 512 next hops"]
    );
}

#[test]
fn invalid_prefixes_and_lists_are_refused() {
    assert_all_refused(&[
        (
            r#""STATIC_ROUTE": {"224.0.0.0/4": {"nexthop": "10.0.0.1"}}"#,
            "STATIC_ROUTE|224.0.0.0/4: multicast is not routed",
        ),
        (
            r#""STATIC_ROUTE": {"fe80::/10": {"nexthop": "2001:db8::2"}}"#,
            "STATIC_ROUTE|fe80::/10: link-local addresses never leave their link",
        ),
        (
            r#""STATIC_ROUTE": {"Vrf1|10.9.0.0/24": {"nexthop": "10.0.0.1"}}"#,
            "STATIC_ROUTE|Vrf1|10.9.0.0/24: VRFs are not implemented, expected default|10.9.0.0/24 or 10.9.0.0/24",
        ),
        (
            r#""STATIC_ROUTE": {"10.9.0.0/24": {"nexthop": "10.0.0.1"}, "default|10.9.0.0/24": {"nexthop": "10.0.0.3"}}"#,
            "STATIC_ROUTE|default|10.9.0.0/24: there is a route to 10.9.0.0/24 already; use one entry with lists \
             of next hops",
        ),
        (
            r#""STATIC_ROUTE": {"10.9.0.0/24": {"nexthop": "10.0.0.1,10.0.0.3", "ifname": "Ethernet0"}}"#,
            "STATIC_ROUTE|10.9.0.0/24 ifname: the lists must have the same length, but nexthop has 2 items, ifname 1; give one \
             item for each next hop; an empty item is the default",
        ),
        (
            r#""STATIC_ROUTE": {"10.9.0.0/24": {}}"#,
            "STATIC_ROUTE|10.9.0.0/24: the route has neither nexthop, ifname nor blackhole; name \
             a next hop, or set blackhole to \"true\"",
        ),
        (
            r#""STATIC_ROUTE": {"10.9.0.0/24": {"nexthop": "10.0.0.1,"}}"#,
            "STATIC_ROUTE|10.9.0.0/24: item 2 has neither nexthop, ifname nor blackhole; name a next hop",
        ),
        (
            r#""STATIC_ROUTE": {"10.9.0.0/24": {"nexthop": "10.0.0.1,10.0.0.1"}}"#,
            "STATIC_ROUTE|10.9.0.0/24: item 2 occurs twice; XOFF_ROUTE weight gives a next hop a larger share",
        ),
        (
            r#""STATIC_ROUTE": {"10.9.0.0/24": {"nexthop": "10.0.0.1", "distance": "256"}}"#,
            "STATIC_ROUTE|10.9.0.0/24 distance \"256\": expected a whole number from 0 to 255; several separated by \
             commas",
        ),
        (
            r#""STATIC_ROUTE": {"10.9.0.0/24": {"nexthop": "10.0.0.1,", "blackhole": "false,true"}}"#,
            "STATIC_ROUTE|10.9.0.0/24: a blackhole, or an interface without a next hop, cannot share a route with \
             other next hops; give it a distance of its own, or remove it",
        ),
        (
            r#""STATIC_ROUTE": {"10.9.0.0/24": {"nexthop": "10.0.0.1", "blackhole": "true"}}"#,
            "STATIC_ROUTE|10.9.0.0/24 blackhole \"true\": item 1 has the next hop 10.0.0.1 too",
        ),
        (
            r#""XOFF_ROUTE": {"10.9.0.0/24": {"weight": "1"}}"#,
            "XOFF_ROUTE|10.9.0.0/24: there is no route to 10.9.0.0/24; add 10.9.0.0/24 to STATIC_ROUTE",
        ),
        (
            r#""STATIC_ROUTE": {"10.9.0.0/24": {"nexthop": "10.0.0.1,10.0.0.3"}}, "XOFF_ROUTE": {"10.9.0.0/24": {"weight": "1"}}"#,
            "XOFF_ROUTE|10.9.0.0/24 weight: 1 weight for 2 next hops; one for each, in the order of STATIC_ROUTE",
        ),
    ]);
}

#[test]
fn invalid_next_hops_are_refused() {
    let via = |nexthop: &str, ifname: &str, why: &str| {
        let more =
            format!(r#""STATIC_ROUTE": {{"10.9.0.0/24": {{"nexthop": "{nexthop}", "ifname": "{ifname}"}}}}"#);
        let line = format!("STATIC_ROUTE|10.9.0.0/24 {why}");
        assert_eq!(load_errors(&config_text(&more), &PORTS), [line], "{more}");
    };
    let off_link = "name a router in the network of an interface";
    via(
        "10.5.0.1",
        "",
        &format!("nexthop \"10.5.0.1\": off-link: it is in no network of any interface; {off_link}"),
    );
    via(
        "10.0.0.3",
        "Ethernet0",
        &format!("nexthop \"10.0.0.3\": off-link: it is in no network of Ethernet0; {off_link}"),
    );
    via(
        "10.0.0.0",
        "",
        "nexthop \"10.0.0.0\": not a valid next hop: Ethernet0 has this address itself",
    );
    via(
        "10.0.4.0",
        "",
        "nexthop \"10.0.4.0\": not a valid next hop: it is the network address of 10.0.4.0/24",
    );
    via(
        "10.0.4.255",
        "Ethernet4",
        "nexthop \"10.0.4.255\": not a valid next hop: it is the broadcast address of 10.0.4.0/24",
    );
    via(
        "224.0.0.1",
        "",
        "nexthop \"224.0.0.1\": not a valid next hop: it is a multicast address",
    );
    via(
        "127.0.0.1",
        "",
        "nexthop \"127.0.0.1\": not a valid next hop: it is a loopback address, which never leaves a host",
    );
    via(
        "250.0.0.1",
        "",
        "nexthop \"250.0.0.1\": not a valid next hop: it is reserved (class E)",
    );
    via(
        "2001:db8::2",
        "",
        "nexthop \"2001:db8::2\": an IPv6 next hop of an IPv4 route is not implemented",
    );
    via(
        "10.8.0.2",
        "",
        "nexthop \"10.8.0.2\": no host is reachable through Loopback0, a loopback interface",
    );
    via(
        "10.0.0.1",
        "Loopback0",
        "ifname \"Loopback0\": no host is reachable through a loopback interface",
    );
    via(
        "10.0.0.1",
        "Ethernet1",
        "ifname \"Ethernet1\": there is no such interface; add Ethernet1 to the table of its kind, such as INTERFACE",
    );
    via(
        "10.0.0.1",
        "Vlan10",
        "ifname \"Vlan10\": there is no such interface; add Vlan10 to the table of its kind, such as INTERFACE",
    );
}

#[test]
fn ambiguous_next_hops_are_refused() {
    assert_all_refused(&[
        (
            r#""STATIC_ROUTE": {"2001:db8:9::/48": {"nexthop": "fe80::2"}}"#,
            "STATIC_ROUTE|2001:db8:9::/48 nexthop \"fe80::2\": a link-local next hop needs an interface; \
             name the interface in ifname",
        ),
        (
            r#""STATIC_ROUTE": {"2001:db8:9::/48": {"nexthop": "::ffff:10.0.0.1"}}"#,
            "STATIC_ROUTE|2001:db8:9::/48 nexthop \"::ffff:10.0.0.1\": not a valid next hop: it is an IPv4-mapped IPv6 address, \
             which is not used on links",
        ),
        (
            r#""STATIC_ROUTE": {"10.9.0.0/24": {"nexthop": "10.0.0.1", "nexthop-vrf": "Vrf2"}}"#,
            "STATIC_ROUTE|10.9.0.0/24 nexthop-vrf \"Vrf2\": VRFs are not implemented, expected default",
        ),
    ]);
}

#[test]
fn static_neighbours_are_resolved() {
    let more = r#""NEIGH": {"Ethernet0|10.0.0.1": {"neigh": "02:00:00:00:00:01", "family": "IPv4"},
        "Ethernet0|fe80::1": {"neigh": "02:00:00:00:00:02", "family": "IPV6"}, "Ethernet4|10.0.4.9": {}}"#;
    let text = config_text(more);
    let neighbours = load_config(&text, &PORTS).routing.neighbours;
    let told: Vec<_> = neighbours
        .iter()
        .map(|n| (n.interface.0, n.address.to_string(), n.mac[5]))
        .collect();
    assert_eq!(
        told,
        [(0, "10.0.0.1".to_owned(), 1), (0, "fe80::1".to_owned(), 2)]
    );
    assert!(load_warnings(&text, &PORTS).contains(
        &"NEIGH|Ethernet4|10.0.4.9: no effect without neigh: the switch resolves a neighbour when a packet needs its address".to_owned()
    ));
}

#[test]
fn invalid_neighbours_are_refused() {
    assert_all_refused(&[
        (
            r#""NEIGH": {"Vlan10|10.0.0.1": {"neigh": "02:00:00:00:00:01"}}"#,
            "NEIGH|Vlan10|10.0.0.1: there is no interface Vlan10; add Vlan10 to the table of its kind, such as INTERFACE",
        ),
        (
            r#""NEIGH": {"Ethernet0|10.0.0.3": {"neigh": "02:00:00:00:00:01"}}"#,
            "NEIGH|Ethernet0|10.0.0.3: 10.0.0.3 cannot be a neighbour of Ethernet0: it is in no network of the interface; name a \
             host in a network of the interface",
        ),
        (
            r#""NEIGH": {"Ethernet0|10.0.0.0": {"neigh": "02:00:00:00:00:01"}}"#,
            "NEIGH|Ethernet0|10.0.0.0: 10.0.0.0 cannot be a neighbour of Ethernet0: Ethernet0 has this address itself; \
             name a host in a network of the interface",
        ),
        (
            r#""NEIGH": {"Ethernet0|10.0.0.1": {"neigh": "01:00:00:00:00:01"}}"#,
            "NEIGH|Ethernet0|10.0.0.1 neigh \"01:00:00:00:00:01\": expected a unicast MAC address such as \
             02:00:00:00:10:01",
        ),
        (
            r#""NEIGH": {"Ethernet0|10.0.0.1": {"neigh": "02:00:00:00:00:01", "family": "IPv6"}}"#,
            "NEIGH|Ethernet0|10.0.0.1 family \"IPv6\": the address is of family IPv4",
        ),
        (
            r#""NEIGH": {"Ethernet0|10.0.0.1": {"neigh": "02:00:00:00:00:01"}, "Ethernet4|10.0.0.3": {"neigh": "02:00:00:00:00:01"}},
               "XOFF_SWITCH": {"localhost": {"neighbours": "1"}}"#,
            "XOFF_SWITCH|localhost neighbours: NEIGH has 2 neighbours, but the limit is 1; raise neighbours",
        ),
    ]);
}

#[test]
fn hash_field_lists_other_than_the_five_tuple_are_noted() {
    let hash = |list: &str| format!(r#"{{"SWITCH_HASH": {{"GLOBAL": {{{list}}}}}}}"#);
    let five = r#"["SRC_IP", "DST_IP", "IP_PROTOCOL", "L4_SRC_PORT", "L4_DST_PORT"]"#;
    let silent = hash(&format!(
        r#""ecmp_hash": {five}, "lag_hash": "DST_IP,SRC_IP,L4_DST_PORT,L4_SRC_PORT,IP_PROTOCOL""#
    ));
    assert_eq!(load_warnings(&silent, &["Ethernet0"]), Vec::<String>::new());
    let other = hash(r#""lag_hash": ["SRC_IP", "DST_IP"], "ecmp_hash_algorithm": "CRC""#);
    assert_eq!(
        load_warnings(&other, &["Ethernet0"]),
        [
            "no effect: SWITCH_HASH ecmp_hash_algorithm (there is one hash function, with the seed XOFF_SWITCH hash_seed)",
            "SWITCH_HASH|GLOBAL: lag_hash \"SRC_IP,DST_IP\" has no effect: the hash fields are DST_IP, IP_PROTOCOL, \
             L4_DST_PORT, L4_SRC_PORT, SRC_IP, and for RoCEv2 also RDMA_BTH_DEST_QP if it is listed",
        ]
    );
    let wrong = load_errors(&hash(r#""ecmp_hash": ["SRC_IPS"]"#), &["Ethernet0"]);
    assert!(
        wrong[0].starts_with("SWITCH_HASH|GLOBAL ecmp_hash \"SRC_IPS\": expected a list of IN_PORT, DST_MAC")
    );
}

#[test]
fn routing_limits_and_hash_seed_are_resolved() {
    let text = r#"{"XOFF_SWITCH": {"localhost": {"hash_seed": "7", "resilient_buckets": "128", "neighbours": "16",
        "neighbour_hold": "0", "icmp_rate": "0"}}}"#;
    let routing = load_config(text, &["Ethernet0"]).routing;
    assert_eq!((routing.hash_seed, routing.resilient_buckets), (7, Some(128)));
    assert_eq!(
        (
            routing.neighbours_max,
            routing.hold_frames,
            routing.icmp_errors_per_second
        ),
        (16, 0, 0)
    );
    let seed_of = |text: &str| load_config(text, &["Ethernet0"]).routing.hash_seed;
    let leaf = |n: u8| format!(r#"{{"DEVICE_METADATA": {{"localhost": {{"hostname": "leaf{n}"}}}}}}"#);
    assert_eq!(seed_of(&leaf(1)), seed_of(&leaf(1)));
    assert_ne!(
        seed_of(&leaf(1)),
        seed_of(&leaf(2)),
        "switches of one lab choose differently"
    );
    let off = load_config(
        r#"{"XOFF_SWITCH": {"localhost": {"resilient_buckets": "0"}}}"#,
        &[],
    );
    assert_eq!(off.routing.resilient_buckets, None);
}
