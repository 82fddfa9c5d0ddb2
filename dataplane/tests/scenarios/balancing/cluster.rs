//! Cluster load balancing: learnt queue pairs are spread evenly, per site and in total. Tests
//! which flows move.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use xoff_dataplane::balance::{AnnounceResult, MoveReason};
use xoff_dataplane::config::{SchemeConfig, SchemeKind, SwitchConfig};
use xoff_dataplane::route::{Fib, Route, RouteTag, RouteTarget};
use xoff_dataplane::{FlowAnnouncement, LinkTiming, Picos, PortId};

use super::{NEXT_HOPS, egress_port, harness_with_neighbours};
use crate::routing::send_arp_request_from;
use crate::support::Harness;
use crate::support::config;
use crate::support::packets::{frame_to_router, refresh_checksum, udp_ipv4_packet, udp_ipv6_packet};

const WRITE_ONLY: u8 = 0x0a;
const READ_REQUEST: u8 = 0x0c;
const READ_RESPONSE: u8 = 0x10;
const ACK: u8 = 0x11;
const CNP: u8 = 0x81;
/// A wait longer than the idle time after which flows can move.
const IDLE_WAIT: Picos = Picos::from_micros(300);
const SITES: u16 = 6;

fn cluster_scheme(flows_max: u32) -> SchemeConfig {
    let idle = Picos::from_millis(10);
    SchemeConfig::new("cluster", SchemeKind::Cluster { flows_max, idle })
}

/// Returns a leaf with four uplinks to all sites. Site *n* is 198.51.*n*.0/24 and 2001:db8:51:*n*::/64. The
/// leaf's own networks have the site `own`.
fn leaf_config(scheme: SchemeConfig, own: u16) -> SwitchConfig {
    let mut config = config::router_config(5);
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
                &NEXT_HOPS[..]
            };
            (prefix.as_str(), config::equal_cost_target(hops))
        })
        .collect();
    config::set_static_routes(&mut config, &routes);
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

fn cluster_harness() -> Harness {
    harness_with_neighbours(&leaf_config(cluster_scheme(1_000), 0))
}

/// Returns a RoCEv2 frame to a queue pair of a site.
fn roce_ipv4_frame(site: u16, qp: u32, opcode: u8) -> Vec<u8> {
    let mut packet = udp_ipv4_packet("10.0.0.9", &format!("198.51.{site}.7"), 64, 40);
    write_transport_headers(&mut packet, 20, qp, opcode);
    refresh_checksum(&mut packet);
    frame_to_router(0, 0x0800, &packet)
}

fn roce_ipv6_frame(site: u16, qp: u32, opcode: u8) -> Vec<u8> {
    let mut packet = udp_ipv6_packet("2001:db8::9", &format!("2001:db8:51:{site}::7"), 64, 40);
    write_transport_headers(&mut packet, 40, qp, opcode);
    frame_to_router(0, 0x86dd, &packet)
}

fn write_transport_headers(packet: &mut [u8], udp: usize, qp: u32, opcode: u8) {
    packet[udp + 2..udp + 4].copy_from_slice(&4_791u16.to_be_bytes());
    packet[udp + 8..udp + 20].fill(0);
    packet[udp + 8] = opcode;
    packet[udp + 12..udp + 16].copy_from_slice(&qp.to_be_bytes());
}

/// The egress port of each flow, by site and queue pair.
type EgressPorts = BTreeMap<(u16, u32), u16>;

fn send_and_record_port(harness: &mut Harness, egress_ports: &mut EgressPorts, site: u16, qp: u32) -> u16 {
    let port = egress_port(harness, &roce_ipv4_frame(site, qp, WRITE_ONLY));
    egress_ports.insert((site, qp), port);
    port
}

/// Returns the largest minus the smallest count of ports 1 to 4.
fn flow_count_difference(ports: impl Iterator<Item = u16>) -> i32 {
    let mut counts = [0; 4];
    ports.for_each(|port| counts[usize::from(port) - 1] += 1);
    counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0)
}

fn difference_of_site(egress_ports: &EgressPorts, site: u16) -> i32 {
    flow_count_difference(
        egress_ports
            .iter()
            .filter(|((of, _), _)| *of == site)
            .map(|(_, port)| *port),
    )
}

fn difference_of_links(egress_ports: &EgressPorts) -> i32 {
    flow_count_difference(egress_ports.values().copied())
}

fn moves_by_reason(harness: &Harness) -> [u64; MoveReason::ALL.len()] {
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
    fn new_flows_per_member_differ_by_at_most_one_per_site(
        sites in prop::collection::vec(1..=SITES, 1..80),
    ) {
        let mut harness = cluster_harness();
        let mut egress_ports = EgressPorts::new();
        for (qp, site) in (2..).zip(sites) {
            send_and_record_port(&mut harness, &mut egress_ports, site, qp);
            prop_assert!((1..=SITES).all(|site| difference_of_site(&egress_ports, site) <= 1));
            prop_assert!(difference_of_links(&egress_ports) <= i32::from(SITES));
        }
    }

    #[test]
    fn flows_per_member_differ_by_at_most_one_after_idle_flows_move(
        flows in prop::collection::vec((1..=SITES, any::<bool>()), 1..60),
    ) {
        let mut harness = cluster_harness();
        let mut egress_ports = EgressPorts::new();
        for (qp, (site, _)) in (2..).zip(&flows) {
            send_and_record_port(&mut harness, &mut egress_ports, *site, qp);
        }
        let stay: Vec<_> = (2..).zip(flows).filter(|(_, (_, stays))| *stays).collect();
        egress_ports.clear();
        for round in 0..120 {
            // Long enough for ended flows to be forgotten.
            harness.run_for(IDLE_WAIT);
            for (qp, (site, _)) in &stay {
                send_and_record_port(&mut harness, &mut egress_ports, *site, *qp);
            }
            if round > 80 {
                prop_assert!((1..=SITES).all(|site| difference_of_site(&egress_ports, site) <= 1), "{:?}", egress_ports);
                prop_assert!(difference_of_links(&egress_ports) <= 1, "{:?}", egress_ports);
            }
        }
    }
}

#[test]
fn one_flow_to_each_site_loads_all_links_equally() {
    let mut harness = cluster_harness();
    let mut egress_ports = EgressPorts::new();
    for site in [4, 1, 6, 2, 5, 3] {
        send_and_record_port(&mut harness, &mut egress_ports, site, 7);
        assert!(difference_of_links(&egress_ports) <= 1, "{egress_ports:?}");
    }
}

#[test]
fn queue_pairs_of_one_address_are_separate_flows() {
    let mut harness = cluster_harness();
    let mut egress_ports = EgressPorts::new();
    (2..18).for_each(|qp| {
        send_and_record_port(&mut harness, &mut egress_ports, 1, qp);
    });
    assert_eq!(difference_of_site(&egress_ports, 1), 0);
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
fn leaves_with_equal_traffic_use_different_downlinks() {
    // By destination site: the spines that carry its flows.
    let mut down: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
    for own in 1..=4 {
        let mut harness = harness_with_neighbours(&leaf_config(cluster_scheme(100), own));
        let mut others: Vec<u16> = (1..=4).filter(|site| *site != own).collect();
        others.rotate_left(usize::from(own) % 3);
        let mut egress_ports = EgressPorts::new();
        for site in others {
            down.entry(site).or_default().push(send_and_record_port(
                &mut harness,
                &mut egress_ports,
                site,
                9,
            ));
        }
        assert!(difference_of_links(&egress_ports) <= 1);
    }
    for (site, mut spines) in down {
        spines.sort_unstable();
        spines.dedup();
        assert_eq!(spines.len(), 3, "site {site}");
    }
}

#[test]
fn ipv4_and_ipv6_flows_share_one_count() {
    let mut harness = cluster_harness();
    let mut ports: Vec<u16> = (2..4)
        .map(|qp| egress_port(&mut harness, &roce_ipv4_frame(1, qp, WRITE_ONLY)))
        .collect();
    ports.extend((2..4).map(|qp| egress_port(&mut harness, &roce_ipv6_frame(1, qp, WRITE_ONLY))));
    assert_eq!(flow_count_difference(ports.into_iter()), 0);
}

#[test]
fn acknowledgements_are_not_counted_as_data_flows() {
    let mut harness = cluster_harness();
    let light: Vec<_> = [ACK, CNP, READ_REQUEST, ACK, ACK]
        .into_iter()
        .zip(100..)
        .map(|(opcode, qp)| egress_port(&mut harness, &roce_ipv4_frame(1, qp, opcode)))
        .collect();
    assert_eq!(flow_count_difference(light.into_iter()), 1);
    let data: Vec<_> = [WRITE_ONLY, READ_RESPONSE, WRITE_ONLY, READ_RESPONSE]
        .into_iter()
        .zip(2..)
        .map(|(opcode, qp)| egress_port(&mut harness, &roce_ipv4_frame(1, qp, opcode)))
        .collect();
    assert_eq!(flow_count_difference(data.into_iter()), 0);
}

#[test]
fn a_flow_is_placed_again_when_it_first_carries_data() {
    let mut harness = cluster_harness();
    let first = egress_port(&mut harness, &roce_ipv4_frame(1, 100, ACK));
    // Data on the flow of the acknowledgements.
    let mut egress_ports = EgressPorts::new();
    let mut qp = 2;
    while send_and_record_port(&mut harness, &mut egress_ports, 1, qp) != first {
        qp += 1;
    }
    let promoted = egress_port(&mut harness, &roce_ipv4_frame(1, 100, WRITE_ONLY));
    egress_ports.insert((1, 100), promoted);
    assert!(difference_of_site(&egress_ports, 1) <= 1);
    assert_ne!(promoted, first, "requests may overtake acknowledgements");
    assert_eq!(moves_by_reason(&harness)[MoveReason::Promoted as usize], 1);
    assert_eq!(egress_port(&mut harness, &roce_ipv4_frame(1, 100, ACK)), promoted);
}

#[test]
fn data_uses_the_path_of_a_read_request_in_flight() {
    let mut harness = cluster_harness();
    let first = egress_port(&mut harness, &roce_ipv4_frame(1, 100, READ_REQUEST));
    let mut egress_ports = EgressPorts::new();
    (2..6).for_each(|qp| {
        send_and_record_port(&mut harness, &mut egress_ports, 1, qp);
    });
    assert_eq!(
        egress_port(&mut harness, &roce_ipv4_frame(1, 100, WRITE_ONLY)),
        first
    );
    // The flow counts as data from now on.
    egress_ports.insert((1, 100), first);
    (6..9).for_each(|qp| {
        send_and_record_port(&mut harness, &mut egress_ports, 1, qp);
    });
    assert_eq!(difference_of_site(&egress_ports, 1), 0);
}

#[test]
fn a_link_failure_moves_only_cluster_flows_of_that_link() {
    let mut harness = cluster_harness();
    let mut before = EgressPorts::new();
    (2..14).for_each(|qp| {
        send_and_record_port(&mut harness, &mut before, 1, qp);
    });
    harness.set_link(3, false);
    let mut after = EgressPorts::new();
    for ((site, qp), port) in &before {
        let now = send_and_record_port(&mut harness, &mut after, *site, *qp);
        assert_eq!(now == *port, *port != 3);
    }
    let counts = [1, 2, 4].map(|port| after.values().filter(|now| **now == port).count());
    assert_eq!(counts, [4, 4, 4]);
    assert_eq!(moves_by_reason(&harness)[MoveReason::LinkDown as usize], 3);
    let told = harness
        .switch()
        .flow_moves()
        .filter(|told| told.reason == MoveReason::LinkDown);
    assert!(told.into_iter().all(|told| told.from == Some(2)));
}

#[test]
fn a_link_that_comes_up_receives_its_share_of_idle_flows() {
    let mut harness = cluster_harness();
    let mut egress_ports = EgressPorts::new();
    harness.set_link(3, false);
    (2..14).for_each(|qp| {
        send_and_record_port(&mut harness, &mut egress_ports, 1, qp);
    });
    harness.set_link(3, true);
    send_arp_request_from(&mut harness, 3);
    let before = egress_ports.clone();
    for (site, qp) in before.keys() {
        send_and_record_port(&mut harness, &mut egress_ports, *site, *qp);
    }
    assert_eq!(egress_ports, before, "flows with packets on their way stay");
    harness.run_for(IDLE_WAIT);
    for (site, qp) in before.keys() {
        send_and_record_port(&mut harness, &mut egress_ports, *site, *qp);
    }
    assert_eq!(difference_of_site(&egress_ports, 1), 0);
    let moved = egress_ports
        .iter()
        .filter(|(flow, port)| before[flow] != **port)
        .count();
    assert_eq!(moved, 3, "only what is surplus");
    assert_eq!(moves_by_reason(&harness)[MoveReason::LinkUp as usize], 3);
}

#[test]
fn a_flow_with_queued_packets_is_not_idle() {
    let mut harness = cluster_harness();
    let mut egress_ports = EgressPorts::new();
    harness.set_link(3, false);
    (2..14).for_each(|qp| {
        send_and_record_port(&mut harness, &mut egress_ports, 1, qp);
    });
    harness.set_link(3, true);
    send_arp_request_from(&mut harness, 3);
    let blocked = egress_ports[&(1, 2)];
    harness.set_tx_enabled(blocked, false);
    harness.receive(0, &roce_ipv4_frame(1, 2, WRITE_ONLY));
    harness.run_for(IDLE_WAIT);
    harness.clear_sent();
    harness.receive(0, &roce_ipv4_frame(1, 2, WRITE_ONLY));
    harness.set_tx_enabled(blocked, true);
    harness.run_for(Picos::from_micros(10));
    assert_eq!(harness.data_sent(blocked).len(), 2);
}

#[test]
fn a_full_flow_table_hashes_new_flows_and_expires_idle_ones() {
    let mut harness = harness_with_neighbours(&leaf_config(cluster_scheme(8), 0));
    let mut egress_ports = EgressPorts::new();
    for qp in 2..22 {
        send_and_record_port(&mut harness, &mut egress_ports, 1, qp);
    }
    let table = |harness: &Harness| {
        let views = harness.switch().balanced_groups(harness.now());
        let sum = views.iter().filter_map(|view| view.table);
        sum.fold((0, 0), |sum, table| {
            (sum.0 + table.flows, sum.1 + table.overflow_packets)
        })
    };
    assert_eq!(table(&harness), (8, 12));
    assert_eq!(egress_ports.len(), 20, "none is dropped");
    harness.run_for(Picos::from_millis(11));
    for qp in 100..120 {
        send_and_record_port(&mut harness, &mut egress_ports, 1, qp);
    }
    let new: EgressPorts = egress_ports
        .into_iter()
        .filter(|((_, qp), _)| *qp >= 100)
        .collect();
    let (flows, _) = table(&harness);
    assert_eq!(flows, 8);
    assert!(moves_by_reason(&harness)[MoveReason::New as usize] > 8, "{new:?}");
}

#[test]
fn packets_without_a_queue_pair_are_hashed_and_not_learnt() {
    let mut harness = cluster_harness();
    let mut ports = Vec::new();
    for port in 1..50 {
        let mut packet = udp_ipv4_packet("10.0.0.9", "198.51.2.7", 64, 40);
        packet[20..22].copy_from_slice(&u16::to_be_bytes(port));
        packet[22..24].copy_from_slice(&443u16.to_be_bytes());
        refresh_checksum(&mut packet);
        let frame = frame_to_router(0, 0x0800, &packet);
        ports.push(egress_port(&mut harness, &frame));
        harness.run_for(IDLE_WAIT);
        assert_eq!(Some(&egress_port(&mut harness, &frame)), ports.last());
    }
    assert!((1..5).all(|port| ports.contains(&port)), "{ports:?}");
    assert_eq!(moves_by_reason(&harness), [0; 7]);
}

#[test]
fn active_flows_stay_when_other_flows_start_and_end() {
    let mut harness = cluster_harness();
    let mut egress_ports = EgressPorts::new();
    (2..7).for_each(|qp| {
        send_and_record_port(&mut harness, &mut egress_ports, 1, qp);
    });
    // Ended flows leave the remaining five on too few links. Many flows arrive.
    for qp in 100..1_200 {
        egress_port(
            &mut harness,
            &roce_ipv4_frame(1 + (qp % 5) as u16, qp, WRITE_ONLY),
        );
        let again = 2 + qp % 5;
        assert_eq!(
            egress_port(&mut harness, &roce_ipv4_frame(1, again, WRITE_ONLY)),
            egress_ports[&(1, again)]
        );
    }
}

#[test]
fn faster_links_receive_more_flows() {
    let mut config = leaf_config(cluster_scheme(1_000), 0);
    config.ports[2].link = LinkTiming::ethernet(4_000);
    let mut harness = harness_with_neighbours(&config);
    let mut egress_ports = EgressPorts::new();
    (2..16).for_each(|qp| {
        send_and_record_port(&mut harness, &mut egress_ports, 1, qp);
    });
    let counts = [1, 2, 3, 4].map(|port| egress_ports.values().filter(|now| **now == port).count());
    assert_eq!(counts, [2, 8, 2, 2]);
}

#[test]
fn an_announced_flow_keeps_its_assigned_path() {
    let mut harness = cluster_harness();
    let announce = |harness: &mut Harness, site: u16, qp, via: Option<u16>| {
        let flow = FlowAnnouncement {
            source: "10.0.0.9".parse().expect("an address"),
            destination: format!("198.51.{site}.7").parse().expect("an address"),
            destination_qp: qp,
            data: true,
            via: via.map(PortId),
        };
        harness.call_switch(|now, switch, _, _| switch.announce_flow(now, &flow))
    };
    let placed = |port: u16| AnnounceResult::Placed {
        member: port - 1,
        port: Some(PortId(port)),
    };
    assert_eq!(announce(&mut harness, 1, 5, Some(4)), placed(4));
    assert_eq!(announce(&mut harness, 1, 6, Some(4)), placed(4));
    // The first packet may come much later.
    harness.run_for(Picos::from_millis(50));
    let mut egress_ports = EgressPorts::new();
    (10..16).for_each(|qp| {
        send_and_record_port(&mut harness, &mut egress_ports, 1, qp);
    });
    assert_eq!(egress_port(&mut harness, &roce_ipv4_frame(1, 5, WRITE_ONLY)), 4);
    assert_eq!(egress_port(&mut harness, &roce_ipv4_frame(1, 6, WRITE_ONLY)), 4);
    assert!(egress_ports.values().all(|port| *port != 4), "{egress_ports:?}");
    assert_eq!(moves_by_reason(&harness)[MoveReason::Announced as usize], 2);
    // A repeated announcement does not move an active flow.
    assert_eq!(announce(&mut harness, 1, 5, Some(1)), placed(4));
    harness.set_link(4, false);
    assert_ne!(egress_port(&mut harness, &roce_ipv4_frame(1, 5, WRITE_ONLY)), 4);
    // An address of the switch's own networks is not behind a group.
    let flow = FlowAnnouncement {
        source: "10.0.1.9".parse().expect("an address"),
        destination: "10.0.0.9".parse().expect("an address"),
        destination_qp: 5,
        data: true,
        via: None,
    };
    assert_eq!(
        harness.call_switch(|now, switch, _, _| switch.announce_flow(now, &flow)),
        AnnounceResult::NotSupported
    );
    let (source, destination) = (flow.destination, "198.51.1.7".parse().expect("an address"));
    assert!(harness.switch_mut().withdraw_flow(source, destination, 5));
    assert!(!harness.switch_mut().withdraw_flow(source, destination, 5));
}

#[test]
fn an_ipv6_announcement_places_the_flow_of_later_packets() {
    let mut harness = cluster_harness();
    let flow = FlowAnnouncement {
        source: "2001:db8::9".parse().expect("an address"),
        destination: "2001:db8:51:2::7".parse().expect("an address"),
        destination_qp: 77,
        data: true,
        via: Some(PortId(3)),
    };
    assert!(matches!(
        harness.call_switch(|now, switch, _, _| switch.announce_flow(now, &flow)),
        AnnounceResult::Placed { .. }
    ));
    assert_eq!(egress_port(&mut harness, &roce_ipv6_frame(2, 77, WRITE_ONLY)), 3);
    assert!(
        harness
            .switch_mut()
            .withdraw_flow(flow.source, flow.destination, 77)
    );
}

#[test]
fn flows_keep_their_paths_when_routes_change() {
    let config = leaf_config(cluster_scheme(1_000), 0);
    let mut harness = harness_with_neighbours(&config);
    let mut before = EgressPorts::new();
    (2..18).for_each(|qp| {
        send_and_record_port(&mut harness, &mut before, 1 + (qp % 3) as u16, qp);
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
        target: config::equal_cost_target(&[(0, "10.0.0.20"), (1, "10.0.1.3")]),
        tag: RouteTag::default(),
    });
    let next = Arc::new(config.routing.fib.build_successor(routes).expect("routes"));
    harness.call_switch(|now, switch, store, outputs| drop(switch.set_fib(now, next, store, outputs)));
    for ((site, qp), port) in &before {
        assert_eq!(
            egress_port(&mut harness, &roce_ipv4_frame(*site, *qp, WRITE_ONLY)),
            *port
        );
    }
    let mut after = before.clone();
    (30..34).for_each(|qp| {
        send_and_record_port(&mut harness, &mut after, 1, qp);
    });
    assert!(difference_of_site(&after, 1) <= 1 && difference_of_links(&after) <= 1);
}

#[test]
fn a_flow_table_holds_a_hundred_thousand_queue_pairs() {
    const FLOWS: u32 = 100_000;
    let mut harness = harness_with_neighbours(&leaf_config(cluster_scheme(FLOWS), 0));
    // A dropped packet still places its flow.
    for qp in 2..FLOWS + 2 {
        harness.receive(0, &roce_ipv4_frame(1 + (qp % 2) as u16, qp, WRITE_ONLY));
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
    harness.receive(0, &roce_ipv4_frame(1, FLOWS + 2, WRITE_ONLY));
    let views = harness.switch().balanced_groups(harness.now());
    let overflow: u64 = views
        .iter()
        .filter_map(|view| view.table)
        .map(|table| table.overflow_packets)
        .sum();
    assert_eq!(overflow, 1);
}
