//! The switches of a lab.

use std::sync::Arc;

use xoff_units::Picos;

use crate::child::{Lab, PortAttachment, PortPlace};
use crate::config::SwitchSetup;
use crate::plan::{FarEnd, LinkPlan};
use crate::wire::hand_over_tap;
use xoff_ports::net::Netns;
use xoff_ports::{Backend, OpenedPort, Port, PortError, PortSpec, create_persistent_tap};
use xoff_runtime::session::{SwitchPort, SwitchSession, SwitchStart};
use xoff_runtime::workers::{TaintLedger, WorkerOptions};
use xoff_telemetry::failure::Failure;

/// Frames that may be in the rings of a link between two switches, each way.
const LINK_FRAMES: usize = 512;

/// Starts every switch of the lab, with links in memory between them.
pub(super) fn start(
    lab: &Lab,
    setups: Vec<SwitchSetup>,
    options: &WorkerOptions,
    ledger: &TaintLedger,
) -> Result<Vec<Arc<SwitchSession>>, Failure> {
    let outside = outside(lab)?;
    let mut ports: Vec<Vec<SwitchPort>> = setups.iter().map(|_| Vec::new()).collect();
    for attachment in &lab.ports {
        let switch = lab.plan.links[attachment.link].switch;
        ports[switch].push(switch_port(lab, &setups[switch], attachment, outside.as_ref())?);
    }
    for link in &lab.plan.links {
        if let FarEnd::Switch { switch: far, port } = &link.far {
            let [near_end, far_end] = between(link, &setups, *far, port);
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

/// The ends of a link between two switches.
fn between(link: &LinkPlan, setups: &[SwitchSetup], far: usize, far_port: &str) -> [SwitchPort; 2] {
    // What one of them cannot take is its own to refuse.
    let mtu = mtu_of(&setups[link.switch], &link.port, link).max(mtu_of(&setups[far], far_port, link));
    let names = [
        format!(
            "{}:{}",
            setups[link.switch].loaded.resolved.config.name, link.port
        ),
        format!("{}:{far_port}", setups[far].loaded.resolved.config.name),
    ];
    let [near, far] = Port::link_pair([&names[1], &names[0]], mtu, LINK_FRAMES);
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

/// MTU of a port with a link, as the switch's configuration has it.
fn mtu_of(setup: &SwitchSetup, port: &str, link: &LinkPlan) -> u32 {
    let mut ports = setup.loaded.resolved.config.ports.iter();
    ports.find(|own| own.name == port).map_or(link.mtu, |own| own.mtu)
}

/// The namespace of borrowed devices, if there are any.
fn outside(lab: &Lab) -> Result<Option<Arc<Netns>>, Failure> {
    if lab.ports.iter().all(|port| port.place == PortPlace::Lab) {
        return Ok(None);
    }
    let copy = lab.outside.try_clone().map_err(|error| {
        Failure::environment("the network that the lab was started in is out of reach").because(error)
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
    let netns = match attachment.place {
        PortPlace::Lab => None,
        PortPlace::Outside => outside.cloned(),
    };
    let opened = match link.far {
        FarEnd::Host(host) => Some(open(lab, setup, attachment, host)?),
        FarEnd::External(_) | FarEnd::Switch { .. } => None,
    };
    Ok(SwitchPort {
        delay: Picos::from_nanos(link.delay_ns),
        name: link.port.clone(),
        device: attachment.device.clone(),
        backend: backend_to(lab, link),
        netns,
        opened,
    })
}

/// What `--backend` says of cables between namespaces. What a borrowed device is, it does not say, and a guest is always
/// on a tap whose other end is QEMU's.
fn backend_to(lab: &Lab, link: &LinkPlan) -> Backend {
    match link.far {
        FarEnd::Host(host) if lab.plan.hosts[host].vm().is_none() => lab.options.backend,
        _ => Backend::Auto,
    }
}

/// Opens the switch's end of a cable of the lab's own. A tap is made, and its other end given to the host.
fn open(
    lab: &Lab,
    setup: &SwitchSetup,
    attachment: &PortAttachment,
    host: usize,
) -> Result<OpenedPort, Failure> {
    let link = &lab.plan.links[attachment.link];
    let mtu = mtu_of(setup, &link.port, link);
    let to_guest = lab.plan.hosts[host].vm().is_some();
    let backend = backend_to(lab, link);
    let spec = PortSpec {
        name: link.port.clone(),
        device: attachment.device.clone(),
        backend,
        mtu,
    };
    let failed = |error: PortError| Failure::environment(error.to_string()).at(&link.source);
    if to_guest {
        let tap = PortSpec {
            mtu: link.mtu,
            ..spec.clone()
        };
        create_persistent_tap(&tap).map_err(failed)?;
    }
    let mut opened = Port::open(&spec).map_err(failed)?;
    // The lab made both ends and set them right; what a port can tell of its far end is for other people's cables.
    opened.notes.clear();
    if backend == Backend::Tap {
        hand_over_tap(&attachment.device, link, &lab.plan.hosts[host], &lab.hosts[host]).map_err(
            |error| {
                Failure::environment("a tap cannot be given to its host")
                    .at(&link.source)
                    .because(error)
            },
        )?;
    }
    Ok(opened)
}

/// Ports of the lab that have a device and no carrier, as `switch port`.
pub(super) fn links_down(sessions: &[Arc<SwitchSession>]) -> Vec<String> {
    use xoff_runtime::control::ControlTarget;
    let mut down = Vec::new();
    for session in sessions {
        let Some(snapshot) = session.snapshot() else {
            continue;
        };
        let without = snapshot
            .ports
            .iter()
            .filter(|port| port.device.is_some() && !port.up);
        down.extend(without.map(|port| format!("{} {}", snapshot.name, port.name)));
    }
    down
}
