//! Starts the inner processes of a lab (launcher, init, switch, plain hosts). The processes inherit file
//! descriptors. One of them is a file with the plan of the lab.
//!
//! An inner process executes this program again, because a plain fork is not safe in a program with threads.
//! The command line lists the name and number of each inherited file descriptor. The process opens these
//! descriptors again through `/proc/self/fd`. This does not work for sockets. The only inherited socket, the
//! listener of the control socket, is therefore the standard input of all inner processes.

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

use super::external_devices::SavedExternalDevice;
use super::options::{LabOptions, LabRunMode};
use super::plan::LabPlan;
use xoff_telemetry::failure::Failure;

/// Byte in a lifeline pipe that asks the lab to stop in good order.
pub(super) const STOP_REQUEST: u8 = b'q';
/// Byte in a lifeline pipe, through which a process watches its parent process. If the lab must continue, the
/// parent sends this byte before it exits. If the pipe closes without this byte, the lab is killed.
pub(super) const DETACH_REQUEST: u8 = b'k';

/// A kind of inner process of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InnerProcess {
    /// The launcher, which enters the namespaces.
    Launcher,
    /// The init process, PID 1 of the PID namespace.
    Init,
    /// The process of the switches and model hosts.
    Switch,
    /// The placeholder process of a plain host. `xoff lab exec` enters the namespaces of this process to run
    /// a command in the host.
    PlainHost,
}

impl InnerProcess {
    /// Returns the first argument on the command line of the process.
    pub(super) fn argument(self) -> &'static str {
        match self {
            InnerProcess::Launcher => "__lab-launch",
            InnerProcess::Init => "__lab-init",
            InnerProcess::Switch => "__lab-switch",
            InnerProcess::PlainHost => "__lab-host",
        }
    }

    /// Returns the kind of inner process with this first argument. Returns `None` for other commands.
    pub(super) fn from_argument(argument: &str) -> Option<InnerProcess> {
        [
            InnerProcess::Launcher,
            InnerProcess::Init,
            InnerProcess::Switch,
            InnerProcess::PlainHost,
        ]
        .into_iter()
        .find(|process| process.argument() == argument)
    }

    /// Returns the process name for `ps` and `top`, which would otherwise show `exe`.
    pub(super) fn process_name(self) -> &'static CStr {
        match self {
            InnerProcess::Launcher => c"xoff-lab",
            InnerProcess::Init => c"xoff-lab-init",
            InnerProcess::Switch => c"xoff-lab-switch",
            InnerProcess::PlainHost => c"xoff-lab-host",
        }
    }
}

/// The description of a lab for its inner processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LabSpec {
    pub(super) plan: LabPlan,
    pub(super) options: LabOptions,
    pub(super) mode: LabRunMode,
    /// External devices with their settings from before the lab.
    pub(super) borrowed: Vec<SavedExternalDevice>,
}

impl LabSpec {
    /// Writes the description to a memory file, which inner processes inherit. The description of a large lab
    /// would be too long for a command line.
    pub(super) fn write_to_memory_file(&self) -> io::Result<OwnedFd> {
        let memory = memfd_create(c"xoff-lab", MFdFlags::MFD_CLOEXEC)?;
        let mut file = File::from(memory);
        file.write_all(&serde_json::to_vec(self)?)?;
        Ok(file.into())
    }
}

/// The file descriptors that an inner process has inherited.
#[derive(Debug)]
pub(super) struct InheritedFds {
    number_by_name: HashMap<String, RawFd>,
}

impl InheritedFds {
    /// Parses arguments of the form `NAME=NUMBER`.
    pub(super) fn from_arguments(arguments: impl Iterator<Item = String>) -> InheritedFds {
        let pairs = arguments.filter_map(|argument| {
            let (name, number) = argument.split_once('=')?;
            // Numbers 0 to 2 are standard input, output and error.
            Some((name.to_owned(), number.parse().ok().filter(|number| *number > 2)?))
        });
        InheritedFds {
            number_by_name: pairs.collect(),
        }
    }

    /// Opens an inherited descriptor again as a file with the close-on-exec flag. Then closes the
    /// inherited descriptor.
    ///
    /// # Errors
    /// Fails if the descriptor was not inherited or cannot be opened.
    pub(super) fn open(&self, name: &str, options: &OpenOptions) -> Result<File, Failure> {
        let missing = |why: &dyn std::fmt::Display| {
            Failure::environment(format!("the process of the lab has not inherited its {name}"))
                .because(why)
                .fix("do not use inner commands directly: start labs with `xoff lab run FILE`")
        };
        let number = *self
            .number_by_name
            .get(name)
            .ok_or_else(|| missing(&"the command line does not name it"))?;
        let file = options
            .open(format!("/proc/self/fd/{number}"))
            .map_err(|error| missing(&error))?;
        // The close can fail only for a closed descriptor, and this one has just been opened.
        let _ = nix::unistd::close(number);
        Ok(file)
    }

    /// Opens an inherited descriptor for reading.
    pub(super) fn open_reader(&self, name: &str) -> Result<File, Failure> {
        self.open(name, OpenOptions::new().read(true))
    }

    /// Opens an inherited descriptor for writing.
    pub(super) fn open_writer(&self, name: &str) -> Result<File, Failure> {
        self.open(name, OpenOptions::new().write(true))
    }

    /// Reads the description of the lab. Returns the description and its file, which the next
    /// inner process inherits.
    pub(super) fn read_lab_spec(&self) -> Result<(LabSpec, File), Failure> {
        let file = self.open_reader("spec")?;
        let spec = serde_json::from_reader(io::BufReader::new(&file)).map_err(|error| {
            Failure::environment("the process of the lab cannot read the description of the lab")
                .because(error)
        })?;
        Ok((spec, file))
    }
}

/// Starts an inner process. The process inherits the named descriptors `fds`. `stdio` contains its standard
/// input, output and error.
///
/// # Errors
/// Fails if the process cannot be started.
pub(super) fn spawn_process(
    process: InnerProcess,
    lab_name: &str,
    fds: &[(&str, BorrowedFd<'_>)],
    stdio: [Stdio; 3],
) -> Result<Child, Failure> {
    let [input, output, error] = stdio;
    let mut command = Command::new("/proc/self/exe");
    command.arg0(process_title(lab_name)).arg(process.argument());
    command.stdin(input).stdout(output).stderr(error);
    for (name, fd) in fds {
        command.arg(format!("{name}={}", fd.as_raw_fd()));
    }
    let set_fd_flags = |flags| {
        fds.iter()
            .try_for_each(|(_, fd)| fcntl(fd, FcntlArg::F_SETFD(flags)).map(drop))
    };
    let child = set_fd_flags(FdFlag::empty())
        .map_err(io::Error::from)
        .and_then(|()| command.spawn());
    let restored = set_fd_flags(FdFlag::FD_CLOEXEC);
    let failure = |error: io::Error| {
        Failure::environment("cannot start a process of the lab")
            .because(error)
            .fix("check that the file of the program is readable and executable, and check the limits of processes and open files")
    };
    let child = child.map_err(failure)?;
    restored.map_err(|errno| failure(errno.into()))?;
    Ok(child)
}

/// Returns the first word of the command line of an inner process.
pub(super) fn process_title(lab_name: &str) -> String {
    format!("xoff lab {lab_name}")
}

/// Creates a pipe that is closed on exec. Returns the read end and the write end.
pub(super) fn create_pipe() -> Result<(OwnedFd, OwnedFd), Failure> {
    nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
        .map_err(|errno| Failure::environment("cannot create a pipe").because(errno))
}

/// Returns a pipe that receives a byte for each of the given signals. One `poll` call can then wait for
/// signals and files.
pub(super) fn signal_pipe(signals: &[i32]) -> Result<File, Failure> {
    let (read, write) = create_pipe()?;
    let failure = |error: io::Error| Failure::environment("cannot watch signals").because(error);
    for signal in signals {
        let write = write.as_fd().try_clone_to_owned().map_err(failure)?;
        signal_hook::low_level::pipe::register(*signal, write).map_err(failure)?;
    }
    Ok(File::from(read))
}

/// Waits until at least one file is readable or has ended. Returns for each file whether it is ready. The
/// wait ends after `timeout_ms` milliseconds. With `None`, the wait has no time limit.
pub(super) fn wait_until_readable<const N: usize>(
    files: [Option<BorrowedFd<'_>>; N],
    timeout_ms: Option<u16>,
) -> [bool; N] {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut fds: Vec<PollFd<'_>> = files
        .iter()
        .flatten()
        .map(|fd| PollFd::new(*fd, PollFlags::POLLIN))
        .collect();
    let timeout = timeout_ms.map_or(PollTimeout::NONE, PollTimeout::from);
    // After an interrupted poll, no file is ready, and the caller polls again.
    let polled = poll(&mut fds, timeout).is_ok();
    let mut results = fds.iter().map(|fd| polled && fd.any().unwrap_or(true));
    files.map(|file| file.is_some() && results.next().unwrap_or(false))
}
