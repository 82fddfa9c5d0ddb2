//! The `xoff` program.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::install_logger();
    // This must come before any thread starts, because the launcher of a lab enters namespaces.
    if let Some(code) = xoff_lab::run_inner_process(std::env::args_os().skip(1)) {
        return code;
    }
    cli::main()
}
