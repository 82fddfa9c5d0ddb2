//! Collectives whose outcome is known.

use std::sync::atomic::AtomicBool;

use super::*;

const BYTES: u64 = 1 << 20;

fn setting(fabric: &str) -> Setting {
    Setting {
        fabric: fabric.parse().unwrap(),
        speed_mbps: 100_000,
        bytes: BYTES,
        iterations: 1,
        congestion: "none".to_owned(),
    }
}

fn outcome(fabric: &str, collective: Collective, scheme: Option<&str>) -> Outcome {
    let subject = Subject {
        prefix: scheme.unwrap_or_default().to_owned(),
        name: collective.name().to_owned(),
        plan: setting(fabric).lab(collective, scheme).unwrap(),
    };
    run(&[subject], &[1, 2], 1, &AtomicBool::new(false), |_| ()).unwrap()
}

fn samples<'a>(outcome: &'a Outcome, name: &str) -> &'a [f64] {
    let figure = outcome.figures.iter().find(|figure| figure.name == name);
    &figure
        .unwrap_or_else(|| panic!("no {name} in {:?}", outcome.figures))
        .samples
}

#[test]
fn one_switch_that_blocks_nobody_runs_a_ring_at_its_roofline() {
    let outcome = outcome("star:4", Collective::Allreduce, None);
    assert_eq!(outcome.anomalies, Vec::<String>::new());
    let ratios = samples(&outcome, "allreduce/jct_ratio");
    assert_eq!(ratios.len(), 2);
    // Six steps, each with a cable there and back and a store-and-forward hop, of 21 us each.
    assert!(
        ratios.iter().all(|ratio| (1.0..1.15).contains(ratio)),
        "{ratios:?}"
    );
    for nothing in [
        "pfc_paused",
        "pfc_xoffs",
        "pfc_frames",
        "retransmitted",
        "dropped",
        "dropped_ppm",
        "out_of_order",
    ] {
        assert_eq!(
            samples(&outcome, &format!("allreduce/{nothing}")),
            [0.0, 0.0],
            "{nothing}"
        );
    }
    // nccl-tests: 2 (n - 1) / n x S / t.
    let (bandwidth, jct) = (
        samples(&outcome, "allreduce/bus_bandwidth")[0],
        samples(&outcome, "allreduce/jct")[0],
    );
    let expected = 1.5 * BYTES as f64 / jct;
    assert!(
        (bandwidth / expected - 1.0).abs() < 0.001,
        "{bandwidth} {expected}"
    );
    let (p99, p999) = (
        samples(&outcome, "allreduce/message_p99")[0],
        samples(&outcome, "allreduce/message_p999")[0],
    );
    assert!(0.0 < p99 && p99 <= p999 && p999 < jct);
}

#[test]
fn spraying_in_turn_spreads_evenly_and_a_hash_does_not() {
    let even = outcome("leaf-spine:2x2x2", Collective::Allreduce, Some("round-robin"));
    for (name, ideal) in [("mmr", 1.0), ("jain", 1.0)] {
        for value in samples(&even, &format!("round-robin/allreduce/{name}")) {
            assert!((value - ideal).abs() < 0.02, "{name} {value}");
        }
    }
    // An index is at most 1, and the busiest link at least as busy as the mean.
    let hashed = outcome("leaf-spine:2x2x2", Collective::Alltoall, None);
    assert!(samples(&hashed, "alltoall/mmr").iter().all(|ratio| *ratio >= 1.0));
    assert!(
        samples(&hashed, "alltoall/jain")
            .iter()
            .all(|index| (0.0..=1.0).contains(index))
    );
    let (p95, max) = (
        samples(&hashed, "alltoall/queue_p95")[0],
        samples(&hashed, "alltoall/queue_max")[0],
    );
    assert!(max > 0.0 && p95 <= max * 8.0, "{p95} {max}");
}

#[test]
fn all_collectives_come_to_their_end() {
    for collective in [
        Collective::TreeAllreduce,
        Collective::Allgather,
        Collective::ReduceScatter,
    ] {
        let outcome = outcome("star:3", collective, None);
        assert_eq!(outcome.anomalies, Vec::<String>::new());
        let name = format!("{}/jct_ratio", collective.name());
        assert!(
            samples(&outcome, &name).iter().all(|ratio| *ratio >= 1.0),
            "{name}"
        );
    }
}

#[test]
fn a_scheme_that_is_not_there_is_refused() {
    let failure = setting("star:2")
        .lab(Collective::Allreduce, Some("dice"))
        .unwrap_err();
    assert_eq!(failure.exit, xoff_telemetry::failure::Exit::Configuration);
}
