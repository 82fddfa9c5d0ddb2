//! Skipped steps have the results of simulated ones. In the ideal network, all steps are equal, so the results are too.

use super::*;
use crate::{Algorithm, Collective, FlowSpec, Permutation, Repeat, StepUnit};

/// Runs a workload and skips `steps` steps of its first job when `complete` steps are complete. Returns the results.
fn run_with_skip(spec: &WorkloadSpec, unit: StepUnit, complete: u64, steps: u64) -> WorkloadResults {
    let mut network = Ideal::new(spec, 1);
    network.workload.record_steps();
    assert_eq!(network.workload.step_unit(0), Some(unit));
    let (mut mark, mut has_skipped) = (None, false);
    network.run_with(|workload| {
        let now_complete = workload.complete_steps(0);
        if mark.is_none() && now_complete == complete - 1 {
            mark = Some(workload.mark_steps(0));
        }
        if !has_skipped && now_complete == complete {
            let step = workload.step_window(0, 1, 0).expect("two steps");
            let skipped = Picos(step.duration.0 * steps);
            assert!(workload.steps_left(0) >= steps);
            assert!(workload.next_unrepeated_start() > skipped);
            let mark = mark.take().expect("a mark");
            assert_eq!(workload.steps_since(0, &mark), 1.0);
            workload.skip_steps(skipped, &[(0, steps, mark)]);
            assert_eq!(workload.skipped_time(), skipped);
            has_skipped = true;
        }
    });
    assert!(has_skipped);
    network.results()
}

fn exact(spec: &WorkloadSpec) -> WorkloadResults {
    let mut network = Ideal::new(spec, 1);
    network.run();
    network.results()
}

#[test]
fn steps_of_a_ring() {
    for (algorithm, gpus_per_node, bytes, slice_bytes) in [
        (Algorithm::RingAllReduce, 1, 64 * 5_000, None),
        (Algorithm::RingAllReduce, 1, 64 * 5_000, Some(1_000)),
        (Algorithm::RingAllReduce, 4, 64 * 4 * 5_000, None),
    ] {
        let collective = Collective {
            gpus_per_node,
            slice_bytes,
            ..Collective::new(algorithm, (0..64).collect(), bytes)
        };
        let spec = one(JobKind::Collective(collective));
        let results = [run_with_skip(&spec, StepUnit::RingStep, 6, 40), exact(&spec)];
        let [skipped, exact] = results.map(|mut results| {
            // All ranks end at the same time.
            results.jobs[0].iterations[0].slowest_rank = 0;
            results
        });
        assert_eq!(skipped, exact, "{algorithm:?}");
    }
}

/// Chunks of a size that cannot be divided differ by a byte, so only the sums are exact.
#[test]
fn bytes_of_unequal_chunks() {
    let collective = Collective::new(Algorithm::RingAllReduce, (0..50).collect(), 1_000_003);
    let spec = one(JobKind::Collective(collective));
    let (skipped, exact) = (run_with_skip(&spec, StepUnit::RingStep, 9, 33), exact(&spec));
    let [skipped, exact] = [&skipped.jobs[0], &exact.jobs[0]];
    assert_eq!(skipped.posted_bytes, exact.posted_bytes);
    assert_eq!(skipped.received_bytes, exact.received_bytes);
    assert_eq!(skipped.received_messages, exact.received_messages);
    let (skipped, exact) = (skipped.jct_ns.expect("finished"), exact.jct_ns.expect("finished"));
    assert!(skipped.abs_diff(exact) <= 2, "{skipped} {exact}");
}

#[test]
fn iterations_with_flow_records_and_a_gap() {
    let permutation = Permutation {
        hosts: (0..6).collect(),
        bytes: 70_000,
        iterations: 20,
        gap: Picos::from_micros(3),
    };
    let spec = one(JobKind::Permutation(permutation));
    assert_eq!(run_with_skip(&spec, StepUnit::Iteration, 4, 11), exact(&spec));
    assert_eq!(
        run_with_skip(&spec, StepUnit::Iteration, 4, 16),
        exact(&spec),
        "all"
    );
}

#[test]
fn iterations_of_one_size_and_warm_up() {
    let collective = Collective {
        bytes: vec![100_000, 300_000],
        iterations: 12,
        warmup: 6,
        ..Collective::new(Algorithm::AllToAll { rail_aligned: false }, (0..6).collect(), 0)
    };
    let spec = one(JobKind::Collective(collective));
    let results = run_with_skip(&spec, StepUnit::Iteration, 3, 14);
    assert_eq!(results, exact(&spec));
}

/// A job that starts later starts at its time, and its flows have their times.
#[test]
fn timers_of_other_jobs_move_earlier() {
    let permutation = Permutation {
        hosts: (0..6).collect(),
        bytes: 70_000,
        iterations: 20,
        gap: Picos::from_micros(3),
    };
    let flow = FlowSpec {
        src: 100,
        dst: 101,
        bytes: 5_000,
        start: Picos::from_micros(2),
        repeat: Repeat::Every {
            interval: Picos::from_micros(1),
            count: 3,
        },
    };
    let spec = WorkloadSpec {
        jobs: vec![
            JobSpec::new("steps", JobKind::Permutation(permutation)),
            JobSpec {
                start: Picos::from_micros(90),
                ..JobSpec::new("flows", JobKind::Flows(vec![flow]))
            },
        ],
    };
    assert_eq!(run_with_skip(&spec, StepUnit::Iteration, 4, 9), exact(&spec));
}
