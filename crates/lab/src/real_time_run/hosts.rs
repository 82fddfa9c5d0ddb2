//! Starts the model hosts of a lab in real time.

use crate::attached_lab::Lab;
use crate::jobs::create_jobs;
use crate::plan::{HostPlan, LinkPlan};
use crate::real_time_run::job_run::{HostsBeforeStart, JobRun};
use crate::signals;
use xoff_fabric::FabricPlan;
use xoff_host::Host;
use xoff_ports::{Backend, Port, PortSpec};
use xoff_runtime::hosts::{AttachedHost, HostThreadOptions, RunningHosts, spawn_hosts_with_application};
use xoff_runtime::port_failure;
use xoff_runtime::workers::clock::ModelClock;
use xoff_runtime::workers::{TaintLog, WorkerOptions};
use xoff_telemetry::failure::Failure;

/// Opens the device of each model host in the namespace of the host, and starts the thread of all model
/// hosts. Returns `None` if the lab has no model hosts.
pub(super) fn start_model_hosts(
    lab: &Lab,
    fabric: &FabricPlan,
    options: &WorkerOptions,
    clock: ModelClock,
    core: Option<usize>,
    ledger: &TaintLog,
) -> Result<Option<RunningHosts<JobRun>>, Failure> {
    if lab.plan.model_host_count() == 0 {
        return Ok(None);
    }
    let mut hosts = Vec::with_capacity(lab.plan.model_host_count());
    let mut positions = vec![None; lab.plan.hosts.len()];
    for (index, plan) in lab
        .plan
        .hosts
        .iter()
        .enumerate()
        .filter(|(_, plan)| plan.is_model())
    {
        let Some(link) = lab.plan.link_of_host(index) else {
            continue;
        };
        let host = Host::new(&fabric.hosts[index]).map_err(|error| {
            Failure::configuration(format!("host {}: {error}", plan.name)).at(&link.source)
        })?;
        positions[index] = Some(hosts.len());
        hosts.push(AttachedHost {
            host,
            port: open_port(lab, index, plan, link)?,
        });
    }
    let mut job_hosts = HostsBeforeStart {
        hosts: &mut hosts,
        positions: &positions,
    };
    let jobs = create_jobs(&lab.plan, fabric, lab.options.seed, &mut job_hosts)?;
    let signal_warnings = signals::check_congestion_signals(&lab.plan, fabric, jobs.workload())?;
    for warning in &signal_warnings {
        log::warn!("{warning}");
    }
    let options = HostThreadOptions {
        name: "xoff-hosts".to_owned(),
        clock,
        core,
        idle: options.idle,
        reaction_budget: options.reaction_budget,
        ledger: ledger.clone(),
    };
    let running = spawn_hosts_with_application(hosts, JobRun::new(jobs, positions, signal_warnings), options)
        .map_err(|error| Failure::environment("the hosts cannot be started").because(error))?;
    Ok(Some(running))
}

fn open_port(lab: &Lab, index: usize, plan: &HostPlan, link: &LinkPlan) -> Result<Port, Failure> {
    let attachment = &lab.hosts[index];
    // The host uses a network device. The port backend of the switch does not matter here.
    let spec = PortSpec {
        name: format!("{}:{}", plan.name, plan.interface),
        device: attachment.interface.clone(),
        backend: Backend::Packet,
        // The frame slots have room for this MTU. Larger slots would only make the receive ring shorter.
        mtu: link.host_mtu,
    };
    let failed = |why: String| Failure::environment(why).at(&link.source);
    let opened = attachment
        .netns
        .run(|| Port::open(&spec))
        .map_err(|error| failed(error.to_string()))?;
    opened
        .map(|opened| opened.port)
        .map_err(|error| port_failure(&error).at(&link.source))
}
