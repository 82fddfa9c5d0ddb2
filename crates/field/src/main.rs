//! Runs public configurations and captures through xoff. Reports which configurations and captures load and
//! give the expected result.
//!
//! - `cargo run -p field -- skus GITDIR` renders and loads the buffer and QoS templates of all SKUs. `GITDIR`
//!   is a bare git directory of sonic-net/sonic-buildimage.
//! - `cargo run -p field -- captures DIR...` replays all captures in the folders.
//! - `cargo run --release -p field -- oracles OWNER/NAME=GITDIR...` runs public configurations of the HPCC
//!   model of ns-3 and compares the completion times.
//! - `cargo run -p field -- schema ...` writes the tables and fields of SONiC's CONFIG_DB.
//!
//! The inputs are not part of this repository.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for developers")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod captures;
mod external_command;
mod git;
mod oracles;
mod program;
mod schema;
mod skus;

/// Runs public configurations and captures through xoff.
#[derive(Debug, Parser)]
#[command(name = "field")]
struct Arguments {
    #[command(subcommand)]
    command: FieldCommand,
}

/// The command to run.
#[derive(Debug, Subcommand)]
enum FieldCommand {
    /// Load the buffer and QoS configuration of every SKU of sonic-buildimage.
    Skus(skus::Arguments),
    /// Replay every capture in the given folders.
    Captures(captures::Arguments),
    /// Run public configurations of the HPCC model of ns-3 and compare the completion times.
    Oracles(oracles::Arguments),
    /// Write the list of SONiC's tables and fields.
    Schema(schema::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        FieldCommand::Skus(arguments) => skus::run(&arguments),
        FieldCommand::Captures(arguments) => captures::run(&arguments),
        FieldCommand::Oracles(arguments) => oracles::run(&arguments),
        FieldCommand::Schema(arguments) => schema::run(&arguments),
    };
    result.unwrap_or_else(|message| {
        eprintln!("field: {message}");
        ExitCode::from(3)
    })
}
