//! Measures the processor time of the switch worker per frame, when it owns the ports and when one or more
//! I/O workers own them. Only turns with work count.

use std::time::Duration;

use xoff_measure::result::{BenchFigure, BenchResult, ImprovementDirection};
use xoff_measure::traffic::{SendRate, TrafficProfile, TrialConfig};

use crate::bed::FORWARDER_DEVICES;
use crate::forwarders::{Switch, worker_busy_ns};
use crate::measure::{mtu_for, wait_until_forwarding};
use crate::{Failure, Run};

const FRAME_BYTES: u32 = 1_082;

/// Adds figures of each port backend that this machine supports. The number of I/O workers ranges from none
/// to the number of the other cores, at most one for each port.
pub(crate) fn measure(run: &Run<'_>, result: &mut BenchResult) -> Result<(), Failure> {
    if run.bed.spare_cores.is_empty() {
        result.notes.push(
            "two cores: the I/O workers share that of the generator, so rates say nothing; the switch's worker has the other to itself".to_owned(),
        );
    }
    if run.bed.spare_cores.len() > FORWARDER_DEVICES.len() {
        result.notes.push(format!(
            "no more than {} I/O workers: each owns a port at least",
            FORWARDER_DEVICES.len()
        ));
    }
    for (backend, idle) in [
        ("packet", "spin"),
        ("packet", "adaptive"),
        ("xdp", "spin"),
        ("xdp", "adaptive"),
    ] {
        for io_workers in 0..=FORWARDER_DEVICES.len() {
            measure_io_workers(run, backend, idle, io_workers, result);
            if run.is_interrupted() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn measure_io_workers(run: &Run<'_>, backend: &str, idle: &str, io_workers: usize, result: &mut BenchResult) {
    let what = format!("{backend}, {idle}, {io_workers} I/O workers");
    if io_workers > run.bed.spare_cores.len().max(1) {
        result
            .notes
            .push(format!("{what}: skipped: it takes {} cores", io_workers + 2));
        return;
    }
    let (mut busy, mut rates) = (Vec::new(), Vec::new());
    for round in 0..run.rounds {
        match measure_turn(run, backend, idle, io_workers) {
            Ok((busy_ns, rate_fps)) => {
                eprintln!("round {}: {what}: {busy_ns:.0} ns/frame", round + 1);
                busy.push(busy_ns);
                rates.push(rate_fps);
            }
            Err(why) => {
                result.notes.push(format!("{what}: skipped: {why}"));
                break;
            }
        }
        if run.is_interrupted() {
            return;
        }
    }
    if busy.is_empty() {
        return;
    }
    let name = |figure: &str| format!("workers/{backend}/{idle}/{io_workers}-io/{figure}");
    let busy = BenchFigure::new(
        name("switch-busy"),
        "ns/frame",
        ImprovementDirection::Smaller,
        busy,
    );
    let rates = BenchFigure::new(name("rate"), "frames/s", ImprovementDirection::Bigger, rates);
    result.figures.extend([busy, rates]);
}

/// Returns the nanoseconds of the switch worker per frame, and the frames per second.
fn measure_turn(run: &Run<'_>, backend: &str, idle: &str, io_workers: usize) -> Result<(f64, f64), Failure> {
    let cores = run.bed.cores;
    let io_cores = match &run.bed.spare_cores[..] {
        [] => vec![cores.tester],
        spare => spare.to_vec(),
    };
    let io_cores = io_cores.iter().take(io_workers);
    let placed: Vec<usize> = std::iter::once(&cores.forwarder)
        .chain(io_cores)
        .copied()
        .collect();
    let cables = run.bed.connect_cables(mtu_for(FRAME_BYTES))?;
    let switch = Switch {
        cores: &placed,
        ..Switch::fast(backend, idle)
    };
    let mut running = switch.start(run.bed, &cables)?;
    let mut tester = cables.tester(&TrafficProfile::new(FRAME_BYTES))?;
    wait_until_forwarding(&mut tester, run.bed)?;
    let flood = TrialConfig {
        core: Some(cores.tester),
        ..TrialConfig::new(SendRate::Saturate, Duration::from_secs_f64(run.seconds))
    };
    let outcome = tester.run_trial(&flood).map_err(|failure| failure.to_string())?;
    running.end();
    let busy_ns = worker_busy_ns(run.bed)?;
    // The few frames before the flood cost more each. Their share of the time is a thousandth.
    Ok((
        busy_ns as f64 / outcome.arrivals.frames.max(1) as f64,
        outcome.window.rate_fps(),
    ))
}
