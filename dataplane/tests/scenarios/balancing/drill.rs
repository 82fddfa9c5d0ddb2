//! Tests of the DRILL scheme.

use xoff_dataplane::config::SchemeKind;
use xoff_units::Picos;

use super::{chosen, flow, occupy, packets, with};

#[test]
fn all_members_as_samples_are_the_shortest_queue() {
    let mut harness = with(SchemeKind::Drill {
        samples: 4,
        memory: 0,
    });
    harness.receive_many(400, 0, &flow(1));
    assert_eq!(packets(&harness), [100; 4]);
}

#[test]
fn two_samples_and_one_memory_are_nearly_as_good() {
    let mut harness = with(SchemeKind::Drill {
        samples: 2,
        memory: 1,
    });
    harness.receive_many(400, 0, &flow(1));
    let counts = packets(&harness);
    assert!(
        counts.iter().all(|count| (97..=103).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn two_samples_are_different_ones() {
    let mut harness = with(SchemeKind::Drill {
        samples: 2,
        memory: 0,
    });
    occupy(&mut harness, 2, 300);
    // The second sample is another member, which is better.
    for _ in 0..200 {
        assert_ne!(chosen(&mut harness, &flow(1)), 2);
    }
}

#[test]
fn one_sample_without_memory_is_random() {
    let mut harness = with(SchemeKind::Drill {
        samples: 1,
        memory: 0,
    });
    occupy(&mut harness, 2, 100);
    harness.receive_many(1_000, 0, &flow(1));
    let counts = packets(&harness);
    assert!(
        counts.iter().all(|count| (200..=300).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn what_was_the_best_is_remembered() {
    let mut harness = with(SchemeKind::Drill {
        samples: 1,
        memory: 1,
    });
    for port in [1, 2, 4] {
        occupy(&mut harness, port, 300);
    }
    // All flows use the best member as soon as it is drawn.
    let ports: Vec<_> = (0..100)
        .map(|_| {
            harness.run_for(Picos::from_micros(1));
            chosen(&mut harness, &flow(1))
        })
        .collect();
    let found = ports.iter().position(|&port| port == 3).expect("it is drawn");
    assert!(
        found < 20 && ports[found..].iter().all(|&port| port == 3),
        "{ports:?}"
    );
}

#[test]
fn a_dead_member_is_neither_drawn_nor_remembered() {
    let mut harness = with(SchemeKind::Drill {
        samples: 2,
        memory: 2,
    });
    harness.receive_many(50, 0, &flow(1));
    harness.set_link(3, false);
    let before = packets(&harness)[2];
    harness.receive_many(300, 0, &flow(1));
    assert_eq!(packets(&harness)[2], before);
}
