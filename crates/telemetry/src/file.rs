//! Result files: written completely or not at all.

use std::io;
use std::path::Path;

use crate::failure::Failure;

/// Writes the text of a report (`--report`). The function first writes a temporary file, and then renames
/// this file to `path`. A reader therefore never sees a partial report. If `path` is not a regular file, such
/// as a pipe, a symbolic link or `/dev/null`, the text is written directly.
///
/// # Errors
///
/// Returns an error if the folder does not exist or is not writable, or if the file cannot be written.
pub fn write_report_file(path: &Path, text: &str) -> Result<(), Failure> {
    write_result_file("--report", path, text)
}

/// Writes the text of a result file like [`write_report_file`]. `option` is the command line option with the
/// path of the file. The error message names this option.
///
/// # Errors
///
/// Returns an error if the folder does not exist or is not writable, or if the file cannot be written.
pub fn write_result_file(option: &str, path: &Path, text: &str) -> Result<(), Failure> {
    let result = match path.symlink_metadata() {
        Ok(existing) if !existing.is_file() => std::fs::write(path, text),
        _ => replace_file(path, text),
    };
    result.map_err(|error| {
        Failure::environment("the result cannot be written")
            .at(format!("{option} {}", path.display()))
            .because(error)
            .fix("choose a folder that exists and that you may write to")
    })
}

fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    std::fs::write(&temporary, text)
        .and_then(|()| std::fs::rename(&temporary, path))
        .inspect_err(|_| {
            // A partial file is of no use. If its removal fails too, the caller gets the first error.
            let _ = std::fs::remove_file(&temporary);
        })
}
