//! A million mutated frames of every protocol at a real port, next to a victim flow.
//!
//!     cargo bench --bench frame_fuzz
//!     cargo bench --bench frame_fuzz -- --frames 100000 --rate 10000 --seed 7 --kind xdp
//!
//! Each header field of each protocol that xoff parses gets its boundary values. The rate is below the capacity of
//! the ports. Frames with other sources than the stations of the flow cost the flow no frame. With spoofed sources,
//! each lost frame is explained by a move of an address or by a pause at the port of the fuzzer.
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

use clap::Parser;
use libtest_mimic::{Completion, Failed};
use xoff_testing::{BenchOutcome, finish_bench};

use frame_fuzz::SourcePolicy;
use port_trials::{PORT_KINDS, TrialResult, check_spoofed, run_fuzz, stations};
use support::FeatureRefusals;

/// Mutated frames at a real port.
#[derive(Debug, Parser)]
#[command(name = "frame_fuzz")]
struct Arguments {
    /// Number of mutated frames of each run.
    #[arg(long, default_value_t = 1_000_000)]
    frames: u64,
    /// Mutated frames per second.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// Seed of the mutations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Kind of the ports: packet, tap, xdp or pnet.
    #[arg(long, default_value = "packet")]
    kind: String,
    /// Option that `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !arguments.bench {
        println!("frame_fuzz: skipped: it takes minutes; run it with `cargo bench --bench frame_fuzz`");
        return ExitCode::SUCCESS;
    }
    let Some(kind) = PORT_KINDS.into_iter().find(|kind| kind.name == arguments.kind) else {
        eprintln!("error: no kind of port is called {:?}", arguments.kind);
        return ExitCode::from(2);
    };
    if let Some(reason) = FeatureRefusals::find().reason(kind.needs) {
        println!("frame_fuzz: skipped: {reason}");
        return ExitCode::SUCCESS;
    }
    println!("seed {}", arguments.seed);
    let run = |policy| run_fuzz(kind, policy, arguments.frames, arguments.rate, arguments.seed);
    let others = print_result(
        "other sources",
        run(SourcePolicy::Except(stations())),
        TrialResult::check,
    );
    let spoofed = print_result(
        "spoofed sources",
        run(SourcePolicy::Spoof(stations())),
        check_spoofed,
    );
    let outcome: Result<_, Infallible> = Ok(others.max(spoofed));
    finish_bench(outcome, &mut std::io::stdout(), &mut std::io::stderr())
}

/// Prints the result of a run and returns its outcome.
fn print_result(
    name: &str,
    result: Result<TrialResult, Failed>,
    check: impl FnOnce(&TrialResult) -> Result<Completion, Failed>,
) -> BenchOutcome {
    let checked = result.and_then(|result| {
        println!(
            "{name}: {} mutated frames; of {} frames of the flow, {} arrived, and {} left at the port of the fuzzer; the \
             socket of the receiver dropped {} frames; \
             verdict {}, taints {}",
            result.frames,
            result.victims_sent,
            result.victims_arrived,
            result.victims_moved,
            result.socket_drops,
            result.end.report["verdict"],
            result.end.report["taints"],
        );
        check(&result)
    });
    let outcome = match checked {
        Ok(Completion::Completed) => BenchOutcome::Pass,
        Ok(Completion::Ignored { .. }) => BenchOutcome::Inconclusive,
        Err(failed) => {
            println!("{name}: {}", failed.message().unwrap_or_default());
            BenchOutcome::Fail
        }
    };
    println!("{name}: {outcome}");
    outcome
}
