//! The init process of a lab, which is PID 1 of its PID namespace. It creates the namespaces of the hosts and
//! the network devices between hosts and switches. Then it starts the switch process. When the init process
//! ends, the kernel kills all other processes of the PID namespace.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use signal_hook::consts::SIGCHLD;

use super::inner_process::{
    InheritedFds, InnerProcess, LabSpec, STOP_REQUEST, signal_pipe, spawn_process, wait_until_readable,
};
use super::{cabling, external_devices};
use xoff_ports::net::Netns;
use xoff_telemetry::failure::{Exit, Failure};

/// Longest time for which the switch process may stop and write its report.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the init process until the end of the switch process.
pub(super) fn run_init(inherited: &InheritedFds) -> Result<ExitCode, Failure> {
    let (spec, spec_file) = inherited.read_lab_spec()?;
    let lifeline = inherited.open_reader("lifeline")?;
    let children = signal_pipe(&[SIGCHLD])?;
    let outside = Netns::from_fd(inherited.open_reader("outside")?.into());
    let switch = start_switch(inherited, &spec, &spec_file, &outside)?;
    drop(spec_file);
    let end = watch_switch(switch, &lifeline, &children);
    if let SwitchProcessExit::LifelineCut = end {
        // The launcher may have ended, so this process restores the devices, after the switch process
        // has ended.
        let _ = kill(switch, Signal::SIGKILL);
        let _ = waitpid(switch, None);
        let _ = outside.run(|| external_devices::restore_devices(&spec.borrowed));
    }
    Ok(match end {
        SwitchProcessExit::Exited(code) => ExitCode::from(code),
        SwitchProcessExit::LifelineCut | SwitchProcessExit::StopTimeout | SwitchProcessExit::Killed => {
            Exit::Environment.into()
        }
    })
}

/// Creates the namespaces and cables, and starts the switch process.
fn start_switch(
    inherited: &InheritedFds,
    spec: &LabSpec,
    spec_file: &File,
    outside: &Netns,
) -> Result<Pid, Failure> {
    let status = inherited.open_writer("status")?;
    let namespaces = cabling::build_cabling(&spec.plan, &spec.options)?;
    let names: Vec<String> = (0..namespaces.len()).map(cabling::netns_fd_name).collect();
    let mut fds: Vec<(&str, BorrowedFd<'_>)> = names
        .iter()
        .zip(&namespaces)
        .map(|(name, netns)| (name.as_str(), netns.as_fd()))
        .collect();
    fds.extend([
        ("spec", spec_file.as_fd()),
        ("status", status.as_fd()),
        ("outside", outside.as_fd()),
    ]);
    let stdio = [Stdio::inherit(), Stdio::inherit(), Stdio::inherit()];
    let switch = spawn_process(InnerProcess::Switch, &spec.plan.name, &fds, stdio)?;
    Ok(Pid::from_raw(switch.id() as i32))
}

/// The way in which the switch process ended.
#[derive(Clone, Copy, Debug)]
enum SwitchProcessExit {
    /// The process exited with this code.
    Exited(u8),
    /// The process was killed by a signal.
    Killed,
    /// The process did not stop within [`STOP_TIMEOUT`] after a stop request.
    StopTimeout,
    /// The lifeline (the pipe to the launcher) ended: the launcher was killed, or it ends the lab at once.
    LifelineCut,
}

/// Waits for the end of the switch process, and forwards stop requests to it.
fn watch_switch(switch: Pid, lifeline: &File, children: &File) -> SwitchProcessExit {
    let mut deadline: Option<Instant> = None;
    let mut byte = [0];
    loop {
        if let Some(end) = reap_children(switch, deadline.is_some()) {
            return end;
        }
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if timeout == Some(Duration::ZERO) {
            let what = format!(
                "the switch process did not stop within {} s and was killed",
                STOP_TIMEOUT.as_secs()
            );
            log::error!("{}", Failure::environment(what));
            return SwitchProcessExit::StopTimeout;
        }
        let timeout_ms = timeout.map(|left| (left.as_millis() as u16).saturating_add(1));
        let [child_ended, requested] =
            wait_until_readable([Some(children.as_fd()), Some(lifeline.as_fd())], timeout_ms);
        if child_ended {
            let _ = (&mut &*children).read(&mut byte);
        }
        if requested {
            match ((&mut &*lifeline).read(&mut byte), byte[0]) {
                (Ok(1), STOP_REQUEST) => {
                    let _ = kill(switch, Signal::SIGTERM);
                    deadline.get_or_insert(Instant::now() + STOP_TIMEOUT);
                }
                _ => return SwitchProcessExit::LifelineCut,
            }
        }
    }
}

/// Reaps all ended child processes, including orphans of the switch process. Returns how the switch process
/// ended. Returns `None` if the switch process still runs. `is_stopping` tells whether this process has sent SIGTERM,
/// which kills a switch process that has not installed its handler yet.
fn reap_children(switch: Pid, is_stopping: bool) -> Option<SwitchProcessExit> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == switch => {
                return Some(SwitchProcessExit::Exited(code.clamp(0, 255) as u8));
            }
            Ok(WaitStatus::Signaled(pid, Signal::SIGTERM, _)) if pid == switch && is_stopping => {
                return Some(SwitchProcessExit::Exited(Exit::Interrupted as u8));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == switch => {
                let failure = Failure::environment(format!("the switch process was killed by {signal}"))
                    .because("a user killed it, or the machine ran out of memory (see `dmesg`)")
                    .fix("the lab has been removed: start it again");
                log::error!("{failure}");
                return Some(SwitchProcessExit::Killed);
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}
