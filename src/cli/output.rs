//! Writing to the terminal, a pipe or a file.

use std::fs::{File, OpenOptions, remove_file};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use xoff_telemetry::failure::Failure;

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

/// Refuses a place for the file of an option before a long run, not after it.
///
/// # Errors
/// The folder does not exist, the path is a folder, or neither can be written to.
pub(super) fn check_report_path(option: &str, path: &Path) -> Result<(), Failure> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let (wrong, fix) = if path.is_dir() {
        ("it is a folder".to_owned(), "give a file in it")
    } else if !folder.is_dir() {
        (
            "its folder does not exist".to_owned(),
            "give a file in a folder that exists",
        )
    } else {
        match try_to_write(path) {
            Ok(()) => return Ok(()),
            Err(error) => (
                error.to_string(),
                "give a file in a folder that can be written to",
            ),
        }
    };
    let what = if option == "--report" { "report" } else { "file" };
    Err(Failure::usage(format!("the {what} cannot be written there"))
        .at(format!("{option} {}", path.display()))
        .because(wrong)
        .fix(fix))
}

/// Opens what [`write_result_file`](xoff_telemetry::write_result_file) would: a plain file is replaced by one made beside it, anything else is
/// written to. Leaves nothing behind.
fn try_to_write(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(there) if !there.is_file() => {
            let kind = path.metadata().map(|there| there.file_type());
            match kind {
                // A pipe would wait for its reader.
                Ok(kind) if !kind.is_fifo() && !kind.is_socket() => {
                    OpenOptions::new().append(true).open(path).map(drop)
                }
                _ => Ok(()),
            }
        }
        _ => {
            let mut beside = path.as_os_str().to_owned();
            beside.push(format!(".{}", std::process::id()));
            File::create(&beside)?;
            remove_file(&beside)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_tried_and_left_as_they_were() {
        let folder = tempfile::tempdir().expect("a folder");
        let there = folder.path().join("there.json");
        std::fs::write(&there, "kept").expect("a file");
        assert!(check_report_path("--save", &there).is_ok());
        assert!(check_report_path("--save", &folder.path().join("new.json")).is_ok());
        assert!(check_report_path("--save", Path::new("/dev/null")).is_ok());
        assert_eq!(std::fs::read_to_string(&there).expect("a file"), "kept");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);

        // Not even root makes a file there.
        let refused = check_report_path("--draft", Path::new("/proc/draft.md")).expect_err("no place");
        assert!(refused.place.expect("a place").starts_with("--draft "));
        let refused = check_report_path("--report", folder.path()).expect_err("a folder");
        assert!(refused.what.contains("report"));
    }
}
