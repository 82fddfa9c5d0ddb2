//! `core-bench`: measures the built-in workloads, and compares two builds.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for developers")]

mod compare;
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::simple_table;

/// Measures what a frame costs the data plane, and compares two builds
#[derive(Debug, Parser)]
#[command(name = "core-bench")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure built-in workloads: processor time or instructions per frame
    #[command(after_help = run::HELP)]
    Run(run::RunArguments),
    /// Compare two programs by running them in turns
    #[command(after_help = compare::HELP)]
    Compare(compare::CompareArguments),
    /// Print the built-in workloads
    List,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::List => list_workloads(),
    };
    match result {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.exit as u8)
        }
    }
}

fn list_workloads() -> Result<Exit, Failure> {
    let workloads = core_bench::built_in_workloads().into_iter();
    let rows = workloads.map(|known| {
        let workload = known.workload;
        vec![workload.name, workload.unit.to_owned(), workload.summary]
    });
    print!(
        "{}",
        simple_table(&["Workload", "Unit", "Description"], 3, rows.collect())
    );
    Ok(Exit::Ok)
}
