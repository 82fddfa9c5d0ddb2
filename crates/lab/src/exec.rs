//! `lab exec`: a command in a plain host of a running lab.
//!
//! A plain host has a process that does nothing but be there: its namespaces are the host's. It is found below the
//! process that answers for the lab, so that nobody can pass for it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sched::{CloneFlags, setns};

use super::registry::{self, RunningLab};
use super::stage::{Stage, process_title};
use xoff_telemetry::failure::Failure;

/// `xoff lab exec LAB NODE -- COMMAND`: runs the command in the host, with the terminal of this process, and ends as it
/// ends.
///
/// # Errors
/// No such lab, no such host, no such command, or no right to enter.
pub fn exec(lab: &str, node: &str, command: &[OsString]) -> Result<ExitCode, Failure> {
    let running = registry::find_lab(lab)?;
    let process = find(&running, node)?;
    enter(process).map_err(|errno| {
        Failure::environment(format!("cannot enter the host \"{node}\""))
            .because(errno)
            .fix("run it as the user who started the lab, or as root")
    })?;
    let (program, arguments) = command.split_first().ok_or_else(|| {
        Failure::usage("there is no command").fix("write `xoff lab exec LAB NODE -- COMMAND`")
    })?;
    // Ctrl-C is for the command, which shares the terminal.
    let interrupted = Arc::new(AtomicBool::new(false));
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted);
    let status = Command::new(program).args(arguments).status().map_err(|error| {
        Failure::environment(format!("cannot run {}", program.display()))
            .at(format!("host {node}"))
            .because(error)
            .fix("a plain host has the programs of this machine: install it here, or give its path")
    })?;
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(code.clamp(0, 255) as u8))
}

/// The process of a plain host, as this process counts.
fn find(lab: &RunningLab, node: &str) -> Result<i32, Failure> {
    let below = descendants(registry::find_launcher_pid(lab)?);
    let title = process_title(&lab.name);
    let mut hosts: Vec<(String, i32)> = below
        .into_iter()
        .filter_map(|process| Some((host_of(process, &title)?, process)))
        .collect();
    hosts.sort();
    if let Some((_, process)) = hosts.iter().find(|(name, _)| name == node) {
        return Ok(*process);
    }
    let names: Vec<&str> = hosts.iter().map(|(name, _)| name.as_str()).collect();
    let known = match names.as_slice() {
        [] => "it has no plain hosts".to_owned(),
        names => format!("its plain hosts are {}", names.join(", ")),
    };
    Err(Failure::environment(format!(
        "lab \"{}\" has no plain host called \"{node}\"",
        lab.name
    ))
    .because(known)
    .fix("a model host runs no programs; a guest has its console (`console` in the lab file)"))
}

/// The name of the plain host whose process this is.
fn host_of(process: i32, title: &str) -> Option<String> {
    let line = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let first = words.next()?;
    let node = first.strip_prefix(title)?.strip_prefix(' ')?;
    (words.next()? == Stage::Host.argument()).then(|| node.to_owned())
}

/// All processes below one.
fn descendants(of: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        // Behind the name in parentheses, which may hold anything: state, then the parent.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut next = vec![of];
    while let Some(parent) = next.pop() {
        let own = children.remove(&parent).unwrap_or_default();
        next.extend(&own);
        found.extend(own);
    }
    found
}

/// Moves this process, which has one thread, into the namespaces of another: users, network, and for its children
/// processes, so that what runs there ends with the lab.
fn enter(process: i32) -> std::io::Result<()> {
    let own = fs::read_link("/proc/self/ns/user")?;
    let open = |kind: &str| File::open(format!("/proc/{process}/ns/{kind}"));
    let (user, net, pid) = (open("user")?, open("net")?, open("pid")?);
    if fs::read_link(format!("/proc/{process}/ns/user"))? != own {
        setns(user, CloneFlags::CLONE_NEWUSER)?;
    }
    setns(net, CloneFlags::CLONE_NEWNET)?;
    Ok(setns(pid, CloneFlags::CLONE_NEWPID)?)
}
