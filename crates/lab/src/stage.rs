//! The inner processes of a lab: how one starts the next, and what it hands down.
//!
//! They are started by executing this program again, not by forking: what follows a fork of a program with
//! threads is a minefield, and there is no safe way to take over a descriptor by its number. So descriptors
//! are inherited under their numbers, named on the command line, and opened anew through `/proc/self/fd`.
//! A socket cannot be opened that way; the only one, the listener, is standard input throughout.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use super::external::BorrowedDevice;
use super::options::{LabOptions, LabRunMode};
use super::plan::LabPlan;
use xoff_telemetry::failure::Failure;

/// "Stop in good order": written into a lifeline.
pub(super) const QUIT: u8 = b'q';
/// "I am about to leave; go on without me": written into a lifeline. Without it, its end means death.
pub(super) const KEEP: u8 = b'k';

/// An inner process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Enters the namespaces.
    Launch,
    /// PID 1.
    Init,
    /// The switch and its hosts.
    Switch,
    /// A plain host: nothing but the process by which its namespaces are found.
    Host,
}

impl Stage {
    pub(super) fn argument(self) -> &'static str {
        match self {
            Stage::Launch => "__lab-launch",
            Stage::Init => "__lab-init",
            Stage::Switch => "__lab-switch",
            Stage::Host => "__lab-host",
        }
    }

    pub(super) fn from_argument(argument: &str) -> Option<Stage> {
        [Stage::Launch, Stage::Init, Stage::Switch, Stage::Host]
            .into_iter()
            .find(|stage| stage.argument() == argument)
    }

    /// What `ps` and `top` show; otherwise it would be `exe`.
    pub(super) fn process_name(self) -> &'static CStr {
        match self {
            Stage::Launch => c"xoff-lab",
            Stage::Init => c"xoff-lab-init",
            Stage::Switch => c"xoff-lab-switch",
            Stage::Host => c"xoff-lab-host",
        }
    }
}

/// Everything that the inner processes are told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Brief {
    pub(super) plan: LabPlan,
    pub(super) options: LabOptions,
    pub(super) mode: LabRunMode,
    /// Devices of this machine, with the state in which they are to be given back.
    pub(super) borrowed: Vec<BorrowedDevice>,
}

impl Brief {
    /// Into memory that is inherited; a command line would be too short for a large lab.
    pub(super) fn to_memory(&self) -> io::Result<OwnedFd> {
        let memory = memfd_create(c"xoff-lab", MFdFlags::MFD_CLOEXEC)?;
        let mut file = File::from(memory);
        file.write_all(&serde_json::to_vec(self)?)?;
        Ok(file.into())
    }
}

/// The descriptors that a process was started with, by name.
#[derive(Debug)]
pub(super) struct Inherited {
    by_name: HashMap<String, RawFd>,
}

impl Inherited {
    pub(super) fn from_arguments(arguments: impl Iterator<Item = String>) -> Inherited {
        let pairs = arguments.filter_map(|argument| {
            let (name, number) = argument.split_once('=')?;
            // The first three have their meaning already.
            Some((name.to_owned(), number.parse().ok().filter(|number| *number > 2)?))
        });
        Inherited {
            by_name: pairs.collect(),
        }
    }

    /// Takes a descriptor over: a file of our own, closed on exec, in place of the inherited number.
    pub(super) fn take(&self, name: &str, options: &OpenOptions) -> Result<File, Failure> {
        let missing = |why: &dyn std::fmt::Display| {
            Failure::environment(format!("the lab's process has not inherited its {name}"))
                .because(why)
                .fix("inner commands are not to be used by hand: start labs with `xoff lab run FILE`")
        };
        let number = *self
            .by_name
            .get(name)
            .ok_or_else(|| missing(&"it was not named"))?;
        let file = options
            .open(format!("/proc/self/fd/{number}"))
            .map_err(|error| missing(&error))?;
        // Closing what is not open is the only way this can fail, and we have just opened it.
        let _ = nix::unistd::close(number);
        Ok(file)
    }

    pub(super) fn take_reader(&self, name: &str) -> Result<File, Failure> {
        self.take(name, OpenOptions::new().read(true))
    }

    pub(super) fn take_writer(&self, name: &str) -> Result<File, Failure> {
        self.take(name, OpenOptions::new().write(true))
    }

    pub(super) fn brief(&self) -> Result<(Brief, File), Failure> {
        let file = self.take_reader("brief")?;
        let brief = serde_json::from_reader(io::BufReader::new(&file)).map_err(|error| {
            Failure::environment("the lab's process cannot read its brief").because(error)
        })?;
        Ok((brief, file))
    }
}

/// Starts a stage. It inherits `fds` by name, and standard input, output and error as given.
pub(super) fn spawn(
    stage: Stage,
    lab: &str,
    fds: &[(&str, BorrowedFd<'_>)],
    stdio: [Stdio; 3],
) -> Result<Child, Failure> {
    let [input, output, error] = stdio;
    let mut command = Command::new("/proc/self/exe");
    command.arg0(process_title(lab)).arg(stage.argument());
    command.stdin(input).stdout(output).stderr(error);
    for (name, fd) in fds {
        command.arg(format!("{name}={}", fd.as_raw_fd()));
    }
    let set = |flags| {
        fds.iter()
            .try_for_each(|(_, fd)| fcntl(fd, FcntlArg::F_SETFD(flags)).map(drop))
    };
    let child = set(FdFlag::empty())
        .map_err(io::Error::from)
        .and_then(|()| command.spawn());
    let restored = set(FdFlag::FD_CLOEXEC);
    let failure = |error: io::Error| {
        Failure::environment("cannot start a process of the lab")
            .because(error)
            .fix("the program's file must be readable and executable, and the limits of processes and files not reached")
    };
    let child = child.map_err(failure)?;
    restored.map_err(|errno| failure(errno.into()))?;
    Ok(child)
}

/// The first word of the command line of a lab's process.
pub(super) fn process_title(lab: &str) -> String {
    format!("xoff lab {lab}")
}

/// A pipe, closed on exec: read end, write end.
pub(super) fn pipe() -> Result<(OwnedFd, OwnedFd), Failure> {
    nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
        .map_err(|errno| Failure::environment("cannot make a pipe").because(errno))
}

/// Turns signals into readable bytes, so that one `poll` waits for them and for all else.
pub(super) fn signals(signals: &[i32]) -> Result<File, Failure> {
    let (read, write) = pipe()?;
    let failure = |error: io::Error| Failure::environment("cannot watch signals").because(error);
    for signal in signals {
        let write = write.as_fd().try_clone_to_owned().map_err(failure)?;
        signal_hook::low_level::pipe::register(*signal, write).map_err(failure)?;
    }
    Ok(File::from(read))
}

/// Which of `files` can be read or have ended; waits for at most `timeout_ms`, or for ever with `None`.
pub(super) fn wait<const N: usize>(files: [Option<BorrowedFd<'_>>; N], timeout_ms: Option<u16>) -> [bool; N] {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut fds: Vec<PollFd<'_>> = files
        .iter()
        .flatten()
        .map(|fd| PollFd::new(*fd, PollFlags::POLLIN))
        .collect();
    let timeout = timeout_ms.map_or(PollTimeout::NONE, PollTimeout::from);
    // An interrupted poll shows nothing ready, and the caller comes back.
    let polled = poll(&mut fds, timeout).is_ok();
    let mut results = fds.iter().map(|fd| polled && fd.any().unwrap_or(true));
    files.map(|file| file.is_some() && results.next().unwrap_or(false))
}
