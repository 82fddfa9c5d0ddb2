//! Measures how much two switches slow each other down when each runs on its own core.
//!
//!     cargo bench --bench twins [-- --rounds N --seconds S]
//!
//! Switches share no data, so the cost of a frame should not depend on a second switch. Cores share caches,
//! memory and the time that a hypervisor gives. To measure this effect alone, two processes with a null loop
//! of register arithmetic run in turns with the switches.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its results"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use clap::Parser;
use core_bench::{MeshForwarding, MeshLoad, MeshTraffic};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use xoff_measure::frame_cost::FrameLoad;
use xoff_measure::result::{
    BenchFigure, BenchResult, ImprovementDirection, MachineMeter, ResultFormat, TaintLimits,
};
use xoff_telemetry::allowed_cpus;

/// Number of frames, or of iterations of the null loop, between two clock readings.
const BATCH: u64 = 20_000;
/// Number of dependent arithmetic steps in an iteration of the null loop. An iteration takes about as long as
/// a frame.
const NULL_STEPS: u32 = 72;

type Failure = String;
/// Name of a figure, and a function that measures it in nanoseconds per frame or per iteration of
/// the null loop.
type NamedMeasurement<'a> = (&'a str, &'a dyn Fn() -> Result<f64, Failure>);

#[derive(Debug, Parser)]
struct Arguments {
    /// Number of rounds; each round measures everything once.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Duration of one measurement in seconds.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Output format of the result.
    #[arg(long, default_value = "table")]
    format: ResultFormat,
    /// Run the null loop on this core; for processes that this benchmark starts.
    #[arg(long, hide = true)]
    null_loop: Option<usize>,
    /// Option that `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let duration = Duration::from_secs_f64(arguments.seconds.clamp(0.01, 60.0));
    let exit = match arguments.null_loop {
        Some(core) => run_null_loop(core, duration).map(|()| ExitCode::SUCCESS),
        None if arguments.bench => run(&arguments, duration),
        None => {
            println!("twins: skipped: it needs an idle machine; run it with `cargo bench --bench twins`");
            Ok(ExitCode::SUCCESS)
        }
    };
    exit.unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        ExitCode::from(3)
    })
}

fn run(arguments: &Arguments, duration: Duration) -> Result<ExitCode, Failure> {
    let [first, second, ..] = allowed_cpus()[..] else {
        println!("twins: skipped: it needs two cores");
        return Ok(ExitCode::SUCCESS);
    };
    let meter = MachineMeter::start();
    let measurements: [NamedMeasurement<'_>; 4] = [
        ("switch/alone", &|| measure_switches_ns(&[first], duration)),
        ("switch/together", &|| {
            measure_switches_ns(&[first, second], duration)
        }),
        ("null/alone", &|| measure_null_loops_ns(&[first], duration)),
        ("null/together", &|| {
            measure_null_loops_ns(&[first, second], duration)
        }),
    ];
    let mut samples_ns = [const { Vec::new() }; 4];
    for round in 0..arguments.rounds as usize {
        // Each round starts with another measurement, so that a drift of the machine affects all of them.
        for n in (0..measurements.len()).map(|n| (n + round) % measurements.len()) {
            samples_ns[n].push(measurements[n].1()?);
        }
    }
    let mut result = BenchResult::new("twins", "two switches at once", 0);
    let slowdowns = |alone: &[f64], together: &[f64]| -> Vec<f64> {
        alone
            .iter()
            .zip(together)
            .map(|(alone, together)| together / alone)
            .collect()
    };
    let ratios = [
        (
            "switch/together-to-alone",
            slowdowns(&samples_ns[0], &samples_ns[1]),
        ),
        (
            "null/together-to-alone",
            slowdowns(&samples_ns[2], &samples_ns[3]),
        ),
    ];
    for ((name, _), samples) in measurements.iter().zip(samples_ns) {
        result.figures.push(BenchFigure::new(
            *name,
            "ns",
            ImprovementDirection::Smaller,
            samples,
        ));
    }
    for (name, samples) in ratios {
        result
            .figures
            .push(BenchFigure::new(name, "", ImprovementDirection::Smaller, samples));
    }
    let (environment, tainted) = meter.finish(&TaintLimits::default());
    (result.environment, result.tainted) = (Some(environment), tainted);
    print!("{}", result.to_text(arguments.format));
    Ok(ExitCode::from(result.exit() as u8))
}

/// Runs one switch on each of the cores at the same time, with the workload `ecmp`. Returns the mean
/// nanoseconds per frame.
fn measure_switches_ns(cores: &[usize], duration: Duration) -> Result<f64, Failure> {
    let start = Barrier::new(cores.len());
    let work = |core: usize| -> Result<f64, Failure> {
        let pinned = pin_thread(core);
        let mut load = MeshLoad::new(MeshTraffic {
            forwarding: MeshForwarding::Ecmp,
            ports: 8,
            flows: 64,
            frame_bytes: 1_082,
        });
        load.run(BATCH);
        start.wait();
        let frame_ns = measure_item_ns(duration, || load.run(BATCH));
        pinned?;
        load.check()?;
        Ok(frame_ns)
    };
    let work = &work;
    let results: Vec<Result<f64, Failure>> = std::thread::scope(|scope| {
        let workers: Vec<_> = cores
            .iter()
            .map(|&core| scope.spawn(move || work(core)))
            .collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
            worker
                .join()
                .unwrap_or_else(|_| Err("a worker panicked".to_owned()))
        };
        workers.into_iter().map(join).collect()
    });
    let frame_ns = results.into_iter().collect::<Result<Vec<f64>, Failure>>()?;
    Ok(frame_ns.iter().sum::<f64>() / frame_ns.len() as f64)
}

/// Runs one null loop on each of the cores at the same time, each in its own process. Returns the mean
/// nanoseconds per iteration.
fn measure_null_loops_ns(cores: &[usize], duration: Duration) -> Result<f64, Failure> {
    let mut processes = cores
        .iter()
        .map(|core| NullLoopProcess::start(*core, duration))
        .collect::<Result<Vec<_>, Failure>>()?;
    for process in &mut processes {
        // A null loop starts at the end of its input.
        process.input.take();
    }
    let iteration_ns = processes
        .iter_mut()
        .map(NullLoopProcess::wait_for_result_ns)
        .collect::<Result<Vec<f64>, Failure>>()?;
    Ok(iteration_ns.iter().sum::<f64>() / iteration_ns.len() as f64)
}

/// A process that runs the null loop on its own core.
struct NullLoopProcess {
    child: Child,
    input: Option<ChildStdin>,
}

impl NullLoopProcess {
    /// Starts the process and waits until it is ready.
    fn start(core: usize, duration: Duration) -> Result<NullLoopProcess, Failure> {
        let failure = |error: std::io::Error| format!("cannot start a null loop: {error}");
        let program = std::env::current_exe().map_err(failure)?;
        let mut child = Command::new(program)
            .args(["--null-loop", &core.to_string()])
            .args(["--seconds", &duration.as_secs_f64().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failure)?;
        let input = child.stdin.take();
        let mut process = NullLoopProcess { child, input };
        match process.read_line()?.trim() {
            "ready" => Ok(process),
            other => Err(format!("a null loop printed {other:?} instead of `ready`")),
        }
    }

    /// Reads the next line of the output. The process waits after its first line, so the reader
    /// cannot read ahead.
    fn read_line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        let output = self
            .child
            .stdout
            .as_mut()
            .ok_or("the output of a null loop is closed")?;
        BufReader::new(output.by_ref())
            .read_line(&mut line)
            .map_err(|error| format!("cannot read the output of a null loop: {error}"))?;
        Ok(line)
    }

    /// Waits for the end of the process and returns the nanoseconds per iteration.
    fn wait_for_result_ns(&mut self) -> Result<f64, Failure> {
        let line = self.read_line()?;
        let _ = self.child.wait();
        line.trim()
            .parse()
            .map_err(|_| format!("a null loop printed {line:?} instead of a time"))
    }
}

impl Drop for NullLoopProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the null loop on a core, after the end of standard input. Processes that this benchmark starts call
/// this function.
fn run_null_loop(core: usize, duration: Duration) -> Result<(), Failure> {
    pin_thread(core)?;
    println!("ready");
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    let mut input = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut input);
    let mut state = 1_u64;
    let iteration_ns = measure_item_ns(duration, || {
        for _ in 0..BATCH {
            for _ in 0..NULL_STEPS {
                // A compiler cannot combine multiplications and rotations of successive steps. A step takes
                // four cycles.
                state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            }
        }
        BATCH
    });
    std::hint::black_box(state);
    println!("{iteration_ns}");
    Ok(())
}

/// Runs batches of work for `duration` and returns the nanoseconds per item. `run_batch` returns its number
/// of items.
fn measure_item_ns(duration: Duration, mut run_batch: impl FnMut() -> u64) -> f64 {
    let start = Instant::now();
    let mut items = 0;
    while start.elapsed() < duration {
        items += run_batch();
    }
    start.elapsed().as_nanos() as f64 / items as f64
}

/// Binds the calling thread to a core.
fn pin_thread(core: usize) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    set.set(core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|errno| format!("cannot bind a thread to core {core}: {errno}"))
}
