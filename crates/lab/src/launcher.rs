//! The launcher process of a lab, which enters the namespaces, starts the init process, and restores external
//! devices at the end.
//!
//! The launcher runs outside the PID namespace of the lab and can continue after the end of the command line.
//! `lab down` therefore sends its signals to the launcher. The launcher has a single thread, because only a
//! process with a single thread can enter a user namespace.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus, Stdio};

use nix::sched::{CloneFlags, unshare};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::external_devices::{self, SavedExternalDevice};
use super::hangup::is_hangup_ignored;
use super::inner_process::{
    DETACH_REQUEST, InheritedFds, InnerProcess, LabSpec, STOP_REQUEST, create_pipe, signal_pipe,
    spawn_process, wait_until_readable,
};
use super::registry;
use xoff_ports::net::{self, Netns};
use xoff_telemetry::failure::{Exit, Failure};

/// Runs the launcher process until the end of the lab.
pub(super) fn run_launcher(inherited: &InheritedFds) -> Result<ExitCode, Failure> {
    let (spec, spec_file) = inherited.read_lab_spec()?;
    let parent_lifeline = inherited.open_reader("lifeline")?;
    let signals = match is_hangup_ignored() {
        true => signal_pipe(&[SIGTERM, SIGINT])?,
        false => signal_pipe(&[SIGTERM, SIGINT, SIGHUP])?,
    };
    // In its own session, the launcher does not receive Ctrl-C of the terminal. The command line
    // receives Ctrl-C and sends a stop request. The launcher also works without its own session, so an
    // error is ignored.
    let _ = nix::unistd::setsid();
    // A running lab must not keep the current folder and its file system in use.
    let _ = std::env::set_current_dir("/");
    // After another `listen`, `SO_PEERCRED` returns this process instead of the command line.
    let backlog = nix::sys::socket::Backlog::new(16).unwrap_or(nix::sys::socket::Backlog::MAXCONN);
    nix::sys::socket::listen(&std::io::stdin(), backlog)
        .map_err(|errno| Failure::environment("the launcher of the lab has no listener").because(errno))?;
    let outside = Netns::current()
        .map_err(|error| Failure::environment("cannot open the network namespace").because(error))?;
    let result = match spec
        .borrowed
        .iter()
        .try_for_each(SavedExternalDevice::prepare_as_port)
    {
        Ok(()) => run_init(inherited, &spec, &spec_file, parent_lifeline, &signals, &outside),
        Err(failure) => Err(failure),
    };
    if !spec.borrowed.is_empty() {
        // After `unshare` of the PID namespace, this process cannot start a thread. The main thread therefore
        // enters the network namespace itself.
        outside
            .enter()
            .map_err(|error| Failure::environment("cannot restore the external devices").because(error))?;
        external_devices::restore_devices(&spec.borrowed);
    }
    result
}

/// Enters the namespaces, runs the init process and returns its exit code.
fn run_init(
    inherited: &InheritedFds,
    spec: &LabSpec,
    spec_file: &File,
    parent_lifeline: File,
    signals: &File,
    outside: &Netns,
) -> Result<ExitCode, Failure> {
    let status = inherited.open_writer("status")?;
    enter_namespaces()?;
    let (init_lifeline_reader, init_lifeline) = create_pipe()?;
    // The init process and all its descendants hold the write end, and none of them writes. The pipe ends
    // when the last of them ends.
    let (alive, alive_writer) = create_pipe()?;
    let fds = [
        ("spec", spec_file.as_fd()),
        ("status", status.as_fd()),
        ("lifeline", init_lifeline_reader.as_fd()),
        ("alive", alive_writer.as_fd()),
        ("outside", outside.as_fd()),
    ];
    let mut init = spawn_process(
        InnerProcess::Init,
        &spec.plan.name,
        &fds,
        [Stdio::inherit(), Stdio::inherit(), Stdio::inherit()],
    )?;
    drop((status, init_lifeline_reader, alive_writer));
    forward_requests(
        parent_lifeline,
        File::from(init_lifeline),
        &File::from(alive),
        signals,
    );
    Ok(exit_code_of_process(init.wait(), "init process"))
}

/// Creates and enters the network namespace and the PID namespace of the lab. Without root, it first creates
/// a user namespace.
fn enter_namespaces() -> Result<(), Failure> {
    let kinds = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNET;
    if nix::unistd::geteuid().is_root() {
        unshare(kinds).map_err(|errno| {
            Failure::environment("cannot create the namespaces of the lab")
                .because(errno)
                .fix("in a container, add the capability SYS_ADMIN (`docker run --privileged`); `xoff doctor` prints details")
        })
    } else {
        net::enter_user_namespace(kinds).map_err(|error| {
            Failure::environment("cannot create the namespaces of the lab without root").because(error).fix(
                "run it with sudo, or allow user namespaces: `sysctl user.max_user_namespaces=10000`, on Ubuntu \
                 also `sysctl kernel.apparmor_restrict_unprivileged_userns=0`; `xoff doctor` prints details",
            )
        })
    }
}

/// Forwards signals and requests of the command line to the init process. Returns when the init process and
/// all its descendants have ended.
fn forward_requests(parent_lifeline: File, init_lifeline: File, alive: &File, signals: &File) {
    let mut parent_lifeline = Some(parent_lifeline);
    let mut init_lifeline = Some(init_lifeline);
    let mut byte = [0];
    loop {
        let watched = [
            Some(alive.as_fd()),
            Some(signals.as_fd()),
            parent_lifeline.as_ref().map(File::as_fd),
        ];
        let [ended, signalled, requested] = wait_until_readable(watched, None);
        if ended {
            return;
        }
        let request_stop = |lifeline: &mut Option<File>| {
            registry::mark_lab_as_ending();
            // The write fails if the init process has just ended. `alive` ends then, too.
            let _ = lifeline.as_mut().map(|file| file.write_all(&[STOP_REQUEST]));
        };
        if signalled && (&mut &*signals).read(&mut byte).is_ok() {
            request_stop(&mut init_lifeline);
        }
        if let (true, Some(file)) = (requested, &mut parent_lifeline) {
            match (file.read(&mut byte), byte[0]) {
                (Ok(1), STOP_REQUEST) => request_stop(&mut init_lifeline),
                (Ok(1), DETACH_REQUEST) => parent_lifeline = None,
                // The command line was killed. The end of the lifeline makes the init process end, and with
                // it the whole lab.
                _ => {
                    registry::mark_lab_as_ending();
                    (parent_lifeline, init_lifeline) = (None, None);
                }
            }
        }
    }
}

/// Returns the exit code of an ended process of the lab. Logs an error if a signal killed the process.
pub(super) fn exit_code_of_process(status: io::Result<ExitStatus>, process: &str) -> ExitCode {
    let Ok(status) = status else {
        return Exit::Environment.into();
    };
    if let Some(code) = status.code() {
        return ExitCode::from(code.clamp(0, 255) as u8);
    }
    let signal = status.signal().unwrap_or(0);
    let what = format!("the {process} of the lab was killed by signal {signal}");
    log::error!(
        "{}",
        Failure::environment(what).fix("the lab has been removed: start it again")
    );
    Exit::Environment.into()
}
