//! Runs the workload of a lab in virtual time, step by step.

use std::io::BufWriter;
use std::sync::atomic::Ordering;

use xoff_fabric::{EventLog, LinkRecording, SimulationEnd, TimeSeries, Timeline};
use xoff_ports::HugePageHeap;
use xoff_telemetry::StreamFile;
use xoff_telemetry::failure::Failure;
use xoff_units::Picos;

use super::arguments::VirtualRunArgs;
use super::progress::{ExpectedEnd, RunProgress};
use super::virtual_lab::VirtualLab;

/// The observers of a run: the event log and the recordings of links.
pub(super) type RunObservers = (Option<EventLog<BufWriter<StreamFile>>>, Vec<LinkRecording>);

/// Model time limit of a run with jobs and without `--until`. At this time, the run stops even if jobs are
/// not finished.
const UNTIL_MAX: Picos = Picos(u64::MAX / 4);
/// Number of events between two updates of the progress. A core processes them in less than half a second. The
/// length of a step does not change any result.
const EVENTS_PER_STEP: u64 = 500_000;

/// Reason why [`run_workload`] returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RunEnd {
    /// The simulation has ended.
    Simulation(SimulationEnd),
    /// The user has interrupted the run.
    Interrupted,
}

/// Runs the workload until all jobs and flows have ended, until a limit of the arguments, or until the user
/// interrupts the run.
pub(super) fn run_workload(
    lab: &mut VirtualLab,
    arguments: &VirtualRunArgs,
    progress: &RunProgress,
    observers: &mut RunObservers,
    series: &mut Option<TimeSeries>,
    timeline: &mut Option<Timeline>,
) -> Result<RunEnd, Failure> {
    let workload = &lab.plan.workload;
    let flows_end = Picos::from_nanos(workload.duration_ns);
    let drain_end = flows_end.saturating_add(Picos::from_nanos(workload.drain_ns));
    let has_jobs = !lab.simulation.jobs.workload().connections().is_empty();
    // Open-loop flows end at a fixed time. Jobs run until they are finished.
    let end = arguments
        .until
        .unwrap_or(if has_jobs { UNTIL_MAX } else { drain_end });
    let mut flows_stopped = workload.duration_ns == 0;
    let expected_end = ExpectedEnd {
        time_limit: (end < UNTIL_MAX).then_some(end),
        flows_end,
        payload_bytes: has_jobs.then(|| lab.simulation.jobs.workload().total_bytes()),
    };
    let first_event = lab.simulation.fabric.events();
    let events_max = first_event.saturating_add(arguments.events_max);
    lab.simulation.fabric.set_events_max(events_max);
    let step_end = |events: u64| events.saturating_add(EVENTS_PER_STEP);
    lab.simulation.fabric.set_step_end(step_end(first_event));
    let mut heap = HugePageHeap::default();
    loop {
        heap.update(lab.simulation.fabric.events() - first_event);
        if let Some(stop) = &arguments.stop
            && stop.load(Ordering::Relaxed)
        {
            return Ok(RunEnd::Interrupted);
        }
        let next = next_stop(
            lab,
            if flows_stopped { end } else { end.min(flows_end) },
            series,
            timeline,
        );
        let outcome = lab.run(next, has_jobs && flows_stopped, observers);
        if outcome == SimulationEnd::Finished && !has_jobs {
            // A lab without jobs runs until the end of its time, also if no event is left.
            lab.advance_idle(next);
        }
        if let Some(series) = series {
            series
                .sample(&lab.simulation.fabric)
                .map_err(|error| Failure::environment("cannot write the time series").because(error))?;
        }
        if let Some(timeline) = timeline {
            timeline.sample(&lab.simulation.fabric);
        }
        if !flows_stopped && lab.elapsed() >= flows_end {
            flows_stopped = true;
            lab.stop_flows(observers);
        }
        let elapsed = lab.elapsed();
        let fabric = &mut lab.simulation.fabric;
        let events = fabric.events();
        let payload_bytes = fabric.delivered_payload_bytes();
        progress.update(expected_end, elapsed, events - first_event, payload_bytes);
        match outcome {
            SimulationEnd::EventLimit if events < events_max => fabric.set_step_end(step_end(events)),
            SimulationEnd::TimeReached if elapsed < end => {}
            SimulationEnd::Finished if !has_jobs && elapsed < end => {}
            outcome => return Ok(RunEnd::Simulation(outcome)),
        }
    }
}

/// Returns the model time at which the next step ends at the latest: `end` or the next sample. The time counts
/// from the start of the workload.
fn next_stop(
    lab: &VirtualLab,
    end: Picos,
    series: &Option<TimeSeries>,
    timeline: &Option<Timeline>,
) -> Picos {
    let samples = [
        series.as_ref().map(TimeSeries::next_sample),
        timeline.as_ref().map(Timeline::next_sample),
    ];
    let earliest = Picos(lab.elapsed().0 + 1);
    let samples = samples.into_iter().flatten();
    samples
        .map(|at| at.since(lab.workload_start).max(earliest))
        .fold(end, Picos::min)
}
