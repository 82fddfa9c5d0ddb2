//! Counts the instructions for each frame with valgrind. The counts are the same in every run, even on a
//! busy machine.
//!
//! A workload runs twice, with different numbers of frames. The difference between the two counts does not
//! include the instructions of the start-up. The C library selects variants of functions such as `memcpy` by
//! the features of the processor. These variants are disabled for AVX2 and later, so that the counts do not
//! depend on the machine.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::Workload;
use super::sample::{load_failure, no_traffic_failure};
use crate::child;
use crate::result::{BenchFigure, BenchResult, ImprovementDirection};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{Environment, allowed_cpus};

/// Number of frames in the first run, a multiple of the burst length.
const FIRST_RUN_FRAMES: u64 = 8_192;

/// Value of `GLIBC_TUNABLES` that disables processor-specific functions. It contains the names for glibc 2.33
/// and for older versions.
const GLIBC_TUNABLES: &str =
    "glibc.cpu.hwcaps=-AVX2,-AVX2_Usable,-AVX512F,-AVX512VL,-AVX512BW,-EVEX,-ERMS,-FSRM,-RTM";

/// Builds the load of a workload and sends at least `frames` frames. Returns the number of sent frames.
/// Processes under valgrind call this function.
///
/// # Errors
/// The load cannot be built, sends no frame ([`Exit::Inconclusive`]), or its traffic was not
/// as intended ([`FrameLoad::check`](super::FrameLoad::check)).
pub fn run_workload_once(workload: &Workload, frames: u64) -> Result<u64, Failure> {
    let mut load = workload.build()?;
    let count = load.run(frames);
    if count == 0 {
        return Err(no_traffic_failure("the load sent no frame".to_owned()));
    }
    load.check().map_err(load_failure)?;
    Ok(count)
}

/// Counts the instructions for each frame of each workload. Several workloads run at the same time, at most
/// one on each allowed processor. The result has the figure `WORKLOAD/instructions` for each workload.
/// `report_progress` receives the name of each workload when it starts.
///
/// # Errors
/// Valgrind is not installed, a run fails, or `stop` becomes true.
pub fn count_instructions(
    workloads: &[Workload],
    stop: &AtomicBool,
    report_progress: impl Fn(&str) + Sync,
) -> Result<BenchResult, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::environment("the path of this program is unknown").because(error))?;
    let valgrind = ValgrindRunner { program, stop };
    valgrind.check_installed()?;
    let next = AtomicUsize::new(0);
    let counts = Mutex::new(vec![None; workloads.len()]);
    thread::scope(|scope| {
        for _ in 0..allowed_cpus().len().clamp(1, workloads.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(workload) = workloads.get(index) else {
                        break;
                    };
                    report_progress(&workload.name);
                    let count = valgrind.count_per_frame(workload);
                    let failed = count.is_err();
                    counts.lock().unwrap_or_else(|error| error.into_inner())[index] = Some(count);
                    if failed {
                        next.store(workloads.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let counts = counts.into_inner().unwrap_or_else(|error| error.into_inner());
    let mut result = BenchResult::new("core", &format!("xoff {}", env!("CARGO_PKG_VERSION")), 1);
    result.environment = Some(Environment::read());
    for (workload, count) in workloads.iter().zip(counts) {
        // After a failure, the remaining workloads are not started. The loop then returns the failure.
        let Some(count) = count else { continue };
        let name = format!("{}/instructions", workload.name);
        result.figures.push(BenchFigure::new(
            name,
            "instructions",
            ImprovementDirection::Smaller,
            vec![count?],
        ));
    }
    Ok(result)
}

/// Runs workloads of the program `program` under valgrind.
struct ValgrindRunner<'a> {
    program: PathBuf,
    stop: &'a AtomicBool,
}

impl ValgrindRunner<'_> {
    fn check_installed(&self) -> Result<(), Failure> {
        child::run_program(Command::new("valgrind").arg("--version"), self.stop)
            .map(|_| ())
            .map_err(|failure| match failure.exit {
                Exit::Environment => {
                    Failure::environment("valgrind is not installed, and instruction counts need it")
                        .because(failure.why.unwrap_or_default())
                        .fix("apt-get install valgrind")
                }
                _ => failure,
            })
    }

    fn count_per_frame(&self, workload: &Workload) -> Result<f64, Failure> {
        let (few, few_frames) = self.count_run(workload, FIRST_RUN_FRAMES)?;
        let (many, many_frames) = self.count_run(workload, FIRST_RUN_FRAMES + workload.counted_frames)?;
        Ok((many - few) as f64 / (many_frames - few_frames).max(1) as f64)
    }

    /// Returns the instructions of one process and the number of frames that it sent.
    fn count_run(&self, workload: &Workload, frames: u64) -> Result<(u64, u64), Failure> {
        let mut command = Command::new("valgrind");
        command
            .args([
                "--tool=cachegrind",
                "--cache-sim=no",
                "--cachegrind-out-file=/dev/null",
            ])
            .arg(&self.program)
            .args(&workload.arguments)
            .args(["--frames", &frames.to_string()])
            .env("GLIBC_TUNABLES", GLIBC_TUNABLES);
        let printed = child::run_program(&mut command, self.stop)?;
        if printed.status.code() == Some(i32::from(Exit::Inconclusive as u8)) {
            return Err(no_traffic_failure(format!(
                "workload {} sent no frame",
                workload.name
            )));
        }
        let frames = printed.stdout.trim().parse::<u64>().ok();
        match (printed.status.success(), parse_count(&printed.stderr), frames) {
            (true, Some(instructions), Some(frames)) => Ok((instructions, frames)),
            _ => Err(Failure::environment("valgrind printed no instruction count")
                .at(format!("workload {}", workload.name))
                .because(printed.stderr.trim())),
        }
    }
}

/// Returns the number after `I refs:` in the output of cachegrind (valgrind 3.2 and later), or `None` if
/// there is no such number.
fn parse_count(output: &str) -> Option<u64> {
    let line = output
        .lines()
        .find(|line| line.contains("I refs:") || line.contains("I   refs:"))?;
    let digits: String = line
        .split("refs:")
        .nth(1)?
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_count_is_parsed_from_the_output_of_cachegrind() {
        let printed = "==1== Cachegrind\n==1== \n==1== I   refs:      1,234,567\n";
        assert_eq!(parse_count(printed), Some(1_234_567));
        assert_eq!(parse_count("==7== I refs:  89\n"), Some(89));
        assert_eq!(parse_count("valgrind: failed"), None);
    }

    #[test]
    fn a_run_sends_whole_bursts_and_returns_their_frames() {
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbeds/incast.config_db.json");
        assert_eq!(
            run_workload_once(&Workload::of_configuration(&config), 100).unwrap(),
            128
        );
    }
}
