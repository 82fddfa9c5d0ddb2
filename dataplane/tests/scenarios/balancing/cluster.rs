//! Cluster load balancing: learnt queue pairs are spread evenly, per site and in total. Tests which flows
//! move.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use xoff_dataplane::balance::{AnnounceResult, MoveReason};
use xoff_dataplane::config::{SchemeConfig, SchemeKind, SwitchConfig};
use xoff_dataplane::route::{Fib, Route, RouteTag, RouteTarget};
use xoff_dataplane::{FlowAnnouncement, LinkTiming, Picos, PortId};

use super::{HOPS, up, way};
use crate::routing::introduce;
use crate::support::Harness;
use crate::support::config;
use crate::support::packets::{refresh_checksum, to_router, udp4, udp6};

const WRITE_ONLY: u8 = 0x0a;
const READ_REQUEST: u8 = 0x0c;
const READ_RESPONSE: u8 = 0x10;
const ACK: u8 = 0x11;
const CNP: u8 = 0x81;
/// Longer than the idle time after which flows may move.
const REST: Picos = Picos::from_micros(300);
const SITES: u16 = 6;

fn scheme(flows_max: u32) -> SchemeConfig {
    let idle = Picos::from_millis(10);
    SchemeConfig::new("cluster", SchemeKind::Cluster { flows_max, idle })
}

/// A leaf with four uplinks to all sites. Site *n* is 198.51.*n*.0/24 and 2001:db8:51:*n*::/64. The leaf's
/// own networks have the site `own`.
fn leaf(scheme: SchemeConfig, own: u16) -> SwitchConfig {
    let mut config = config::routed(5);
    let hops6: Vec<_> = (1..5).map(|port| (port, format!("2001:db8:{port}::9"))).collect();
    let hops6: Vec<_> = hops6
        .iter()
        .map(|(port, address)| (*port, address.as_str()))
        .collect();
    let prefixes: Vec<_> = (1..=SITES)
        .flat_map(|site| [format!("198.51.{site}.0/24"), format!("2001:db8:51:{site}::/64")])
        .collect();
    let routes: Vec<_> = prefixes
        .iter()
        .map(|prefix| {
            let hops = if prefix.contains(':') {
                &hops6[..]
            } else {
                &HOPS[..]
            };
            (prefix.as_str(), config::via(hops))
        })
        .collect();
    config::routes(&mut config, &routes);
    let tagged = |route: &Route| {
        let site = match (&route.target, route.prefix.addr()) {
            (RouteTarget::Via(_), std::net::IpAddr::V4(address)) => u16::from(address.octets()[2]),
            (RouteTarget::Via(_), std::net::IpAddr::V6(address)) => address.segments()[3],
            _ => own,
        };
        Route {
            tag: RouteTag { site, scheme: None },
            ..route.clone()
        }
    };
    let fib = Fib::build(config.routing.fib.routes().map(|(route, _)| tagged(route)));
    config.routing.fib = Arc::new(fib.expect("routes"));
    config.balancing.schemes = vec![scheme];
    config.balancing.default_scheme = Some(0);
    config.balancing.moves_kept = 1_024;
    config
}

fn cluster() -> Harness {
    up(&leaf(scheme(1_000), 0))
}

/// A packet to a queue pair of a site.
fn roce(site: u16, qp: u32, opcode: u8) -> Vec<u8> {
    let mut packet = udp4("10.0.0.9", &format!("198.51.{site}.7"), 64, 40);
    transport(&mut packet, 20, qp, opcode);
    refresh_checksum(&mut packet);
    to_router(0, 0x0800, &packet)
}

fn roce6(site: u16, qp: u32, opcode: u8) -> Vec<u8> {
    let mut packet = udp6("2001:db8::9", &format!("2001:db8:51:{site}::7"), 64, 40);
    transport(&mut packet, 40, qp, opcode);
    to_router(0, 0x86dd, &packet)
}

fn transport(packet: &mut [u8], udp: usize, qp: u32, opcode: u8) {
    packet[udp + 2..udp + 4].copy_from_slice(&4_791u16.to_be_bytes());
    packet[udp + 8..udp + 20].fill(0);
    packet[udp + 8] = opcode;
    packet[udp + 12..udp + 16].copy_from_slice(&qp.to_be_bytes());
}

/// The egress port of each flow, by site and queue pair.
type Ways = BTreeMap<(u16, u32), u16>;

fn send(harness: &mut Harness, ways: &mut Ways, site: u16, qp: u32) -> u16 {
    let port = way(harness, &roce(site, qp, WRITE_ONLY));
    ways.insert((site, qp), port);
    port
}

/// The largest minus the smallest count of ports 1 to 4.
fn spread(ports: impl Iterator<Item = u16>) -> i32 {
    let mut counts = [0; 4];
    ports.for_each(|port| counts[usize::from(port) - 1] += 1);
    counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0)
}

fn of_site(ways: &Ways, site: u16) -> i32 {
    spread(
        ways.iter()
            .filter(|((of, _), _)| *of == site)
            .map(|(_, port)| *port),
    )
}

fn of_links(ways: &Ways) -> i32 {
    spread(ways.values().copied())
}

fn moves(harness: &Harness) -> [u64; MoveReason::ALL.len()] {
    harness
        .switch()
        .balanced_groups(harness.now())
        .iter()
        .fold([0; 7], |mut sum, group| {
            sum.iter_mut()
                .zip(group.moves)
                .for_each(|(sum, moves)| *sum += moves);
            sum
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arrivals_differ_by_one_per_site_and_by_the_sites_per_link(
        sites in prop::collection::vec(1..=SITES, 1..80),
    ) {
        let mut harness = cluster();
        let mut ways = Ways::new();
        for (qp, site) in (2..).zip(sites) {
            send(&mut harness, &mut ways, site, qp);
            prop_assert!((1..=SITES).all(|site| of_site(&ways, site) <= 1));
            prop_assert!(of_links(&ways) <= i32::from(SITES));
        }
    }

    #[test]
    fn after_departures_and_rest_sites_and_links_differ_by_one(
        flows in prop::collection::vec((1..=SITES, any::<bool>()), 1..60),
    ) {
        let mut harness = cluster();
        let mut ways = Ways::new();
        for (qp, (site, _)) in (2..).zip(&flows) {
            send(&mut harness, &mut ways, *site, qp);
        }
        let stay: Vec<_> = (2..).zip(flows).filter(|(_, (_, stays))| *stays).collect();
        ways.clear();
        for round in 0..120 {
            // Long enough for ended flows to be forgotten.
            harness.run_for(REST);
            for (qp, (site, _)) in &stay {
                send(&mut harness, &mut ways, *site, *qp);
            }
            if round > 80 {
                prop_assert!((1..=SITES).all(|site| of_site(&ways, site) <= 1), "{:?}", ways);
                prop_assert!(of_links(&ways) <= 1, "{:?}", ways);
            }
        }
    }
}

#[test]
fn one_flow_to_each_site_makes_even_links() {
    let mut harness = cluster();
    let mut ways = Ways::new();
    for site in [4, 1, 6, 2, 5, 3] {
        send(&mut harness, &mut ways, site, 7);
        assert!(of_links(&ways) <= 1, "{ways:?}");
    }
}

#[test]
fn many_queue_pairs_behind_one_address_are_many_flows() {
    let mut harness = cluster();
    let mut ways = Ways::new();
    (2..18).for_each(|qp| {
        send(&mut harness, &mut ways, 1, qp);
    });
    assert_eq!(of_site(&ways, 1), 0);
    let views = harness.switch().balanced_groups(harness.now());
    let view = views
        .iter()
        .find(|view| view.site == 1 && view.table.is_some_and(|table| table.flows > 0));
    let view = view.expect("a group that has learnt");
    assert_eq!(
        view.table.map(|table| (table.flows, table.flows_max)),
        Some((16, 1_000))
    );
    assert!(view.members.iter().all(|member| member.flows == Some(4)));
    assert_eq!(view.moves[MoveReason::New as usize], 16);
}

#[test]
fn leaves_that_send_alike_do_not_meet_on_a_link_down() {
    // By destination site: the spines that carry its flows.
    let mut down: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
    for own in 1..=4 {
        let mut harness = up(&leaf(scheme(100), own));
        let mut others: Vec<u16> = (1..=4).filter(|site| *site != own).collect();
        others.rotate_left(usize::from(own) % 3);
        let mut ways = Ways::new();
        for site in others {
            down.entry(site)
                .or_default()
                .push(send(&mut harness, &mut ways, site, 9));
        }
        assert!(of_links(&ways) <= 1);
    }
    for (site, mut spines) in down {
        spines.sort_unstable();
        spines.dedup();
        assert_eq!(spines.len(), 3, "site {site}");
    }
}

#[test]
fn both_families_of_addresses_are_counted_together() {
    let mut harness = cluster();
    let mut ports: Vec<u16> = (2..4)
        .map(|qp| way(&mut harness, &roce(1, qp, WRITE_ONLY)))
        .collect();
    ports.extend((2..4).map(|qp| way(&mut harness, &roce6(1, qp, WRITE_ONLY))));
    assert_eq!(spread(ports.into_iter()), 0);
}

#[test]
fn acknowledgements_do_not_count_as_data() {
    let mut harness = cluster();
    let light: Vec<_> = [ACK, CNP, READ_REQUEST, ACK, ACK]
        .into_iter()
        .zip(100..)
        .map(|(opcode, qp)| way(&mut harness, &roce(1, qp, opcode)))
        .collect();
    assert_eq!(spread(light.into_iter()), 1);
    let data: Vec<_> = [WRITE_ONLY, READ_RESPONSE, WRITE_ONLY, READ_RESPONSE]
        .into_iter()
        .zip(2..)
        .map(|(opcode, qp)| way(&mut harness, &roce(1, qp, opcode)))
        .collect();
    assert_eq!(spread(data.into_iter()), 0);
}

#[test]
fn a_flow_that_turns_out_to_carry_data_is_placed_with_those_that_do() {
    let mut harness = cluster();
    let first = way(&mut harness, &roce(1, 100, ACK));
    // Data on the flow of the acknowledgements.
    let mut ways = Ways::new();
    let mut qp = 2;
    while send(&mut harness, &mut ways, 1, qp) != first {
        qp += 1;
    }
    let promoted = way(&mut harness, &roce(1, 100, WRITE_ONLY));
    ways.insert((1, 100), promoted);
    assert!(of_site(&ways, 1) <= 1);
    assert_ne!(promoted, first, "requests may overtake acknowledgements");
    assert_eq!(moves(&harness)[MoveReason::Promoted as usize], 1);
    assert_eq!(way(&mut harness, &roce(1, 100, ACK)), promoted);
}

#[test]
fn data_does_not_overtake_a_read_request() {
    let mut harness = cluster();
    let first = way(&mut harness, &roce(1, 100, READ_REQUEST));
    let mut ways = Ways::new();
    (2..6).for_each(|qp| {
        send(&mut harness, &mut ways, 1, qp);
    });
    assert_eq!(way(&mut harness, &roce(1, 100, WRITE_ONLY)), first);
    // The flow counts as data from now on.
    ways.insert((1, 100), first);
    (6..9).for_each(|qp| {
        send(&mut harness, &mut ways, 1, qp);
    });
    assert_eq!(of_site(&ways, 1), 0);
}

#[test]
fn a_link_that_dies_moves_its_flows_and_no_others() {
    let mut harness = cluster();
    let mut before = Ways::new();
    (2..14).for_each(|qp| {
        send(&mut harness, &mut before, 1, qp);
    });
    harness.set_link(3, false);
    let mut after = Ways::new();
    for ((site, qp), port) in &before {
        let now = send(&mut harness, &mut after, *site, *qp);
        assert_eq!(now == *port, *port != 3);
    }
    let counts = [1, 2, 4].map(|port| after.values().filter(|now| **now == port).count());
    assert_eq!(counts, [4, 4, 4]);
    assert_eq!(moves(&harness)[MoveReason::LinkDown as usize], 3);
    let told = harness
        .switch()
        .flow_moves()
        .filter(|told| told.reason == MoveReason::LinkDown);
    assert!(told.into_iter().all(|told| told.from == Some(2)));
}

#[test]
fn a_link_that_comes_up_takes_its_share_of_flows_at_rest() {
    let mut harness = cluster();
    let mut ways = Ways::new();
    harness.set_link(3, false);
    (2..14).for_each(|qp| {
        send(&mut harness, &mut ways, 1, qp);
    });
    harness.set_link(3, true);
    introduce(&mut harness, 3);
    let before = ways.clone();
    for (site, qp) in before.keys() {
        send(&mut harness, &mut ways, *site, *qp);
    }
    assert_eq!(ways, before, "flows with packets on their way stay");
    harness.run_for(REST);
    for (site, qp) in before.keys() {
        send(&mut harness, &mut ways, *site, *qp);
    }
    assert_eq!(of_site(&ways, 1), 0);
    let moved = ways.iter().filter(|(flow, port)| before[flow] != **port).count();
    assert_eq!(moved, 3, "only what is surplus");
    assert_eq!(moves(&harness)[MoveReason::LinkUp as usize], 3);
}

#[test]
fn a_flow_whose_packets_wait_is_not_at_rest() {
    let mut harness = cluster();
    let mut ways = Ways::new();
    harness.set_link(3, false);
    (2..14).for_each(|qp| {
        send(&mut harness, &mut ways, 1, qp);
    });
    harness.set_link(3, true);
    introduce(&mut harness, 3);
    let blocked = ways[&(1, 2)];
    harness.set_tx_enabled(blocked, false);
    harness.receive(0, &roce(1, 2, WRITE_ONLY));
    harness.run_for(REST);
    harness.clear_sent();
    harness.receive(0, &roce(1, 2, WRITE_ONLY));
    harness.set_tx_enabled(blocked, true);
    harness.run_for(Picos::from_micros(10));
    assert_eq!(harness.data_sent(blocked).len(), 2);
}

#[test]
fn a_full_table_hashes_and_forgets_who_is_silent() {
    let mut harness = up(&leaf(scheme(8), 0));
    let mut ways = Ways::new();
    for qp in 2..22 {
        send(&mut harness, &mut ways, 1, qp);
    }
    let table = |harness: &Harness| {
        let views = harness.switch().balanced_groups(harness.now());
        let sum = views.iter().filter_map(|view| view.table);
        sum.fold((0, 0), |sum, table| {
            (sum.0 + table.flows, sum.1 + table.overflow_packets)
        })
    };
    assert_eq!(table(&harness), (8, 12));
    assert_eq!(ways.len(), 20, "none is dropped");
    harness.run_for(Picos::from_millis(11));
    for qp in 100..120 {
        send(&mut harness, &mut ways, 1, qp);
    }
    let new: Ways = ways.into_iter().filter(|((_, qp), _)| *qp >= 100).collect();
    let (flows, _) = table(&harness);
    assert_eq!(flows, 8);
    assert!(moves(&harness)[MoveReason::New as usize] > 8, "{new:?}");
}

#[test]
fn what_is_no_queue_pair_is_hashed_and_not_learnt() {
    let mut harness = cluster();
    let mut ports = Vec::new();
    for port in 1..50 {
        let mut packet = udp4("10.0.0.9", "198.51.2.7", 64, 40);
        packet[20..22].copy_from_slice(&u16::to_be_bytes(port));
        packet[22..24].copy_from_slice(&443u16.to_be_bytes());
        refresh_checksum(&mut packet);
        let frame = to_router(0, 0x0800, &packet);
        ports.push(way(&mut harness, &frame));
        harness.run_for(REST);
        assert_eq!(Some(&way(&mut harness, &frame)), ports.last());
    }
    assert!((1..5).all(|port| ports.contains(&port)), "{ports:?}");
    assert_eq!(moves(&harness), [0; 7]);
}

#[test]
fn flows_that_send_never_move_whoever_comes_and_goes() {
    let mut harness = cluster();
    let mut ways = Ways::new();
    (2..7).for_each(|qp| {
        send(&mut harness, &mut ways, 1, qp);
    });
    // Ended flows leave the remaining five on too few links. Many flows arrive.
    for qp in 100..1_200 {
        way(&mut harness, &roce(1 + (qp % 5) as u16, qp, WRITE_ONLY));
        let again = 2 + qp % 5;
        assert_eq!(way(&mut harness, &roce(1, again, WRITE_ONLY)), ways[&(1, again)]);
    }
}

#[test]
fn faster_links_get_more_flows() {
    let mut config = leaf(scheme(1_000), 0);
    config.ports[2].link = LinkTiming::ethernet(4_000);
    let mut harness = up(&config);
    let mut ways = Ways::new();
    (2..16).for_each(|qp| {
        send(&mut harness, &mut ways, 1, qp);
    });
    let counts = [1, 2, 3, 4].map(|port| ways.values().filter(|now| **now == port).count());
    assert_eq!(counts, [2, 8, 2, 2]);
}

#[test]
fn an_announced_flow_takes_its_place_and_keeps_it() {
    let mut harness = cluster();
    let announce = |harness: &mut Harness, site: u16, qp, via: Option<u16>| {
        let flow = FlowAnnouncement {
            source: "10.0.0.9".parse().expect("an address"),
            destination: format!("198.51.{site}.7").parse().expect("an address"),
            destination_qp: qp,
            data: true,
            via: via.map(PortId),
        };
        harness.with(|now, switch, _, _| switch.announce_flow(now, &flow))
    };
    let placed = |port: u16| AnnounceResult::Placed {
        member: port - 1,
        port: Some(PortId(port)),
    };
    assert_eq!(announce(&mut harness, 1, 5, Some(4)), placed(4));
    assert_eq!(announce(&mut harness, 1, 6, Some(4)), placed(4));
    // The first packet may come much later.
    harness.run_for(Picos::from_millis(50));
    let mut ways = Ways::new();
    (10..16).for_each(|qp| {
        send(&mut harness, &mut ways, 1, qp);
    });
    assert_eq!(way(&mut harness, &roce(1, 5, WRITE_ONLY)), 4);
    assert_eq!(way(&mut harness, &roce(1, 6, WRITE_ONLY)), 4);
    assert!(ways.values().all(|port| *port != 4), "{ways:?}");
    assert_eq!(moves(&harness)[MoveReason::Announced as usize], 2);
    // A repeated announcement does not move an active flow.
    assert_eq!(announce(&mut harness, 1, 5, Some(1)), placed(4));
    harness.set_link(4, false);
    assert_ne!(way(&mut harness, &roce(1, 5, WRITE_ONLY)), 4);
    // An address of the switch's own networks is not behind a group.
    let flow = FlowAnnouncement {
        source: "10.0.1.9".parse().expect("an address"),
        destination: "10.0.0.9".parse().expect("an address"),
        destination_qp: 5,
        data: true,
        via: None,
    };
    assert_eq!(
        harness.with(|now, switch, _, _| switch.announce_flow(now, &flow)),
        AnnounceResult::NotSupported
    );
    let (source, destination) = (flow.destination, "198.51.1.7".parse().expect("an address"));
    assert!(harness.switch_mut().withdraw_flow(source, destination, 5));
    assert!(!harness.switch_mut().withdraw_flow(source, destination, 5));
}

#[test]
fn announcements_of_ipv6_flows_are_of_the_same_flows() {
    let mut harness = cluster();
    let flow = FlowAnnouncement {
        source: "2001:db8::9".parse().expect("an address"),
        destination: "2001:db8:51:2::7".parse().expect("an address"),
        destination_qp: 77,
        data: true,
        via: Some(PortId(3)),
    };
    assert!(matches!(
        harness.with(|now, switch, _, _| switch.announce_flow(now, &flow)),
        AnnounceResult::Placed { .. }
    ));
    assert_eq!(way(&mut harness, &roce6(2, 77, WRITE_ONLY)), 3);
    assert!(
        harness
            .switch_mut()
            .withdraw_flow(flow.source, flow.destination, 77)
    );
}

#[test]
fn flows_keep_their_places_when_routes_change() {
    let config = leaf(scheme(1_000), 0);
    let mut harness = up(&config);
    let mut before = Ways::new();
    (2..18).for_each(|qp| {
        send(&mut harness, &mut before, 1 + (qp % 3) as u16, qp);
    });
    // Another route changes the numbers of next hops and groups.
    let mut routes: Vec<Route> = config
        .routing
        .fib
        .routes()
        .map(|(route, _)| route.clone())
        .collect();
    routes.push(Route {
        prefix: "192.0.2.0/24".parse().expect("a prefix"),
        target: config::via(&[(0, "10.0.0.20"), (1, "10.0.1.3")]),
        tag: RouteTag::default(),
    });
    let next = Arc::new(config.routing.fib.build_successor(routes).expect("routes"));
    harness.with(|now, switch, store, outputs| drop(switch.set_fib(now, next, store, outputs)));
    for ((site, qp), port) in &before {
        assert_eq!(way(&mut harness, &roce(*site, *qp, WRITE_ONLY)), *port);
    }
    let mut after = before.clone();
    (30..34).for_each(|qp| {
        send(&mut harness, &mut after, 1, qp);
    });
    assert!(of_site(&after, 1) <= 1 && of_links(&after) <= 1);
}

#[test]
fn a_hundred_thousand_queue_pairs_fit() {
    const FLOWS: u32 = 100_000;
    let mut harness = up(&leaf(scheme(FLOWS), 0));
    // A dropped packet still places its flow.
    for qp in 2..FLOWS + 2 {
        harness.receive(0, &roce(1 + (qp % 2) as u16, qp, WRITE_ONLY));
    }
    let views = harness.switch().balanced_groups(harness.now());
    for site in [1, 2] {
        let of_site = views.iter().filter(|view| view.site == site);
        let view = of_site.max_by_key(|view| view.table.map(|table| table.flows));
        let view = view.expect("a group");
        assert_eq!(
            view.table.map(|table| (table.flows, table.overflow_packets)),
            Some((FLOWS / 2, 0))
        );
        assert!(view.members.iter().all(|member| member.flows == Some(FLOWS / 8)));
    }
    harness.receive(0, &roce(1, FLOWS + 2, WRITE_ONLY));
    let views = harness.switch().balanced_groups(harness.now());
    let overflow: u64 = views
        .iter()
        .filter_map(|view| view.table)
        .map(|table| table.overflow_packets)
        .sum();
    assert_eq!(overflow, 1);
}
