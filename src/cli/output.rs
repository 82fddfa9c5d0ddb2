//! Output to the terminal, a pipe or a file.

use std::fs::{File, OpenOptions, remove_file};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use xoff_telemetry::failure::Failure;

/// Whether standard output has data, or is reserved for a capture.
static STDOUT_USED: AtomicBool = AtomicBool::new(false);

/// Returns whether standard output has data, or is reserved for a capture. Then an error cannot be printed there
/// as JSON, because the output would not be one document.
pub(super) fn is_stdout_used() -> bool {
    STDOUT_USED.load(Ordering::Relaxed)
}

/// Reserves standard output for data that this module does not write, such as a capture.
pub(super) fn reserve_stdout() {
    STDOUT_USED.store(true, Ordering::Relaxed);
}

/// Standard output for libraries, which write their result to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        reserve_stdout();
        io::stdout().write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// Writes data to standard output. A closed pipe, such as `| head`, is no error.
///
/// # Errors
/// The output cannot be written, for example because a disk is full.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = StandardOutput;
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::environment("the result cannot be written")
                .at("standard output")
                .because(error))
        }
        _ => Ok(()),
    }
}

/// Writes a value to standard output as indented JSON.
///
/// # Errors
/// The output cannot be written.
pub(super) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).expect("our types have string keys and finite numbers");
    print(&format!("{text}\n"))
}

/// Writes an error to standard error.
pub(super) fn print_failure(failure: &Failure) {
    print_note(&failure.to_string());
}

/// Writes a line of progress or a warning to standard error. A failed write is ignored.
pub(super) fn print_note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Checks that the file of an option can be written. Call this before a long run that writes the file at its
/// end. `option` is the name of the option, such as `--report`.
///
/// # Errors
/// The folder does not exist, the path is a folder, or the file cannot be written.
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
        match check_writable(path) {
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

/// Tests whether [`write_result_file`](xoff_telemetry::write_result_file) can write to a path.
/// `write_result_file` replaces a regular file by a temporary file in the same folder. It writes directly
/// into a file that is not regular, such as a pipe. The test leaves no file behind.
fn check_writable(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(existing) if !existing.is_file() => {
            let kind = path.metadata().map(|existing| existing.file_type());
            match kind {
                // Opening a pipe would wait for its reader.
                Ok(kind) if !kind.is_fifo() && !kind.is_socket() => {
                    OpenOptions::new().append(true).open(path).map(drop)
                }
                _ => Ok(()),
            }
        }
        _ => {
            let mut temporary_path = path.as_os_str().to_owned();
            temporary_path.push(format!(".{}", std::process::id()));
            File::create(&temporary_path)?;
            remove_file(&temporary_path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_paths_are_checked_and_left_unchanged() {
        let folder = tempfile::tempdir().expect("a folder");
        let existing = folder.path().join("there.json");
        std::fs::write(&existing, "kept").expect("a file");
        assert!(check_report_path("--save", &existing).is_ok());
        assert!(check_report_path("--save", &folder.path().join("new.json")).is_ok());
        assert!(check_report_path("--save", Path::new("/dev/null")).is_ok());
        assert_eq!(std::fs::read_to_string(&existing).expect("a file"), "kept");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);

        // Even root cannot create a file there.
        let refused = check_report_path("--draft", Path::new("/proc/draft.md")).expect_err("no place");
        assert!(refused.location.expect("a place").starts_with("--draft "));
        let refused = check_report_path("--report", folder.path()).expect_err("a folder");
        assert!(refused.what.contains("report"));
    }
}
