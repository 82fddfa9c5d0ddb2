//! The model hosts of a lab in real time: from the plan to running NICs.

use crate::child::Lab;
use crate::config::SwitchSetup;
use crate::jobs::jobs;
use crate::plan::{HostPlan, LabPlan, LinkPlan};
use crate::play::jobs::{JobRun, Prepared};
use crate::signals;
use xoff_fabric::FabricPlan;
use xoff_host::Host;
use xoff_ports::{Backend, Port, PortSpec};
use xoff_runtime::hosts::{AttachedHost, HostThreadOptions, RunningHosts, spawn_hosts_with_application};
use xoff_runtime::workers::clock::ModelClock;
use xoff_runtime::workers::{TaintLedger, WorkerOptions};
use xoff_telemetry::failure::Failure;

/// Opens every host's device in its namespace and starts their thread.
pub(super) fn start(
    lab: &Lab,
    fabric: &FabricPlan,
    links: &[LinkState],
    options: &WorkerOptions,
    clock: ModelClock,
    core: Option<usize>,
    ledger: &TaintLedger,
) -> Result<Option<RunningHosts<JobRun>>, Failure> {
    if lab.plan.model_hosts() == 0 {
        return Ok(None);
    }
    let mut hosts = Vec::with_capacity(lab.plan.model_hosts());
    let mut places = vec![None; lab.plan.hosts.len()];
    for (index, plan) in lab
        .plan
        .hosts
        .iter()
        .enumerate()
        .filter(|(_, plan)| plan.is_model())
    {
        let Some((at, link)) = link_of(&lab.plan, index) else {
            continue;
        };
        let mtu = links[at].mtu;
        let host = Host::new(&fabric.hosts[index]).map_err(|error| {
            Failure::configuration(format!("host {}: {error}", plan.name)).at(&link.source)
        })?;
        places[index] = Some(hosts.len());
        hosts.push(AttachedHost {
            host,
            port: open(lab, index, plan, link, mtu)?,
        });
    }
    let mut prepared = Prepared {
        hosts: &mut hosts,
        places: &places,
    };
    let jobs = jobs(&lab.plan, fabric, lab.options.seed, &mut prepared)?;
    let ineffective = signals::check(&lab.plan, fabric, jobs.workload())?;
    for warning in &ineffective {
        eprintln!("warning: {warning}");
    }
    let options = HostThreadOptions {
        name: "xoff-hosts".to_owned(),
        clock,
        core,
        idle: options.idle,
        reaction_budget: options.reaction_budget,
        ledger: ledger.clone(),
    };
    let running = spawn_hosts_with_application(hosts, JobRun::new(jobs, places, ineffective), options)
        .map_err(|error| Failure::environment("the hosts cannot be started").because(error))?;
    Ok(Some(running))
}

/// What the configuration of its switch makes of a link.
#[derive(Clone, Copy)]
pub(super) struct LinkState {
    /// The longest that can come through: a receive ring with larger slots would only have fewer of them.
    mtu: u32,
}

/// Facts of every link of the plan, from the configurations of its switches.
pub(super) fn links(plan: &LabPlan, setups: &[SwitchSetup]) -> Vec<LinkState> {
    let facts = |link: &LinkPlan| {
        let setup = &setups[link.switch];
        let ports = &setup.loaded.resolved.config.ports;
        let port = ports.iter().find(|port| port.name == link.port);
        LinkState {
            mtu: port.map_or(link.mtu, |port| port.mtu.min(link.mtu)),
        }
    };
    plan.links.iter().map(facts).collect()
}

fn link_of(plan: &LabPlan, host: usize) -> Option<(usize, &LinkPlan)> {
    let link = plan.link_of_host(host)?;
    plan.links
        .iter()
        .position(|other| other == link)
        .map(|at| (at, link))
}

fn open(lab: &Lab, index: usize, plan: &HostPlan, link: &LinkPlan, mtu: u32) -> Result<Port, Failure> {
    let attachment = &lab.hosts[index];
    // The host's end is a netdev whatever the switch's end is.
    let spec = PortSpec {
        name: format!("{}:{}", plan.name, plan.interface),
        device: attachment.interface.clone(),
        backend: Backend::Packet,
        mtu,
    };
    let failed = |why: String| Failure::environment(why).at(&link.source);
    let opened = attachment
        .netns
        .run(|| Port::open(&spec))
        .map_err(|error| failed(error.to_string()))?;
    opened
        .map(|opened| opened.port)
        .map_err(|error| failed(error.to_string()))
}
