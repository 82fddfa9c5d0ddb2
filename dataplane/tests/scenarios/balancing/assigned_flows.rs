//! Tests of assigned flows.

use xoff_dataplane::balance::MoveReason;
use xoff_dataplane::config::{MemberSelection, SchemeKind};
use xoff_units::Picos;

use super::{fill_egress_queue, flow_frame, harness_with_scheme, moves_since, selected_port};

const FIXED_SCHEME: SchemeKind = SchemeKind::Fixed {
    pick: MemberSelection::Quality,
};

#[test]
fn an_assigned_flow_keeps_its_path_at_any_quality_and_after_any_gap() {
    let mut harness = harness_with_scheme(FIXED_SCHEME);
    let first = selected_port(&mut harness, &flow_frame(1));
    fill_egress_queue(&mut harness, first, 200);
    harness.run_for(Picos::from_micros(500));
    assert_eq!(selected_port(&mut harness, &flow_frame(1)), first);
    harness.run_for(Picos::from_millis(5_000));
    fill_egress_queue(&mut harness, first, 200);
    assert_eq!(selected_port(&mut harness, &flow_frame(1)), first);
    assert_eq!(moves_since(&harness, 0), [(None, first - 1, MoveReason::New)]);
}

#[test]
fn new_flows_select_by_quality() {
    let mut harness = harness_with_scheme(FIXED_SCHEME);
    fill_egress_queue(&mut harness, 3, 200);
    harness.run_for(Picos::from_micros(200));
    (0..100).for_each(|n| assert_ne!(selected_port(&mut harness, &flow_frame(n)), 3));
}

#[test]
fn a_link_failure_moves_flows_and_recovery_moves_none() {
    let mut harness = harness_with_scheme(FIXED_SCHEME);
    let before: Vec<_> = (0..100)
        .map(|n| selected_port(&mut harness, &flow_frame(n)))
        .collect();
    harness.set_link(3, false);
    let after: Vec<_> = (0..100)
        .map(|n| selected_port(&mut harness, &flow_frame(n)))
        .collect();
    for (before, after) in before.iter().zip(&after) {
        assert!(if *before == 3 {
            *after != 3
        } else {
            after == before
        });
    }
    let moved = moves_since(&harness, 100);
    assert_eq!(moved.len(), before.iter().filter(|&&port| port == 3).count());
    assert!(
        moved
            .iter()
            .all(|&(from, _, reason)| from == Some(2) && reason == MoveReason::LinkDown)
    );
    harness.set_link(3, true);
    super::send_arp_request_from(&mut harness, 3);
    harness.run_for(Picos::from_millis(10));
    let again: Vec<_> = (0..100)
        .map(|n| selected_port(&mut harness, &flow_frame(n)))
        .collect();
    assert_eq!(again, after);
    assert!(
        (200..240).any(|n| selected_port(&mut harness, &flow_frame(n)) == 3),
        "new flows use it"
    );
}

#[test]
fn flows_without_a_table_entry_are_hashed_and_counted() {
    let mut harness = harness_with_scheme(FIXED_SCHEME);
    let first: Vec<_> = (0..1_000)
        .map(|n| selected_port(&mut harness, &flow_frame(n)))
        .collect();
    let second: Vec<_> = (0..1_000)
        .map(|n| selected_port(&mut harness, &flow_frame(n)))
        .collect();
    assert_eq!(first, second, "hashing is static, too");
    let table = harness.switch().balanced_groups(harness.now())[0]
        .table
        .expect("it has one");
    assert_eq!((table.flows, table.flows_max), (256, 256));
    assert_eq!(table.overflow_packets, 2 * (1_000 - 256));
    assert_eq!(moves_since(&harness, 0).len(), 256);
}
