//! Runs the commands of xoff on a mutant and checks how each command ends.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use wait4::Wait4;

use super::corpus::FileKind;
use super::mutate::Mutant;

/// The processor time of a command in seconds. The kernel ends a command that needs more.
const CPU_SECONDS_MAX: u64 = 10;
/// The peak memory of a command in bytes.
const RSS_BYTES_MAX: u64 = 1 << 30;
/// The largest exit code of a command that has ended as documented.
const EXIT_CODE_MAX: i32 = 5;

/// The limits of `lab run`.
#[derive(Clone, Copy, Debug)]
pub struct MutantLimits {
    /// The value of `--until`, such as `1ms`.
    pub until: &'static str,
    /// The value of `--events-max`.
    pub events_max: u32,
}

impl Default for MutantLimits {
    /// Returns 1 ms of model time and a million events.
    fn default() -> MutantLimits {
        MutantLimits {
            until: "1ms",
            events_max: 1_000_000,
        }
    }
}

/// A command that did not end as documented.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The arguments of the program.
    pub command: String,
    /// What was wrong, such as `signal 6` or `2048 MiB`.
    pub what: String,
    /// The end of standard error.
    pub stderr: String,
}

/// The number of commands for each exit code, and the largest use of resources.
#[derive(Clone, Debug, Default)]
pub struct RunCounts {
    /// The number of commands by exit code.
    pub exit_codes: BTreeMap<i32, u64>,
    /// The largest peak memory of a command in bytes.
    pub rss_bytes_max: u64,
    /// The longest processor time of a command.
    pub cpu_time_max: Duration,
    /// The processor time of all commands.
    pub cpu_time: Duration,
}

/// A process in a user namespace and a network namespace, in which all commands run. Creating a network namespace for
/// each command would take longer than most commands.
#[derive(Debug)]
struct NamespaceHolder {
    process: Child,
}

impl NamespaceHolder {
    /// Starts the process. Returns `None` if the machine allows no namespaces.
    fn start() -> Option<NamespaceHolder> {
        // `cat` ends with its standard input, and so with this program.
        let mut process = Command::new("unshare")
            .args([
                "--user",
                "--map-root-user",
                "--net",
                "sh",
                "-c",
                "echo ready; exec cat",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut ready = [0; 6];
        let is_ready = process.stdout.as_mut()?.read_exact(&mut ready).is_ok();
        let holder = NamespaceHolder { process };
        is_ready.then_some(holder)
    }

    /// Returns an error if the process has ended. All later commands would fail, whatever their mutants are.
    fn check(&mut self) -> io::Result<()> {
        match self.process.try_wait()? {
            None => Ok(()),
            Some(status) => Err(io::Error::other(format!(
                "the process that holds the namespaces of the commands has ended with {status}"
            ))),
        }
    }

    /// Returns the words before a command that runs in the namespaces.
    fn enter_command(&self) -> [String; 6] {
        let process = self.process.id().to_string();
        [
            "nsenter",
            "--target",
            &process,
            "--user",
            "--net",
            "--preserve-credentials",
        ]
        .map(str::to_owned)
    }
}

impl Drop for NamespaceHolder {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // The process has ended, or ends now.
        let _ = self.process.wait();
    }
}

/// Runs mutants.
#[derive(Debug)]
pub struct MutantRunner {
    program: PathBuf,
    limits: MutantLimits,
    folder: tempfile::TempDir,
    /// `None` if the machine allows no namespaces.
    namespace: Option<NamespaceHolder>,
    /// The results of all commands so far.
    pub counts: RunCounts,
}

impl MutantRunner {
    /// Creates a runner for a program. The commands run in a user namespace and a network namespace if the machine
    /// allows this.
    ///
    /// # Errors
    /// Fails if a temporary folder cannot be created.
    pub fn new(program: &Path, limits: MutantLimits) -> io::Result<MutantRunner> {
        Ok(MutantRunner {
            program: std::path::absolute(program)?,
            limits,
            folder: tempfile::tempdir()?,
            namespace: NamespaceHolder::start(),
            counts: RunCounts::default(),
        })
    }

    /// Runs all commands for the kind of a mutant. Returns the commands that did not end as documented.
    ///
    /// # Errors
    /// Fails if the mutant cannot be written or the program cannot start.
    pub fn run(&mut self, mutant: &Mutant<'_>) -> io::Result<Vec<Finding>> {
        let name = format!("mutant.{}", mutant.file.kind.extension());
        let path = self.folder.path().join(name);
        fs::write(&path, &mutant.bytes)?;
        self.link_neighbours(&mutant.file.path)?;
        let file = path.display().to_string();
        let mut findings = Vec::new();
        for arguments in self.commands(mutant.file.kind, &file) {
            findings.extend(self.run_command(&arguments)?);
        }
        Ok(findings)
    }

    /// Links the folder of the original file, because a lab names files relative to its folder.
    fn link_neighbours(&self, original: &Path) -> io::Result<()> {
        for entry in fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            if path.is_symlink() {
                fs::remove_file(path)?;
            }
        }
        let Some(folder) = original.parent().filter(|folder| folder.is_dir()) else {
            return Ok(());
        };
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let link = self.folder.path().join(entry.file_name());
            if !link.exists() {
                std::os::unix::fs::symlink(entry.path(), link)?;
            }
        }
        Ok(())
    }

    /// Returns the arguments of the commands for a kind of file.
    fn commands(&self, kind: FileKind, file: &str) -> Vec<Vec<String>> {
        let capture = self.folder.path().join("out.pcapng").display().to_string();
        let events = self.limits.events_max.to_string();
        let until = self.limits.until;
        let lab_run = ["lab", "run", file, "--virtual", "--no-exec", "--memory", "1G"];
        let lab_run = [&lab_run[..], &["--until", until, "--events-max", &events]].concat();
        let lab_check = ["lab", "check", file, "--virtual", "--no-exec", "--memory", "1G"];
        let lab_check = [&lab_check[..], &["--jobs", "1", "--events-max", &events]].concat();
        let commands: Vec<Vec<&str>> = match kind {
            FileKind::Lab => vec![lab_run, lab_check],
            FileKind::Configuration => vec![
                vec!["config", "check", file, "--memory", "1G"],
                vec![
                    "config",
                    "check",
                    file,
                    "--memory",
                    "1G",
                    "--format",
                    "json",
                    "--port",
                    "Ethernet0",
                ],
            ],
            FileKind::Capture => vec![vec!["replay", file, "--out", &capture, "--memory", "1G"]],
        };
        commands
            .into_iter()
            .map(|arguments| arguments.into_iter().map(str::to_owned).collect())
            .collect()
    }

    /// Runs one command. Returns what was wrong.
    fn run_command(&mut self, arguments: &[String]) -> io::Result<Option<Finding>> {
        let mut stderr = tempfile::tempfile_in(self.folder.path())?;
        let script = format!("ulimit -t {CPU_SECONDS_MAX}; ulimit -c 0; exec \"$@\"");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script, "sh"]);
        if let Some(namespace) = &mut self.namespace {
            namespace.check()?;
            command.args(namespace.enter_command());
        }
        let child = command
            .arg(&self.program)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr.try_clone()?)
            .spawn()?;
        let used = child.wait4()?;
        let cpu_time = used.rusage.utime + used.rusage.stime;
        let (code, signal) = (used.status.code(), used.status.signal());
        self.counts.cpu_time += cpu_time;
        self.counts.cpu_time_max = self.counts.cpu_time_max.max(cpu_time);
        self.counts.rss_bytes_max = self.counts.rss_bytes_max.max(used.rusage.maxrss);
        *self.counts.exit_codes.entry(code.unwrap_or(-1)).or_default() += 1;
        let mut text = Vec::new();
        stderr.rewind()?;
        stderr.take(1 << 20).read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let what = match (code, signal) {
            (_, Some(signal)) => format!("signal {signal}"),
            (Some(code), _) if !(0..=EXIT_CODE_MAX).contains(&code) => format!("exit code {code}"),
            _ if text.contains("panicked at") => "a panic".to_owned(),
            _ if cpu_time > Duration::from_secs(CPU_SECONDS_MAX) => {
                format!("{cpu_time:.1?} of processor time")
            }
            _ if used.rusage.maxrss > RSS_BYTES_MAX => format!("{} MiB of memory", used.rusage.maxrss >> 20),
            _ => return Ok(None),
        };
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        Ok(Some(Finding {
            command: arguments.join(" "),
            what,
            stderr: lines[lines.len().saturating_sub(6)..].join("\n"),
        }))
    }
}
