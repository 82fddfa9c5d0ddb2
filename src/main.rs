//! The `xoff` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    xoff::cli::main().into()
}
