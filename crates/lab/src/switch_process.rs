//! The switch process of a lab: its inputs and its start.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::cabling;
use super::inner_process::InheritedFds;
use super::options::{LabOptions, LabRunMode};
use super::plan::{FarEnd, LabPlan};
use super::status::StatusPipe;
use xoff_ports::net::Netns;
use xoff_telemetry::failure::Failure;

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
    /// Name of the interface in this namespace. For a tap, [`super::move_tap_to_host`] creates it.
    pub interface: String,
}

impl Lab {
    /// Takes the control socket. The second call returns `None`.
    pub fn take_listener(&mut self) -> Option<UnixListener> {
        self.listener.take()
    }
}

/// Runs the switch process until the end of the lab.
pub(super) fn run_switch_process(inherited: &InheritedFds) -> Result<ExitCode, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let lab =
        inherited_lab(inherited, &stop).map_err(|failure| failure.at("the switch process of the lab"))?;
    Ok(super::real_time_run::run_lab(lab))
}

/// Builds the lab from the inherited description and file descriptors.
fn inherited_lab(inherited: &InheritedFds, stop: &Arc<AtomicBool>) -> Result<Lab, Failure> {
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(stop))
            .map_err(|error| Failure::environment("cannot watch signals").because(error))?;
    }
    let (spec, _) = inherited.read_lab_spec()?;
    let plan = spec.plan;
    let mut hosts = Vec::with_capacity(plan.hosts.len());
    for (index, host) in plan.hosts.iter().enumerate() {
        let netns = Netns::from_fd(inherited.open_reader(&cabling::netns_fd_name(index))?.into());
        hosts.push(HostAttachment {
            netns,
            interface: host.interface.clone(),
        });
    }
    let attachment = |(link, link_plan): (usize, &super::plan::LinkPlan)| match &link_plan.far {
        FarEnd::Host(_) => Some(PortAttachment {
            link,
            device: cabling::device_name(&plan, link),
            namespace: PortNamespace::Lab,
        }),
        FarEnd::External(device) => Some(PortAttachment {
            link,
            device: device.clone(),
            namespace: PortNamespace::Outside,
        }),
        // A link between switches is in memory and has no device.
        FarEnd::Switch { .. } => None,
    };
    let ports = plan.links.iter().enumerate().filter_map(attachment).collect();
    Ok(Lab {
        ports,
        hosts,
        outside: Netns::from_fd(inherited.open_reader("outside")?.into()),
        listener: Some(
            inherited_listener()
                .map_err(|error| Failure::environment("the control socket is missing").because(error))?,
        ),
        status: StatusPipe::new(inherited.open_writer("status")?),
        stop: Arc::clone(stop),
        plan,
        options: spec.options,
        mode: spec.mode,
    })
}

/// Returns the listener of the control socket, which is the standard input of this process.
fn inherited_listener() -> io::Result<UnixListener> {
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.set_nonblocking(false)?;
    Ok(listener)
}
