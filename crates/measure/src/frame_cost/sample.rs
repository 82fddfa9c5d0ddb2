//! Nanoseconds a frame: a process for each sample.
//!
//! Where a process has its memory changes what the same program takes by a few percent, for the whole of its life. So rounds within
//! one process say how quiet the machine is, not how fast the program; a sample here is one process, and workloads take turns.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::{Load, Workload};
use crate::child::{self, ProgramOutput};
use crate::result::{BenchFigure, BenchResult, BetterWhen, MachineMeter, TaintLimits};
use xoff_telemetry::failure::{Exit, Failure};

/// Least time of a round: a reading of the clock and an interrupt are a few parts in ten thousand of it.
const ROUND: Duration = Duration::from_millis(5);
/// Rounds of a sample. What disturbs a round makes it longer, so the sample is its lower quartile.
const ROUNDS: usize = 7;

/// What one frame takes of this thread's processor time, in nanoseconds.
///
/// # Errors
/// The load was not what it should have been (exit code 1), or ends before it can be measured.
pub fn sample(load: &mut dyn Load) -> Result<f64, Failure> {
    let mut frames = 1_024;
    // Also the time in which caches and branch predictors learn.
    while timed(load, frames)?.0 < ROUND {
        frames *= 2;
    }
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let (time, count) = timed(load, frames)?;
        rounds.push(time.as_secs_f64() * 1e9 / count as f64);
    }
    load.check().map_err(wrong)?;
    rounds.sort_by(f64::total_cmp);
    Ok(rounds[ROUNDS / 4])
}

fn timed(load: &mut dyn Load, frames: u64) -> Result<(Duration, u64), Failure> {
    let begun = processor_time()?;
    let count = load.run(frames);
    let time = processor_time()?.saturating_sub(begun);
    if count < frames {
        return Err(
            wrong(format!("its traffic ended after {count} of {frames} frames"))
                .fix("give a lab whose jobs send for longer"),
        );
    }
    Ok((time, count))
}

pub(super) fn wrong(why: String) -> Failure {
    Failure::new(Exit::CheckFailed, "the load was not what is to be measured").because(why)
}

fn processor_time() -> Result<Duration, Failure> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map(Duration::from)
        .map_err(|error| Failure::environment("no clock of processor time").because(error))
}

/// Measures these workloads in turns, `rounds` processes each.
///
/// # Errors
/// A process that fails; an interruption.
pub fn measure(
    workloads: &[Workload],
    rounds: usize,
    stop: &AtomicBool,
    mut told: impl FnMut(&str),
) -> Result<BenchResult, Failure> {
    let mut samples = vec![Vec::with_capacity(rounds); workloads.len()];
    let meter = MachineMeter::start();
    for round in 0..rounds {
        told(&format!("round {} of {rounds}", round + 1));
        for n in 0..workloads.len() {
            // The order is another one each round, so that no workload always follows the same one.
            let at = (n + round) % workloads.len();
            samples[at].push(of_process(&workloads[at], stop)?);
        }
    }
    let (environment, tainted) = meter.finish(&TaintLimits::default());
    let mut result = BenchResult::new("core", &format!("xoff {}", env!("CARGO_PKG_VERSION")), 1);
    result.environment = Some(environment);
    result.tainted = tainted;
    if cfg!(debug_assertions) {
        let why = "a build for debugging (`cargo build --release`)";
        result.tainted.push(why.to_owned());
    }
    result.figures = workloads
        .iter()
        .zip(samples)
        .map(|(load, samples)| {
            BenchFigure::new(format!("{}/time", load.name), "ns", BetterWhen::Smaller, samples)
        })
        .collect();
    Ok(result)
}

/// The sample of a process of its own.
fn of_process(workload: &Workload, stop: &AtomicBool) -> Result<f64, Failure> {
    // Not by its path: a build may put another program there meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.args(&workload.arguments).arg("--sample");
    let printed = child::run_program(&mut command, stop)?;
    match printed.stdout.trim().parse() {
        Ok(nanos) if printed.status.success() => Ok(nanos),
        _ => Err(failed(workload, &printed)),
    }
}

/// What that process has ended with is what this one ends with: a file may have been changed since the first sample.
fn failed(workload: &Workload, printed: &ProgramOutput) -> Failure {
    let exit = match printed.status.code() {
        Some(1) => Exit::CheckFailed,
        Some(2) => Exit::Usage,
        Some(4) => Exit::Configuration,
        Some(130) => Exit::Interrupted,
        _ => Exit::Environment,
    };
    let why = match printed.stderr.trim() {
        "" => format!("its process printed no error ({})", printed.status),
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

    /// Takes what it is told to take.
    struct Ends(u64);

    impl Load for Ends {
        fn run(&mut self, frames: u64) -> u64 {
            let done = frames.min(self.0);
            self.0 -= done;
            done
        }
        fn check(&self) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn a_load_that_ends_is_told() {
        let failure = sample(&mut Ends(5_000)).unwrap_err();
        assert_eq!(failure.exit, Exit::CheckFailed);
        assert!(failure.to_string().contains("ended"), "{failure}");
    }

    #[test]
    fn a_process_that_fails_keeps_its_exit_code() {
        let ends = |script: &str| {
            let printed =
                child::run_program(Command::new("sh").args(["-c", script]), &AtomicBool::new(false)).unwrap();
            failed(
                &Workload::of_configuration(std::path::Path::new("c.json")),
                &printed,
            )
        };
        let wrong = ends("echo a speed of -5 >&2; exit 4");
        assert_eq!(wrong.exit, Exit::Configuration);
        assert!(wrong.to_string().contains("a speed of -5"), "{wrong}");
        assert_eq!(ends("exit 1").exit, Exit::CheckFailed);
        let killed = ends("kill -9 $$");
        assert_eq!(killed.exit, Exit::Environment);
        assert!(killed.to_string().contains("signal"), "{killed}");
    }

    #[test]
    fn a_sample_is_a_positive_time() {
        let mut load = VirtualLabLoad::permutation().unwrap();
        assert!(sample(&mut load).unwrap() > 0.0);
    }
}
