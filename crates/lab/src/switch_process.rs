//! The switch process of a lab, which builds the lab from inherited file descriptors and runs it.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::attached_lab::{HostAttachment, Lab, PortAttachment, PortNamespace};
use super::cabling;
use super::inner_process::InheritedFds;
use super::plan::FarEnd;
use super::status_pipe::StatusPipe;
use xoff_ports::net::Netns;
use xoff_telemetry::failure::Failure;

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
