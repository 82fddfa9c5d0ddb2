//! Bench of two switches at once, each with its own worker and core, next to two processes without memory
//! traffic. The result is the cost of switches to each other and the part of that cost that the machine
//! causes in any case.
//!
//!     cargo bench --bench twins [-- --rounds N --seconds S]
//!
//! Switches share no data by design, so two of them should take as long for a frame as one. Shared resources
//! of cores (caches, memory, time of a hypervisor) also slow down a null loop. The null loop calculates in
//! registers, in two processes, in turns with the switches.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use clap::Parser;
use core_bench::{Mesh, Shape, Way};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use xoff_measure::frame_cost::Load;
use xoff_measure::result::{BenchFigure, BenchResult, BetterWhen, MachineMeter, ResultFormat, TaintLimits};
use xoff_telemetry::allowed_cpus;

/// Number of frames, or turns of the null loop, between two reads of the clock.
const WORK_PORTION: u64 = 20_000;
/// Steps of a turn of the null loop. Each step depends on the previous one, so that a turn takes about as
/// long as a frame.
const NULL_STEPS: u32 = 72;

type Failure = String;
/// The name of a measurement and its function, which returns nanoseconds per frame or per turn of the null
/// loop.
type Measurement<'a> = (&'a str, &'a dyn Fn() -> Result<f64, Failure>);

#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds; in each everything has its turn once.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// How long each turn takes.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// How the result is printed.
    #[arg(long, default_value = "table")]
    format: ResultFormat,
    /// What the processes of the null loop are started with: their core.
    #[arg(long, hide = true)]
    null_loop: Option<usize>,
    /// What cargo adds for `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let span = Duration::from_secs_f64(arguments.seconds.clamp(0.01, 60.0));
    let done = match arguments.null_loop {
        Some(core) => null_loop(core, span).map(|()| ExitCode::SUCCESS),
        None if arguments.bench => run(&arguments, span),
        None => {
            println!("twins: skipped: it takes a quiet machine; run it with `cargo bench --bench twins`");
            Ok(ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        ExitCode::from(3)
    })
}

fn run(arguments: &Arguments, span: Duration) -> Result<ExitCode, Failure> {
    let [first, second, ..] = allowed_cpus()[..] else {
        println!("twins: skipped: it takes two cores");
        return Ok(ExitCode::SUCCESS);
    };
    let meter = MachineMeter::start();
    let turns: [Measurement<'_>; 4] = [
        ("switch/alone", &|| switches(&[first], span)),
        ("switch/together", &|| switches(&[first, second], span)),
        ("null/alone", &|| null_loops(&[first], span)),
        ("null/together", &|| null_loops(&[first, second], span)),
    ];
    let mut taken = [const { Vec::new() }; 4];
    for round in 0..arguments.rounds as usize {
        // Each measurement is first in some round, so that a drift of the machine affects all of them.
        for turn in (0..turns.len()).map(|n| (n + round) % turns.len()) {
            taken[turn].push(turns[turn].1()?);
        }
    }
    let mut result = BenchResult::new("twins", "two switches at once", 0);
    let slower = |alone: &[f64], together: &[f64]| -> Vec<f64> {
        alone
            .iter()
            .zip(together)
            .map(|(alone, together)| together / alone)
            .collect()
    };
    let ratios = [
        ("switch/together-to-alone", slower(&taken[0], &taken[1])),
        ("null/together-to-alone", slower(&taken[2], &taken[3])),
    ];
    for ((name, _), samples) in turns.iter().zip(taken) {
        result
            .figures
            .push(BenchFigure::new(*name, "ns", BetterWhen::Smaller, samples));
    }
    for (name, samples) in ratios {
        result
            .figures
            .push(BenchFigure::new(name, "", BetterWhen::Smaller, samples));
    }
    let (environment, tainted) = meter.finish(&TaintLimits::default());
    (result.environment, result.tainted) = (Some(environment), tainted);
    print!("{}", result.to_text(arguments.format));
    Ok(ExitCode::from(result.exit() as u8))
}

/// Returns the nanoseconds per frame of switches that run at the same time, one on each of these cores.
fn switches(cores: &[usize], span: Duration) -> Result<f64, Failure> {
    let start = Barrier::new(cores.len());
    let work = |core: usize| -> Result<f64, Failure> {
        let placed = pin_to_core(core);
        let mut load = Mesh::new(Shape {
            way: Way::Ecmp,
            ports: 8,
            flows: 64,
            frame_bytes: 1_082,
        });
        load.run(WORK_PORTION);
        start.wait();
        let each_ns = measure_time(span, || load.run(WORK_PORTION));
        placed?;
        load.check()?;
        Ok(each_ns)
    };
    let work = &work;
    let taken: Vec<Result<f64, Failure>> = std::thread::scope(|scope| {
        let workers: Vec<_> = cores
            .iter()
            .map(|&core| scope.spawn(move || work(core)))
            .collect();
        let ended = |worker: std::thread::ScopedJoinHandle<'_, _>| {
            worker
                .join()
                .unwrap_or_else(|_| Err("a worker panicked".to_owned()))
        };
        workers.into_iter().map(ended).collect()
    });
    let taken = taken.into_iter().collect::<Result<Vec<f64>, Failure>>()?;
    Ok(taken.iter().sum::<f64>() / taken.len() as f64)
}

/// Returns the nanoseconds per turn of null loops that run at the same time, each in its own process on one
/// of these cores.
fn null_loops(cores: &[usize], span: Duration) -> Result<f64, Failure> {
    let mut loops = cores
        .iter()
        .map(|core| NullLoop::start(*core, span))
        .collect::<Result<Vec<_>, Failure>>()?;
    for null in &mut loops {
        // The process waits for the end of its input.
        null.input.take();
    }
    let taken = loops
        .iter_mut()
        .map(NullLoop::end)
        .collect::<Result<Vec<f64>, Failure>>()?;
    Ok(taken.iter().sum::<f64>() / taken.len() as f64)
}

/// A null loop in its own process on its own core.
struct NullLoop {
    child: Child,
    input: Option<ChildStdin>,
}

impl NullLoop {
    /// Starts the process and waits until it is ready.
    fn start(core: usize, span: Duration) -> Result<NullLoop, Failure> {
        let cannot = |error: std::io::Error| format!("cannot start a null loop: {error}");
        let program = std::env::current_exe().map_err(cannot)?;
        let mut child = Command::new(program)
            .args(["--null-loop", &core.to_string()])
            .args(["--seconds", &span.as_secs_f64().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        let input = child.stdin.take();
        let mut null = NullLoop { child, input };
        match null.line()?.trim() {
            "ready" => Ok(null),
            other => Err(format!("a null loop says {other:?} instead of being ready")),
        }
    }

    /// Returns the next line of the process. The process writes one line and then waits, so no line is read
    /// ahead.
    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        let output = self.child.stdout.as_mut().ok_or("a null loop without output")?;
        BufReader::new(output.by_ref())
            .read_line(&mut line)
            .map_err(|error| format!("a null loop cannot be heard: {error}"))?;
        Ok(line)
    }

    /// Returns the nanoseconds per turn after the end of the process.
    fn end(&mut self) -> Result<f64, Failure> {
        let line = self.line()?;
        let _ = self.child.wait();
        line.trim()
            .parse()
            .map_err(|_| format!("a null loop says {line:?} instead of a time"))
    }
}

impl Drop for NullLoop {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the null loop in its process.
fn null_loop(core: usize, span: Duration) -> Result<(), Failure> {
    pin_to_core(core)?;
    println!("ready");
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    let mut nothing = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut nothing);
    let mut state = 1_u64;
    let each_ns = measure_time(span, || {
        for _ in 0..WORK_PORTION {
            for _ in 0..NULL_STEPS {
                // Multiplication and rotation: four cycles in registers, which no compiler can combine over
                // several steps.
                state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            }
        }
        WORK_PORTION
    });
    std::hint::black_box(state);
    println!("{each_ns}");
    Ok(())
}

/// Runs portions of work until the time is over. Returns the nanoseconds per piece of work.
fn measure_time(span: Duration, mut portion: impl FnMut() -> u64) -> f64 {
    let began = Instant::now();
    let mut pieces = 0;
    while began.elapsed() < span {
        pieces += portion();
    }
    began.elapsed().as_nanos() as f64 / pieces as f64
}

/// Binds the calling thread to a core.
fn pin_to_core(core: usize) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    set.set(core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|errno| format!("cannot bind a thread to core {core}: {errno}"))
}
