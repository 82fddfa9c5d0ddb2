//! What can only be known by trying: namespaces, links, taps, packet sockets. Tried in a child process, since
//! `unshare(2)` is for good, and in namespaces that vanish with it.

use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use serde::{Deserialize, Serialize};

use super::Check;
use crate::cli::{ProbeKind, output};
use xoff_ports::net;
use xoff_ports::{Backend, Port, PortError, PortSpec};
use xoff_telemetry::failure::Exit;

/// What worked; each is empty, or the reason why not.
#[derive(Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
struct Findings {
    namespaces: Option<String>,
    veth: Option<String>,
    packet: Option<String>,
    tap: Option<String>,
    xdp: Option<String>,
}

/// The child: tries everything in namespaces of its own and prints what it found.
pub(in crate::cli) fn run(kind: ProbeKind) -> Exit {
    let findings = attempt(kind);
    match output::print_json(&findings) {
        Ok(()) => Exit::Ok,
        Err(failure) => failure.exit,
    }
}

fn attempt(kind: ProbeKind) -> Findings {
    // The kinds a lab needs: its links, and an init whose death takes every process along.
    let kinds = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID;
    let entered = match kind {
        ProbeKind::Privileged => unshare(kinds).map_err(|errno| errno.desc().to_owned()),
        ProbeKind::User => net::enter_user_namespace(kinds).map_err(|error| error.to_string()),
    };
    if let Err(why) = entered {
        let unreached = || Some("no namespace to try it in".to_owned());
        return Findings {
            namespaces: Some(why),
            veth: unreached(),
            packet: unreached(),
            tap: unreached(),
            xdp: unreached(),
        };
    }
    let packet = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None);
    let veth = net::add_veth("xoff-try0", "xoff-try1", None, 9216);
    Findings {
        namespaces: None,
        veth: veth.err().map(|error| error.to_string()),
        xdp: no_xdp("xoff-try0"),
        packet: packet.err().map(|errno| errno.desc().to_owned()),
        tap: std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/net/tun")
            .err()
            .map(|e| e.to_string()),
    }
}

/// Why backend `xdp` cannot drive this device, if it cannot.
fn no_xdp(device: &str) -> Option<String> {
    let spec = PortSpec {
        name: "try".to_owned(),
        device: device.to_owned(),
        backend: Backend::Xdp,
        mtu: 9216,
    };
    match Port::open(&spec) {
        Ok(_) => None,
        Err(PortError::NoXdp { why, .. }) => Some(why),
        Err(error) => Some(error.to_string()),
    }
}

/// Starts the child and reads what it found.
fn probe(kind: &str) -> Findings {
    let child = std::env::current_exe().and_then(|program| {
        Command::new(program)
            .args(["__probe", kind])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
    });
    let broken = |why: String| Findings {
        namespaces: Some(why),
        ..Findings::default()
    };
    match child {
        Ok(output) => serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| broken(format!("the trial ended with {}", output.status))),
        Err(error) => broken(format!("the trial did not start: {error}")),
    }
}

/// Labs run with the privileges at hand, or else in a user namespace; one of the two has to work.
pub(super) fn checks() -> Vec<Check> {
    judge(&probe("privileged"), &probe("user"))
}

fn judge(privileged: &Findings, user: &Findings) -> Vec<Check> {
    let (way, findings) = match (&privileged.namespaces, &user.namespaces) {
        (None, _) => ("with the privileges at hand", privileged),
        _ => ("in a user namespace", user),
    };
    let mut checks = vec![namespaces(way, privileged, user)];
    let tried = |name, wanted: &str, outcome: &Option<String>, fix: &str| match outcome {
        None => Check::ok(name, format!("{wanted} {way}")),
        Some(why) => Check::failed(name, why.as_str(), fix),
    };
    if findings.namespaces.is_none() {
        checks.push(tried(
            "veth",
            "can be made",
            &findings.veth,
            "modprobe veth (as root)",
        ));
        checks.push(tried(
            "AF_PACKET",
            "can be opened",
            &findings.packet,
            "modprobe af_packet (as root)",
        ));
        checks.push(match &findings.xdp {
            None => Check::ok("AF_XDP", format!("drives a veth {way}")),
            // Only ports with backend=xdp need it.
            Some(why) => Check::warning("AF_XDP", why.as_str(), "run as root, or leave backend=xdp out"),
        });
        checks.push(match &findings.tap {
            None => Check::ok("tap", format!("/dev/net/tun opens {way}")),
            // Only labs over taps need it.
            Some(why) => Check::warning(
                "tap",
                why.as_str(),
                "modprobe tun && chmod 666 /dev/net/tun (as root)",
            ),
        });
    }
    checks
}

fn namespaces(way: &str, privileged: &Findings, user: &Findings) -> Check {
    match (&privileged.namespaces, &user.namespaces) {
        (None, None) => Check::ok(
            "namespaces",
            "can be made with the privileges at hand, and without them",
        ),
        (None, Some(_)) => Check::ok(
            "namespaces",
            format!("can be made {way}; without them, user namespaces are refused"),
        ),
        (Some(_), None) => Check::ok(
            "namespaces",
            "can be made in a user namespace, so no root is needed",
        ),
        (Some(_), Some(why)) => Check::failed("namespaces", why.as_str(), user_namespace_fix()),
    }
}

/// What forbids user namespaces on this machine, as far as the known switches tell.
fn user_namespace_fix() -> String {
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let sysctl = |setting: &str| format!("sysctl -w {setting} (as root), or run xoff as root");
    if read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
        sysctl("kernel.apparmor_restrict_unprivileged_userns=0")
    } else if read("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
        sysctl("kernel.unprivileged_userns_clone=1")
    } else if read("/proc/sys/user/max_user_namespaces") == "0" {
        sysctl("user.max_user_namespaces=15000")
    } else {
        "run xoff as root; in a container, give it --privileged, or a seccomp profile that allows unshare"
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    fn refused() -> Findings {
        let why = || Some("Operation not permitted".to_owned());
        Findings {
            namespaces: why(),
            veth: why(),
            packet: why(),
            tap: why(),
            xdp: why(),
        }
    }

    fn worst(checks: &[Check]) -> bool {
        checks.iter().any(|check| check.status == Status::Failed)
    }

    #[test]
    fn one_way_to_a_namespace_is_enough() {
        assert!(!worst(&judge(&Findings::default(), &refused())));
        assert!(!worst(&judge(&refused(), &Findings::default())));
        let checks = judge(&refused(), &refused());
        assert!(worst(&checks) && checks[0].fix.is_some());
        assert_eq!(checks.len(), 1, "without a namespace nothing else was tried");
    }

    #[test]
    fn veth_and_packet_sockets_are_needed_and_taps_and_xdp_are_not() {
        let lacking = |findings: Findings| worst(&judge(&findings, &refused()));
        let why = || Some("no".to_owned());
        assert!(lacking(Findings {
            veth: why(),
            ..Findings::default()
        }));
        assert!(lacking(Findings {
            packet: why(),
            ..Findings::default()
        }));
        assert!(!lacking(Findings {
            tap: why(),
            xdp: why(),
            ..Findings::default()
        }));
    }
}
