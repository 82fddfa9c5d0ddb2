//! The switch's process of a lab: what it is given.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::options::{LabOptions, LabRunMode};
use super::plan::{FarEnd, LabPlan};
use super::stage::Inherited;
use super::status::StatusPipe;
use super::wire;
use xoff_ports::net::Netns;
use xoff_telemetry::failure::Failure;

/// A lab whose namespaces and cables exist: everything the switch and the hosts need to start.
///
/// The calling process is in the lab's own network namespace, alone with the switch's ends of the cables.
/// Its init ends it, and everything else, when the lab is over.
#[derive(Debug)]
pub struct Lab {
    /// The lab.
    pub plan: LabPlan,
    /// How it is to be run.
    pub options: LabOptions,
    /// What it is up for.
    pub mode: LabRunMode,
    /// The ports of the switches that have a device: one per link to a host or an external device, in the order of
    /// [`LabPlan::links`].
    pub ports: Vec<PortAttachment>,
    /// The hosts, in the order of [`LabPlan::hosts`].
    pub hosts: Vec<HostAttachment>,
    /// The network that the lab was started in. [`PortPlace::Outside`] devices are there. Only root can enter it.
    pub outside: Netns,
    /// Bound to the lab's abstract address: the control socket, whose server checks its peers' credentials. Inside a
    /// user namespace the machine's root is nobody there: it stops such a lab by `lab down`, which goes by signals.
    pub listener: Option<UnixListener>,
    /// To the command line.
    pub status: StatusPipe,
    /// Becomes true when the lab is to stop in good order. Ten seconds later it is killed.
    pub stop: Arc<AtomicBool>,
}

/// Where a port of a switch is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAttachment {
    /// Index of its link in [`LabPlan::links`].
    pub link: usize,
    /// The network device. With taps it is the name that the tap is to be made under.
    pub device: String,
    /// The namespace of that device.
    pub place: PortPlace,
}

/// A namespace, seen from the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortPlace {
    /// The lab's own: the one that the process is in.
    Lab,
    /// The one that the lab was started in: [`Lab::outside`].
    Outside,
}

/// A host's end of its cable.
#[derive(Debug)]
pub struct HostAttachment {
    /// The host's namespace.
    pub netns: Netns,
    /// Its interface there. With taps it appears with [`super::hand_over_tap`].
    pub interface: String,
}

impl Lab {
    /// The control socket, once.
    pub fn take_listener(&mut self) -> Option<UnixListener> {
        self.listener.take()
    }
}

pub(super) fn main(inherited: &Inherited) -> Result<ExitCode, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let lab = assemble(inherited, &stop).map_err(|failure| failure.at("the lab's switch process"))?;
    Ok(super::play::run(lab))
}

fn assemble(inherited: &Inherited, stop: &Arc<AtomicBool>) -> Result<Lab, Failure> {
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(stop))
            .map_err(|error| Failure::environment("cannot watch signals").because(error))?;
    }
    let (brief, _) = inherited.brief()?;
    let plan = brief.plan;
    let mut hosts = Vec::with_capacity(plan.hosts.len());
    for (index, host) in plan.hosts.iter().enumerate() {
        let netns = Netns::from_fd(inherited.take_reader(&wire::descriptor_name(index))?.into());
        hosts.push(HostAttachment {
            netns,
            interface: host.interface.clone(),
        });
    }
    let attach = |(link, facts): (usize, &super::plan::LinkPlan)| match &facts.far {
        FarEnd::Host(_) => Some(PortAttachment {
            link,
            device: wire::device_name(&plan, link),
            place: PortPlace::Lab,
        }),
        FarEnd::External(device) => Some(PortAttachment {
            link,
            device: device.clone(),
            place: PortPlace::Outside,
        }),
        // A link in memory.
        FarEnd::Switch { .. } => None,
    };
    let ports = plan.links.iter().enumerate().filter_map(attach).collect();
    Ok(Lab {
        ports,
        hosts,
        outside: Netns::from_fd(inherited.take_reader("outside")?.into()),
        listener: Some(
            listener().map_err(|error| Failure::environment("there is no control socket").because(error))?,
        ),
        status: StatusPipe::new(inherited.take_writer("status")?),
        stop: Arc::clone(stop),
        plan,
        options: brief.options,
        mode: brief.mode,
    })
}

/// The listener is standard input; what reads standard input finds nothing there from now on.
fn listener() -> io::Result<UnixListener> {
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.set_nonblocking(false)?;
    Ok(listener)
}
