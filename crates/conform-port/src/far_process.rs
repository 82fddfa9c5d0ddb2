//! The program on the far host: a process with requests on its standard input and replies on its standard output.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use xoff_conform::{FarHostReply, FarHostRequest};
use xoff_telemetry::failure::Failure;

use crate::line_buffer::{LineBuffer, set_nonblocking};

/// Longest time for which a program may run after the end of its input.
const EXIT_MAX: Duration = Duration::from_millis(2_000);
/// Number of bytes of the error output that messages quote.
const QUOTED_BYTES_MAX: usize = 600;

/// A running program on the far host. It is stopped when the value is dropped.
#[derive(Debug)]
pub(crate) struct FarProcess {
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    lines: LineBuffer,
    /// The command, for messages.
    command: String,
}

impl FarProcess {
    /// Starts a program. `script` is written to its input first.
    pub(crate) fn start(mut command: Command, script: &str) -> Result<FarProcess, Failure> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let text: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let text = text.join(" ");
        let failure = |error: std::io::Error| {
            Failure::environment("the program on the far host cannot be started")
                .at(text.clone())
                .because(error)
                .fix("check --adapter and --device: docs/conform.md")
        };
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failure)?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failure(std::io::Error::other("the program has no pipes")));
        };
        // A program that has ended is reported with its error output by the first request.
        let _ = input.write_all(script.as_bytes());
        set_nonblocking(&output).map_err(failure)?;
        Ok(FarProcess {
            child,
            input: Some(input),
            output,
            lines: LineBuffer::default(),
            command: text,
        })
    }

    pub(crate) fn send_request(&mut self, request: &FarHostRequest) -> Result<(), String> {
        let line = serde_json::to_string(request).expect("our types have string keys and finite numbers");
        let Some(input) = &mut self.input else {
            return Err("the program on the far host has ended".to_owned());
        };
        let written = input
            .write_all(format!("{line}\n").as_bytes())
            .and_then(|()| input.flush());
        if written.is_ok() {
            return Ok(());
        }
        // The program has ended. Its last answer can explain why, for example if it is another program.
        Err(match self.receive_reply() {
            Err(why) => why,
            Ok(_) => self.describe_end(),
        })
    }

    pub(crate) fn receive_reply(&mut self) -> Result<Option<FarHostReply>, String> {
        self.lines
            .fill(&self.output)
            .map_err(|error| format!("the far host cannot be read: {error}"))?;
        match self.lines.next_line() {
            Some(line) => serde_json::from_str(&line).map(Some).map_err(|error| {
                let shown: String = line.chars().take(80).collect();
                format!("the far host gave a wrong answer ({error}): {shown}")
            }),
            None if self.lines.is_at_end => Err(self.describe_end()),
            None => Ok(None),
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Stops the program, and describes its end with its error output.
    fn describe_end(&mut self) -> String {
        let status = self.stop();
        let mut errors = Vec::new();
        if let Some(stderr) = &mut self.child.stderr {
            let limit = 1 << 16;
            // Children of the program can keep the pipe open, so the read must not wait for its end. An error only
            // shortens the message.
            let _ = set_nonblocking(&*stderr);
            let _ = stderr.take(limit).read_to_end(&mut errors);
        }
        let errors = String::from_utf8_lossy(&errors);
        let errors = errors.trim();
        let at = errors
            .char_indices()
            .rev()
            .nth(QUOTED_BYTES_MAX)
            .map_or(0, |(at, _)| at);
        let command: String = self.command.chars().take(200).collect();
        format!(
            "the program on the far host has ended ({status}), command `{command}`: {}",
            &errors[at..]
        )
    }

    fn stop(&mut self) -> String {
        self.input = None;
        let deadline = Instant::now() + EXIT_MAX;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.to_string(),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) | Err(_) => break,
            }
        }
        // An error means that the program has ended in the meantime.
        let _ = self.child.kill();
        self.child
            .wait()
            .map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

impl Drop for FarProcess {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::*;

    #[test]
    fn the_end_of_a_program_is_described_while_its_children_run() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 >&- & echo no device, child $! >&2"]);
        let mut process = FarProcess::start(command, "").expect("a shell");
        let why = loop {
            match process.receive_reply() {
                Ok(_) => std::thread::sleep(Duration::from_millis(5)),
                Err(why) => break why,
            }
        };
        assert!(why.contains("has ended"), "{why}");
        let (_, child) = why.rsplit_once("no device, child ").expect("the error output");
        // A read to the end of the pipe would have waited for the end of the child.
        let child = Pid::from_raw(child.trim().parse().expect("a process"));
        assert!(kill(child, Signal::SIGKILL).is_ok(), "the child has ended");
    }
}
