//! Starts the switches of a lab in real time.

use std::sync::Arc;

use xoff_units::Picos;

use super::guests::guest_stream;
use crate::attached_lab::{Lab, PortAttachment, PortNamespace};
use crate::cabling::move_tap_to_host;
use crate::config::SwitchSetup;
use crate::down_ports::ports_configured_down;
use crate::plan::{FarEnd, LinkPlan, VmAttachment};
use xoff_fabric::FabricPlan;
use xoff_ports::net::Netns;
use xoff_ports::{Backend, OpenedPort, Port, PortError, PortSpec, create_persistent_tap};
use xoff_runtime::port_failure;
use xoff_runtime::session::{SwitchPort, SwitchSession, SwitchStart};
use xoff_runtime::workers::{TaintLog, WorkerOptions};
use xoff_telemetry::failure::Failure;

/// Number of frames in each ring of a link between two switches. Such a link is in memory.
const LINK_RING_FRAMES: usize = 512;

/// Starts all switches of the lab. Links between switches are in memory.
pub(super) fn start_switches(
    lab: &Lab,
    setups: Vec<SwitchSetup>,
    options: &WorkerOptions,
    ledger: &TaintLog,
) -> Result<Vec<Arc<SwitchSession>>, Failure> {
    let outside = external_device_namespace(lab)?;
    let mut ports: Vec<Vec<SwitchPort>> = setups.iter().map(|_| Vec::new()).collect();
    for attachment in &lab.ports {
        let switch = lab.plan.links[attachment.link].switch;
        ports[switch].push(switch_port(lab, &setups[switch], attachment, outside.as_ref())?);
    }
    for link in &lab.plan.links {
        if let FarEnd::Switch { switch: far, port } = &link.far {
            let [near_end, far_end] = link_ends_between_switches(link, &setups, *far, port);
            ports[link.switch].push(near_end);
            ports[*far].push(far_end);
        }
    }
    let starts = setups.into_iter().zip(ports).enumerate();
    let starts = starts.map(|(switch, (setup, ports))| SwitchStart {
        loaded: setup.loaded,
        resolve: setup.resolve,
        ports,
        pcap: lab.options.pcap.get(switch).cloned().unwrap_or_default(),
    });
    let sessions = SwitchSession::start_all(starts.collect(), options, ledger)?;
    Ok(sessions.into_iter().map(Arc::new).collect())
}

/// Creates the two ends of a link between two switches.
fn link_ends_between_switches(
    link: &LinkPlan,
    setups: &[SwitchSetup],
    far: usize,
    far_port: &str,
) -> [SwitchPort; 2] {
    // The link transports frames up to the larger MTU. Each switch drops frames that are too long for
    // its port.
    let mtu = port_mtu(&setups[link.switch], &link.port, link).max(port_mtu(&setups[far], far_port, link));
    let names = [
        format!(
            "{}:{}",
            setups[link.switch].loaded.resolved.config.name, link.port
        ),
        format!("{}:{far_port}", setups[far].loaded.resolved.config.name),
    ];
    let [near, far] = Port::link_pair([&names[1], &names[0]], mtu, LINK_RING_FRAMES);
    [(near, &link.port as &str), (far, far_port)].map(|(port, name)| SwitchPort {
        name: name.to_owned(),
        device: port.device_name().to_owned(),
        backend: Backend::Auto,
        netns: None,
        opened: Some(OpenedPort {
            port,
            notes: Vec::new(),
        }),
        delay: Picos::from_nanos(link.delay_ns),
    })
}

/// Returns the MTU of a port in the switch configuration, or the MTU of the link if the configuration does
/// not contain the port.
fn port_mtu(setup: &SwitchSetup, port: &str, link: &LinkPlan) -> u32 {
    let mut ports = setup.loaded.resolved.config.ports.iter();
    ports
        .find(|candidate| candidate.name == port)
        .map_or(link.mtu, |found| found.mtu)
}

/// Returns the namespace of the external devices. Returns `None` without external devices.
fn external_device_namespace(lab: &Lab) -> Result<Option<Arc<Netns>>, Failure> {
    if lab.ports.iter().all(|port| port.namespace == PortNamespace::Lab) {
        return Ok(None);
    }
    let copy = lab.outside.try_clone().map_err(|error| {
        Failure::environment("the network namespace of the command line cannot be used").because(error)
    })?;
    Ok(Some(Arc::new(copy)))
}

fn switch_port(
    lab: &Lab,
    setup: &SwitchSetup,
    attachment: &PortAttachment,
    outside: Option<&Arc<Netns>>,
) -> Result<SwitchPort, Failure> {
    let link = &lab.plan.links[attachment.link];
    let netns = match attachment.namespace {
        PortNamespace::Lab => None,
        PortNamespace::Outside => outside.cloned(),
    };
    let opened = match link.far {
        FarEnd::Host(host) => Some(open_port(lab, setup, attachment, host)?),
        FarEnd::External(_) | FarEnd::Switch { .. } => None,
    };
    let backend = backend_of_link(lab, link);
    Ok(SwitchPort {
        delay: Picos::from_nanos(link.delay_ns),
        name: link.port.clone(),
        device: device_name(attachment, backend),
        backend,
        netns,
        opened,
    })
}

/// Returns the port backend of a link. The option `--backend` applies to links to model and plain hosts. The lab file
/// selects the backend of a virtual machine. For external devices, the backend is selected automatically.
fn backend_of_link(lab: &Lab, link: &LinkPlan) -> Backend {
    let FarEnd::Host(host) = link.far else {
        return Backend::Auto;
    };
    match lab.plan.hosts[host].as_vm().map(|vm| vm.attach) {
        Some(VmAttachment::Stream) => Backend::Stream,
        Some(VmAttachment::Tap) => Backend::Auto,
        None => lab.options.backend,
    }
}

/// Returns the name of the device of a switch port.
fn device_name(attachment: &PortAttachment, backend: Backend) -> String {
    match backend {
        Backend::Stream => guest_stream(&attachment.device).to_string(),
        _ => attachment.device.clone(),
    }
}

/// Opens the switch end of a link to a host. With the backend `tap`, this function creates the tap device and
/// moves its network interface to the host.
fn open_port(
    lab: &Lab,
    setup: &SwitchSetup,
    attachment: &PortAttachment,
    host: usize,
) -> Result<OpenedPort, Failure> {
    let link = &lab.plan.links[attachment.link];
    let mtu = port_mtu(setup, &link.port, link);
    let vm = lab.plan.hosts[host].as_vm();
    let has_guest_tap = vm.is_some_and(|vm| vm.attach == VmAttachment::Tap);
    let backend = backend_of_link(lab, link);
    let spec = PortSpec {
        name: link.port.clone(),
        device: device_name(attachment, backend),
        backend,
        mtu,
    };
    let failed = |error: PortError| port_failure(&error).at(&link.source);
    if has_guest_tap {
        let tap = PortSpec {
            mtu: link.mtu,
            ..spec.clone()
        };
        create_persistent_tap(&tap).map_err(failed)?;
    }
    let mut opened = Port::open(&spec).map_err(failed)?;
    // The notes of a port are about the settings of its peer. They are not needed, because the lab has
    // configured both ends.
    opened.notes.clear();
    if backend == Backend::Tap {
        move_tap_to_host(&attachment.device, link, &lab.plan.hosts[host], &lab.hosts[host]).map_err(
            |error| {
                Failure::environment("a tap cannot be moved to its host")
                    .at(&link.source)
                    .because(error)
            },
        )?;
    }
    Ok(opened)
}

/// Returns the ports that are configured up and have a device without a carrier, as `switch port`.
pub(super) fn ports_without_carrier(sessions: &[Arc<SwitchSession>], fabric: &FabricPlan) -> Vec<String> {
    use xoff_control::ControlTarget;
    let configured_down = ports_configured_down(fabric);
    let mut down = Vec::new();
    for session in sessions {
        let Some(switch) = session.snapshot().map(|snapshot| snapshot.report) else {
            continue;
        };
        let without_carrier = switch
            .ports
            .iter()
            .filter(|port| port.device.is_some() && !port.up);
        down.extend(without_carrier.map(|port| format!("{} {}", switch.name, port.name)));
    }
    down.retain(|port| !configured_down.contains(port));
    down
}
