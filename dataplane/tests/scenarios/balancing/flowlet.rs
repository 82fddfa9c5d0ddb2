//! Tests of flowlets: which flows move, when, and for which reason.

use xoff_dataplane::balance::MoveReason;
use xoff_dataplane::config::{LoadMeasure, MemberSelection, RebalanceRule, SchemeConfig, SchemeKind};
use xoff_units::Picos;

use super::{balanced, chosen, flow, moves, occupy, packets, up, with};
use crate::support::Harness;

const IDLE: Picos = Picos::from_micros(100);

fn flowlet(pick: MemberSelection) -> SchemeKind {
    SchemeKind::Flowlet {
        idle: IDLE,
        pick,
        rebalance: None,
    }
}

/// Sends frames of flow 1 for `for_us` with gaps below 100 us. Returns the egress ports.
fn keep_sending(harness: &mut Harness, for_us: u64) -> Vec<u16> {
    let send = |_| {
        harness.run_for(Picos::from_micros(90));
        chosen(harness, &flow(1))
    };
    (0..for_us / 90).map(send).collect()
}

#[test]
fn a_flow_stays_on_a_bad_path_while_it_sends_and_leaves_it_once_it_was_silent() {
    let mut harness = with(flowlet(MemberSelection::Quality));
    let first = chosen(&mut harness, &flow(1));
    occupy(&mut harness, first, 200);
    assert!(keep_sending(&mut harness, 900).iter().all(|&port| port == first));
    assert_eq!(moves(&harness, 0), [(None, first - 1, MoveReason::New)]);

    harness.run_for(IDLE);
    let second = chosen(&mut harness, &flow(1));
    assert_ne!(second, first);
    assert_eq!(
        moves(&harness, 1),
        [(Some(first - 1), second - 1, MoveReason::Idle)]
    );
}

#[test]
fn silence_ends_with_the_nanosecond() {
    for (silent, moved) in [(IDLE - Picos::from_nanos(1), false), (IDLE, true)] {
        let mut harness = with(flowlet(MemberSelection::Quality));
        let first = chosen(&mut harness, &flow(1));
        occupy(&mut harness, first, 200);
        harness.run_for(silent);
        assert_eq!(chosen(&mut harness, &flow(1)) != first, moved, "{silent:?}");
    }
}

#[test]
fn a_flow_that_was_silent_keeps_a_path_that_is_as_good_as_any() {
    let mut harness = with(flowlet(MemberSelection::Quality));
    let first = chosen(&mut harness, &flow(1));
    for _ in 0..50 {
        harness.run_for(Picos::from_millis(1));
        assert_eq!(chosen(&mut harness, &flow(1)), first);
    }
    assert_eq!(moves(&harness, 0).len(), 1);
}

#[test]
fn new_flows_spread_and_avoid_busy_ports() {
    let mut harness = with(flowlet(MemberSelection::Quality));
    occupy(&mut harness, 2, 200);
    harness.run_for(Picos::from_micros(200));
    for source_port in 0..300 {
        assert_ne!(chosen(&mut harness, &flow(source_port)), 2);
        harness.run_for(Picos::from_micros(2));
    }
    let packets = packets(&harness);
    assert!(
        [0, 2, 3]
            .iter()
            .all(|&member| (75..=125).contains(&packets[member])),
        "{packets:?}"
    );
}

#[test]
fn flows_that_begin_at_once_on_idle_links_share_none_of_them() {
    let mut harness = with(flowlet(MemberSelection::Quality));
    let mut ports: Vec<_> = (0..4).map(|n| chosen(&mut harness, &flow(100 * n))).collect();
    ports.sort_unstable();
    assert_eq!(ports, [1, 2, 3, 4]);
}

#[test]
fn without_idle_time_every_packet_chooses() {
    let mut harness = with(SchemeKind::Flowlet {
        idle: Picos::ZERO,
        pick: MemberSelection::Random,
        rebalance: None,
    });
    harness.receive_many(400, 0, &flow(1));
    let counts = packets(&harness);
    assert!(
        counts.iter().all(|count| (70..=130).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn letflow_draws_anew_after_silence_only_and_evenly() {
    let mut harness = with(flowlet(MemberSelection::Random));
    let mut changes = 0;
    let mut before = chosen(&mut harness, &flow(1));
    for _ in 0..200 {
        assert_eq!(chosen(&mut harness, &flow(1)), before);
        harness.run_for(IDLE);
        let next = chosen(&mut harness, &flow(1));
        changes += u32::from(next != before);
        before = next;
    }
    // Three of four draws select another member.
    assert!((125..=175).contains(&changes), "{changes}");
    assert_eq!(moves(&harness, 1).len(), changes as usize);
    let counts = packets(&harness);
    assert!(
        counts.iter().all(|count| (65..=135).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn a_lost_link_moves_its_flows_at_once_and_no_others() {
    let mut harness = with(flowlet(MemberSelection::Quality));
    let before: Vec<_> = (0..40).map(|n| chosen(&mut harness, &flow(n))).collect();
    let placed = moves(&harness, 0).len();
    harness.set_link(2, false);
    for (n, &port) in before.iter().enumerate() {
        let now = chosen(&mut harness, &flow(n as u16));
        assert!(if port == 2 { now != 2 } else { now == port }, "flow {n}");
    }
    let moved = moves(&harness, placed);
    assert!(!moved.is_empty());
    assert!(
        moved
            .iter()
            .all(|&(from, _, reason)| from == Some(1) && reason == MoveReason::LinkDown)
    );

    // The link comes up again. Active flows stay, and new flows use the link.
    harness.set_link(2, true);
    super::introduce(&mut harness, 2);
    let moved = moves(&harness, 0).len();
    (0..40).for_each(|n| assert_ne!(chosen(&mut harness, &flow(n)), 2));
    assert_eq!(moves(&harness, moved), []);
    assert!((1_000..1_040).any(|n| chosen(&mut harness, &flow(n)) == 2));
}

#[test]
fn flows_that_share_an_entry_share_their_path() {
    let mut harness = with(flowlet(MemberSelection::Random));
    let ports: Vec<_> = (0..3_000).map(|n| chosen(&mut harness, &flow(n))).collect();
    // The table has 256 entries, so at most 256 flows were placed. All flows are in their old places again.
    assert_eq!(moves(&harness, 0).len(), 256);
    assert!((0..3_000).all(|n| chosen(&mut harness, &flow(n)) == ports[usize::from(n)]));
    let table = harness.switch().balanced_groups(harness.now())[0]
        .table
        .expect("it has one");
    assert_eq!(
        (table.flows, table.flows_max, table.overflow_packets),
        (256, 256, 0)
    );
}

#[test]
fn a_bad_path_is_left_in_the_middle_of_a_flowlet_where_that_is_wanted() {
    let rebalance = |quality_delta, probability| SchemeKind::Flowlet {
        idle: IDLE,
        pick: MemberSelection::Quality,
        rebalance: Some(RebalanceRule {
            quality_delta,
            probability,
        }),
    };
    let after_load = |kind| {
        let mut harness = with(kind);
        let first = chosen(&mut harness, &flow(1));
        occupy(&mut harness, first, 400);
        let stayed = keep_sending(&mut harness, 1_800)
            .iter()
            .filter(|&&port| port == first)
            .count();
        (stayed, moves(&harness, 1))
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
        let mut config = balanced(SchemeConfig::new("gentle", rebalance(4, u32::MAX)));
        config.balancing.load.past.weight = 0;
        config.balancing.load.future = LoadMeasure {
            weight: 1,
            min_permille: 0,
            max_permille: 120_000,
        };
        let mut harness = up(&config);
        let first = chosen(&mut harness, &flow(1));
        occupy(&mut harness, first, 100);
        keep_sending(&mut harness, 900).iter().all(|&port| port == first)
    };
    assert!(gentle());
}

#[test]
fn path_load_takes_the_least_used_link() {
    let mut harness = with(flowlet(MemberSelection::PathLoad));
    for port in 1..4 {
        occupy(&mut harness, port, 100);
    }
    harness.run_for(Picos::from_micros(200));
    (0..5).for_each(|n| assert_eq!(chosen(&mut harness, &flow(n)), 4));
}

#[test]
fn flows_of_a_moment_do_not_all_go_where_it_was_best() {
    // One link is better by one or two bands, until a few flows use it.
    let mut harness = with(flowlet(MemberSelection::Quality));
    for port in 1..4 {
        occupy(&mut harness, port, 6);
    }
    harness.run_for(Picos::from_micros(20));
    let ports: Vec<u16> = (0..48).map(|n| chosen(&mut harness, &flow(n))).collect();
    let count = |port: u16| ports.iter().filter(|&&chosen| chosen == port).count();
    assert!((1..5).all(|port| (6..24).contains(&count(port))), "{ports:?}");
    // Old placements do not count.
    harness.run_for(Picos::from_millis(10));
    let ports: Vec<u16> = (100..104).map(|n| chosen(&mut harness, &flow(n))).collect();
    assert!((1..5).all(|port| ports.contains(&port)), "{ports:?}");
}

#[test]
fn runs_repeat_and_seeds_differ() {
    let digest = |seed| {
        let mut config = balanced(SchemeConfig::new("letflow", flowlet(MemberSelection::Random)));
        config.seed = seed;
        let mut harness = up(&config);
        for n in 0..2_000 {
            harness.run_for(Picos::from_micros(7));
            harness.receive(0, &flow(n % 37));
        }
        harness.run_for(Picos::from_millis(1));
        harness.digest()
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn a_group_keeps_its_flows_when_other_routes_change() {
    let config = balanced(SchemeConfig::new("flowlet", flowlet(MemberSelection::Quality)));
    let mut harness = up(&config);
    for n in 0..40 {
        chosen(&mut harness, &flow(n));
    }
    let placed = moves(&harness, 0).len();
    let mut changed = config.clone();
    let via = crate::support::config::via;
    crate::support::config::routes(
        &mut changed,
        &[
            ("198.51.100.0/24", via(&super::HOPS)),
            ("203.0.113.0/24", via(&super::HOPS[..2])),
        ],
    );
    harness.apply(&changed);
    for n in 0..40 {
        harness.receive(0, &flow(n));
    }
    assert_eq!(moves(&harness, placed), [], "nobody was placed anew");
}
