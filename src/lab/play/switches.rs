//! The switches of a lab.

use std::sync::Arc;

use crate::driver::{Ledger, Options};
use crate::failure::Failure;
use crate::lab::child::{Lab, PortAttachment, PortPlace};
use crate::lab::config::{SwitchSetup, switch_setup};
use crate::lab::plan::{FarEnd, LinkPlan};
use crate::lab::wire::hand_over_tap;
use crate::net::Netns;
use crate::ports::{Backend, Opened, Port, PortError, PortSpec, make_persistent_tap};
use crate::session::{SwitchPort, SwitchSession, reaction_budget};

/// The configuration of every switch of the lab.
pub(super) fn setups(lab: &Lab, options: &Options) -> Result<Vec<SwitchSetup>, Failure> {
    let budget = reaction_budget(options);
    (0..lab.plan.switches.len())
        .map(|switch| switch_setup(&lab.plan, switch, lab.options.seed, budget))
        .collect()
}

/// Starts every switch of the lab.
pub(super) fn start(
    lab: &Lab,
    setups: Vec<SwitchSetup>,
    options: &Options,
    ledger: &Ledger,
) -> Result<Vec<Arc<SwitchSession>>, Failure> {
    let outside = outside(lab)?;
    let mut sessions = Vec::with_capacity(setups.len());
    for (switch, setup) in setups.into_iter().enumerate() {
        let own = lab
            .ports
            .iter()
            .filter(|port| lab.plan.links[port.link].switch == switch);
        let ports = own
            .map(|attachment| switch_port(lab, &setup, attachment, outside.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        let options = Options {
            pcap: lab.options.pcap.get(switch).cloned().unwrap_or_default(),
            ..options.clone()
        };
        let session = SwitchSession::start(setup.loaded, setup.resolve, ports, &options, ledger.clone())?;
        sessions.push(Arc::new(session));
    }
    Ok(sessions)
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
fn open(lab: &Lab, setup: &SwitchSetup, attachment: &PortAttachment, host: usize) -> Result<Opened, Failure> {
    let link = &lab.plan.links[attachment.link];
    let ports = &setup.loaded.resolved.config.ports;
    let mtu = ports
        .iter()
        .find(|port| port.name == link.port)
        .map_or(link.mtu, |port| port.mtu);
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
        make_persistent_tap(&tap).map_err(failed)?;
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
    use crate::control::Target;
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
