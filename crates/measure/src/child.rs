//! Runs a program to its end and returns its output.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use xoff_telemetry::failure::{Exit, Failure};

/// Interval between two polls of a running program. Each poll checks whether the program has ended and
/// whether the run was interrupted. Measured values do not depend on this interval, because the programs
/// measure their own time.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Output and exit status of a program.
#[derive(Clone, Debug)]
pub(super) struct ProgramOutput {
    /// Standard output.
    pub(super) stdout: String,
    /// Standard error.
    pub(super) stderr: String,
    /// Exit status.
    pub(super) status: ExitStatus,
}

/// A running program that is killed when the value is dropped.
struct RunningProgram(Child);

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Runs a program to its end, without standard input. If `stop` becomes true, the program is killed and the
/// function returns an error.
///
/// # Errors
/// The program cannot be started, or the run was interrupted (exit code 130).
pub(super) fn run_program(command: &mut Command, stop: &AtomicBool) -> Result<ProgramOutput, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failure = |error| Failure::environment(format!("cannot run {program}")).because(error);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failure)?;
    let mut running = RunningProgram(child);
    let stdout = spawn_reader(running.0.stdout.take());
    let stderr = spawn_reader(running.0.stderr.take());
    let status = loop {
        if let Some(status) = running.0.try_wait().map_err(failure)? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::new(Exit::Interrupted, "interrupted; nothing is written"));
        }
        thread::sleep(POLL_INTERVAL);
    };
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    Ok(ProgramOutput {
        stdout: text(stdout),
        stderr: text(stderr),
        status,
    })
}

/// Starts a thread that reads a pipe to its end. Without this thread, the program that writes to the pipe
/// would block when the pipe is full.
fn spawn_reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_exit_status_are_returned() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 5"]);
        let output = run_program(&mut command, &AtomicBool::new(false)).unwrap();
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert_eq!(output.status.code(), Some(5));
    }

    #[test]
    fn an_interrupt_ends_the_program() {
        let mut command = Command::new("sleep");
        command.arg("600");
        let failure = run_program(&mut command, &AtomicBool::new(true)).unwrap_err();
        assert_eq!(failure.exit, Exit::Interrupted);
    }

    #[test]
    fn a_missing_program_is_reported() {
        let failure = run_program(&mut Command::new("/does/not/exist"), &AtomicBool::new(false)).unwrap_err();
        assert_eq!(failure.exit, Exit::Environment);
    }
}
