//! The command line of xoff. Data goes to standard output. Progress and errors go to standard error.

mod args;
mod bench;
mod choice;
mod clear;
mod command;
mod completions;
mod config;
mod conform;
mod doctor;
#[cfg(test)]
mod documented_commands;
mod host;
mod lab;
mod logger;
mod man;
#[cfg(test)]
mod option_messages;
mod output;
mod pfc;
mod replay;
mod running_labs;
mod show;
mod signals;
mod size;
mod switch;
mod values;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgMatches, FromArgMatches};
use serde_json::json;

pub(crate) use args::*;
use command::build_command;
pub(crate) use logger::install_logger;
pub(crate) use values::{PcapArgument, PortArgument, SendArgument};
use xoff_telemetry::failure::{Exit, Failure};

/// Parses the command line and runs the command. If the command fails, prints the error. Returns the
/// exit code.
pub(crate) fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let code = match parse_command_line(&words) {
        Ok((arguments, prints_json)) => run(arguments).unwrap_or_else(|failure| {
            let failure = with_general_fix(failure);
            output::print_failure(&failure);
            let exit = match xoff_telemetry::was_input_wait_interrupted() {
                true => Exit::Interrupted,
                false => failure.exit,
            };
            if prints_json && !output::is_stdout_used() {
                output::print_json(&error_json(&Failure { exit, ..failure }));
            }
            exit.into()
        }),
        Err(message) => {
            // The help and the version are no errors.
            if message.use_stderr() && asks_for_json(&words) {
                output::print_json(&error_json(&usage_failure(&message)));
            }
            output::print_parser_message(&message)
        }
    };
    output::final_exit_code(code)
}

/// Parses the command line. Returns the arguments and whether the command prints its result as JSON.
///
/// # Errors
/// The command line is wrong, or asks for the help or the version.
fn parse_command_line(words: &[OsString]) -> Result<(Arguments, bool), clap::Error> {
    let matches = build_command().try_get_matches_from(words)?;
    let prints_json = prints_json_result(&matches);
    Ok((Arguments::from_arg_matches(&matches)?, prints_json))
}

/// Returns whether the command prints its result as JSON, with `--json` or `--format json`.
fn prints_json_result(matches: &ArgMatches) -> bool {
    let mut leaf = matches;
    while let Some((_, matches)) = leaf.subcommand() {
        leaf = matches;
    }
    let has_value = |id: &str, word: &str| {
        // The default of a command that always prints JSON, such as `config get`, does not ask for errors as JSON.
        let is_given = leaf.ids().any(|known| known == id)
            && leaf.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
        let values = leaf.try_get_raw(id).ok().flatten().filter(|_| is_given);
        values.is_some_and(|mut values| values.any(|value| value == word))
    };
    // `--json` of `lab compare` has an optional file. Without a file, its value is `-`.
    let is_given = matches!(leaf.try_get_one::<bool>("json"), Ok(Some(true)));
    is_given || has_value("format", "json") || has_value("json", "-")
}

/// Returns whether a wrong command line asks for JSON. The parser knows nothing about the options after its first
/// error, so this function searches all words before `--`.
fn asks_for_json(words: &[OsString]) -> bool {
    let words: Vec<&str> = words
        .iter()
        .filter_map(|word| word.to_str())
        .take_while(|word| *word != "--")
        .collect();
    // In `lab compare --json FILE`, the JSON goes to a file.
    let has_file = |at: usize| {
        words.contains(&"compare")
            && words.contains(&"lab")
            && words.get(at + 1).is_some_and(|next| !next.starts_with('-'))
    };
    words.iter().enumerate().any(|(at, word)| match *word {
        "--format=json" => true,
        "--format" => words.get(at + 1) == Some(&"json"),
        "--json" => !has_file(at),
        _ => false,
    })
}

/// Returns an error of the command line as a failure, without its usage text.
fn usage_failure(message: &clap::Error) -> Failure {
    let text = message.to_string();
    let what = text.split("\n\n").next().unwrap_or_default();
    let what = output::name_number_range(what.trim_start_matches("error: ").trim());
    with_general_fix(Failure::usage(what))
}

/// Adds general advice to an error of the command line or the environment that has no advice of its own. The errors of
/// a configuration name the wrong values and their ranges, and all other failures are results.
fn with_general_fix(failure: Failure) -> Failure {
    let fix = match failure.exit {
        _ if failure.fix.is_some() => return failure,
        Exit::Usage => "`xoff help` and the name of the command describe its arguments",
        Exit::Environment => "`xoff doctor` checks what this machine offers",
        _ => return failure,
    };
    failure.fix(fix)
}

/// Returns a failure as JSON. Commands with JSON output print it, so their output is always one document.
fn error_json(failure: &Failure) -> serde_json::Value {
    json!({
        "schema": "xoff.error/1",
        "error": failure.what,
        "where": failure.location,
        "why": failure.why,
        "fix": failure.fix,
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
        Command::Pfc(command) => pfc::run(&command)?.into(),
        Command::Replay(options) => replay::run(&options)?.into(),
        Command::Config(command) => config::run(command)?.into(),
        Command::Show(command) => show::run(&command)?.into(),
        Command::Clear(command) => clear::run(&command)?.into(),
        Command::Bench(command) => bench::run(&command)?.into(),
        Command::Conform(command) => conform::run(&command)?,
        Command::Completions(options) => completions::run(&options)?.into(),
        Command::Man(options) => man::run(&options)?.into(),
        Command::Doctor(options) => doctor::run(&options)?.into(),
        Command::Schema(SchemaCommand::Api { .. }) => {
            output::print_json(&xoff_control::api_document());
            ExitCode::SUCCESS
        }
        Command::Probe { probe } => doctor::probe(probe).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_number_of_an_option_is_refused_with_its_range() {
        for (option, range) in [
            ("--events-max=-1", "write a whole number from 0"),
            ("--seeds=-1..3", "write numbers from 0"),
            ("--jobs=-2", "-2 is not in 1..=1024"),
            ("--until=-5us", "write a number and its unit"),
        ] {
            let words = ["xoff", "lab", "run", "a.yml", "--virtual", option].map(OsString::from);
            let message = parse_command_line(&words).expect_err(option);
            let what = usage_failure(&message).what;
            assert!(what.contains(range), "{option}: {what}");
        }
    }

    #[test]
    fn errors_of_the_command_line_and_the_environment_have_a_fix() {
        for (failure, fix) in [
            (Failure::usage("wrong"), Some("`xoff help`")),
            (Failure::environment("missing"), Some("`xoff doctor`")),
            (
                Failure::environment("missing").fix("own advice"),
                Some("own advice"),
            ),
            (Failure::new(Exit::CheckFailed, "lost"), None),
        ] {
            let found = with_general_fix(failure).fix;
            assert_eq!(found.is_some(), fix.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().starts_with(fix.unwrap_or_default()));
        }
    }
}
