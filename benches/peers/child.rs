//! Forwarding programs in processes that end with this process.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Failure;
use crate::bed::{CoreAssignment, pin};

/// Maximum time of a program to start and to end.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Returns true if a program is installed.
pub(crate) fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&paths).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.any(|folder| folder.join(program).is_file())
}

/// A running program.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    output: PathBuf,
}

impl Program {
    /// Starts a program on the forwarder's core. Its output goes to `output`, and its standard
    /// input stays open.
    pub(crate) fn start(
        program: impl AsRef<OsStr>,
        change: impl FnOnce(&mut Command),
        output: &Path,
        cores: CoreAssignment,
    ) -> Result<Program, Failure> {
        Program::start_on(&[cores.forwarder], program, change, output, cores)
    }

    /// Starts a program like [`Program::start`] on other cores.
    pub(crate) fn start_on(
        allowed: &[usize],
        program: impl AsRef<OsStr>,
        change: impl FnOnce(&mut Command),
        output: &Path,
        cores: CoreAssignment,
    ) -> Result<Program, Failure> {
        let name = program.as_ref().to_string_lossy().into_owned();
        let file = File::create(output).and_then(|file| Ok((file.try_clone()?, file)));
        let (stdout, stderr) = file.map_err(|error| format!("cannot write {}: {error}", output.display()))?;
        // The program also ends if this process is killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program);
        change(&mut command);
        command.stdin(Stdio::piped()).stdout(stdout).stderr(stderr);
        // The program inherits the core of the thread that starts it.
        pin(allowed)?;
        let child = command
            .spawn()
            .map_err(|error| format!("cannot start {name}: {error}"));
        pin(&[cores.tester])?;
        Ok(Program {
            child: child?,
            output: output.to_owned(),
        })
    }

    /// Waits until the program has printed `words`.
    pub(crate) fn wait_for(&mut self, words: &str) -> Result<(), Failure> {
        self.wait_until(|text| text.contains(words))
    }

    /// Waits until `ready` accepts the output of the program.
    pub(crate) fn wait_until(&mut self, ready: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let text = self.text();
            if ready(&text) {
                return Ok(());
            }
            let ended = self.child.try_wait().ok().flatten();
            if ended.is_some() || Instant::now() > end {
                let last: Vec<&str> = text
                    .lines()
                    .rev()
                    .filter(|line| !line.trim().is_empty())
                    .take(4)
                    .collect();
                let last: Vec<&str> = last.into_iter().rev().map(str::trim).collect();
                return Err(match ended {
                    Some(status) => format!("it ended ({status}): {}", last.join("; ")),
                    None => format!("it was not ready within {TIMEOUT:?}: {}", last.join("; ")),
                });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn text(&self) -> String {
        let mut bytes = Vec::new();
        // Unreadable output counts as not printed.
        let _ = File::open(&self.output).and_then(|mut file| file.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the processor time of the program's threads in nanoseconds. The kernel also charges the
    /// softirqs that run on a thread to it.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", self.child.id())) else {
            return 0;
        };
        tasks
            .flatten()
            .filter_map(|task| {
                let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
                text.split_whitespace().next()?.parse::<u64>().ok()
            })
            .sum()
    }

    /// Returns a field of `/proc/PID/status` in KiB, such as `RssAnon:`.
    pub(crate) fn memory_kib(&self, name: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// Interrupts the program and waits for its end. Kills a program that does not end.
    pub(crate) fn end(&mut self) {
        drop(self.child.stdin.take());
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let end = Instant::now() + Duration::from_secs(5);
        // An error for an ended program is ignored.
        let _ = kill(pid, Signal::SIGINT);
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > end {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}
