//! The only module of xoff that writes to standard output and standard error.
//!
//! A closed pipe, such as `| head`, ends the output silently, and the command continues: its result decides the
//! exit code. Another failed write, for example to a full disk, also ends the output. It is reported once on
//! standard error, and [`final_exit_code`] turns success into [`Exit::Environment`]. A failed write to
//! standard error has no effect.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use xoff_telemetry::failure::{Exit, Failure};

/// The state of standard output. All writers share it.
static STATE: Mutex<OutputState> = Mutex::new(OutputState::Open);

/// Whether standard output has data, or is reserved for a capture.
static STDOUT_USED: AtomicBool = AtomicBool::new(false);

/// Returns whether standard output has data, or is reserved for a capture. Then an error cannot be printed there
/// as JSON, because the output would not be one document.
pub(super) fn is_stdout_used() -> bool {
    STDOUT_USED.load(Ordering::Relaxed)
}

/// Reserves standard output for a capture.
pub(super) fn reserve_stdout() {
    STDOUT_USED.store(true, Ordering::Relaxed);
}

/// The state of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputState {
    /// The output accepts data.
    Open,
    /// The reader has closed its end. Further data is discarded.
    Closed,
    /// A write has failed and was reported. Further data is discarded.
    Failed,
}

impl OutputState {
    /// Returns the state after a write with this result.
    fn after_write(result: &io::Result<()>) -> OutputState {
        match result {
            Ok(()) => OutputState::Open,
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                OutputState::Closed
            }
            Err(_) => OutputState::Failed,
        }
    }

    /// Returns the exit code of the program, if `code` is the exit code of its command. A failed check, an
    /// invalid configuration and a tainted run are more important than a failed write.
    fn exit_code(self, code: ExitCode) -> ExitCode {
        let important = [Exit::CheckFailed, Exit::Configuration, Exit::Inconclusive];
        match self {
            OutputState::Failed if !important.map(ExitCode::from).contains(&code) => Exit::Environment.into(),
            _ => code,
        }
    }
}

/// Writes data to `output` if the state permits, and updates the state. Returns the error of a failed write if
/// it must be reported.
fn write_and_update(output: &mut dyn Write, data: &[u8], state: &mut OutputState) -> Option<io::Error> {
    if *state != OutputState::Open {
        return None;
    }
    let result = output.write_all(data).and_then(|()| output.flush());
    *state = OutputState::after_write(&result);
    result.err().filter(|_| *state == OutputState::Failed)
}

/// Standard output. A write never fails: if the output is closed or has failed, data is discarded.
#[derive(Clone, Copy, Debug)]
pub(super) struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        reserve_stdout();
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        let error = write_and_update(&mut io::stdout().lock(), data, &mut state);
        drop(state);
        if let Some(error) = error {
            let failure = Failure::environment("the output cannot be written")
                .at("standard output")
                .because(error)
                .fix("write to a file system with free space");
            print_failure(&failure);
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a writer for a capture that goes to standard output (the path `-`).
pub(super) fn open_standard_output() -> Box<dyn Write + Send> {
    Box::new(StandardOutput)
}

/// Returns the exit code of the program, if `code` is the exit code of its command.
pub(super) fn final_exit_code(code: ExitCode) -> ExitCode {
    STATE
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .exit_code(code)
}

/// Writes text to standard output.
pub(super) fn print(text: &str) {
    // This writer does not return errors.
    let _ = StandardOutput.write_all(text.as_bytes());
}

/// Writes a value to standard output as indented JSON.
pub(super) fn print_json(value: &impl serde::Serialize) {
    let text = serde_json::to_string_pretty(value).expect("our types have string keys and finite numbers");
    print(&format!("{text}\n"));
}

/// Writes an error to standard error.
pub(super) fn print_failure(failure: &Failure) {
    print_note(&failure.to_string());
}

/// Writes a line of progress or a warning to standard error. A failed write is ignored.
pub(super) fn print_note(text: &str) {
    // One write for the whole line: lines of several processes do not mix.
    let _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}

/// Replaces the message of the standard library about a negative number or a text by the range of the numbers.
pub(super) fn name_number_range(message: &str) -> String {
    message.replace("invalid digit found in string", "write a whole number from 0")
}

/// Writes the help, the version or an error of the command line parser, with colours on a terminal. Returns the
/// exit code.
pub(super) fn print_parser_message(message: &clap::Error) -> ExitCode {
    let text = message.render();
    let render = |is_coloured: bool| {
        name_number_range(&match is_coloured {
            true => text.ansi().to_string(),
            false => text.to_string(),
        })
    };
    if message.use_stderr() {
        let text = render(is_coloured_terminal(&io::stderr()));
        let _ = io::stderr().lock().write_all(text.as_bytes());
    } else {
        print(&render(is_coloured_terminal(&io::stdout())));
    }
    ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(Exit::Usage as u8))
}

/// Returns whether an output shows colours: it is a terminal, and the variable `NO_COLOR` is not set.
fn is_coloured_terminal(output: &impl IsTerminal) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
    output.is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

/// Checks that the file of an option can be written. Call this before a long run that writes the file at its
/// end. `option` is the name of the option, such as `--report`.
///
/// # Errors
/// The folder does not exist, the path is a folder, or the file cannot be written.
pub(super) fn check_report_path(option: &str, path: &Path) -> Result<(), Failure> {
    xoff_telemetry::check_result_file(path)
        .map_err(|error| xoff_telemetry::unwritable_file(option, path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that fails with an error number.
    struct FailingWriter(i32);

    impl Write for FailingWriter {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(self.0))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_silent_and_another_failed_write_is_reported_once() {
        use nix::errno::Errno;
        for (errno, after, reports) in [
            (Errno::EPIPE, OutputState::Closed, [false; 2]),
            (Errno::ECONNRESET, OutputState::Closed, [false; 2]),
            (Errno::ENOSPC, OutputState::Failed, [true, false]),
            (Errno::EIO, OutputState::Failed, [true, false]),
        ] {
            let mut state = OutputState::Open;
            let mut output = FailingWriter(errno as i32);
            for report in reports {
                let error = write_and_update(&mut output, b"text", &mut state);
                assert_eq!((error.is_some(), state), (report, after), "{errno}");
            }
            // The state stays: even an output that works again gets no data in the middle.
            let mut written = Vec::new();
            assert!(write_and_update(&mut written, b"text", &mut state).is_none());
            assert!(written.is_empty());
        }
    }

    #[test]
    fn a_failed_write_decides_the_exit_code_unless_the_result_is_worse() {
        for (code, after_failure) in [(0, 3), (1, 1), (2, 3), (3, 3), (4, 4), (5, 5), (130, 3)] {
            let (code, after_failure) = (ExitCode::from(code), ExitCode::from(after_failure));
            assert_eq!(OutputState::Failed.exit_code(code), after_failure);
            assert_eq!(OutputState::Closed.exit_code(code), code);
            assert_eq!(OutputState::Open.exit_code(code), code);
        }
    }

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
        assert!(refused.location.expect("a place").starts_with("--report "));
    }
}
