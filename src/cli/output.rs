//! Writing to the terminal, a pipe or a file.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::failure::Failure;
use crate::report::Report;

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

/// Writes a report to its file: first beside it, then in its place, so that no reader sees half of one. What is
/// there and is not a plain file, such as a pipe, is written to.
///
/// # Errors
/// The folder cannot be written.
pub(super) fn write_report(report: &Report, path: &Path) -> Result<(), Failure> {
    let text = report.to_json();
    let written = match path.symlink_metadata() {
        Ok(there) if !there.is_file() => std::fs::write(path, text),
        _ => replace(path, &text),
    };
    written.map_err(|error| {
        Failure::environment("the report cannot be written")
            .at(format!("--report {}", path.display()))
            .because(error)
            .fix("choose a folder that exists and that you may write to")
    })
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .inspect_err(|_| {
            // What was written of it is of no use; the first error is the one to tell.
            let _ = std::fs::remove_file(&beside);
        })
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
