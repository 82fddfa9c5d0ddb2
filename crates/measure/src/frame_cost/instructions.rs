//! Instructions a frame, counted by valgrind: the same on a busy machine, and in every run.
//!
//! A workload is run twice, with so many frames and with more; what the second takes longer is theirs alone, whatever start-up
//! takes. Valgrind shows programs a processor of its own making, so which variants of `memcpy` the C library chooses does not hang
//! on the machine, except that one without AVX2 has other ones; those are switched off.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::Workload;
use super::sample::wrong;
use crate::child;
use crate::result::{BenchFigure, BenchResult, BetterWhen};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{Environment, allowed_cpus};

/// Frames of the first run, and by how many the second has more: whole bursts.
const FRAMES: u64 = 8_192;
const MORE: u64 = 40_960;

/// Variants that the C library has for some processors only; names of glibc 2.33 and of before.
const TUNABLES: &str =
    "glibc.cpu.hwcaps=-AVX2,-AVX2_Usable,-AVX512F,-AVX512VL,-AVX512BW,-EVEX,-ERMS,-FSRM,-RTM";

/// What a run under valgrind does: puts frames through, and returns how many.
///
/// # Errors
/// The load cannot be built, or was not what it should have been.
pub fn run_once(workload: &Workload, frames: u64) -> Result<u64, Failure> {
    let mut load = workload.build()?;
    let count = load.run(frames);
    load.check().map_err(wrong)?;
    Ok(count)
}

/// Counts the instructions of a frame of each workload, a run on each processor at a time.
///
/// # Errors
/// There is no valgrind; a run fails; an interruption.
pub fn count(
    workloads: &[Workload],
    stop: &AtomicBool,
    told: impl Fn(&str) + Sync,
) -> Result<BenchResult, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::environment("cannot find the program itself").because(error))?;
    let runner = Runner { program, stop };
    runner.version()?;
    let next = AtomicUsize::new(0);
    let found = Mutex::new(vec![None; workloads.len()]);
    thread::scope(|scope| {
        for _ in 0..allowed_cpus().len().clamp(1, workloads.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(workload) = workloads.get(at) else { break };
                    told(&workload.name);
                    let counted = runner.per_frame(workload);
                    let failed = counted.is_err();
                    found.lock().unwrap_or_else(|error| error.into_inner())[at] = Some(counted);
                    if failed {
                        next.store(workloads.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(|error| error.into_inner());
    let mut result = BenchResult::new("core", &format!("xoff {}", env!("CARGO_PKG_VERSION")), 1);
    result.environment = Some(Environment::read());
    for (workload, counted) in workloads.iter().zip(found) {
        // Those after a failure were not begun; the failure is returned.
        let Some(counted) = counted else { continue };
        let name = format!("{}/instructions", workload.name);
        result.figures.push(BenchFigure::new(
            name,
            "instructions",
            BetterWhen::Smaller,
            vec![counted?],
        ));
    }
    Ok(result)
}

struct Runner<'a> {
    program: PathBuf,
    stop: &'a AtomicBool,
}

impl Runner<'_> {
    fn version(&self) -> Result<(), Failure> {
        child::run_program(Command::new("valgrind").arg("--version"), self.stop)
            .map(|_| ())
            .map_err(|failure| match failure.exit {
                Exit::Environment => {
                    Failure::environment("instructions are counted by valgrind, which is not there")
                        .because(failure.why.unwrap_or_default())
                        .fix("apt-get install valgrind")
                }
                _ => failure,
            })
    }

    fn per_frame(&self, workload: &Workload) -> Result<f64, Failure> {
        let (few, few_frames) = self.counted(workload, FRAMES)?;
        let (many, many_frames) = self.counted(workload, FRAMES + MORE)?;
        Ok((many - few) as f64 / (many_frames - few_frames).max(1) as f64)
    }

    /// Instructions of a whole run, and its frames.
    fn counted(&self, workload: &Workload, frames: u64) -> Result<(u64, u64), Failure> {
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
            .env("GLIBC_TUNABLES", TUNABLES);
        let printed = child::run_program(&mut command, self.stop)?;
        let frames = printed.stdout.trim().parse::<u64>().ok();
        match (printed.status.success(), instructions(&printed.stderr), frames) {
            (true, Some(instructions), Some(frames)) => Ok((instructions, frames)),
            _ => Err(Failure::environment("valgrind counted nothing")
                .at(format!("workload {}", workload.name))
                .because(printed.stderr.trim())),
        }
    }
}

/// The number behind `I refs:` (valgrind 3.2 and later) in what cachegrind prints.
fn instructions(printed: &str) -> Option<u64> {
    let line = printed
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
    fn the_count_is_read_from_what_cachegrind_prints() {
        let printed = "==1== Cachegrind\n==1== \n==1== I   refs:      1,234,567\n";
        assert_eq!(instructions(printed), Some(1_234_567));
        assert_eq!(instructions("==7== I refs:  89\n"), Some(89));
        assert_eq!(instructions("valgrind: failed"), None);
    }

    #[test]
    fn a_run_returns_the_frames_of_whole_bursts() {
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbeds/incast.config_db.json");
        assert_eq!(run_once(&Workload::of_configuration(&config), 100).unwrap(), 128);
    }
}
