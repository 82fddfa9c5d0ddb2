//! The lab's init: PID 1 of its PID namespace. It makes the hosts' namespaces and the cables, starts the
//! switch, and from then on holds nothing and only waits: when it ends, the kernel ends everything else.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use signal_hook::consts::SIGCHLD;

use super::stage::{self, Brief, Inherited, QUIT, Stage, spawn, wait};
use super::{external, wire};
use xoff_ports::net::Netns;
use xoff_telemetry::failure::{Exit, Failure};

/// How long the switch may take to stop in good order: it writes its report then.
const GRACE: Duration = Duration::from_secs(10);

pub(super) fn main(inherited: &Inherited) -> Result<ExitCode, Failure> {
    let (brief, brief_file) = inherited.brief()?;
    let lifeline = inherited.take_reader("lifeline")?;
    let children = stage::signals(&[SIGCHLD])?;
    let outside = Netns::from_fd(inherited.take_reader("outside")?.into());
    let switch = start_switch(inherited, &brief, &brief_file, &outside)?;
    drop(brief_file);
    let code = watch(switch, &lifeline, &children);
    if let Outcome::Cut = code {
        // The launcher may be gone. The switch must be, before its devices are given back.
        let _ = kill(switch, Signal::SIGKILL);
        let _ = waitpid(switch, None);
        let _ = outside.run(|| external::give_back(&brief.borrowed));
    }
    Ok(match code {
        Outcome::Exited(code) => ExitCode::from(code),
        Outcome::Cut | Outcome::TooSlow | Outcome::Killed => Exit::Environment.into(),
    })
}

fn start_switch(
    inherited: &Inherited,
    brief: &Brief,
    brief_file: &File,
    outside: &Netns,
) -> Result<Pid, Failure> {
    let status = inherited.take_writer("status")?;
    let namespaces = wire::build(&brief.plan, &brief.options)?;
    let names: Vec<String> = (0..namespaces.len()).map(wire::descriptor_name).collect();
    let mut fds: Vec<(&str, BorrowedFd<'_>)> = names
        .iter()
        .zip(&namespaces)
        .map(|(name, netns)| (name.as_str(), netns.as_fd()))
        .collect();
    fds.extend([
        ("brief", brief_file.as_fd()),
        ("status", status.as_fd()),
        ("outside", outside.as_fd()),
    ]);
    let stdio = [Stdio::inherit(), Stdio::inherit(), Stdio::inherit()];
    let switch = spawn(Stage::Switch, &brief.plan.name, &fds, stdio)?;
    Ok(Pid::from_raw(switch.id() as i32))
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// The switch ended by itself, or as it was asked to.
    Exited(u8),
    /// The switch was killed.
    Killed,
    /// The switch was asked to stop and did not.
    TooSlow,
    /// The process above was killed, or wants us dead at once.
    Cut,
}

fn watch(switch: Pid, lifeline: &File, children: &File) -> Outcome {
    let mut deadline: Option<Instant> = None;
    let mut byte = [0];
    loop {
        if let Some(outcome) = reap(switch) {
            return outcome;
        }
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if timeout == Some(Duration::ZERO) {
            let what = format!(
                "the switch did not stop within {} s, and was killed",
                GRACE.as_secs()
            );
            eprintln!("{}", Failure::environment(what));
            return Outcome::TooSlow;
        }
        let timeout_ms = timeout.map(|left| (left.as_millis() as u16).saturating_add(1));
        let [child, asked] = wait([Some(children.as_fd()), Some(lifeline.as_fd())], timeout_ms);
        if child {
            let _ = (&mut &*children).read(&mut byte);
        }
        if asked {
            match ((&mut &*lifeline).read(&mut byte), byte[0]) {
                (Ok(1), QUIT) => {
                    let _ = kill(switch, Signal::SIGTERM);
                    deadline.get_or_insert(Instant::now() + GRACE);
                }
                _ => return Outcome::Cut,
            }
        }
    }
}

/// Buries what has died, orphans of the switch included; an outcome if it was the switch.
fn reap(switch: Pid) -> Option<Outcome> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == switch => {
                return Some(Outcome::Exited(code.clamp(0, 255) as u8));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == switch => {
                let failure = Failure::environment(format!("the switch was killed by {signal}"))
                    .because("someone killed it, or the machine ran out of memory (`dmesg` tells)")
                    .fix("nothing is left of the lab: start it again");
                eprintln!("{failure}");
                return Some(Outcome::Killed);
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}
