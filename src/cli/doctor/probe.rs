//! Checks whether namespaces, links, tap devices and packet sockets can be created. The checks call
//! `unshare(2)`, whose effect cannot be undone, so they run in a child process. The created namespaces
//! disappear with the child process.

use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use serde::{Deserialize, Serialize};

use super::Check;
use crate::cli::{DoctorProbeKind, output};
use xoff_ports::net;
use xoff_ports::{Backend, Port, PortError, PortSpec};
use xoff_telemetry::failure::Exit;

/// Results of the attempts to use each feature. Each field contains the error text of an attempt, or `None`
/// if the attempt succeeded.
#[derive(Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
struct FeatureProbeResults {
    namespaces: Option<String>,
    veth: Option<String>,
    packet: Option<String>,
    tap: Option<String>,
    xdp: Option<String>,
}

/// Runs in the child process. Tries each feature in new namespaces and prints the findings as JSON.
pub(in crate::cli) fn run(kind: DoctorProbeKind) -> Exit {
    let findings = try_features(kind);
    output::print_json(&findings);
    Exit::Ok
}

/// Enters new namespaces and tries each feature.
fn try_features(kind: DoctorProbeKind) -> FeatureProbeResults {
    // A lab needs a network namespace for its links, and a PID namespace. When the init process of a PID
    // namespace ends, the kernel ends all its processes.
    let kinds = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID;
    let entered = match kind {
        DoctorProbeKind::Privileged => unshare(kinds).map_err(|errno| errno.desc().to_owned()),
        DoctorProbeKind::User => net::enter_user_namespace(kinds).map_err(|error| error.to_string()),
    };
    if let Err(why) = entered {
        let not_tried = || Some("not tried, because no namespace could be created".to_owned());
        return FeatureProbeResults {
            namespaces: Some(why),
            veth: not_tried(),
            packet: not_tried(),
            tap: not_tried(),
            xdp: not_tried(),
        };
    }
    let packet = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None);
    let veth = net::add_veth("xoff-try0", "xoff-try1", None, 9216);
    FeatureProbeResults {
        namespaces: None,
        veth: veth.err().map(|error| error.to_string()),
        xdp: xdp_error("xoff-try0"),
        packet: packet.err().map(|errno| errno.desc().to_owned()),
        tap: std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/net/tun")
            .err()
            .map(|e| e.to_string()),
    }
}

/// Returns the reason why the `xdp` backend cannot use this device. Returns `None` if the backend can use it.
fn xdp_error(device: &str) -> Option<String> {
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

/// Starts the child process and reads its findings. If this fails, the findings contain an error for
/// the namespaces.
fn run_probe_process(kind: &str) -> FeatureProbeResults {
    let child = std::env::current_exe().and_then(|program| {
        Command::new(program)
            .args(["__probe", kind])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
    });
    let broken = |why: String| FeatureProbeResults {
        namespaces: Some(why),
        ..FeatureProbeResults::default()
    };
    match child {
        Ok(output) => serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| broken(format!("the trial ended with {}", output.status))),
        Err(error) => broken(format!("the trial did not start: {error}")),
    }
}

/// Runs the checks. A lab can run if namespaces can be created, either with the present privileges or in a
/// user namespace.
pub(super) fn check_namespaces_and_links() -> Vec<Check> {
    evaluate_findings(&run_probe_process("privileged"), &run_probe_process("user"))
}

/// Converts the findings of both kinds of namespaces to checks.
fn evaluate_findings(privileged: &FeatureProbeResults, user: &FeatureProbeResults) -> Vec<Check> {
    let (privileges_text, findings) = match (&privileged.namespaces, &user.namespaces) {
        (None, _) => ("with the privileges at hand", privileged),
        _ => ("in a user namespace", user),
    };
    let mut checks = vec![check_namespaces(privileges_text, privileged, user)];
    let tried = |name, wanted: &str, outcome: &Option<String>, fix: &str| match outcome {
        None => Check::ok(name, format!("{wanted} {privileges_text}")),
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
            None => Check::ok("AF_XDP", format!("works on veth devices {privileges_text}")),
            // Only ports with `backend=xdp` need AF_XDP.
            Some(why) => Check::warning("AF_XDP", why.as_str(), "run as root, or leave backend=xdp out"),
        });
        checks.push(match &findings.tap {
            None => Check::ok("tap", format!("/dev/net/tun opens {privileges_text}")),
            // Only labs with tap devices need this.
            Some(why) => Check::warning(
                "tap",
                why.as_str(),
                "modprobe tun && chmod 666 /dev/net/tun (as root)",
            ),
        });
    }
    checks
}

fn check_namespaces(
    privileges_text: &str,
    privileged: &FeatureProbeResults,
    user: &FeatureProbeResults,
) -> Check {
    match (&privileged.namespaces, &user.namespaces) {
        (None, None) => Check::ok(
            "namespaces",
            "can be made with the privileges at hand, and without them",
        ),
        (None, Some(_)) => Check::ok(
            "namespaces",
            format!("can be made {privileges_text}; without them, user namespaces are refused"),
        ),
        (Some(_), None) => Check::ok(
            "namespaces",
            "can be made in a user namespace, so no root is needed",
        ),
        (Some(_), Some(why)) => Check::failed("namespaces", why.as_str(), user_namespace_fix()),
    }
}

/// Returns a command that permits user namespaces. The command depends on the settings of this machine.
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

    fn refused_findings() -> FeatureProbeResults {
        let why = || Some("Operation not permitted".to_owned());
        FeatureProbeResults {
            namespaces: why(),
            veth: why(),
            packet: why(),
            tap: why(),
            xdp: why(),
        }
    }

    fn has_failure(checks: &[Check]) -> bool {
        checks.iter().any(|check| check.status == Status::Failed)
    }

    #[test]
    fn one_kind_of_namespace_is_sufficient() {
        assert!(!has_failure(&evaluate_findings(
            &FeatureProbeResults::default(),
            &refused_findings()
        )));
        assert!(!has_failure(&evaluate_findings(
            &refused_findings(),
            &FeatureProbeResults::default()
        )));
        let checks = evaluate_findings(&refused_findings(), &refused_findings());
        assert!(has_failure(&checks) && checks[0].fix.is_some());
        assert_eq!(checks.len(), 1, "without a namespace nothing else was tried");
    }

    #[test]
    fn veth_and_packet_sockets_are_required_but_taps_and_xdp_are_optional() {
        let lacking =
            |findings: FeatureProbeResults| has_failure(&evaluate_findings(&findings, &refused_findings()));
        let why = || Some("no".to_owned());
        assert!(lacking(FeatureProbeResults {
            veth: why(),
            ..FeatureProbeResults::default()
        }));
        assert!(lacking(FeatureProbeResults {
            packet: why(),
            ..FeatureProbeResults::default()
        }));
        assert!(!lacking(FeatureProbeResults {
            tap: why(),
            xdp: why(),
            ..FeatureProbeResults::default()
        }));
    }
}
