//! Tests of flowlets: which flows move, when, and for which reason.

use xoff_dataplane::balance::MoveReason;
use xoff_dataplane::config::{LoadMeasure, MemberSelection, RebalanceRule, SchemeConfig, SchemeKind};
use xoff_units::Picos;

use super::{
    balanced_config, fill_egress_queue, flow_frame, harness_with_neighbours, harness_with_scheme,
    moves_since, packets_per_member, selected_port,
};
use crate::support::Harness;

const IDLE_TIME: Picos = Picos::from_micros(100);

fn flowlet_scheme(pick: MemberSelection) -> SchemeKind {
    SchemeKind::Flowlet {
        idle: IDLE_TIME,
        pick,
        rebalance: None,
    }
}

/// Sends frames of flow 1 for `for_us` with gaps below 100 us. Returns the egress ports.
fn send_without_idle_gap(harness: &mut Harness, for_us: u64) -> Vec<u16> {
    let send = |_| {
        harness.run_for(Picos::from_micros(90));
        selected_port(harness, &flow_frame(1))
    };
    (0..for_us / 90).map(send).collect()
}

#[test]
fn a_flow_leaves_a_bad_path_only_after_the_idle_time() {
    let mut harness = harness_with_scheme(flowlet_scheme(MemberSelection::Quality));
    let first = selected_port(&mut harness, &flow_frame(1));
    fill_egress_queue(&mut harness, first, 200);
    assert!(
        send_without_idle_gap(&mut harness, 900)
            .iter()
            .all(|&port| port == first)
    );
    assert_eq!(moves_since(&harness, 0), [(None, first - 1, MoveReason::New)]);

    harness.run_for(IDLE_TIME);
    let second = selected_port(&mut harness, &flow_frame(1));
    assert_ne!(second, first);
    assert_eq!(
        moves_since(&harness, 1),
        [(Some(first - 1), second - 1, MoveReason::Idle)]
    );
}

#[test]
fn the_idle_time_is_exact_to_the_nanosecond() {
    for (silent, moved) in [(IDLE_TIME - Picos::from_nanos(1), false), (IDLE_TIME, true)] {
        let mut harness = harness_with_scheme(flowlet_scheme(MemberSelection::Quality));
        let first = selected_port(&mut harness, &flow_frame(1));
        fill_egress_queue(&mut harness, first, 200);
        harness.run_for(silent);
        assert_eq!(
            selected_port(&mut harness, &flow_frame(1)) != first,
            moved,
            "{silent:?}"
        );
    }
}

#[test]
fn an_idle_flow_keeps_a_path_of_the_best_quality() {
    let mut harness = harness_with_scheme(flowlet_scheme(MemberSelection::Quality));
    let first = selected_port(&mut harness, &flow_frame(1));
    for _ in 0..50 {
        harness.run_for(Picos::from_millis(1));
        assert_eq!(selected_port(&mut harness, &flow_frame(1)), first);
    }
    assert_eq!(moves_since(&harness, 0).len(), 1);
}

#[test]
fn new_flows_spread_over_members_and_avoid_busy_ports() {
    let mut harness = harness_with_scheme(flowlet_scheme(MemberSelection::Quality));
    fill_egress_queue(&mut harness, 2, 200);
    harness.run_for(Picos::from_micros(200));
    for source_port in 0..300 {
        assert_ne!(selected_port(&mut harness, &flow_frame(source_port)), 2);
        harness.run_for(Picos::from_micros(2));
    }
    let packets = packets_per_member(&harness);
    assert!(
        [0, 2, 3]
            .iter()
            .all(|&member| (75..=125).contains(&packets[member])),
        "{packets:?}"
    );
}

#[test]
fn simultaneous_new_flows_use_different_idle_links() {
    let mut harness = harness_with_scheme(flowlet_scheme(MemberSelection::Quality));
    let mut ports: Vec<_> = (0..4)
        .map(|n| selected_port(&mut harness, &flow_frame(100 * n)))
        .collect();
    ports.sort_unstable();
    assert_eq!(ports, [1, 2, 3, 4]);
}

#[test]
fn without_an_idle_time_every_packet_selects_a_member() {
    let mut harness = harness_with_scheme(SchemeKind::Flowlet {
        idle: Picos::ZERO,
        pick: MemberSelection::Random,
        rebalance: None,
    });
    harness.receive_many(400, 0, &flow_frame(1));
    let counts = packets_per_member(&harness);
    assert!(
        counts.iter().all(|count| (70..=130).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn letflow_selects_at_random_only_after_the_idle_time() {
    let mut harness = harness_with_scheme(flowlet_scheme(MemberSelection::Random));
    let mut changes = 0;
    let mut before = selected_port(&mut harness, &flow_frame(1));
    for _ in 0..200 {
        assert_eq!(selected_port(&mut harness, &flow_frame(1)), before);
        harness.run_for(IDLE_TIME);
        let next = selected_port(&mut harness, &flow_frame(1));
        changes += u32::from(next != before);
        before = next;
    }
    // Three of four draws select another member.
    assert!((125..=175).contains(&changes), "{changes}");
    assert_eq!(moves_since(&harness, 1).len(), changes as usize);
    let counts = packets_per_member(&harness);
    assert!(
        counts.iter().all(|count| (65..=135).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn a_link_failure_moves_only_its_flows_and_at_once() {
    let mut harness = harness_with_scheme(flowlet_scheme(MemberSelection::Quality));
    let before: Vec<_> = (0..40)
        .map(|n| selected_port(&mut harness, &flow_frame(n)))
        .collect();
    let placed = moves_since(&harness, 0).len();
    harness.set_link(2, false);
    for (n, &port) in before.iter().enumerate() {
        let now = selected_port(&mut harness, &flow_frame(n as u16));
        assert!(if port == 2 { now != 2 } else { now == port }, "flow {n}");
    }
    let moved = moves_since(&harness, placed);
    assert!(!moved.is_empty());
    assert!(
        moved
            .iter()
            .all(|&(from, _, reason)| from == Some(1) && reason == MoveReason::LinkDown)
    );

    // The link comes up again. Active flows stay, and new flows use the link.
    harness.set_link(2, true);
    super::send_arp_request_from(&mut harness, 2);
    let moved = moves_since(&harness, 0).len();
    (0..40).for_each(|n| assert_ne!(selected_port(&mut harness, &flow_frame(n)), 2));
    assert_eq!(moves_since(&harness, moved), []);
    assert!((1_000..1_040).any(|n| selected_port(&mut harness, &flow_frame(n)) == 2));
}

#[test]
fn flows_that_share_a_table_entry_share_their_path() {
    let mut harness = harness_with_scheme(flowlet_scheme(MemberSelection::Random));
    let ports: Vec<_> = (0..3_000)
        .map(|n| selected_port(&mut harness, &flow_frame(n)))
        .collect();
    // The table has 256 entries, so at most 256 flows were placed. All flows are in their old places again.
    assert_eq!(moves_since(&harness, 0).len(), 256);
    assert!((0..3_000).all(|n| selected_port(&mut harness, &flow_frame(n)) == ports[usize::from(n)]));
    let table = harness.switch().balanced_groups(harness.now())[0]
        .table
        .expect("it has one");
    assert_eq!(
        (table.flows, table.flows_max, table.overflow_packets),
        (256, 256, 0)
    );
}

#[test]
fn rebalancing_moves_a_flow_within_a_flowlet() {
    let rebalance = |quality_delta, probability| SchemeKind::Flowlet {
        idle: IDLE_TIME,
        pick: MemberSelection::Quality,
        rebalance: Some(RebalanceRule {
            quality_delta,
            probability,
        }),
    };
    let after_load = |kind| {
        let mut harness = harness_with_scheme(kind);
        let first = selected_port(&mut harness, &flow_frame(1));
        fill_egress_queue(&mut harness, first, 400);
        let stayed = send_without_idle_gap(&mut harness, 1_800)
            .iter()
            .filter(|&&port| port == first)
            .count();
        (stayed, moves_since(&harness, 1))
    };
    let (stayed, moved) = after_load(rebalance(4, u32::MAX));
    assert_eq!(stayed, 0, "after 90 us its band is the worst");
    assert!(matches!(moved[..], [(Some(_), _, MoveReason::Quality)]));
    assert_eq!(after_load(rebalance(4, 0)).0, 20);
    assert_eq!(after_load(rebalance(0, u32::MAX)).0, 20);
    let (stayed, moved) = after_load(rebalance(4, u32::MAX / 4));
    assert!((1..15).contains(&stayed), "one in four may move: {stayed}");
    assert_eq!(moved.len(), 1);
    // A queue of 400 us changes the quality by at least one band and less than seven, if the past load has no
    // weight.
    let gentle = || {
        let mut config = balanced_config(SchemeConfig::new("gentle", rebalance(4, u32::MAX)));
        config.balancing.load.past.weight = 0;
        config.balancing.load.future = LoadMeasure {
            weight: 1,
            min_permille: 0,
            max_permille: 120_000,
        };
        let mut harness = harness_with_neighbours(&config);
        let first = selected_port(&mut harness, &flow_frame(1));
        fill_egress_queue(&mut harness, first, 100);
        send_without_idle_gap(&mut harness, 900)
            .iter()
            .all(|&port| port == first)
    };
    assert!(gentle());
}

#[test]
fn path_load_selects_the_least_used_link() {
    let mut harness = harness_with_scheme(flowlet_scheme(MemberSelection::PathLoad));
    for port in 1..4 {
        fill_egress_queue(&mut harness, port, 100);
    }
    harness.run_for(Picos::from_micros(200));
    (0..5).for_each(|n| assert_eq!(selected_port(&mut harness, &flow_frame(n)), 4));
}

#[test]
fn simultaneous_flows_do_not_all_select_the_same_best_link() {
    // One link is better by one or two bands, until a few flows use it.
    let mut harness = harness_with_scheme(flowlet_scheme(MemberSelection::Quality));
    for port in 1..4 {
        fill_egress_queue(&mut harness, port, 6);
    }
    harness.run_for(Picos::from_micros(20));
    let ports: Vec<u16> = (0..48)
        .map(|n| selected_port(&mut harness, &flow_frame(n)))
        .collect();
    let count = |port: u16| ports.iter().filter(|&&chosen| chosen == port).count();
    assert!((1..5).all(|port| (6..24).contains(&count(port))), "{ports:?}");
    // Old placements do not count.
    harness.run_for(Picos::from_millis(10));
    let ports: Vec<u16> = (100..104)
        .map(|n| selected_port(&mut harness, &flow_frame(n)))
        .collect();
    assert!((1..5).all(|port| ports.contains(&port)), "{ports:?}");
}

#[test]
fn equal_seeds_repeat_a_run_and_other_seeds_differ() {
    let digest = |seed| {
        let mut config = balanced_config(SchemeConfig::new(
            "letflow",
            flowlet_scheme(MemberSelection::Random),
        ));
        config.seed = seed;
        let mut harness = harness_with_neighbours(&config);
        for n in 0..2_000 {
            harness.run_for(Picos::from_micros(7));
            harness.receive(0, &flow_frame(n % 37));
        }
        harness.run_for(Picos::from_millis(1));
        harness.digest()
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn a_flowlet_group_keeps_its_flows_when_other_routes_change() {
    let config = balanced_config(SchemeConfig::new(
        "flowlet",
        flowlet_scheme(MemberSelection::Quality),
    ));
    let mut harness = harness_with_neighbours(&config);
    for n in 0..40 {
        selected_port(&mut harness, &flow_frame(n));
    }
    let placed = moves_since(&harness, 0).len();
    let mut changed = config.clone();
    let via = crate::support::config::equal_cost_target;
    crate::support::config::set_static_routes(
        &mut changed,
        &[
            ("198.51.100.0/24", via(&super::NEXT_HOPS)),
            ("203.0.113.0/24", via(&super::NEXT_HOPS[..2])),
        ],
    );
    harness.apply(&changed);
    for n in 0..40 {
        harness.receive(0, &flow_frame(n));
    }
    assert_eq!(moves_since(&harness, placed), [], "nobody was placed anew");
}
