//! Plain hosts: the process by which each is found, and the commands that the lab file gives them.

use std::io::{BufRead, BufReader, PipeReader, pipe};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::child::Lab;
use crate::stage::{Stage, spawn};
use crate::status::StatusPipe;
use xoff_ports::net::Netns;
use xoff_telemetry::failure::Failure;

/// What the reader of a command's output may still have to do when the command has ended.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// The plain hosts of a lab. Their processes end with the lab's init.
#[derive(Debug, Default)]
pub(super) struct Programs {
    /// Hosts whose commands have not all ended.
    busy: Arc<AtomicUsize>,
}

/// Starts the process of every plain host.
pub(super) fn hold(lab: &Lab) -> Result<(), Failure> {
    for (host, attachment) in lab.plan.hosts.iter().zip(&lab.hosts) {
        if host.plain().is_none() {
            continue;
        }
        let title = format!("{} {}", lab.plan.name, host.name);
        let stdio = [Stdio::null(), Stdio::null(), Stdio::null()];
        let started = attachment.netns.run(|| spawn(Stage::Host, &title, &[], stdio));
        started.map_err(|error| {
            Failure::environment(format!("the host {} cannot be started", host.name)).because(error)
        })??;
    }
    Ok(())
}

impl Programs {
    /// Starts the commands of every plain host: those of a host one after the other, all hosts at once.
    pub(super) fn start(lab: &Lab) -> Result<Programs, Failure> {
        let programs = Programs::default();
        for (host, attachment) in lab.plan.hosts.iter().zip(&lab.hosts) {
            let Some(plain) = host.plain().filter(|plain| !plain.exec.is_empty()) else {
                continue;
            };
            let failed = |error: &dyn std::fmt::Display| {
                Failure::environment(format!("the commands of {} cannot be run", host.name)).because(error)
            };
            let netns = attachment.netns.try_clone().map_err(|error| failed(&error))?;
            let (name, commands) = (host.name.clone(), plain.exec.clone());
            let (status, busy) = (lab.status.clone(), Arc::clone(&programs.busy));
            busy.fetch_add(1, Ordering::Relaxed);
            std::thread::Builder::new()
                .name("xoff-exec".to_owned())
                .spawn(move || {
                    run(&name, &commands, &netns, &status);
                    busy.fetch_sub(1, Ordering::Relaxed);
                })
                .map_err(|error| failed(&error))?;
        }
        Ok(programs)
    }

    /// Whether a command runs.
    pub(super) fn are_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }
}

fn run(host: &str, commands: &[String], netns: &Netns, status: &StatusPipe) {
    for command in commands {
        let ended = netns
            .run(|| run_one(host, command, status))
            .map_err(|error| error.to_string())
            .and_then(|ended| ended.map_err(|error| error.to_string()));
        match ended {
            Ok(ended) if ended.success() => {}
            Ok(ended) => status.print(&format!("{host}: `{command}` ended with {ended}")),
            Err(why) => status.print(&format!("{host}: `{command}` cannot be run: {why}")),
        }
    }
}

/// Runs a command and passes on what it prints. What it leaves in the background runs on, and is heard.
fn run_one(host: &str, command: &str, status: &StatusPipe) -> std::io::Result<std::process::ExitStatus> {
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
    let teller = std::thread::spawn(move || tell(output, &host, &status));
    let ended = child.wait()?;
    // What it printed last comes before what is said of its end, unless it left something behind that may print, too.
    let end = Instant::now() + LAST_WORDS;
    while !teller.is_finished() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(ended)
}

fn tell(output: PipeReader, host: &str, status: &StatusPipe) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        status.print(&format!("{host}: {}", String::from_utf8_lossy(&line)));
    }
}
