//! A program that is run to its end for what it prints.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use xoff_telemetry::failure::{Exit, Failure};

/// How often is looked whether it has ended or we were interrupted. Programs measure themselves, so this is in no figure.
const LOOK: Duration = Duration::from_millis(2);

/// What it printed.
#[derive(Clone, Debug)]
pub(super) struct Printed {
    /// Standard output.
    pub(super) stdout: String,
    /// Standard error.
    pub(super) stderr: String,
    /// How it ended.
    pub(super) status: ExitStatus,
}

/// Ends the program if nobody has waited for it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Runs a program; when `stop` becomes true it is ended.
///
/// # Errors
/// It cannot be started; we were interrupted (exit code 130).
pub(super) fn run(command: &mut Command, stop: &AtomicBool) -> Result<Printed, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let trouble = |error| Failure::environment(format!("cannot run {program}")).because(error);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(trouble)?;
    let mut running = Running(child);
    let stdout = reader(running.0.stdout.take());
    let stderr = reader(running.0.stderr.take());
    let status = loop {
        if let Some(status) = running.0.try_wait().map_err(trouble)? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::new(Exit::Interrupted, "interrupted; nothing is written"));
        }
        thread::sleep(LOOK);
    };
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    Ok(Printed {
        stdout: text(stdout),
        stderr: text(stderr),
        status,
    })
}

/// Reads to the end beside the program, which would wait for ever with a full pipe.
fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
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
    fn what_is_printed_and_how_it_ended() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 5"]);
        let printed = run(&mut command, &AtomicBool::new(false)).unwrap();
        assert_eq!(
            (printed.stdout.as_str(), printed.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert_eq!(printed.status.code(), Some(5));
    }

    #[test]
    fn an_interruption_ends_the_program() {
        let mut command = Command::new("sleep");
        command.arg("600");
        let failure = run(&mut command, &AtomicBool::new(true)).unwrap_err();
        assert_eq!(failure.exit, Exit::Interrupted);
    }

    #[test]
    fn a_program_that_is_not_there() {
        let failure = run(&mut Command::new("/does/not/exist"), &AtomicBool::new(false)).unwrap_err();
        assert_eq!(failure.exit, Exit::Environment);
    }
}
