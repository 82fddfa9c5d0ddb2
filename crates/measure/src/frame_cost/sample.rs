//! Measures the processor time for each frame. Each sample is a separate process.
//!
//! The memory layout of a process changes its speed by a few percent, for the whole life of the process.
//! Therefore, several rounds in one process do not show the speed of the program. Each sample is a separate
//! process, and the processes of the workloads run in turns.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::{FrameLoad, Workload};
use crate::child::{self, ProgramOutput};
use crate::result::{BenchFigure, BenchResult, ImprovementDirection, MachineMeter, TaintLimits};
use xoff_telemetry::failure::{Exit, Failure};

/// Shortest processor time of a round. Reading the clock or an interrupt adds less than 0.1 % to this time.
const ROUND_TIME_MIN: Duration = Duration::from_millis(5);
/// Number of rounds in a sample. The value of the sample is the lower quartile of the rounds, because
/// disturbances only make rounds longer.
const ROUNDS: usize = 7;

/// Sends frames from this thread, and returns the processor time for one frame in nanoseconds. The value is
/// the lower quartile of seven rounds of at least 5 ms.
///
/// # Errors
/// The traffic of the load was not as intended (exit code 1), or it ended before the end of the measurement.
pub fn measure_frame_ns(load: &mut dyn FrameLoad) -> Result<f64, Failure> {
    let mut frames = 1_024;
    // These runs also warm up caches and branch predictors.
    while time_frames(load, frames)?.0 < ROUND_TIME_MIN {
        frames *= 2;
    }
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let (time, count) = time_frames(load, frames)?;
        rounds.push(time.as_secs_f64() * 1e9 / count as f64);
    }
    load.check().map_err(load_failure)?;
    rounds.sort_by(f64::total_cmp);
    Ok(rounds[ROUNDS / 4])
}

/// Sends `frames` frames. Returns the processor time and the number of frames sent.
fn time_frames(load: &mut dyn FrameLoad, frames: u64) -> Result<(Duration, u64), Failure> {
    let start = thread_processor_time()?;
    let count = load.run(frames);
    let time = thread_processor_time()?.saturating_sub(start);
    if count == 0 {
        return Err(no_traffic_failure("the load sent no frame".to_owned())
            .fix("give a lab whose jobs send from the start of the workload"));
    }
    if count < frames {
        return Err(load_failure(format!(
            "the traffic ended after {count} of {}",
            xoff_telemetry::count_noun(frames, "frame")
        ))
        .fix("give a lab whose jobs send for a longer time"));
    }
    Ok((time, count))
}

pub(super) fn load_failure(why: String) -> Failure {
    Failure::new(Exit::CheckFailed, "the traffic of the load was not as intended").because(why)
}

/// Returns the failure for a load without frames. Such a run proves nothing.
pub(super) fn no_traffic_failure(why: String) -> Failure {
    Failure::new(Exit::Inconclusive, "no traffic").because(why)
}

fn thread_processor_time() -> Result<Duration, Failure> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map(Duration::from)
        .map_err(|error| Failure::environment("the processor time cannot be read").because(error))
}

/// Measures the processor time for each frame of each workload. Each workload runs in `rounds` processes, and
/// the processes of the workloads run in turns. The result has the figure `WORKLOAD/time` with `rounds`
/// samples for each workload. `report_progress` receives a text for each round.
///
/// # Errors
/// A process fails, or `stop` becomes true.
///
/// # Panics
/// `rounds` is 0.
pub fn measure_time(
    workloads: &[Workload],
    rounds: usize,
    stop: &AtomicBool,
    mut report_progress: impl FnMut(&str),
) -> Result<BenchResult, Failure> {
    let mut samples = vec![Vec::with_capacity(rounds); workloads.len()];
    let meter = MachineMeter::start();
    for round in 0..rounds {
        report_progress(&format!("round {} of {rounds}", round + 1));
        for n in 0..workloads.len() {
            // Each round starts with another workload.
            let index = (n + round) % workloads.len();
            samples[index].push(measure_in_process(&workloads[index], stop)?);
        }
    }
    let (environment, tainted) = meter.finish(&TaintLimits::default());
    let mut result = BenchResult::new("core", &format!("xoff {}", env!("CARGO_PKG_VERSION")), 1);
    result.environment = Some(environment);
    result.tainted = tainted;
    if cfg!(debug_assertions) {
        let why = "a debug build (`cargo build --release` builds the program for measurements)";
        result.tainted.push(why.to_owned());
    }
    result.figures = workloads
        .iter()
        .zip(samples)
        .map(|(load, samples)| {
            BenchFigure::new(
                format!("{}/time", load.name),
                "ns",
                ImprovementDirection::Smaller,
                samples,
            )
        })
        .collect();
    Ok(result)
}

/// Measures one sample in a new process.
fn measure_in_process(workload: &Workload, stop: &AtomicBool) -> Result<f64, Failure> {
    // The path of the program file is not used, because a build may replace the file during the measurement.
    let mut command = Command::new("/proc/self/exe");
    command.args(&workload.arguments).arg("--sample");
    let printed = child::run_program(&mut command, stop)?;
    match printed.stdout.trim().parse() {
        Ok(nanos) if printed.status.success() => Ok(nanos),
        _ => Err(process_failure(workload, &printed)),
    }
}

/// Returns the failure for a process that ended with an error. The failure keeps a known exit code, for
/// example the code for an invalid file: the user may have changed the file of the workload since the
/// first sample.
fn process_failure(workload: &Workload, printed: &ProgramOutput) -> Failure {
    let exit = match printed.status.code() {
        Some(1) => Exit::CheckFailed,
        Some(2) => Exit::Usage,
        Some(4) => Exit::Configuration,
        Some(5) => Exit::Inconclusive,
        Some(130) => Exit::Interrupted,
        _ => Exit::Environment,
    };
    let why = match printed.stderr.trim() {
        "" => format!("the process printed no error ({})", printed.status),
        error => error.to_owned(),
    };
    Failure::new(exit, "a workload could not be measured")
        .at(format!("workload {}", workload.name))
        .because(why)
}

#[cfg(test)]
mod tests {
    use super::super::VirtualLabLoad;
    use super::*;

    /// A load that ends after this number of frames.
    struct LimitedLoad(u64);

    impl FrameLoad for LimitedLoad {
        fn run(&mut self, frames: u64) -> u64 {
            let sent = frames.min(self.0);
            self.0 -= sent;
            sent
        }
        fn check(&self) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn a_load_that_ends_before_the_measurement_is_an_error() {
        let failure = measure_frame_ns(&mut LimitedLoad(5_000)).unwrap_err();
        assert_eq!(failure.exit, Exit::CheckFailed);
        assert!(failure.to_string().contains("ended"), "{failure}");
    }

    #[test]
    fn a_load_without_frames_proves_nothing() {
        let failure = measure_frame_ns(&mut LimitedLoad(0)).unwrap_err();
        assert_eq!(failure.exit, Exit::Inconclusive);
        assert!(failure.to_string().contains("no traffic"), "{failure}");
    }

    #[test]
    fn a_process_that_fails_keeps_its_exit_code() {
        let failure_of = |script: &str| {
            let printed =
                child::run_program(Command::new("sh").args(["-c", script]), &AtomicBool::new(false)).unwrap();
            process_failure(
                &Workload::of_configuration(std::path::Path::new("c.json")),
                &printed,
            )
        };
        let invalid = failure_of("echo a speed of -5 >&2; exit 4");
        assert_eq!(invalid.exit, Exit::Configuration);
        assert!(invalid.to_string().contains("a speed of -5"), "{invalid}");
        assert_eq!(failure_of("exit 1").exit, Exit::CheckFailed);
        assert_eq!(failure_of("exit 5").exit, Exit::Inconclusive);
        let killed = failure_of("kill -9 $$");
        assert_eq!(killed.exit, Exit::Environment);
        assert!(killed.to_string().contains("signal"), "{killed}");
    }

    #[test]
    fn a_sample_is_a_positive_time() {
        let mut load = VirtualLabLoad::permutation().unwrap();
        assert!(measure_frame_ns(&mut load).unwrap() > 0.0);
    }
}
