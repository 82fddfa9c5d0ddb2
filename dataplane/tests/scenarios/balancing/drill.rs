//! Tests of the DRILL scheme.

use xoff_dataplane::config::SchemeKind;
use xoff_units::Picos;

use super::{fill_egress_queue, flow_frame, harness_with_scheme, packets_per_member, selected_port};

#[test]
fn sampling_all_members_selects_the_shortest_queue() {
    let mut harness = harness_with_scheme(SchemeKind::Drill {
        samples: 4,
        memory: 0,
    });
    harness.receive_many(400, 0, &flow_frame(1));
    assert_eq!(packets_per_member(&harness), [100; 4]);
}

#[test]
fn two_samples_and_one_remembered_member_select_nearly_the_shortest_queue() {
    let mut harness = harness_with_scheme(SchemeKind::Drill {
        samples: 2,
        memory: 1,
    });
    harness.receive_many(400, 0, &flow_frame(1));
    let counts = packets_per_member(&harness);
    assert!(
        counts.iter().all(|count| (97..=103).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn two_samples_are_two_different_members() {
    let mut harness = harness_with_scheme(SchemeKind::Drill {
        samples: 2,
        memory: 0,
    });
    fill_egress_queue(&mut harness, 2, 300);
    // The second sample is another member, which is better.
    for _ in 0..200 {
        assert_ne!(selected_port(&mut harness, &flow_frame(1)), 2);
    }
}

#[test]
fn one_sample_without_memory_selects_at_random() {
    let mut harness = harness_with_scheme(SchemeKind::Drill {
        samples: 1,
        memory: 0,
    });
    fill_egress_queue(&mut harness, 2, 100);
    harness.receive_many(1_000, 0, &flow_frame(1));
    let counts = packets_per_member(&harness);
    assert!(
        counts.iter().all(|count| (200..=300).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn the_best_member_is_remembered() {
    let mut harness = harness_with_scheme(SchemeKind::Drill {
        samples: 1,
        memory: 1,
    });
    for port in [1, 2, 4] {
        fill_egress_queue(&mut harness, port, 300);
    }
    // All flows use the best member as soon as it is drawn.
    let ports: Vec<_> = (0..100)
        .map(|_| {
            harness.run_for(Picos::from_micros(1));
            selected_port(&mut harness, &flow_frame(1))
        })
        .collect();
    let found = ports.iter().position(|&port| port == 3).expect("it is drawn");
    assert!(
        found < 20 && ports[found..].iter().all(|&port| port == 3),
        "{ports:?}"
    );
}

#[test]
fn a_member_that_is_down_is_neither_sampled_nor_remembered() {
    let mut harness = harness_with_scheme(SchemeKind::Drill {
        samples: 2,
        memory: 2,
    });
    harness.receive_many(50, 0, &flow_frame(1));
    harness.set_link(3, false);
    let before = packets_per_member(&harness)[2];
    harness.receive_many(300, 0, &flow_frame(1));
    assert_eq!(packets_per_member(&harness)[2], before);
}
