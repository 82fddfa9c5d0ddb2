//! The model hosts of a lab: from the plan to their configuration, and from their counts to flow reports.

use std::net::IpAddr;

use ipnet::IpNet;
use xoff_dataplane::wire::Ecn;
use xoff_dataplane::{LinkTiming, Picos};

use super::options::LabOptions;
use super::plan::{FlowPlan, HostPlan, IpVersion, LabPlan, RatePlan};
use crate::host::{FlowConfig, Gateway, HostConfig, HostResults, Rate, ReceiveBuffer, flow_report};
use crate::report::FlowReport;

/// The configuration of the host with index `index` in the plan, on a link of `speed_mbps`.
pub(super) fn host_config(lab: &LabPlan, options: &LabOptions, index: usize, speed_mbps: u32) -> HostConfig {
    let plan = &lab.hosts[index];
    let link = LinkTiming::ethernet(speed_mbps);
    let mut config = HostConfig::new(plan.name.clone(), plan.mac, link);
    config.ipv4 = Some(plan.ipv4);
    config.ipv6 = Some(plan.ipv6);
    config.gateways = plan
        .gateways
        .iter()
        .filter_map(|&address| gateway(plan, address))
        .collect();
    config.token = options.seed;
    config.dilate = options.dilate;
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
        .workload
        .flows
        .iter()
        .enumerate()
        .filter(|(_, flow)| flow.from == index);
    config.flows = own.map(|(id, flow)| flow_config(lab, id, flow)).collect();
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
    let base = FlowConfig::lossless(id as u32, to, next_hop_mac(plan, flow.from, flow.to, flow.ip));
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

/// The link address of the way from one host to another, where the lab gave it: that of the gateway, between networks.
pub(super) fn next_hop_mac(plan: &LabPlan, from: usize, to: usize, ip: IpVersion) -> Option<[u8; 6]> {
    let (host, peer) = (&plan.hosts[from], &plan.hosts[to]);
    let near = IpNet::new(host.ipv4.into(), host.ipv4_prefix)
        .is_ok_and(|net| net.contains(&IpAddr::from(peer.ipv4)));
    host.gateway_mac.filter(|_| ip == IpVersion::V4 && !near)
}

/// A report per flow of the plan, in its order.
pub(super) fn flow_reports(plan: &LabPlan, results: &[&HostResults]) -> Vec<FlowReport> {
    let of = |host: usize| {
        results
            .iter()
            .find(|results| results.name == plan.hosts[host].name)
    };
    let report = |(id, flow): (usize, &FlowPlan)| {
        let id = id as u32;
        let sent = of(flow.from)?.sent.iter().find(|sent| sent.flow == id)?;
        let received = of(flow.to).and_then(|host| host.received.iter().find(|r| r.flow == id));
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
