//! The `xoff` program.

use std::ffi::OsString;
use std::process::ExitCode;

use xoff::lab::{self, LabOptions, LabRunArgs, LabUpArgs};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(code) = lab::internal(arguments.iter().cloned()) {
        return code;
    }
    let words: Vec<String> = arguments
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let options = LabOptions::default();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["lab", "run", file] => lab::run(&LabRunArgs {
            file: file.into(),
            options,
        }),
        ["lab", "up", file] => lab::up(&LabUpArgs {
            file: file.into(),
            options,
        }),
        ["lab", "down", name] => lab::down(name),
        ["lab", "ls"] => lab::ls(),
        _ => ExitCode::from(2),
    }
}
