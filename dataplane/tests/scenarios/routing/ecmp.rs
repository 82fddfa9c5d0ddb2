//! Equal-cost routes under traffic.

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{DropReason, ForwardingResult, Picos, PortId};

use super::send_arp_request_from;
use crate::support::Harness;
use crate::support::config::{self, GIGABIT};
use crate::support::packets::{frame_to_router, refresh_checksum, udp_ipv4_packet};

const NEXT_HOPS: [(u16, &str); 4] = [(1, "10.0.1.9"), (2, "10.0.2.9"), (3, "10.0.3.9"), (4, "10.0.4.9")];

fn ecmp_config(hops: &[(u16, &str)], resilient: Option<u16>) -> SwitchConfig {
    let mut config = config::router_config(5);
    config.routing.resilient_buckets = resilient;
    config::set_static_routes(
        &mut config,
        &[("198.51.100.0/24", config::equal_cost_target(hops))],
    );
    config
}

fn harness_with_neighbours(config: &SwitchConfig) -> Harness {
    let mut harness = Harness::new(config);
    (0..5).for_each(|port| send_arp_request_from(&mut harness, port));
    harness.run_for(Picos::from_millis(10));
    harness.clear_sent();
    harness
}

fn flow_frame(n: u16) -> Vec<u8> {
    let mut packet = udp_ipv4_packet("10.0.0.9", "198.51.100.7", 64, 22);
    packet[20..22].copy_from_slice(&n.to_be_bytes());
    packet[48..50].copy_from_slice(&n.to_be_bytes()); // not padding
    refresh_checksum(&mut packet);
    frame_to_router(0, 0x0800, &packet)
}

/// Returns the egress port of each of `flows` flows.
fn egress_ports_of_flows(harness: &mut Harness, flows: u16) -> Vec<u16> {
    (0..flows)
        .map(|n| {
            harness.clear_sent();
            assert_eq!(
                harness.receive(0, &flow_frame(n)),
                ForwardingResult::Forwarded { copies: 1 }
            );
            harness.run_for(Picos::from_micros(10));
            (1..5)
                .find(|&port| !harness.sent(port).is_empty())
                .expect("it left")
        })
        .collect()
}

#[test]
fn a_flow_keeps_its_path_and_all_paths_are_used() {
    let mut harness = harness_with_neighbours(&ecmp_config(&NEXT_HOPS, None));
    let first = egress_ports_of_flows(&mut harness, 400);
    assert_eq!(egress_ports_of_flows(&mut harness, 400), first);
    for port in 1..5 {
        let share = first.iter().filter(|&&way| way == port).count();
        assert!(
            (61..=139).contains(&share),
            "4.5 standard deviations of 100: port {port} has {share}"
        );
    }
}

#[test]
fn switches_with_equal_seeds_select_equal_paths_and_others_differ() {
    let mut config = ecmp_config(&NEXT_HOPS, None);
    let first = egress_ports_of_flows(&mut harness_with_neighbours(&config), 200);
    assert_eq!(
        egress_ports_of_flows(&mut harness_with_neighbours(&config), 200),
        first
    );
    config.routing.hash_seed = 77;
    let other = egress_ports_of_flows(&mut harness_with_neighbours(&config), 200);
    let same = first.iter().zip(&other).filter(|(a, b)| a == b).count();
    assert!((20..=80).contains(&same), "a quarter by chance: {same}");
}

#[test]
fn a_link_failure_with_resilient_hashing_moves_only_its_flows() {
    let mut harness = harness_with_neighbours(&ecmp_config(&NEXT_HOPS, Some(1_024)));
    let before = egress_ports_of_flows(&mut harness, 300);
    harness.set_link(2, false);
    let without = egress_ports_of_flows(&mut harness, 300);
    for (old, new) in before.iter().zip(&without) {
        assert!(if *old == 2 { *new != 2 } else { new == old }, "{old} -> {new}");
    }
    harness.set_link(2, true);
    send_arp_request_from(&mut harness, 2);
    harness.run_for(Picos::from_millis(1));
    assert_eq!(egress_ports_of_flows(&mut harness, 300), before, "back as it was");
}

#[test]
fn links_that_come_up_together_have_the_effect_of_links_that_come_up_in_turn() {
    let outcome = |together: bool| {
        let mut harness = harness_with_neighbours(&ecmp_config(&NEXT_HOPS, None));
        (1..5).for_each(|port| harness.set_link(port, false));
        harness.run_for(Picos::from_millis(1));
        harness.clear_sent();
        match together {
            true => harness.call_switch(|now, switch, store, outputs| {
                // A link that is up already is ignored.
                switch.set_links_up(now, &[0, 1, 2, 3, 4].map(PortId), store, outputs)
            }),
            false => (1..5).for_each(|port| harness.set_link(port, true)),
        }
        harness.run_for(Picos::from_millis(1));
        let sent: Vec<_> = (0..5).map(|port| harness.take_sent(port)).collect();
        (1..5).for_each(|port| send_arp_request_from(&mut harness, port));
        harness.run_for(Picos::from_millis(1));
        (sent, egress_ports_of_flows(&mut harness, 100))
    };
    let (sent, ports) = outcome(true);
    assert!(sent[1..].iter().all(|sent| !sent.is_empty()), "address requests");
    assert!((1..5).all(|port| ports.contains(&port)), "{ports:?}");
    assert_eq!((sent, ports), outcome(false));
}

#[test]
fn a_route_change_with_resilient_hashing_moves_the_fewest_flows() {
    let mut harness = harness_with_neighbours(&ecmp_config(&NEXT_HOPS[..3], Some(1_024)));
    let before = egress_ports_of_flows(&mut harness, 300);
    let more = ecmp_config(&NEXT_HOPS, Some(1_024));
    let mut next = more.clone();
    next.routing.fib = std::sync::Arc::new(
        harness
            .switch()
            .fib()
            .build_successor(more.routing.fib.routes().map(|(route, _)| route.clone()))
            .expect("routes"),
    );
    harness.apply(&next);
    harness.run_for(Picos::from_millis(1));
    let after = egress_ports_of_flows(&mut harness, 300);
    let moved: Vec<_> = before
        .iter()
        .zip(&after)
        .filter(|(old, new)| old != new)
        .collect();
    assert!(
        moved.iter().all(|(_, new)| **new == 4),
        "only towards the new member"
    );
    assert!((45..=105).contains(&moved.len()), "a quarter: {}", moved.len());
}

/// The frames of each flow carry numbers. Missing frames must be counted as drops at their queue.
#[test]
fn removing_a_member_under_traffic_loses_only_its_queued_frames() {
    for by_route in [false, true] {
        let mut harness = harness_with_neighbours(&ecmp_config(&NEXT_HOPS, Some(1_024)));
        let length = GIGABIT.duration(GIGABIT.wire_len(68));
        let began = harness.now();
        let total = 1_500_u64;
        for n in 0..total {
            // Faster than one link, so that queues grow.
            harness.receive_at(began + Picos(length.0 * n / 8), 0, flow_frame(n as u16 % 300));
        }
        harness.run_until(began + Picos(length.0 * total / 16));
        let queued_at_2 = harness
            .switch()
            .queue_buffers(xoff_dataplane::QueueId::new(xoff_dataplane::PortId(2), 0));
        assert!(queued_at_2.total.current_cells > 0, "something waits there");
        if by_route {
            let fewer = ecmp_config(&[NEXT_HOPS[0], NEXT_HOPS[2], NEXT_HOPS[3]], Some(1_024));
            let mut next = fewer.clone();
            next.routing.fib = std::sync::Arc::new(
                harness
                    .switch()
                    .fib()
                    .build_successor(fewer.routing.fib.routes().map(|(route, _)| route.clone()))
                    .expect("routes"),
            );
            harness.apply(&next);
        } else {
            harness.set_link(2, false);
        }
        harness.run_for(Picos::from_millis(100));
        let sent: u64 = (1..5)
            .map(|port| {
                harness
                    .data_sent(port)
                    .iter()
                    .filter(|s| s.bytes[12..14] == [8, 0])
                    .count() as u64
            })
            .sum();
        let flushed = harness.drop_count(2, DropReason::PortFlushed);
        let cells = u64::from(queued_at_2.total.current_cells);
        assert_eq!(flushed, if by_route { 0 } else { cells }, "one cell a frame");
        assert_eq!(harness.dropped.len(), 0, "{:?}", harness.dropped.first());
        assert_eq!(sent + flushed, total);
    }
}
