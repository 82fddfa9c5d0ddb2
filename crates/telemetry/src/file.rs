//! Result files: written completely or not at all.

use std::io;
use std::path::Path;

use crate::failure::Failure;

/// Writes the text of a report (`--report`). The text is first written to a temporary file. The temporary
/// file then replaces the report. A reader therefore never sees a partial report. If the file is a pipe or a
/// device, such as `/dev/null`, the text is written directly.
///
/// # Errors
///
/// The folder is not writable.
pub fn write_report_file(path: &Path, text: &str) -> Result<(), Failure> {
    write_result_file("--report", path, text)
}

/// Writes the text of a result file. `option` is the command line option that the error message names. In all
/// other respects, the function works like [`write_report_file`].
///
/// # Errors
///
/// The folder is not writable.
pub fn write_result_file(option: &str, path: &Path, text: &str) -> Result<(), Failure> {
    let result = match path.symlink_metadata() {
        Ok(existing) if !existing.is_file() => std::fs::write(path, text),
        _ => replace_file(path, text),
    };
    result.map_err(|error| {
        Failure::environment("the result cannot be result")
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
            // A partial file is of no use. The caller gets the first error.
            let _ = std::fs::remove_file(&temporary);
        })
}
