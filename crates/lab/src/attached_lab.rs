//! The input of a run in real time: a lab after its network namespaces and cables have been created.

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::options::{LabOptions, LabRunMode};
use super::plan::LabPlan;
use super::status_pipe::StatusPipe;
use xoff_ports::net::Netns;

/// A lab before its switches and hosts start. Its namespaces and network devices already exist.
///
/// The calling process is in the network namespace of the lab, which also contains the switch ends of the
/// links to hosts. At the end of the lab, the init process of the lab ends the calling process.
#[derive(Debug)]
pub struct Lab {
    /// The plan of the lab.
    pub plan: LabPlan,
    /// The options of the run.
    pub options: LabOptions,
    /// The command that started the lab: `lab run` runs the workload, and `lab up` only waits for `lab down`.
    pub mode: LabRunMode,
    /// The switch ports with a network device, in the order of [`LabPlan::links`]. Each link to a host or to
    /// an external device has such a port. Links between switches need no device.
    pub ports: Vec<PortAttachment>,
    /// The hosts, in the order of [`LabPlan::hosts`].
    pub hosts: Vec<HostAttachment>,
    /// The network namespace of the command line, which contains the external devices
    /// ([`PortNamespace::Outside`]). Only root can enter this namespace.
    pub outside: Netns,
    /// The control socket, which is bound to the abstract address of the lab. Its server checks the
    /// credentials of the clients. If the lab runs in a user namespace, even root of the machine
    /// cannot use the socket. Root can still stop the lab with `lab down`, which uses signals. `None`
    /// after [`Lab::take_listener`].
    pub listener: Option<UnixListener>,
    /// The pipe for status messages to the command line.
    pub status: StatusPipe,
    /// Becomes true when the lab must stop. If the process has not ended ten seconds later, the init process
    /// kills it.
    pub stop: Arc<AtomicBool>,
}

/// The device of a switch port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAttachment {
    /// Index of the link in [`LabPlan::links`].
    pub link: usize,
    /// Name of the network device. A tap does not exist yet, and the switch creates it with this name.
    pub device: String,
    /// The network namespace of the device.
    pub namespace: PortNamespace,
}

/// The network namespace that contains the device of a switch port.
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
    /// Name of the interface in this namespace. With taps, the interface exists only
    /// after [`crate::move_tap_to_host`].
    pub interface: String,
}

impl Lab {
    /// Returns the control socket and leaves `None`. A second call returns `None`.
    pub fn take_listener(&mut self) -> Option<UnixListener> {
        self.listener.take()
    }
}
