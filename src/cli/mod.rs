//! The command line. Standard output carries data, standard error progress and errors.

mod args;
mod config;
mod doctor;
mod output;
mod show;
mod values;

use clap::Parser;

use crate::failure::{Exit, Failure};
pub use args::*;
pub use values::{Pin, PortArgument, SendArgument};

/// Runs the program: parses the command line, does what it asks, prints the error if there is one.
pub fn main() -> Exit {
    match run(Arguments::parse()) {
        Ok(exit) => exit,
        Err(failure) => {
            output::complain(&failure);
            failure.exit
        }
    }
}

fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.command {
        Command::Config(command) => config::run(command),
        Command::Show(ShowCommand::Counters(options)) => show::counters(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Probe { probe } => Ok(doctor::probe(probe)),
        Command::Switch(SwitchCommand::Run(options)) => {
            values::check_ports(&options.ports)?;
            todo_join("switch run")
        }
        Command::Lab(_) => todo_join("lab"),
        Command::Host(_) => todo_join("host"),
        Command::LabProcess { .. } => todo_join("lab"),
    }
}

fn todo_join(what: &str) -> Result<Exit, Failure> {
    Err(Failure::environment(format!("{what} is not joined yet")))
}
