//! Which labs run: their names are abstract sockets, which the kernel forgets with their last holder.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;

use xoff_telemetry::failure::Failure;

const LAB: &str = "xoff.lab.";
const DEVICE: &str = "xoff.device.";

/// A lab that runs in this network namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunningLab {
    /// Its name.
    pub name: String,
    /// The user who started it.
    pub uid: u32,
}

/// The address at which a lab of user `uid` answers.
///
/// # Errors
/// Where the name is too long for a socket's.
pub fn address(uid: u32, lab: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{LAB}{uid}.{lab}"))
}

/// Claims the name of a lab. Whoever holds the listener, holds the name.
pub(super) fn claim(lab: &str) -> Result<UnixListener, Failure> {
    let uid = geteuid().as_raw();
    match address(uid, lab).and_then(|address| UnixListener::bind_addr(&address)) {
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

/// Claims a device of this machine, so that no two labs borrow it and the second gives back what the first
/// had made of it.
pub(super) fn claim_device(device: &str) -> Result<UnixListener, Failure> {
    let name = format!("{DEVICE}{device}");
    match SocketAddr::from_abstract_name(name).and_then(|address| UnixListener::bind_addr(&address)) {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(Failure::environment(format!(
            "another lab uses the device {device}"
        ))
        .fix("`xoff lab ls` lists the labs; stop the other one, or use another device")),
        Err(error) => Err(Failure::environment(format!("cannot claim the device {device}")).because(error)),
    }
}

/// The labs that run in this network namespace, of all users, by name.
///
/// # Errors
/// Where `/proc` is not mounted.
pub fn running() -> io::Result<Vec<RunningLab>> {
    let table = fs::read_to_string("/proc/net/unix")?;
    let labs: BTreeSet<RunningLab> = table.lines().filter_map(parse_line).collect();
    Ok(labs.into_iter().collect())
}

/// The lab of this name that the user may reach: one's own before those of others, which are root's alone.
pub(super) fn find(name: &str) -> Result<RunningLab, Failure> {
    let own = geteuid().as_raw();
    let labs = running().map_err(unreadable)?;
    let of_name = |lab: &&RunningLab| lab.name == name && (lab.uid == own || own == 0);
    let found = labs.iter().filter(of_name).min_by_key(|lab| lab.uid != own);
    found.cloned().ok_or_else(|| {
        let mut names: Vec<&str> = labs.iter().map(|lab| lab.name.as_str()).collect();
        names.dedup();
        let known = if names.is_empty() {
            "no lab runs".to_owned()
        } else {
            format!("running: {}", names.join(", "))
        };
        Failure::environment(format!("no lab of yours called \"{name}\" runs"))
            .because(known)
            .fix("`xoff lab ls` lists them")
    })
}

/// Nobody can tell which labs run.
pub(super) fn unreadable(error: io::Error) -> Failure {
    Failure::environment("cannot tell which labs run")
        .at("/proc/net/unix")
        .because(error)
}

/// A line of `/proc/net/unix`: number, references, protocol, flags, type, state, inode, name.
fn parse_line(line: &str) -> Option<RunningLab> {
    /// `__SO_ACCEPTCON`: a connection carries the name of its listener too.
    const LISTENING: &str = "00010000";
    let mut fields = line.split_whitespace();
    let listening = fields.nth(3)? == LISTENING;
    let (uid, name) = fields
        .nth(3)?
        .strip_prefix('@')?
        .strip_prefix(LAB)?
        .split_once('.')?;
    listening.then(|| {
        Some(RunningLab {
            name: name.to_owned(),
            uid: uid.parse().ok()?,
        })
    })?
}

/// The process that answers for a lab: its launcher.
///
/// # Errors
/// A name that someone else than its user holds: such a process is not to be trusted, nor to be killed.
pub(super) fn launcher(lab: &RunningLab) -> Result<i32, Failure> {
    let failure = |why: &dyn std::fmt::Display| {
        Failure::environment(format!("cannot reach the lab \"{}\"", lab.name)).because(why)
    };
    let address = address(lab.uid, &lab.name).map_err(|error| failure(&error))?;
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
    fn only_listeners_with_our_names_are_labs() {
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
            assert_eq!(parse_line(line), expected, "{line}");
        }
    }
}
