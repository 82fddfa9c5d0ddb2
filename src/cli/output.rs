//! Writing to the terminal, a pipe or a file.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::failure::Failure;

/// Writes data to standard output. A reader that went away (`| head`) is no error.
///
/// # Errors
/// The output cannot take it, such as a full disk.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::environment("the result cannot be written")
                .at("standard output")
                .because(error))
        }
        _ => Ok(()),
    }
}

/// Writes a JSON value to standard output, for people and programs alike.
///
/// # Errors
/// As [`print()`].
pub(super) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).expect("our types have string keys and finite numbers");
    print(&format!("{text}\n"))
}

/// Writes an error to standard error.
pub(super) fn complain(failure: &Failure) {
    note(&failure.to_string());
}

/// Writes a line of progress or a warning to standard error. If that is gone there is nobody left to tell.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Refuses a place for a report before a long run, not after it.
///
/// # Errors
/// The folder does not exist, or the path is a folder.
pub(super) fn check_report_path(path: &Path) -> Result<(), Failure> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let wrong = if path.is_dir() {
        "is a folder"
    } else if !folder.is_dir() {
        "its folder does not exist"
    } else {
        return Ok(());
    };
    Err(Failure::usage("the report cannot be written there")
        .at(format!("--report {}", path.display()))
        .because(wrong)
        .fix("give a file in a folder that exists"))
}
