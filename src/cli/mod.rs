//! The command line. Standard output carries data, standard error progress and errors.

mod args;
mod bench;
mod clear;
mod config;
mod doctor;
mod host;
mod lab;
mod output;
mod replay;
mod show;
mod signals;
mod switch;
mod values;

use std::process::ExitCode;

use clap::Parser;

use crate::failure::Failure;
pub use args::*;
pub use bench::{
    BenchAi, BenchCommand, BenchCompare, BenchCore, BenchLatency, BenchNdr, BenchOracle, BenchPlacement,
    BenchProbe, BenchRfc2544, BenchRfc2889, BenchRfc8239, BenchTuneBuffers, DutArguments, ResultArguments,
    SuiteArguments, TrialArguments,
};
pub use clear::{ClearCommand, ClearPfc, ClearPfcwd};
pub use replay::{BehindArgument, MapChoice, ReplayArguments};
pub use show::{
    ClearGroups, ClearPool, ClearQueues, ClearWatermarks, LoadBalancingPart, ShowBuffer, ShowCommand,
    ShowCounters, ShowGroups, ShowInterfaceCounters, ShowInterfaces, ShowIp, ShowLoadBalancing, ShowMac,
    ShowPfc, ShowPfcCounters, ShowPfcwd, ShowPfcwdStats, ShowPool, ShowPorts, ShowQueues, ShowSwitchTrimming,
    ShowTable,
};
pub use values::{PcapArgument, PortArgument, SendArgument};

/// Runs the program: parses the command line, does what it asks, prints the error if there is one.
pub fn main() -> ExitCode {
    run(Arguments::parse()).unwrap_or_else(|failure| {
        output::complain(&failure);
        failure.exit.into()
    })
}

fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    Ok(match arguments.command {
        Command::Switch(SwitchCommand::Run(options)) => switch::run(options)?.into(),
        Command::Lab(command) => lab::run(command)?,
        Command::Host(HostCommand::Run(options)) => host::run(options)?.into(),
        Command::Replay(options) => replay::run(&options)?.into(),
        Command::Config(command) => config::run(command)?.into(),
        Command::Show(command) => show::run(&command)?.into(),
        Command::Clear(command) => clear::run(&command)?.into(),
        Command::Bench(command) => bench::run(&command)?.into(),
        Command::Doctor(options) => doctor::run(&options)?.into(),
        Command::Probe { probe } => doctor::probe(probe).into(),
    })
}
