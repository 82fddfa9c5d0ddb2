//! A lab whose namespaces and cables exist: the input of a run in real time.

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::options::{LabOptions, LabRunMode};
use super::plan::LabPlan;
use super::status_pipe::StatusPipe;
use xoff_ports::net::Netns;

/// A lab whose namespaces and network devices exist, before its switches and hosts start.
///
/// The calling process is in the network namespace of the lab. This namespace also contains the switch ends
/// of the links to hosts. At the end of the lab, the init process ends this process.
#[derive(Debug)]
pub struct Lab {
    /// The plan of the lab.
    pub plan: LabPlan,
    /// The options of the run.
    pub options: LabOptions,
    /// Whether the lab runs its workload or stays up until `lab down`.
    pub mode: LabRunMode,
    /// The switch ports with a network device. Each link to a host or to an external device has such a port.
    /// The ports are in the order of [`LabPlan::links`].
    pub ports: Vec<PortAttachment>,
    /// The hosts, in the order of [`LabPlan::hosts`].
    pub hosts: Vec<HostAttachment>,
    /// The network namespace of the command line, which contains the external devices
    /// ([`PortNamespace::Outside`]). Only root can enter this namespace.
    pub outside: Netns,
    /// The control socket, which is bound to the abstract address of the lab. The server of the socket checks
    /// the credentials of its clients. If the lab runs in a user namespace, even root of the machine has no
    /// access to the socket. Root can still stop the lab with `lab down`, which uses signals.
    pub listener: Option<UnixListener>,
    /// The status messages to the command line.
    pub status: StatusPipe,
    /// Becomes true when the lab must stop. If the process has not ended ten seconds later, it is killed.
    pub stop: Arc<AtomicBool>,
}

/// The device of a switch port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAttachment {
    /// Index of the link in [`LabPlan::links`].
    pub link: usize,
    /// Name of the network device. A tap is created with this name.
    pub device: String,
    /// The network namespace of the device.
    pub namespace: PortNamespace,
}

/// The network namespace of the device of a switch port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortNamespace {
    /// The namespace of the lab and of this process.
    Lab,
    /// The namespace of the command line: [`Lab::outside`].
    Outside,
}

/// The host end of a cable.
#[derive(Debug)]
pub struct HostAttachment {
    /// The network namespace of the host.
    pub netns: Netns,
    /// Name of the interface in this namespace. For a tap, [`crate::move_tap_to_host`] creates it.
    pub interface: String,
}

impl Lab {
    /// Takes the control socket. The second call returns `None`.
    pub fn take_listener(&mut self) -> Option<UnixListener> {
        self.listener.take()
    }
}
