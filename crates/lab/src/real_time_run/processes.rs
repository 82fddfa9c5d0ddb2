//! Watches the processes of a lab. A process that ends by a signal or with an error, while the lab runs, is in the
//! report and fails or taints the run.
//!
//! The switch process starts the processes of plain hosts. It is also the subreaper of their background processes:
//! when the shell of a command has ended, the kernel makes the switch process the parent of the remaining processes.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, getpgid};
use xoff_telemetry::failure::Exit;

use crate::report::{ProcessEffect, ProcessReport};

/// Largest number of ended processes in a report. Failures have precedence.
const REPORTED_MAX: usize = 256;
/// Largest length in bytes of a command in a report.
const COMMAND_BYTES_MAX: usize = 200;

/// The processes of a lab. Clones share their content.
#[derive(Clone, Debug, Default)]
pub(super) struct LabProcesses(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Process IDs of the children whose end another part of the program waits for.
    children: Vec<i32>,
    /// Host of each process group of commands.
    groups: HashMap<i32, String>,
    /// Number of running commands of each host.
    busy: HashMap<String, usize>,
    ended: Vec<ProcessReport>,
    /// True if the report contains the ended processes. The lab then stops all others.
    is_reported: bool,
    /// Start of the workload, and the factor by which model time runs slower than wall time. `None` before the
    /// start.
    start: Option<(Instant, u32)>,
}

impl LabProcesses {
    /// Makes this process the parent of all processes whose parent process ends.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub(super) fn new() -> io::Result<LabProcesses> {
        nix::sys::prctl::set_child_subreaper(true)?;
        Ok(LabProcesses::default())
    }

    /// Sets the start of the workload, from which the report counts the times of ends.
    pub(super) fn set_workload_start(&self, dilate: u32) {
        self.lock().start = Some((Instant::now(), dilate.max(1)));
    }

    /// Registers a child whose end the caller waits for.
    pub(super) fn watch_child(&self, child: &Child) {
        self.lock().children.push(child.id() as i32);
    }

    /// Starts a command of a plain host in its own process group.
    ///
    /// # Errors
    /// Fails if the command cannot be started.
    pub(super) fn start_command(&self, host: &str, command: &mut Command) -> io::Result<Child> {
        // While the lock is held, the child cannot be taken for an unknown process.
        let mut state = self.lock();
        let child = command.process_group(0).spawn()?;
        let process = child.id() as i32;
        state.children.push(process);
        state.groups.insert(process, host.to_owned());
        *state.busy.entry(host.to_owned()).or_default() += 1;
        Ok(child)
    }

    /// Records the end of a command of a plain host. Returns false if the end is too late for the report.
    pub(super) fn end_command(&self, host: &str, command: &str, child: &Child, status: ExitStatus) -> bool {
        let effect = match status.code() {
            Some(0) => ProcessEffect::None,
            Some(code) if code == Exit::Inconclusive as i32 && runs_xoff(command) => ProcessEffect::Taints,
            _ => ProcessEffect::Fails,
        };
        {
            let mut state = self.lock();
            state.children.retain(|process| *process != child.id() as i32);
            if let Some(running) = state.busy.get_mut(host) {
                *running = running.saturating_sub(1);
            }
        }
        self.add(host, command, &status.to_string(), effect)
    }

    /// Records the end of a placeholder process or of a virtual machine.
    pub(super) fn end_child(&self, node: &str, process: &str, status: ExitStatus) {
        let effect = match status.success() {
            true => ProcessEffect::None,
            false => ProcessEffect::Fails,
        };
        self.add(node, process, &status.to_string(), effect);
    }

    /// Records a process that could not be started. Returns false if this is too late for the report.
    pub(super) fn add_unstarted(&self, node: &str, process: &str, why: &str) -> bool {
        self.add(node, process, why, ProcessEffect::Fails)
    }

    /// Removes the ended background processes of commands, and records those that failed.
    pub(super) fn reap_background_processes(&self) {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        loop {
            let state = self.lock();
            let Ok(status) = waitid(Id::All, flags) else {
                return;
            };
            let Some(process) = status.pid() else { return };
            // Another thread or the next check waits for this child.
            if state.children.contains(&process.as_raw()) {
                return;
            }
            // The group and the name of the process are known only until it is reaped.
            let ended = match status {
                WaitStatus::Exited(_, 0) => None,
                WaitStatus::Exited(_, code) => Some((ExitStatus::from_raw(code << 8), false)),
                WaitStatus::Signaled(_, signal, _) => {
                    Some((ExitStatus::from_raw(signal as i32), can_be_requested(signal)))
                }
                _ => None,
            };
            let ended = ended.map(|(status, can_be_requested)| {
                let group = getpgid(Some(process)).ok();
                let host = group.and_then(|group| state.groups.get(&group.as_raw()));
                // While a command of the host runs, this command may have stopped the process.
                let is_busy = host
                    .and_then(|host| state.busy.get(host))
                    .is_some_and(|count| *count > 0);
                let effect = match can_be_requested && is_busy {
                    true => ProcessEffect::None,
                    false => ProcessEffect::Fails,
                };
                let host = host.cloned().unwrap_or_else(|| "-".to_owned());
                (host, name_of_zombie(process), status, effect)
            });
            let reaped = waitpid(process, Some(WaitPidFlag::WNOHANG));
            drop(state);
            if let Some((host, name, status, effect)) = ended {
                self.add(&host, &name, &status.to_string(), effect);
            }
            if reaped.is_err() {
                return;
            }
        }
    }

    /// Returns the ended processes for the report, in the order of their ends. Later ends are not recorded.
    pub(super) fn take_ended(&self) -> Vec<ProcessReport> {
        let mut state = self.lock();
        state.is_reported = true;
        std::mem::take(&mut state.ended)
    }

    /// Records an end. Returns false if it is too late for the report.
    fn add(&self, node: &str, process: &str, status: &str, effect: ProcessEffect) -> bool {
        let mut state = self.lock();
        if state.is_reported {
            return false;
        }
        if state.ended.len() >= REPORTED_MAX {
            let harmless = state
                .ended
                .iter()
                .position(|ended| ended.effect == ProcessEffect::None);
            match (effect, harmless) {
                (ProcessEffect::None, _) | (_, None) => return true,
                (_, Some(at)) => drop(state.ended.remove(at)),
            }
        }
        let elapsed = state
            .start
            .map(|(start, dilate)| start.elapsed().as_nanos() as u64 / u64::from(dilate));
        let mut end = process.len().min(COMMAND_BYTES_MAX);
        while !process.is_char_boundary(end) {
            end -= 1;
        }
        state.ended.push(ProcessReport {
            node: node.to_owned(),
            process: process[..end].to_owned(),
            status: status.to_owned(),
            ended_ns: elapsed.unwrap_or(0),
            effect,
        });
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a command runs `xoff`, whose exit code 5 means that its run proves nothing.
fn runs_xoff(command: &str) -> bool {
    let mut words = command.split(|c: char| c.is_whitespace() || "'\";&|()".contains(c));
    words.any(|word| word.rsplit('/').next() == Some("xoff"))
}

/// Returns whether a command can have ended a process with this signal on purpose.
fn can_be_requested(signal: Signal) -> bool {
    matches!(
        signal,
        Signal::SIGHUP | Signal::SIGINT | Signal::SIGKILL | Signal::SIGTERM
    )
}

/// Returns the name of an ended process that has not been reaped. `/proc` has the process IDs of the machine, and
/// `process` is the ID in the PID namespace of the lab, so all ended processes are compared.
fn name_of_zombie(process: Pid) -> String {
    let number = process.to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path().join("status")).ok());
    let field = |text: &str, name: &str| -> Option<String> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_start_matches(':').trim().to_owned())
    };
    let is_process = |text: &String| {
        let inner = field(text, "NSpid");
        field(text, "State").is_some_and(|state| state.starts_with('Z'))
            && inner.is_some_and(|ids| ids.split_whitespace().last() == Some(&number))
    };
    let mut matching = texts.filter(is_process);
    let name = matching.next().and_then(|text| field(&text, "Name"));
    name.unwrap_or_else(|| "background process".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(raw: i32) -> ExitStatus {
        ExitStatus::from_raw(raw)
    }

    #[test]
    fn signals_and_errors_fail_a_run_and_status_zero_does_not() {
        let processes = LabProcesses::default();
        processes.end_child("h1", "host", status(9));
        processes.end_child("g1", "qemu", status(3 << 8));
        processes.end_child("g2", "qemu", status(0));
        let ended = processes.take_ended();
        let effects: Vec<_> = ended
            .iter()
            .map(|ended| (ended.node.as_str(), ended.effect))
            .collect();
        assert_eq!(
            effects,
            [
                ("h1", ProcessEffect::Fails),
                ("g1", ProcessEffect::Fails),
                ("g2", ProcessEffect::None)
            ]
        );
        assert_eq!(ended[0].status, "signal: 9 (SIGKILL)");
    }

    #[test]
    fn an_end_after_the_report_is_not_recorded() {
        let processes = LabProcesses::default();
        assert!(processes.add_unstarted("h1", "ping", "no such program"));
        assert_eq!(processes.take_ended().len(), 1);
        let mut child = Command::new("true").spawn().expect("a process");
        assert!(!processes.end_command("h1", "sleep 3; exit 3", &child, status(3 << 8)));
        assert!(processes.take_ended().is_empty());
        child.wait().expect("an end");
    }

    #[test]
    fn an_inconclusive_xoff_command_taints_and_other_commands_fail() {
        for (command, code, effect) in [
            ("xoff host run --dev eth0 --receive", 5, ProcessEffect::Taints),
            ("cd /tmp; '/usr/bin/xoff' host run", 5, ProcessEffect::Taints),
            ("xoff host run --dev eth0 --receive", 1, ProcessEffect::Fails),
            ("pytest", 5, ProcessEffect::Fails),
            ("true", 0, ProcessEffect::None),
        ] {
            let processes = LabProcesses::default();
            let child = Command::new("true").spawn().expect("a process");
            processes.end_command("h1", command, &child, status(code << 8));
            assert_eq!(processes.take_ended()[0].effect, effect, "{command}: {code}");
            let _ = { child }.wait();
        }
    }

    #[test]
    fn the_report_keeps_failures_when_it_is_full() {
        let processes = LabProcesses::default();
        for _ in 0..REPORTED_MAX + 10 {
            processes.end_child("h1", "true", status(0));
        }
        processes.end_child("h2", "host", status(9));
        let ended = processes.take_ended();
        assert_eq!(ended.len(), REPORTED_MAX);
        assert_eq!(ended[REPORTED_MAX - 1].effect, ProcessEffect::Fails);
    }
}
