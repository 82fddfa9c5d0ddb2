//! The launcher: enters the lab's namespaces, starts its init, and gives borrowed devices back at the end.
//!
//! It is the one process of the lab outside the PID namespace that outlives the command line, so it is the
//! one that `lab down` signals. It has a single thread, or it could not enter a user namespace.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitCode, Stdio};

use nix::sched::{CloneFlags, unshare};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::external;
use super::stage::{self, Brief, Inherited, KEEP, QUIT, Stage, pipe, spawn, wait};
use xoff_ports::net::{self, Netns};
use xoff_telemetry::failure::{Exit, Failure};

pub(super) fn main(inherited: &Inherited) -> Result<ExitCode, Failure> {
    let (brief, brief_file) = inherited.brief()?;
    let from_above = inherited.take_reader("lifeline")?;
    let signals = stage::signals(&[SIGTERM, SIGINT, SIGHUP])?;
    // Out of the terminal's process group: Ctrl-C is for the command line, which then asks us to stop. Without a
    // session of our own we would still work, so a refusal is no failure.
    let _ = nix::unistd::setsid();
    // A lab that stays up does not keep a folder, or the file system it is on, in use.
    let _ = std::env::set_current_dir("/");
    // Listening again makes us the process that `SO_PEERCRED` names, in place of the command line.
    let backlog = nix::sys::socket::Backlog::new(16).unwrap_or(nix::sys::socket::Backlog::MAXCONN);
    nix::sys::socket::listen(&std::io::stdin(), backlog)
        .map_err(|errno| Failure::environment("the lab's process has no listener").because(errno))?;
    let outside =
        Netns::current().map_err(|error| Failure::environment("cannot hold the network").because(error))?;
    let result = match brief.borrowed.iter().try_for_each(external::BorrowedDevice::take) {
        Ok(()) => launch(inherited, &brief, &brief_file, from_above, &signals, &outside),
        Err(failure) => Err(failure),
    };
    if !brief.borrowed.is_empty() {
        // A process that has left for another PID namespace can start no thread: it goes there itself.
        outside
            .enter()
            .map_err(|error| Failure::environment("cannot give the external devices back").because(error))?;
        external::give_back(&brief.borrowed);
    }
    result
}

fn launch(
    inherited: &Inherited,
    brief: &Brief,
    brief_file: &File,
    from_above: File,
    signals: &File,
    outside: &Netns,
) -> Result<ExitCode, Failure> {
    let status = inherited.take_writer("status")?;
    enter_namespaces()?;
    let (below_reads, to_below) = pipe()?;
    // Held by everyone below and written by nobody: it ends when all of them have.
    let (alive, held_below) = pipe()?;
    let fds = [
        ("brief", brief_file.as_fd()),
        ("status", status.as_fd()),
        ("lifeline", below_reads.as_fd()),
        ("alive", held_below.as_fd()),
        ("outside", outside.as_fd()),
    ];
    let init = spawn(
        Stage::Init,
        &brief.plan.name,
        &fds,
        [Stdio::inherit(), Stdio::inherit(), Stdio::inherit()],
    )?;
    drop((status, below_reads, held_below));
    watch(from_above, File::from(to_below), &File::from(alive), signals);
    Ok(result_of(init))
}

fn enter_namespaces() -> Result<(), Failure> {
    let kinds = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNET;
    if nix::unistd::geteuid().is_root() {
        unshare(kinds).map_err(|errno| {
            Failure::environment("cannot make the lab's namespaces")
                .because(errno)
                .fix("in a container, add the capability SYS_ADMIN (`docker run --privileged`); `xoff doctor` says more")
        })
    } else {
        net::enter_user_namespace(kinds).map_err(|error| {
            Failure::environment("cannot make the lab's namespaces without being root").because(error).fix(
                "run it with sudo, or allow user namespaces: `sysctl user.max_user_namespaces=10000`, on Ubuntu \
                 also `sysctl kernel.apparmor_restrict_unprivileged_userns=0`; `xoff doctor` says more",
            )
        })
    }
}

/// Passes on what the command line and signals ask for, until everything below has ended.
fn watch(from_above: File, to_below: File, alive: &File, signals: &File) {
    let mut from_above = Some(from_above);
    let mut to_below = Some(to_below);
    let mut byte = [0];
    loop {
        let watched = [
            Some(alive.as_fd()),
            Some(signals.as_fd()),
            from_above.as_ref().map(File::as_fd),
        ];
        let [ended, signalled, asked] = wait(watched, None);
        if ended {
            return;
        }
        let quit = |to_below: &mut Option<File>| {
            // If init has just died there is nobody to ask, and `alive` ends next.
            let _ = to_below.as_mut().map(|file| file.write_all(&[QUIT]));
        };
        if signalled && (&mut &*signals).read(&mut byte).is_ok() {
            quit(&mut to_below);
        }
        if let (true, Some(file)) = (asked, &mut from_above) {
            match (file.read(&mut byte), byte[0]) {
                (Ok(1), QUIT) => quit(&mut to_below),
                (Ok(1), KEEP) => from_above = None,
                // The command line was killed. Cutting the lifeline below kills the rest.
                _ => (from_above, to_below) = (None, None),
            }
        }
    }
}

fn result_of(mut init: Child) -> ExitCode {
    match init.wait() {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => ExitCode::from(code.clamp(0, 255) as u8),
            (None, signal) => {
                let what = format!("the lab's init was killed by signal {}", signal.unwrap_or(0));
                eprintln!(
                    "{}",
                    Failure::environment(what).fix("nothing is left of the lab: start it again")
                );
                Exit::Environment.into()
            }
        },
        Err(_) => Exit::Environment.into(),
    }
}
