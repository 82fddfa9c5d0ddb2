//! Floods, link flaps and deleted devices at ports of every kind: AF_PACKET, LAG member, tap, AF_XDP and pnet.
//!
//!     cargo bench --bench port_trials
//!     cargo bench --bench port_trials -- --seconds 5 --kind tap
//!
//! A trial floods a port with frames of 64 to 9000 bytes at full rate, for 30 seconds with each length. Then the
//! link of the port goes down and up 100 times, and its device is deleted and created again 20 times. A victim
//! flow between two other ports runs all the time. In a run without a taint, the flow loses no frame, and a
//! device carries frames within one second after its creation.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a bench")]
#![allow(dead_code)] // the trials share their modules with the tests

#[path = "../../tests/ports/far_end.rs"]
mod far_end;
#[path = "../../tests/support/frame_fuzz.rs"]
mod frame_fuzz;
#[path = "../../tests/workers/port_trials.rs"]
mod port_trials;
#[path = "../../tests/support/mod.rs"]
mod support;
#[path = "../../tests/workers/switch_process.rs"]
mod switch_process;

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use libtest_mimic::Completion;
use xoff_testing::{BenchOutcome, finish_bench};

use port_trials::{FLOOD_LENGTHS, FloodExtent, PORT_KINDS, PortKind, run_floods};
use support::FeatureRefusals;

/// Longest time from the creation of a device to the first frame over it.
const ATTACHMENT_MAX: Duration = Duration::from_secs(1);

/// Floods and link flaps at ports of every kind.
#[derive(Debug, Parser)]
#[command(name = "port_trials")]
struct Arguments {
    /// Duration of the flood with frames of one length, in seconds.
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// Number of times that the link goes down.
    #[arg(long, default_value_t = 100)]
    flaps: usize,
    /// Number of times that the device is deleted and created again.
    #[arg(long, default_value_t = 20)]
    recreations: usize,
    /// Only this kind of port.
    #[arg(long)]
    kind: Option<String>,
    /// Option that `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !arguments.bench {
        println!("port_trials: skipped: it takes minutes; run it with `cargo bench --bench port_trials`");
        return ExitCode::SUCCESS;
    }
    let refusals = FeatureRefusals::find();
    let mut outcome = BenchOutcome::Pass;
    let kinds = PORT_KINDS.into_iter();
    for kind in kinds.filter(|kind| arguments.kind.as_ref().is_none_or(|name| name == kind.name)) {
        match refusals.reason(kind.needs) {
            Some(reason) => println!("{:<7} skipped: {reason}", kind.name),
            None => outcome = outcome.max(run_kind(kind, &arguments)),
        }
    }
    let outcome: Result<_, Infallible> = Ok(outcome);
    finish_bench(outcome, &mut std::io::stdout(), &mut std::io::stderr())
}

/// Runs the trial of one kind, prints its result and returns its outcome.
fn run_kind(kind: PortKind, arguments: &Arguments) -> BenchOutcome {
    let extent = FloodExtent {
        frames: 0,
        time: Some(Duration::from_secs_f64(arguments.seconds)),
        flaps: arguments.flaps,
        recreations: arguments.recreations,
    };
    let result = match run_floods(kind, extent) {
        Ok(result) => result,
        Err(failed) => {
            println!("{:<7} FAIL {}", kind.name, failed.message().unwrap_or_default());
            return BenchOutcome::Fail;
        }
    };
    let checked = result.check();
    let outcome = match &checked {
        _ if result.longest_attachment >= ATTACHMENT_MAX => BenchOutcome::Fail,
        Ok(Completion::Completed) => BenchOutcome::Pass,
        Ok(Completion::Ignored { .. }) => BenchOutcome::Inconclusive,
        Err(_) => BenchOutcome::Fail,
    };
    println!(
        "{:<7} {outcome} {} frames of {FLOOD_LENGTHS:?} bytes, {} flaps; attached again within {} ms; the flow lost {} of \
         {}; verdict {}, taints {}",
        kind.name,
        result.frames,
        arguments.flaps,
        result.longest_attachment.as_millis(),
        result.victims_sent - result.victims_arrived,
        result.victims_sent,
        result.end.report["verdict"],
        result.end.report["taints"],
    );
    if let Err(failed) = &checked {
        println!("        {}", failed.message().unwrap_or_default());
    }
    outcome
}
