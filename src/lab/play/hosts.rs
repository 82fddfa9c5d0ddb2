//! The model hosts of a lab: from the plan to running NICs, and from their counts to flow reports.

use std::net::IpAddr;

use ipnet::IpNet;
use xoff_dataplane::wire::Ecn;
use xoff_dataplane::{LinkTiming, Picos};

use crate::driver::clock::ModelClock;
use crate::driver::{Ledger, Options};
use crate::failure::Failure;
use crate::host::runtime::{AttachedHost, HostOutcome, RunningHosts, RuntimeOptions, spawn};
use crate::host::{FlowConfig, Gateway, Host, HostConfig, Rate, ReceiveBuffer, flow_report};
use crate::lab::child::Lab;
use crate::lab::config::SwitchSetup;
use crate::lab::plan::{FlowPlan, HostPlan, IpVersion, LabPlan, LinkPlan, RatePlan};
use crate::ports::{Backend, Port, PortSpec};
use crate::report::FlowReport;

/// Opens every host's device in its namespace and starts their thread.
pub(super) fn start(
    lab: &Lab,
    links: &[LinkFacts],
    options: &Options,
    clock: ModelClock,
    core: Option<usize>,
    ledger: &Ledger,
) -> Result<Option<RunningHosts>, Failure> {
    if lab.plan.model_hosts() == 0 {
        return Ok(None);
    }
    let mut hosts = Vec::with_capacity(lab.plan.model_hosts());
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
        let LinkFacts { speed_mbps, mtu } = links[at];
        let config = host_config(lab, index, speed_mbps);
        let host = Host::new(&config).map_err(|error| {
            Failure::configuration(format!("host {}: {error}", plan.name)).at(&link.source)
        })?;
        hosts.push(AttachedHost {
            host,
            port: open(lab, index, plan, link, mtu)?,
        });
    }
    let options = RuntimeOptions {
        name: "xoff-hosts".to_owned(),
        clock,
        core,
        idle: options.idle,
        reaction_budget: options.reaction_budget,
        ledger: ledger.clone(),
    };
    let running = spawn(hosts, options)
        .map_err(|error| Failure::environment("the hosts cannot be started").because(error))?;
    Ok(Some(running))
}

/// What the configuration of its switch makes of a link.
#[derive(Clone, Copy)]
pub(super) struct LinkFacts {
    speed_mbps: u32,
    /// The longest that can come through: a receive ring with larger slots would only have fewer of them.
    mtu: u32,
}

/// Facts of every link of the plan, from the configurations of its switches.
pub(super) fn links(plan: &LabPlan, setups: &[SwitchSetup]) -> Vec<LinkFacts> {
    let facts = |(at, link): (usize, &LinkPlan)| {
        let setup = &setups[link.switch];
        let ports = &setup.loaded.resolved.config.ports;
        let port = ports.iter().find(|port| port.name == link.port);
        LinkFacts {
            speed_mbps: setup.speeds_mbps[at],
            mtu: port.map_or(link.mtu, |port| port.mtu.min(link.mtu)),
        }
    };
    plan.links.iter().enumerate().map(facts).collect()
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

fn host_config(lab: &Lab, index: usize, speed_mbps: u32) -> HostConfig {
    let plan = &lab.plan.hosts[index];
    let link = LinkTiming::ethernet(speed_mbps);
    let mut config = HostConfig::new(plan.name.clone(), plan.mac, link);
    config.ipv4 = Some(plan.ipv4);
    config.ipv6 = Some(plan.ipv6);
    config.gateways = plan
        .gateways
        .iter()
        .filter_map(|&address| gateway(plan, address))
        .collect();
    config.token = lab.options.seed;
    config.dilate = lab.options.dilate;
    if let Some(response_ns) = plan.nic.response_ns {
        config.nic.response_ns = response_ns;
    }
    if let Some(honoured) = plan.nic.pfc_honoured {
        config.nic.pfc_honoured = honoured;
    }
    config.nic.receive_buffer = plan
        .nic
        .buffer_bytes
        .map(|buffer_bytes| receive_buffer(plan, buffer_bytes, &link));
    let own = lab
        .plan
        .workload
        .flows
        .iter()
        .enumerate()
        .filter(|(_, flow)| flow.from == index);
    config.flows = own.map(|(id, flow)| flow_config(&lab.plan, id, flow)).collect();
    config
}

fn gateway(plan: &HostPlan, address: IpAddr) -> Option<Gateway> {
    let network = match address {
        IpAddr::V4(_) => IpNet::new(plan.ipv4.into(), plan.ipv4_prefix),
        IpAddr::V6(_) => IpNet::new(plan.ipv6.into(), plan.ipv6_prefix),
    };
    let network = network.ok()?.trunc();
    Some(Gateway { network, address })
}

/// Half of the buffer is the room for what arrives after XOFF.
fn receive_buffer(plan: &HostPlan, buffer_bytes: u32, link: &LinkTiming) -> ReceiveBuffer {
    let mut dscp_to_class = [0; 64];
    dscp_to_class
        .iter_mut()
        .enumerate()
        .for_each(|(dscp, class)| *class = (dscp / 8) as u8);
    ReceiveBuffer {
        buffer_bytes,
        drain_bps: plan
            .nic
            .drain_bps
            .unwrap_or(u64::from(link.speed_mbps) * 1_000_000),
        xoff_bytes: buffer_bytes / 2,
        xon_bytes: buffer_bytes / 4,
        pfc_enabled: 0xff,
        pause_quanta: u16::MAX,
        dscp_to_class,
    }
}

fn flow_config(plan: &LabPlan, id: usize, flow: &FlowPlan) -> FlowConfig {
    let to = plan.hosts[flow.to].address(flow.ip);
    let ipv6 = flow.ip == IpVersion::V6;
    let base = FlowConfig::lossless(id as u32, to, None);
    FlowConfig {
        class: flow.class,
        dscp: flow.dscp,
        ecn: if flow.ecn_capable { Ecn::Ect0 } else { Ecn::NotEct },
        message_bytes: flow.message_bytes,
        ttl: flow.ttl,
        // The plan was checked: every frame length in it has a path MTU.
        path_mtu: FlowConfig::path_mtu_for(flow.frame_len, ipv6, false).unwrap_or(base.path_mtu),
        rate: match flow.rate {
            RatePlan::LinkShare(millionths) => Rate::LinkShare(millionths),
            RatePlan::WireBitsPerSecond(bits) => Rate::WireBitsPerSecond(bits),
        },
        start: Picos::from_nanos(flow.start_ns),
        ..base
    }
}

/// A report per flow of the plan, in its order.
pub(super) fn flow_reports(plan: &LabPlan, outcomes: &[HostOutcome]) -> Vec<FlowReport> {
    let outcome = |host: usize| outcomes.iter().find(|o| o.results.name == plan.hosts[host].name);
    let report = |(id, flow): (usize, &FlowPlan)| {
        let id = id as u32;
        let sent = outcome(flow.from)?
            .results
            .sent
            .iter()
            .find(|sent| sent.flow == id)?;
        let received = outcome(flow.to).and_then(|o| o.results.received.iter().find(|r| r.flow == id));
        let (src, dst) = (&plan.hosts[flow.from].name, &plan.hosts[flow.to].name);
        Some(flow_report(src, dst, flow.lossless, sent, received))
    };
    plan.workload
        .flows
        .iter()
        .enumerate()
        .filter_map(report)
        .collect()
}
