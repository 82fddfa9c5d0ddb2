//! Collectives with known results.

use std::sync::atomic::AtomicBool;
use xoff_telemetry::MemoryLimit;

use super::*;

const BYTES: u64 = 1 << 20;

fn lab_settings(fabric: &str) -> LabSettings {
    LabSettings {
        fabric: fabric.parse().unwrap(),
        speed_mbps: 100_000,
        bytes: BYTES,
        iterations: 1,
        congestion: "none".to_owned(),
    }
}

fn run_collective(fabric: &str, collective: Collective, scheme: Option<&str>) -> LabRunResults {
    let lab = BenchLab {
        prefix: scheme.unwrap_or_default().to_owned(),
        name: collective.name().to_owned(),
        plan: lab_settings(fabric).plan_lab(collective, scheme).unwrap(),
    };
    run_labs(
        &[lab],
        &[1, 2],
        1,
        MemoryLimit::UNLIMITED,
        &AtomicBool::new(false),
        |_| (),
    )
    .unwrap()
}

fn samples_of<'a>(outcome: &'a LabRunResults, name: &str) -> &'a [f64] {
    let figure = outcome.figures.iter().find(|figure| figure.name == name);
    &figure
        .unwrap_or_else(|| panic!("no {name} in {:?}", outcome.figures))
        .samples
}

#[test]
fn a_ring_at_a_non_blocking_switch_reaches_the_roofline() {
    let outcome = run_collective("star:4", Collective::Allreduce, None);
    assert_eq!(outcome.anomalies, Vec::<String>::new());
    let ratios = samples_of(&outcome, "allreduce/jct_ratio");
    assert_eq!(ratios.len(), 2);
    // An AllReduce of four ranks has six steps. Each step takes 21 us, two cable delays and one
    // store-and-forward hop.
    assert!(
        ratios.iter().all(|ratio| (1.0..1.15).contains(ratio)),
        "{ratios:?}"
    );
    for name in [
        "pfc_paused",
        "pfc_xoffs",
        "pfc_frames",
        "retransmitted",
        "dropped",
        "dropped_ppm",
        "out_of_order",
    ] {
        assert_eq!(
            samples_of(&outcome, &format!("allreduce/{name}")),
            [0.0, 0.0],
            "{name}"
        );
    }
    // Bus bandwidth of nccl-tests: 2 (n - 1) / n x S / t.
    let (bandwidth, jct) = (
        samples_of(&outcome, "allreduce/bus_bandwidth")[0],
        samples_of(&outcome, "allreduce/jct")[0],
    );
    let expected = 1.5 * BYTES as f64 / jct;
    assert!(
        (bandwidth / expected - 1.0).abs() < 0.001,
        "{bandwidth} {expected}"
    );
    let (p99, p999) = (
        samples_of(&outcome, "allreduce/message_p99")[0],
        samples_of(&outcome, "allreduce/message_p999")[0],
    );
    assert!(0.0 < p99 && p99 <= p999 && p999 < jct);
}

#[test]
fn round_robin_balances_links_evenly_and_a_hash_does_not() {
    let even = run_collective("leaf-spine:2x2x2", Collective::Allreduce, Some("round-robin"));
    for (name, ideal) in [("mmr", 1.0), ("jain", 1.0)] {
        for value in samples_of(&even, &format!("round-robin/allreduce/{name}")) {
            assert!((value - ideal).abs() < 0.02, "{name} {value}");
        }
    }
    // Jain's index is at most 1, and the ratio of the busiest link to the mean is at least 1.
    let hashed = run_collective("leaf-spine:2x2x2", Collective::Alltoall, None);
    assert!(
        samples_of(&hashed, "alltoall/mmr")
            .iter()
            .all(|ratio| *ratio >= 1.0)
    );
    assert!(
        samples_of(&hashed, "alltoall/jain")
            .iter()
            .all(|index| (0.0..=1.0).contains(index))
    );
    let (p95, max) = (
        samples_of(&hashed, "alltoall/queue_p95")[0],
        samples_of(&hashed, "alltoall/queue_max")[0],
    );
    assert!(max > 0.0 && p95 <= max * 8.0, "{p95} {max}");
}

#[test]
fn all_collectives_complete() {
    for collective in [
        Collective::TreeAllreduce,
        Collective::Allgather,
        Collective::ReduceScatter,
    ] {
        let outcome = run_collective("star:3", collective, None);
        assert_eq!(outcome.anomalies, Vec::<String>::new());
        let name = format!("{}/jct_ratio", collective.name());
        assert!(
            samples_of(&outcome, &name).iter().all(|ratio| *ratio >= 1.0),
            "{name}"
        );
    }
}

#[test]
fn an_unknown_scheme_is_refused() {
    let failure = lab_settings("star:2")
        .plan_lab(Collective::Allreduce, Some("dice"))
        .unwrap_err();
    assert_eq!(failure.exit, xoff_telemetry::failure::Exit::Usage);
}
