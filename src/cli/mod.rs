//! The command line. Standard output carries data, standard error progress and errors.

mod args;
mod bench;
mod choice;
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

use clap::{ArgMatches, CommandFactory, FromArgMatches};
use serde_json::json;

pub(crate) use args::*;
pub(crate) use values::{PcapArgument, PortArgument, SendArgument};
use xoff_telemetry::failure::Failure;

/// Runs the program: parses the command line, does what it asks, prints the error if there is one.
pub(crate) fn main() -> ExitCode {
    let matches = Arguments::command().get_matches();
    let prints_json = wants_json(&matches);
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    run(arguments).unwrap_or_else(|failure| {
        output::complain(&failure);
        if prints_json && !failure.errors.is_empty() {
            // Nothing is left to be said if standard output cannot take it.
            let _ = output::print_json(&errors_object(&failure));
        }
        failure.exit.into()
    })
}

/// Whether the subcommand prints its result as JSON: `--json`, or `--format json`.
fn wants_json(matches: &ArgMatches) -> bool {
    let mut leaf = matches;
    while let Some((_, matches)) = leaf.subcommand() {
        leaf = matches;
    }
    let format = leaf.try_get_raw("format").ok().flatten();
    let is_json = |mut values: clap::parser::RawValues<'_>| values.any(|value| value == "json");
    format.is_some_and(is_json) || matches!(leaf.try_get_one::<bool>("json"), Ok(Some(true)))
}

/// The mistakes of a configuration, all of them, for a command whose output is JSON.
fn errors_object(failure: &Failure) -> serde_json::Value {
    json!({
        "error": failure.what,
        "where": failure.place,
        "exit_code": failure.exit as u8,
        "errors": failure.errors,
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
