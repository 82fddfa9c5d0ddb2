//! Plain hosts: their placeholder processes and the commands of the lab file.

use std::io::{BufRead, BufReader, PipeReader, pipe};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::processes::LabProcesses;
use crate::attached_lab::Lab;
use crate::inner_process::{InnerProcess, spawn_process};
use crate::report::PlainHostReport;
use crate::status_pipe::StatusPipe;
use xoff_ports::SendLossMeter;
use xoff_ports::net::Netns;
use xoff_telemetry::failure::Failure;

/// Longest wait for the remaining output after the end of a command.
const OUTPUT_DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// A plain host and its placeholder process.
#[derive(Debug)]
pub(super) struct PlainHost {
    name: String,
    /// `None` after the end of the process.
    child: Option<Child>,
    /// The frames that the interface drops. `None` if the kernel does not count them.
    send_losses: Option<SendLossMeter>,
}

/// Runs the commands of plain hosts. The kernel kills their processes when the init process of the lab ends.
#[derive(Debug, Default)]
pub(super) struct HostCommands {
    /// Number of hosts with running commands.
    busy_hosts: Arc<AtomicUsize>,
}

/// Starts the placeholder process of each plain host. To run a command in a host, `xoff lab exec` enters the
/// namespaces of this process.
pub(super) fn start_plain_hosts(lab: &Lab, processes: &LabProcesses) -> Result<Vec<PlainHost>, Failure> {
    let mut hosts = Vec::new();
    for (host, attachment) in lab.plan.hosts.iter().zip(&lab.hosts) {
        if host.as_plain().is_none() {
            continue;
        }
        let title = format!("{} {}", lab.plan.name, host.name);
        let stdio = [Stdio::null(), Stdio::null(), Stdio::null()];
        let started = attachment
            .netns
            .run(|| spawn_process(InnerProcess::PlainHost, &title, &[], stdio));
        let child = started.map_err(|error| {
            Failure::environment(format!("the host {} cannot be started", host.name)).because(error)
        })??;
        processes.watch_child(&child);
        hosts.push(PlainHost {
            name: host.name.clone(),
            child: Some(child),
            send_losses: attachment
                .netns
                .run(|| SendLossMeter::open(&attachment.interface).ok())
                .ok()
                .flatten(),
        });
    }
    Ok(hosts)
}

impl PlainHost {
    /// Returns the frames that the kernel of the host dropped instead of sending them. Returns `None` if there are
    /// none.
    pub(super) fn take_send_losses(&mut self) -> Option<PlainHostReport> {
        let tx_dropped_frames = self.send_losses.as_mut()?.take_lost_frames();
        (tx_dropped_frames > 0).then(|| PlainHostReport {
            name: self.name.clone(),
            tx_dropped_frames,
        })
    }

    /// Returns the name of the host and the status of its placeholder process, once after the end of the process.
    pub(super) fn poll_exit(&mut self) -> Option<(&str, ExitStatus)> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        self.child = None;
        Some((&self.name, status))
    }
}

impl HostCommands {
    /// Starts the commands of all plain hosts. All hosts run commands at the same time. A single host runs
    /// its commands one after the other.
    pub(super) fn start(lab: &Lab, processes: &LabProcesses) -> Result<HostCommands, Failure> {
        let host_commands = HostCommands::default();
        for (host, attachment) in lab.plan.hosts.iter().zip(&lab.hosts) {
            let Some(plain) = host.as_plain().filter(|plain| !plain.exec.is_empty()) else {
                continue;
            };
            let failed = |error: &dyn std::fmt::Display| {
                Failure::environment(format!("the commands of {} cannot be run", host.name)).because(error)
            };
            let netns = attachment.netns.try_clone().map_err(|error| failed(&error))?;
            let commands = CommandList {
                host: host.name.clone(),
                commands: plain.exec.clone(),
                folder: lab.plan.folder.clone().map(PathBuf::from),
            };
            let (status, busy_hosts) = (lab.status.clone(), Arc::clone(&host_commands.busy_hosts));
            let processes = processes.clone();
            busy_hosts.fetch_add(1, Ordering::Relaxed);
            std::thread::Builder::new()
                .name("xoff-exec".to_owned())
                .spawn(move || {
                    run_commands(&commands, &netns, &status, &processes);
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

/// The commands of a plain host.
struct CommandList {
    host: String,
    commands: Vec<String>,
    /// The folder of the lab file, in which the commands run. `None` means the folder of this process.
    folder: Option<PathBuf>,
}

/// Runs the commands of a host one after the other and reports failures.
fn run_commands(list: &CommandList, netns: &Netns, status: &StatusPipe, processes: &LabProcesses) {
    let host = &list.host;
    for command in &list.commands {
        let ended = netns
            .run(|| run_command(list, command, status, processes))
            .map_err(|error| error.to_string())
            .and_then(|ended| ended.map_err(|error| error.to_string()));
        match ended {
            Ok(None) => {}
            Ok(Some(ended)) if ended.success() => {}
            Ok(Some(ended)) => status.print(&format!("{host}: `{command}` ended with {ended}")),
            Err(why) => {
                let what = format!("cannot be run: {why}");
                if processes.add_unstarted(host, command, &what) {
                    status.print(&format!("{host}: `{command}` {what}"));
                }
            }
        }
    }
}

/// Runs a shell command and prints its output. Background processes continue after the end of the command,
/// and their output is also printed. Returns `None` if the command ends after the report was made.
fn run_command(
    list: &CommandList,
    command: &str,
    status: &StatusPipe,
    processes: &LabProcesses,
) -> std::io::Result<Option<ExitStatus>> {
    let (output, input) = pipe()?;
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(input.try_clone()?)
        .stderr(input);
    if let Some(folder) = &list.folder {
        // The error of the start would not name the folder.
        std::fs::metadata(folder).map_err(|error| {
            let folder = folder.display();
            std::io::Error::new(
                error.kind(),
                format!("the folder of the lab file, {folder}, cannot be entered: {error}"),
            )
        })?;
        shell.current_dir(folder);
    }
    let host = &list.host;
    let mut child = processes.start_command(host, &mut shell)?;
    drop(shell);
    let (printed_host, status) = (host.clone(), status.clone());
    let printer = std::thread::spawn(move || print_output(output, &printed_host, &status));
    let ended = child.wait()?;
    let is_in_report = processes.end_command(host, command, &child, ended);
    // The remaining output is printed before the end of the command is reported. The wait has a limit,
    // because a background process can keep the pipe open.
    let deadline = Instant::now() + OUTPUT_DRAIN_TIMEOUT;
    while !printer.is_finished() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(is_in_report.then_some(ended))
}

fn print_output(output: PipeReader, host: &str, status: &StatusPipe) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        status.print(&format!("{host}: {}", String::from_utf8_lossy(&line)));
    }
}
