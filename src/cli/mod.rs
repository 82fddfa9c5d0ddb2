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

/// Runs the program: parses the command line, does what it asks, prints the error if there is one.
pub fn main() -> Exit {
    let arguments = Arguments::parse();
    match run(arguments) {
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
    }
}
