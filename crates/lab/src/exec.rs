//! Implements `xoff lab exec`, which runs a command in a plain host of a running lab.
//!
//! Each plain host has a placeholder process, which is in the namespaces of the host. The command accepts
//! only a descendant of the lab's launcher as this process. A process outside the lab therefore cannot
//! pretend to be a plain host.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sched::{CloneFlags, setns};

use super::inner_process::{InnerProcess, process_title};
use super::registry::{self, RunningLab};
use xoff_telemetry::failure::Failure;
use xoff_units::nearest_name;

/// Runs a command in a plain host of a running lab (`xoff lab exec`) and returns its exit code. The first
/// element of `command` is the program. The command uses the terminal of this process. If a signal ends the
/// command, the exit code is 128 plus the signal number.
///
/// # Errors
/// Fails if `command` is empty, if the lab, the host or the program does not exist, or if the user may not
/// enter the namespaces of the host.
pub fn exec_in_host(lab_name: &str, host_name: &str, command: &[OsString]) -> Result<ExitCode, Failure> {
    let running = registry::find_lab(lab_name)?;
    let process = find_host_process(&running, host_name)?;
    enter_namespaces(process).map_err(|errno| {
        Failure::environment(format!("cannot enter the host \"{host_name}\""))
            .because(errno)
            .fix(format!(
                "run it as the user who started the lab, or as root: `sudo xoff lab exec {lab_name} {host_name} -- COMMAND`"
            ))
    })?;
    let (program, arguments) = command.split_first().ok_or_else(|| {
        Failure::usage("the command is missing").fix("write `xoff lab exec LAB NODE -- COMMAND`")
    })?;
    // Ctrl-C ends the command, which shares the terminal, but not this process.
    let interrupted = Arc::new(AtomicBool::new(false));
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted);
    let status = Command::new(program).args(arguments).status().map_err(|error| {
        Failure::environment(format!("cannot run {}", program.display()))
            .at(format!("host {host_name}"))
            .because(error)
            .fix("a plain host has the programs of this machine: install the program here, or give its path")
    })?;
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(code.clamp(0, 255) as u8))
}

/// Returns the process ID of the placeholder process of a plain host.
fn find_host_process(lab: &RunningLab, host_name: &str) -> Result<i32, Failure> {
    let descendants = descendants_of(registry::find_launcher_pid(lab)?);
    let title = process_title(&lab.name);
    let mut hosts: Vec<(String, i32)> = descendants
        .into_iter()
        .filter_map(|process| Some((host_name_of(process, &title)?, process)))
        .collect();
    hosts.sort();
    if let Some((_, process)) = hosts.iter().find(|(name, _)| name == host_name) {
        return Ok(*process);
    }
    let names: Vec<&str> = hosts.iter().map(|(name, _)| name.as_str()).collect();
    Err(unknown_host_failure(&lab.name, host_name, &names))
}

/// Returns the failure for a host that is not a plain host of the lab. `names` are the plain hosts of the lab.
fn unknown_host_failure(lab: &str, host: &str, names: &[&str]) -> Failure {
    let failure = Failure::usage(format!("lab \"{lab}\" has no plain host \"{host}\""));
    let Some(first) = names.first() else {
        return failure
            .because("the lab has no plain hosts, and model hosts run no programs")
            .fix(format!(
                "write `kind: plain` at a host of the lab file, and start the lab again: `xoff lab down {lab}`, then \
                 `xoff lab up FILE`; a virtual machine has a console (`console:` in the lab file)"
            ));
    };
    let command = |name: &str| format!("run `xoff lab exec {lab} {name} -- COMMAND`");
    let fix = match nearest_name(host, names.iter().copied()) {
        Some(proposed) => command(proposed),
        None => format!(
            "{}; if the process of {host} was killed, start the lab again",
            command(first)
        ),
    };
    failure
        .because(format!("its running plain hosts are {}", names.join(", ")))
        .fix(fix)
}

/// Returns the name of the plain host to which a placeholder process belongs. Returns `None`
/// for other processes.
fn host_name_of(process: i32, title: &str) -> Option<String> {
    let line = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let first = words.next()?;
    let node = first.strip_prefix(title)?.strip_prefix(' ')?;
    (words.next()? == InnerProcess::PlainHost.argument()).then(|| node.to_owned())
}

/// Returns the process IDs of all descendants of a process.
fn descendants_of(ancestor: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        // The state and the parent process follow the process name. The name is in parentheses and can
        // contain any character.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut next = vec![ancestor];
    while let Some(parent) = next.pop() {
        let children_of_parent = children.remove(&parent).unwrap_or_default();
        next.extend(&children_of_parent);
        found.extend(children_of_parent);
    }
    found
}

/// Moves this single-threaded process into the user and network namespaces of another process. Child
/// processes that start later are also in its PID namespace, so they end with the lab.
fn enter_namespaces(process: i32) -> std::io::Result<()> {
    let own = fs::read_link("/proc/self/ns/user")?;
    let open = |kind: &str| File::open(format!("/proc/{process}/ns/{kind}"));
    let (user, net, pid) = (open("user")?, open("net")?, open("pid")?);
    if fs::read_link(format!("/proc/{process}/ns/user"))? != own {
        setns(user, CloneFlags::CLONE_NEWUSER)?;
    }
    setns(net, CloneFlags::CLONE_NEWNET)?;
    Ok(setns(pid, CloneFlags::CLONE_NEWPID)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_host_gets_a_command_that_works() {
        let fix = |host, names: &[&str]| unknown_host_failure("lab1", host, names).fix.unwrap_or_default();
        assert_eq!(
            fix("kernl", &["gw", "kernel"]),
            "run `xoff lab exec lab1 kernel -- COMMAND`"
        );
        assert_eq!(
            fix("other", &["gw", "kernel"]),
            "run `xoff lab exec lab1 gw -- COMMAND`; if the process of other was killed, start the lab again"
        );
        let without_hosts = fix("h1", &[]);
        assert!(
            ["kind: plain", "`xoff lab down lab1`", "`xoff lab up FILE`"]
                .iter()
                .all(|words| without_hosts.contains(words)),
            "{without_hosts}"
        );
    }
}
