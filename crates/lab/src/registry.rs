//! The registry of running labs.
//!
//! Each lab listens on an abstract Unix socket whose address contains the name of the lab. The kernel removes
//! this socket when the last process of the lab closes it.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;

use xoff_telemetry::failure::Failure;

/// Prefix of the socket name of a lab.
const LAB_PREFIX: &str = "xoff.lab.";
/// The name that the launcher of a lab gives to its process when the lab ends.
const ENDING_PROCESS_NAME: &CStr = c"xoff-ending";
/// Longest time for which a new lab waits for the end of a lab with the same name.
const ENDING_TIMEOUT: Duration = Duration::from_secs(15);
/// Time in which the launcher of a lab notices that its command line has ended.
const NOTICE_TIMEOUT: Duration = Duration::from_millis(200);
/// Time between two attempts to claim the name of a lab.
const CLAIM_INTERVAL: Duration = Duration::from_millis(10);
/// Prefix of the socket name of a claimed device.
const DEVICE_PREFIX: &str = "xoff.device.";

/// A running lab, which was started in the network namespace of the caller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunningLab {
    /// Name of the lab.
    pub name: String,
    /// ID of the user who started the lab.
    pub uid: u32,
}

/// Returns the address of the control socket of a lab: an abstract Unix socket. `uid` is the user who started
/// the lab, and `lab` is the name of the lab.
///
/// # Errors
/// Returns an error if the name of the lab is too long for a socket address.
pub fn lab_socket_address(uid: u32, lab: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{LAB_PREFIX}{uid}.{lab}"))
}

/// Claims the name of a lab for the user. The name stays in use until all copies of the returned listener
/// are closed. If a lab with this name is ending, for example because its terminal was closed, the function
/// waits for its end.
pub(super) fn claim_lab_name(lab: &str) -> Result<UnixListener, Failure> {
    let uid = geteuid().as_raw();
    let claim = || lab_socket_address(uid, lab).and_then(|address| UnixListener::bind_addr(&address));
    let is_in_use = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
    let mut claimed = claim();
    if claimed.as_ref().is_err_and(is_in_use) {
        let begin = Instant::now();
        // `None`: the socket accepts no connection, because the processes of the lab have ended.
        let launcher = find_launcher_pid(&RunningLab {
            name: lab.to_owned(),
            uid,
        })
        .ok();
        while claimed.as_ref().is_err_and(is_in_use) {
            let timeout = match launcher.is_none_or(is_ending_launcher) {
                true => ENDING_TIMEOUT,
                false => NOTICE_TIMEOUT,
            };
            if begin.elapsed() >= timeout {
                break;
            }
            std::thread::sleep(CLAIM_INTERVAL);
            claimed = claim();
        }
    }
    match claimed {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(Failure::environment(format!(
            "a lab called \"{lab}\" is running already"
        ))
        .fix(format!(
            "stop it with `xoff lab down {lab}`, or give this one another name"
        ))),
        Err(error) => {
            Err(Failure::environment(format!("cannot claim the name of the lab \"{lab}\"")).because(error))
        }
    }
}

/// Marks the lab of this launcher process as ending. A new lab with the same name then waits.
pub(super) fn mark_lab_as_ending() {
    // Without the mark, a new lab with the same name is refused until this lab has ended.
    let _ = nix::sys::prctl::set_name(ENDING_PROCESS_NAME);
}

/// Returns whether a launcher has marked its lab as ending, or has ended.
fn is_ending_launcher(launcher: i32) -> bool {
    match fs::read(format!("/proc/{launcher}/comm")) {
        Ok(name) => name.trim_ascii_end() == ENDING_PROCESS_NAME.to_bytes(),
        Err(_) => true,
    }
}

/// Claims a network device of this machine, so that no other lab uses the device.
///
/// Without this claim, a second lab would record settings that the first lab has already changed. At its end,
/// the second lab would then restore the wrong settings.
pub(super) fn claim_device(device: &str) -> Result<UnixListener, Failure> {
    let name = format!("{DEVICE_PREFIX}{device}");
    match SocketAddr::from_abstract_name(name).and_then(|address| UnixListener::bind_addr(&address)) {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(Failure::environment(format!(
            "another lab uses the device {device}"
        ))
        .fix("`xoff lab ls` lists the labs; stop the other one, or use another device")),
        Err(error) => Err(Failure::environment(format!("cannot claim the device {device}")).because(error)),
    }
}

/// Returns the running labs of all users in this network namespace, sorted by name and user ID. Empty if no
/// lab runs.
///
/// # Errors
/// Returns an error if `/proc/net/unix` cannot be read.
pub fn running_labs() -> io::Result<Vec<RunningLab>> {
    let table = fs::read_to_string("/proc/net/unix")?;
    let labs: BTreeSet<RunningLab> = table.lines().filter_map(parse_socket_line).collect();
    Ok(labs.into_iter().collect())
}

/// Returns the running lab with the given name. A normal user finds only own labs, and root finds the labs of
/// all users.
pub(super) fn find_lab(name: &str) -> Result<RunningLab, Failure> {
    let own = geteuid().as_raw();
    let labs = running_labs().map_err(unreadable_registry)?;
    let of_name = |lab: &&RunningLab| lab.name == name && (lab.uid == own || own == 0);
    let found = labs.iter().filter(of_name).min_by_key(|lab| lab.uid != own);
    found.cloned().ok_or_else(|| {
        let mut names: Vec<&str> = labs.iter().map(|lab| lab.name.as_str()).collect();
        names.dedup();
        let failure = Failure::usage(format!("no lab of yours called \"{name}\" runs"));
        if names.is_empty() {
            return failure
                .because("no lab runs")
                .fix("start one with `xoff lab up FILE`; `xoff lab ls` lists the running labs");
        }
        failure
            .because(format!("running: {}", names.join(", ")))
            .fix("give one of these names; `xoff lab ls` lists them with their users")
    })
}

/// Returns the failure of a read of the registry.
pub(super) fn unreadable_registry(error: io::Error) -> Failure {
    Failure::environment("cannot list the running labs")
        .at("/proc/net/unix")
        .because(error)
}

/// Parses a line of `/proc/net/unix`: number, references, protocol, flags, type, state, inode, name.
fn parse_socket_line(line: &str) -> Option<RunningLab> {
    /// The flag `__SO_ACCEPTCON`. Connections have the name of their listener but not this flag.
    const LISTENING: &str = "00010000";
    let mut fields = line.split_whitespace();
    let listening = fields.nth(3)? == LISTENING;
    let (uid, name) = fields
        .nth(3)?
        .strip_prefix('@')?
        .strip_prefix(LAB_PREFIX)?
        .split_once('.')?;
    listening.then(|| {
        Some(RunningLab {
            name: name.to_owned(),
            uid: uid.parse().ok()?,
        })
    })?
}

/// Returns the process ID of the launcher of a lab.
///
/// # Errors
/// Fails if the lab does not answer. Also fails if a process of another user listens on the socket of the
/// lab. Such a process must not be trusted or killed.
pub(super) fn find_launcher_pid(lab: &RunningLab) -> Result<i32, Failure> {
    let failure = |why: &dyn std::fmt::Display| {
        Failure::environment(format!("cannot reach the lab \"{}\"", lab.name)).because(why)
    };
    let address = lab_socket_address(lab.uid, &lab.name).map_err(|error| failure(&error))?;
    let stream = UnixStream::connect_addr(&address).map_err(|error| failure(&error))?;
    let peer = getsockopt(&stream, PeerCredentials).map_err(|errno| failure(&errno))?;
    if peer.uid() != lab.uid || peer.pid() <= 0 {
        let why = format!(
            "the name belongs to user {}, but process {} of user {} holds it",
            lab.uid,
            peer.pid(),
            peer.uid()
        );
        return Err(failure(&why));
    }
    Ok(peer.pid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_with_the_lab_prefix_are_labs() {
        let lab = |name: &str, uid| {
            Some(RunningLab {
                name: name.into(),
                uid,
            })
        };
        for (line, expected) in [
            (
                "0000000000000000: 00000002 00000000 00010000 0001 01 17351 @xoff.lab.0.incast",
                lab("incast", 0),
            ),
            (
                "0000000000000000: 00000002 00000000 00010000 0001 01 17351 @xoff.lab.65534.a-b",
                lab("a-b", 65534),
            ),
            (
                "0000000000000000: 00000003 00000000 00000000 0001 03 17352 @xoff.lab.0.incast",
                None,
            ),
            (
                "0000000000000000: 00000002 00000000 00010000 0001 01 17351 @xoff.device.eth1",
                None,
            ),
            (
                "0000000000000000: 00000002 00000000 00010000 0001 01 17351 xoff.lab.0.file",
                None,
            ),
            (
                "0000000000000000: 00000002 00000000 00010000 0001 01 17351 @xoff.lab.x.y",
                None,
            ),
            ("0000000000000000: 00000003 00000000 00000000 0001 03 17352", None),
            ("Num       RefCount Protocol Flags    Type St Inode Path", None),
            ("", None),
        ] {
            assert_eq!(parse_socket_line(line), expected, "{line}");
        }
    }
}
