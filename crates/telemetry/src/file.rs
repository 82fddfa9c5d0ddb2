//! The report as a file.

use std::io;
use std::path::Path;

use crate::failure::Failure;

/// Writes the text of a report: first beside the file, then in its place, so that no reader sees half of it. A path that exists
/// and is no plain file, such as a pipe or `/dev/null`, is written to and stays what it is.
///
/// # Errors
/// The folder cannot be written.
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    write_text("--report", path, text)
}

/// The same for a file that another option names.
///
/// # Errors
/// The folder cannot be written.
pub fn write_text(option: &str, path: &Path, text: &str) -> Result<(), Failure> {
    let written = match path.symlink_metadata() {
        Ok(there) if !there.is_file() => std::fs::write(path, text),
        _ => replace(path, text),
    };
    written.map_err(|error| {
        Failure::environment("the result cannot be written")
            .at(format!("{option} {}", path.display()))
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
