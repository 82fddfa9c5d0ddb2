//! Plain hosts: their placeholder processes and the commands of the lab file.

use std::io::{BufRead, BufReader, PipeReader, pipe};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::attached_lab::Lab;
use crate::inner_process::{InnerProcess, spawn_process};
use crate::status_pipe::StatusPipe;
use xoff_ports::net::Netns;
use xoff_telemetry::failure::Failure;

/// Longest wait for the remaining output after the end of a command.
const OUTPUT_DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// Runs the commands of plain hosts. The kernel kills their processes when the init process of the lab ends.
#[derive(Debug, Default)]
pub(super) struct HostCommands {
    /// Number of hosts with running commands.
    busy_hosts: Arc<AtomicUsize>,
}

/// Starts the placeholder process of each plain host. To run a command in a host, `xoff lab exec` enters the
/// namespaces of this process.
pub(super) fn start_plain_hosts(lab: &Lab) -> Result<(), Failure> {
    for (host, attachment) in lab.plan.hosts.iter().zip(&lab.hosts) {
        if host.as_plain().is_none() {
            continue;
        }
        let title = format!("{} {}", lab.plan.name, host.name);
        let stdio = [Stdio::null(), Stdio::null(), Stdio::null()];
        let started = attachment
            .netns
            .run(|| spawn_process(InnerProcess::PlainHost, &title, &[], stdio));
        started.map_err(|error| {
            Failure::environment(format!("the host {} cannot be started", host.name)).because(error)
        })??;
    }
    Ok(())
}

impl HostCommands {
    /// Starts the commands of all plain hosts. All hosts run commands at the same time. A single host runs
    /// its commands one after the other.
    pub(super) fn start(lab: &Lab) -> Result<HostCommands, Failure> {
        let host_commands = HostCommands::default();
        for (host, attachment) in lab.plan.hosts.iter().zip(&lab.hosts) {
            let Some(plain) = host.as_plain().filter(|plain| !plain.exec.is_empty()) else {
                continue;
            };
            let failed = |error: &dyn std::fmt::Display| {
                Failure::environment(format!("the commands of {} cannot be run", host.name)).because(error)
            };
            let netns = attachment.netns.try_clone().map_err(|error| failed(&error))?;
            let (name, commands) = (host.name.clone(), plain.exec.clone());
            let (status, busy_hosts) = (lab.status.clone(), Arc::clone(&host_commands.busy_hosts));
            busy_hosts.fetch_add(1, Ordering::Relaxed);
            std::thread::Builder::new()
                .name("xoff-exec".to_owned())
                .spawn(move || {
                    run_commands(&name, &commands, &netns, &status);
                    busy_hosts.fetch_sub(1, Ordering::Relaxed);
                })
                .map_err(|error| failed(&error))?;
        }
        Ok(host_commands)
    }

    /// Returns whether a command of any host is running.
    pub(super) fn are_running(&self) -> bool {
        self.busy_hosts.load(Ordering::Relaxed) > 0
    }
}

/// Runs the commands of a host one after the other and reports failures.
fn run_commands(host: &str, commands: &[String], netns: &Netns, status: &StatusPipe) {
    for command in commands {
        let ended = netns
            .run(|| run_command(host, command, status))
            .map_err(|error| error.to_string())
            .and_then(|ended| ended.map_err(|error| error.to_string()));
        match ended {
            Ok(ended) if ended.success() => {}
            Ok(ended) => status.print(&format!("{host}: `{command}` ended with {ended}")),
            Err(why) => status.print(&format!("{host}: `{command}` cannot be run: {why}")),
        }
    }
}

/// Runs a shell command and prints its output. Background processes continue after the end of the command,
/// and their output is also printed.
fn run_command(host: &str, command: &str, status: &StatusPipe) -> std::io::Result<std::process::ExitStatus> {
    let (output, input) = pipe()?;
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(input.try_clone()?)
        .stderr(input);
    let mut child = shell.spawn()?;
    drop(shell);
    let (host, status) = (host.to_owned(), status.clone());
    let printer = std::thread::spawn(move || print_output(output, &host, &status));
    let ended = child.wait()?;
    // The remaining output is printed before the end of the command is reported. The wait has a limit,
    // because a background process can keep the pipe open.
    let deadline = Instant::now() + OUTPUT_DRAIN_TIMEOUT;
    while !printer.is_finished() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(ended)
}

fn print_output(output: PipeReader, host: &str, status: &StatusPipe) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        status.print(&format!("{host}: {}", String::from_utf8_lossy(&line)));
    }
}
