//! Tests of assigned flows.

use xoff_dataplane::balance::MoveReason;
use xoff_dataplane::config::{MemberSelection, SchemeKind};
use xoff_units::Picos;

use super::{chosen, flow, moves, occupy, with};

const FIXED: SchemeKind = SchemeKind::Fixed {
    pick: MemberSelection::Quality,
};

#[test]
fn a_flow_stays_whatever_its_path_and_however_long_it_was_silent() {
    let mut harness = with(FIXED);
    let first = chosen(&mut harness, &flow(1));
    occupy(&mut harness, first, 200);
    harness.run_for(Picos::from_micros(500));
    assert_eq!(chosen(&mut harness, &flow(1)), first);
    harness.run_for(Picos::from_millis(5_000));
    occupy(&mut harness, first, 200);
    assert_eq!(chosen(&mut harness, &flow(1)), first);
    assert_eq!(moves(&harness, 0), [(None, first - 1, MoveReason::New)]);
}

#[test]
fn new_flows_choose_by_quality() {
    let mut harness = with(FIXED);
    occupy(&mut harness, 3, 200);
    harness.run_for(Picos::from_micros(200));
    (0..100).for_each(|n| assert_ne!(chosen(&mut harness, &flow(n)), 3));
}

#[test]
fn a_lost_link_moves_its_flows_and_its_return_none() {
    let mut harness = with(FIXED);
    let before: Vec<_> = (0..100).map(|n| chosen(&mut harness, &flow(n))).collect();
    harness.set_link(3, false);
    let after: Vec<_> = (0..100).map(|n| chosen(&mut harness, &flow(n))).collect();
    for (before, after) in before.iter().zip(&after) {
        assert!(if *before == 3 {
            *after != 3
        } else {
            after == before
        });
    }
    let moved = moves(&harness, 100);
    assert_eq!(moved.len(), before.iter().filter(|&&port| port == 3).count());
    assert!(
        moved
            .iter()
            .all(|&(from, _, reason)| from == Some(2) && reason == MoveReason::LinkDown)
    );
    harness.set_link(3, true);
    super::introduce(&mut harness, 3);
    harness.run_for(Picos::from_millis(10));
    let again: Vec<_> = (0..100).map(|n| chosen(&mut harness, &flow(n))).collect();
    assert_eq!(again, after);
    assert!(
        (200..240).any(|n| chosen(&mut harness, &flow(n)) == 3),
        "new flows use it"
    );
}

#[test]
fn flows_without_a_place_are_hashed_and_counted() {
    let mut harness = with(FIXED);
    let first: Vec<_> = (0..1_000).map(|n| chosen(&mut harness, &flow(n))).collect();
    let second: Vec<_> = (0..1_000).map(|n| chosen(&mut harness, &flow(n))).collect();
    assert_eq!(first, second, "hashing is static, too");
    let table = harness.switch().balanced_groups(harness.now())[0]
        .table
        .expect("it has one");
    assert_eq!((table.flows, table.flows_max), (256, 256));
    assert_eq!(table.overflow_packets, 2 * (1_000 - 256));
    assert_eq!(moves(&harness, 0).len(), 256);
}
