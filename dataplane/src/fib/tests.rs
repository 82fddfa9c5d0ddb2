use super::*;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn next_hop(number: u8) -> NextHop {
    NextHop {
        interface: InterfaceId(u16::from(number)),
        address: IpAddr::from([10, 255, number, 1]),
    }
}

/// A route with the given next hops, each with weight 1.
fn route_via(prefix: &str, numbers: &[u8]) -> Route {
    weighted_route(
        prefix,
        &numbers.iter().map(|&number| (number, 1)).collect::<Vec<_>>(),
    )
}

fn weighted_route(prefix: &str, paths: &[(u8, u16)]) -> Route {
    let path = |&(number, weight): &(u8, u16)| RoutePath {
        next_hop: next_hop(number),
        weight,
    };
    Route {
        prefix: net(prefix),
        target: RouteTarget::Via(paths.iter().map(path).collect()),
        tag: RouteTag::default(),
    }
}

fn lookup(fib: &Fib, address: &str) -> Option<FibEntry> {
    fib.lookup(address.parse().unwrap())
}

fn group_of_address(fib: &Fib, address: &str) -> GroupId {
    match lookup(fib, address) {
        Some(FibEntry::Group(group)) => group,
        other => panic!("{address}: {other:?}"),
    }
}

#[test]
fn every_kind_of_target_is_looked_up() {
    let routes = [
        (net("0.0.0.0/0"), RouteTarget::Blackhole),
        (net("10.0.0.0/24"), RouteTarget::Connected(InterfaceId(7))),
        (net("10.0.0.1/32"), RouteTarget::Local),
        (net("2001:db8::/32"), RouteTarget::Blackhole),
        (
            net("2001:db8:1::/64"),
            RouteTarget::Connected(InterfaceId(65_535)),
        ),
        (net("2001:db8:1::1/128"), RouteTarget::Local),
    ]
    .map(|(prefix, target)| Route {
        prefix,
        target,
        tag: RouteTag::default(),
    });
    let gateway = [route_via("10.1.0.0/16", &[3]), route_via("10.2.0.0/16", &[3, 2])];
    let fib = Fib::build(routes.into_iter().chain(gateway)).unwrap();
    for (address, entry) in [
        ("1.2.3.4", Some(FibEntry::Blackhole)),
        ("10.0.0.2", Some(FibEntry::Connected(InterfaceId(7)))),
        ("10.0.0.1", Some(FibEntry::Local)),
        ("10.1.2.3", Some(FibEntry::NextHop(NextHopId(1)))),
        ("10.2.2.3", Some(FibEntry::Group(GroupId(0)))),
        ("2001:db8::1", Some(FibEntry::Blackhole)),
        ("2001:db8:1::7", Some(FibEntry::Connected(InterfaceId(65_535)))),
        ("2001:db8:1::1", Some(FibEntry::Local)),
        ("2001:db9::1", None),
    ] {
        assert_eq!(lookup(&fib, address), entry, "{address}");
    }
    assert_eq!(fib.next_hops(), [next_hop(2), next_hop(3)]);
}

#[test]
fn routes_are_sorted_and_have_no_host_bits() {
    let fib = Fib::build(
        [
            route_via("2001:db8::/32", &[]),
            route_via("10.1.2.3/8", &[1]),
            route_via("9.0.0.0/8", &[1]),
        ]
        .map(|mut route| {
            if route.target == RouteTarget::Via([].into()) {
                route.target = RouteTarget::Blackhole;
            }
            route
        }),
    )
    .unwrap();
    let prefixes: Vec<_> = fib.routes().map(|(route, _)| route.prefix).collect();
    assert_eq!(prefixes, ["9.0.0.0/8", "10.0.0.0/8", "2001:db8::/32"].map(net));
}

#[test]
fn the_order_of_routes_does_not_change_the_generation() {
    let routes = [
        route_via("10.0.0.0/8", &[4, 2]),
        route_via("11.0.0.0/8", &[1, 3]),
        route_via("12.0.0.0/8", &[2, 4]),
    ];
    let mut reversed = routes.clone();
    reversed.reverse();
    let same = |fib: Fib| (fib.next_hops, fib.groups, fib.entries, fib.v4);
    assert_eq!(
        same(Fib::build(routes).unwrap()),
        same(Fib::build(reversed).unwrap())
    );
}

#[test]
fn a_set_of_paths_has_one_group_whatever_its_order_and_scale() {
    let fib = Fib::build([
        weighted_route("10.0.0.0/8", &[(1, 2), (2, 4)]),
        weighted_route("11.0.0.0/8", &[(2, 2), (1, 1)]),
        weighted_route("12.0.0.0/8", &[(2, 1), (1, 1), (2, 1)]),
        weighted_route("13.0.0.0/8", &[(2, 5), (2, 7)]),
    ])
    .unwrap();
    let members = [(NextHopId(0), 1), (NextHopId(1), 2)].into();
    assert_eq!(
        fib.groups(),
        [NextHopGroup {
            members,
            tag: RouteTag::default(),
            predecessor: None
        }]
    );
    assert_eq!(
        lookup(&fib, "13.0.0.1"),
        Some(FibEntry::NextHop(NextHopId(1))),
        "one next hop, twice"
    );
}

#[test]
fn invalid_routes_are_refused_with_their_prefix() {
    let refused = |routes: &[Route]| Fib::build(routes.iter().cloned()).unwrap_err();
    let prefix = net("10.0.0.0/8");
    let address = next_hop(1).address;
    let twice = [route_via("10.0.0.0/8", &[1]), route_via("10.9.9.9/8", &[2])];
    assert_eq!(refused(&twice), FibError::DuplicatePrefix(prefix));
    assert_eq!(
        refused(&[route_via("10.0.0.0/8", &[])]),
        FibError::NoNextHop(prefix)
    );
    let zero = weighted_route("10.0.0.0/8", &[(2, 1), (1, 0)]);
    assert_eq!(refused(&[zero]), FibError::ZeroWeight(prefix, address));
    let heavy = weighted_route("10.0.0.0/8", &[(1, 1), (2, 16_384)]);
    assert_eq!(refused(&[heavy]), FibError::WeightSum(prefix, 16_385));
    let family = FibError::Family(net("2001:db8::/32"), address);
    assert_eq!(
        refused(&[route_via("10.0.0.0/8", &[1]), route_via("2001:db8::/32", &[1])]),
        family
    );
    assert_eq!(
        family.to_string(),
        "2001:db8::/32: an IPv6 route cannot lead to the IPv4 next hop 10.255.1.1"
    );
}

#[test]
fn an_ipv4_route_may_lead_to_an_ipv6_next_hop() {
    let next_hop = NextHop {
        interface: InterfaceId(1),
        address: "fe80::1".parse().unwrap(),
    };
    let target = RouteTarget::Via([RoutePath { next_hop, weight: 1 }].into());
    let fib = Fib::build([Route {
        prefix: net("10.0.0.0/8"),
        target,
        tag: RouteTag::default(),
    }])
    .unwrap();
    assert_eq!(lookup(&fib, "10.1.1.1"), Some(FibEntry::NextHop(NextHopId(0))));
}

fn routes_with_distinct_next_hops(routes: u32) -> impl Iterator<Item = Route> {
    (0..routes).map(|n| Route {
        prefix: IpNet::new_assert(IpAddr::from((0x0a00_0000 + n).to_be_bytes()), 32),
        target: RouteTarget::Via(
            [RoutePath {
                next_hop: NextHop {
                    interface: InterfaceId(0),
                    address: IpAddr::from(n.to_be_bytes()),
                },
                weight: 1,
            }]
            .into(),
        ),
        tag: RouteTag::default(),
    })
}

#[test]
fn an_exceeded_limit_is_reported_with_the_first_prefix_beyond() {
    let most = NEXT_HOPS_MAX as u32;
    assert_eq!(
        Fib::build(routes_with_distinct_next_hops(most))
            .unwrap()
            .next_hops()
            .len(),
        NEXT_HOPS_MAX
    );
    assert_eq!(
        Fib::build(routes_with_distinct_next_hops(most + 1)),
        Err(FibError::TooManyNextHops(net("10.1.0.0/32")))
    );

    let group = |n: u32| {
        let path = |number: u32| numbered_path(number);
        Route {
            prefix: IpNet::new_assert(IpAddr::from((0x0a00_0000 + n).to_be_bytes()), 32),
            target: RouteTarget::Via([path(0), path(n + 1)].into()),
            tag: RouteTag::default(),
        }
    };
    let most = GROUPS_MAX as u32;
    assert_eq!(
        Fib::build((0..most).map(group)).unwrap().groups().len(),
        GROUPS_MAX
    );
    assert_eq!(
        Fib::build((0..=most).map(group)),
        Err(FibError::TooManyGroups(net("10.0.16.0/32")))
    );

    let members = |count: u32| Route {
        prefix: net("10.0.0.0/8"),
        target: RouteTarget::Via((0..count).map(numbered_path).collect()),
        tag: RouteTag::default(),
    };
    let most = MEMBERS_MAX as u32;
    assert_eq!(
        Fib::build([members(most)]).unwrap().groups()[0].members.len(),
        MEMBERS_MAX
    );
    assert_eq!(
        Fib::build([members(most + 1)]),
        Err(FibError::TooManyMembers(net("10.0.0.0/8")))
    );
}

fn numbered_path(number: u32) -> RoutePath {
    RoutePath {
        next_hop: NextHop {
            interface: InterfaceId(0),
            address: IpAddr::from(number.to_be_bytes()),
        },
        weight: 1,
    }
}

#[test]
fn an_unchanged_route_keeps_its_group_and_a_changed_one_gets_a_successor() {
    let first = Fib::build([
        route_via("10.0.0.0/8", &[1, 2, 3]),
        route_via("11.0.0.0/8", &[1, 2, 3]),
    ])
    .unwrap();
    let second = first
        .build_successor([
            route_via("10.0.0.0/8", &[1, 2, 3]),
            route_via("11.0.0.0/8", &[1, 2]),
        ])
        .unwrap();
    assert_eq!(second.groups().len(), 2);
    assert!(
        second
            .groups()
            .iter()
            .all(|group| group.predecessor == Some(GroupId(0)))
    );
    // The members are equal, but the flows of 11/8 are in other buckets than those of a new route.
    let third = second
        .build_successor([
            route_via("10.0.0.0/8", &[1, 2, 3]),
            route_via("11.0.0.0/8", &[1, 2, 3]),
            route_via("12.0.0.0/8", &[1, 2, 3]),
        ])
        .unwrap();
    assert_ne!(
        group_of_address(&third, "10.0.0.1"),
        group_of_address(&third, "11.0.0.1")
    );
    assert_eq!(
        group_of_address(&third, "10.0.0.1"),
        group_of_address(&third, "12.0.0.1"),
        "a new route joins a group"
    );
}

#[test]
fn routes_with_equal_changes_in_different_generations_share_a_group() {
    let prefixes = ["10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8"];
    let mut fib = Fib::build(prefixes.map(|prefix| route_via(prefix, &[1, 2, 3]))).unwrap();
    for changed in 1..=3 {
        let members = |index| if index < changed { &[1, 2][..] } else { &[1, 2, 3] };
        let routes: Vec<_> = (0..)
            .zip(prefixes)
            .map(|(index, prefix)| route_via(prefix, members(index)))
            .collect();
        fib = fib.build_successor(routes).unwrap();
        assert_eq!(
            fib.groups().len(),
            if changed < 3 { 2 } else { 1 },
            "{changed} changed"
        );
    }
}

#[test]
fn a_group_without_a_common_next_hop_has_no_predecessor() {
    let first = Fib::build([
        route_via("10.0.0.0/8", &[1, 2]),
        route_via("11.0.0.0/8", &[1]),
        route_via("12.0.0.0/8", &[3]),
    ])
    .unwrap();
    let second = first
        .build_successor([
            route_via("10.0.0.0/8", &[3, 4]),
            route_via("11.0.0.0/8", &[3, 4]),
            route_via("12.0.0.0/8", &[3, 4]),
        ])
        .unwrap();
    assert_eq!(second.groups().len(), 1);
    assert_eq!(second.groups()[0].predecessor, None);
}

#[test]
fn with_too_many_lineages_routes_with_equal_members_share_a_group() {
    let prefix = |n: u32| IpNet::new_assert(IpAddr::from((0x0a00_0000 + n).to_be_bytes()), 32);
    let route = |n: u32, numbers: &[u32]| Route {
        prefix: prefix(n),
        target: RouteTarget::Via(numbers.iter().map(|&number| numbered_path(number)).collect()),
        tag: RouteTag::default(),
    };
    let count = GROUPS_MAX as u32;
    let first = Fib::build((0..count).map(|n| route(n, &[0, 1, n + 2]))).unwrap();
    let second = first
        .build_successor(
            (0..count)
                .map(|n| route(n, &[0, 1]))
                .chain([route(count, &[1, 2])]),
        )
        .unwrap();
    assert_eq!(second.groups().len(), 2, "{count} pasts and one more do not fit");
    let third = first
        .build_successor((0..count).map(|n| route(n, &[0, 1])))
        .unwrap();
    assert_eq!(third.groups().len(), GROUPS_MAX, "they just fit");
}
