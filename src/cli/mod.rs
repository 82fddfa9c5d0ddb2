//! The command line of xoff. Data goes to standard output. Progress and errors go to standard error.

mod args;
mod bench;
mod choice;
mod clear;
mod config;
mod doctor;
mod host;
mod lab;
mod logger;
mod output;
mod replay;
mod running_labs;
mod show;
mod signals;
mod size;
mod switch;
mod values;

use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches};
use serde_json::json;

pub(crate) use args::*;
pub(crate) use logger::install_logger;
pub(crate) use values::{PcapArgument, PortArgument, SendArgument};
use xoff_telemetry::failure::{Exit, Failure};

/// Parses the command line and runs the command. If the command fails, prints the error. Returns the
/// exit code.
pub(crate) fn main() -> ExitCode {
    let code = match parse_command_line() {
        Ok((arguments, prints_json)) => run(arguments).unwrap_or_else(|failure| {
            output::print_failure(&failure);
            if prints_json && !failure.errors.is_empty() {
                output::print_json(&error_json(&failure));
            }
            match xoff_telemetry::was_input_wait_interrupted() {
                true => Exit::Interrupted.into(),
                false => failure.exit.into(),
            }
        }),
        Err(message) => output::print_parser_message(&message),
    };
    output::final_exit_code(code)
}

/// Parses the command line. Returns the arguments and whether the subcommand prints its result as JSON.
///
/// # Errors
/// The command line is wrong, or asks for the help or the version.
fn parse_command_line() -> Result<(Arguments, bool), clap::Error> {
    let matches = Arguments::command().try_get_matches()?;
    let prints_json = prints_json_result(&matches);
    Ok((Arguments::from_arg_matches(&matches)?, prints_json))
}

/// Returns whether the subcommand prints its result as JSON, with `--json` or `--format json`.
fn prints_json_result(matches: &ArgMatches) -> bool {
    let mut leaf = matches;
    while let Some((_, matches)) = leaf.subcommand() {
        leaf = matches;
    }
    let format = leaf.try_get_raw("format").ok().flatten();
    let is_json = |mut values: clap::parser::RawValues<'_>| values.any(|value| value == "json");
    format.is_some_and(is_json) || matches!(leaf.try_get_one::<bool>("json"), Ok(Some(true)))
}

/// Returns a failure with all errors of a configuration as JSON. Commands with JSON output print it.
fn error_json(failure: &Failure) -> serde_json::Value {
    json!({
        "error": failure.what,
        "where": failure.location,
        "exit_code": failure.exit as u8,
        "errors": failure.errors,
    })
}

/// Runs the command.
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
        Command::Schema(SchemaCommand::Api) => {
            output::print_json(&xoff_control::api_document())?;
            ExitCode::SUCCESS
        }
        Command::Probe { probe } => doctor::probe(probe).into(),
    })
}
