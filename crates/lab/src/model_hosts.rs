//! Configures the model hosts of a lab and builds flow reports from their results.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::bth::MASK_24;
use xoff_wire::dcbx::DcbxConfiguration;
use xoff_wire::lldp::{
    ChassisId, EtsConfiguration, EtsTables, PfcConfiguration, PortId, SelectionAlgorithm, SystemCapabilities,
    capability,
};
use xoff_wire::lldp_port::LldpPortSettings;
use xoff_wire::{Ecn, VlanTag};

use super::options::LabOptions;
use super::plan::{
    DcbxPlan, EtsPlan, FlowPlan, HostPlan, IpVersion, LabPlan, OfferedRate, SendPlan, WorkloadTarget,
};
use xoff_host::{
    FlowConfig, FlowOperation, FlowRate, Gateway, HostConfig, HostResults, NicConfig, ReceiveBuffer,
    flow_report,
};
use xoff_telemetry::FlowReport;

/// First queue pair number for `send` steps. Queue pairs of jobs have lower numbers.
const FIRST_SEND_QP: u32 = 0x80_0000;

/// The open-loop flows and `send` steps of each host. The map is built once for all hosts, because a lab can have
/// thousands of hosts and flows.
pub(super) struct FlowsOfHosts(HashMap<usize, Vec<FlowConfig>>);

impl FlowsOfHosts {
    pub(super) fn new(lab: &LabPlan) -> FlowsOfHosts {
        let started = lab.script.started_targets();
        let mut flows: HashMap<usize, Vec<FlowConfig>> = HashMap::new();
        for (id, flow) in lab.workload.flows.iter().enumerate() {
            flows.entry(flow.from).or_default().push(FlowConfig {
                waits: started.contains(&WorkloadTarget::Flow(id)),
                ..flow_config(lab, id, flow)
            });
        }
        for (id, send) in (lab.workload.flows.len()..).zip(lab.script.send_steps()) {
            let own_flows = flows.entry(send.flow.from).or_default();
            own_flows.push(send_config(lab, id, send));
        }
        FlowsOfHosts(flows)
    }

    /// Returns the flows of a host and removes them from the map.
    fn take_flows(&mut self, host: usize) -> Vec<FlowConfig> {
        self.0.remove(&host).unwrap_or_default()
    }
}

/// Returns the configuration of a model host. `index` is an index of [`LabPlan::hosts`].
///
/// `speed_mbps` is the link speed of the host. `port_has_pfc` tells whether the switch port of the host
/// uses PFC. `flows` contains the flows of the host.
pub(super) fn host_config(
    lab: &LabPlan,
    options: &LabOptions,
    index: usize,
    speed_mbps: u32,
    port_has_pfc: bool,
    flows: &mut FlowsOfHosts,
) -> HostConfig {
    let plan = &lab.hosts[index];
    let link = LinkTiming::ethernet(speed_mbps);
    let mut config = HostConfig::new(plan.name.clone(), plan.mac, link);
    config.ipv4 = Some(plan.ipv4);
    config.ipv6 = Some(plan.ipv6);
    config.gateways = plan
        .gateways
        .iter()
        .filter_map(|&address| gateway_config(plan, address))
        .collect();
    config.token = options.seed;
    config.dilate = options.dilate;
    if let Some(response_ns) = plan.nic.response_ns {
        config.nic.response_ns = response_ns;
    }
    if let Some(honoured) = plan.nic.pfc_honoured {
        config.nic.pfc_honoured = honoured;
    }
    // A link uses either PFC or 802.3x. If the lab file does not set `pfc`, the NIC follows the switch port.
    config.nic.pause_honoured = match plan.nic.pfc_honoured {
        Some(honoured) => honoured == 0,
        None => !port_has_pfc,
    };
    config.nic.receive_buffer = plan
        .nic
        .buffer_bytes
        .map(|buffer_bytes| receive_buffer(plan, buffer_bytes, &link));
    config.flows = flows.take_flows(index);
    config.nic.ets = plan.nic.ets.as_ref().map(ets_tables);
    if let Some(dcbx) = &plan.nic.dcbx {
        if dcbx.pfc_willing {
            config.nic.pfc_honoured = plan.nic.pfc_honoured.unwrap_or(0);
        }
        config.lldp = Some(lldp_settings(plan, dcbx, &config.nic));
    }
    config
}

/// Returns the LLDP settings of a host with DCBX. `nic` has its own configuration of PFC and ETS.
fn lldp_settings(plan: &HostPlan, dcbx: &DcbxPlan, nic: &NicConfig) -> LldpPortSettings {
    let tables = nic.ets.unwrap_or_else(equal_shares);
    let mut settings = LldpPortSettings::new(plan.mac, ChassisId::mac(plan.mac), PortId::mac(plan.mac));
    settings.information.system_name = Some(plan.name.clone());
    settings.information.port_description = Some("eth0".to_owned());
    settings.information.capabilities = Some(SystemCapabilities {
        supported: capability::STATION_ONLY,
        enabled: capability::STATION_ONLY,
    });
    settings.dcbx = Some(DcbxConfiguration {
        pfc: PfcConfiguration {
            is_willing: dcbx.pfc_willing,
            can_bypass_macsec: false,
            capability: dcbx.pfc_capability,
            enabled: nic.pfc_honoured,
        },
        ets: EtsConfiguration {
            is_willing: dcbx.ets_willing,
            supports_credit_based_shaper: false,
            capability: dcbx.ets_capability,
            tables,
        },
        ets_recommendation: dcbx.ets_recommendation.then_some(tables),
        ..DcbxConfiguration::default()
    });
    settings
}

/// Returns the ETS configuration of a NIC without the field `ets`: the priorities share the link equally.
fn equal_shares() -> EtsTables {
    EtsTables {
        algorithm: [SelectionAlgorithm::Ets; 8],
        bandwidth_percent: [13, 13, 13, 13, 12, 12, 12, 12],
        ..EtsTables::default()
    }
}

/// Returns the ETS configuration of the field `ets`.
fn ets_tables(plan: &EtsPlan) -> EtsTables {
    let algorithm = |share: Option<u8>| match share {
        Some(_) => SelectionAlgorithm::Ets,
        None => SelectionAlgorithm::StrictPriority,
    };
    EtsTables {
        traffic_class: plan.traffic_class,
        bandwidth_percent: plan.shares.map(|share| share.unwrap_or(0)),
        algorithm: plan.shares.map(algorithm),
    }
}

/// Returns the flow configuration of a `send` step. Each frame is a complete SEND message, so all frames are
/// equally long.
fn send_config(plan: &LabPlan, id: usize, send: &SendPlan) -> FlowConfig {
    let ipv6 = send.flow.ip == IpVersion::V6;
    let base = flow_config(plan, id, &send.flow);
    let path_mtu =
        FlowConfig::path_mtu_for(send.flow.frame_len, ipv6, send.tag.is_some()).unwrap_or(base.path_mtu);
    let own_qp = (FIRST_SEND_QP + 2 * id as u32) & MASK_24;
    FlowConfig {
        operation: FlowOperation::Send,
        ecn: Ecn::from_tos(send.ecn),
        vlan: send.tag.map(|(pcp, vid)| VlanTag::dot1q(pcp, vid)),
        src_qp: own_qp,
        dst_qp: send.dst_qp.unwrap_or(own_qp + 1),
        first_psn: send.first_psn.unwrap_or(0),
        message_bytes: u32::from(path_mtu),
        path_mtu,
        frames_max: Some(send.frames),
        waits: true,
        ..base
    }
}

/// Returns the gateway of a host with the network that the gateway belongs to.
fn gateway_config(plan: &HostPlan, address: IpAddr) -> Option<Gateway> {
    let network = match address {
        IpAddr::V4(_) => IpNet::new(plan.ipv4.into(), plan.ipv4_prefix),
        IpAddr::V6(_) => IpNet::new(plan.ipv6.into(), plan.ipv6_prefix),
    };
    let network = network.ok()?.trunc();
    Some(Gateway { network, address })
}

/// Returns the receive buffer of a host that receives more slowly than its link. Half of the buffer is
/// headroom for frames that arrive after XOFF.
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

/// Returns the configuration of an open-loop flow.
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
        // Frame lengths of a checked plan always have a path MTU.
        path_mtu: FlowConfig::path_mtu_for(flow.frame_len, ipv6, false).unwrap_or(base.path_mtu),
        rate: match flow.rate {
            OfferedRate::LinkShare(millionths) => FlowRate::LinkShare(millionths),
            OfferedRate::WireBitsPerSecond(bits) => FlowRate::WireBitsPerSecond(bits),
        },
        start: Picos::from_nanos(flow.start_ns),
        ..base
    }
}

/// Returns the MAC address of the gateway for frames from one host to another host. The lab knows this
/// address only if it has computed routes.
///
/// Returns `None` for hosts in the same network, for IPv6, and without computed routes.
pub(super) fn next_hop_mac(plan: &LabPlan, from: usize, to: usize, ip: IpVersion) -> Option<[u8; 6]> {
    let (host, peer) = (&plan.hosts[from], &plan.hosts[to]);
    let same_network = IpNet::new(host.ipv4.into(), host.ipv4_prefix)
        .is_ok_and(|net| net.contains(&IpAddr::from(peer.ipv4)));
    host.gateway_mac.filter(|_| ip == IpVersion::V4 && !same_network)
}

/// Returns a report for each open-loop flow, in the order of the plan. `send` steps have no report.
pub(super) fn flow_reports(plan: &LabPlan, results: &[&HostResults]) -> Vec<FlowReport> {
    let mut sent_flows = HashMap::new();
    let mut received_flows = HashMap::new();
    for host in results {
        let name = host.name.as_str();
        sent_flows.extend(host.sent.iter().map(|sent| ((name, sent.flow), sent)));
        received_flows.extend(
            host.received
                .iter()
                .map(|received| ((name, received.flow), received)),
        );
    }
    let report = |(id, flow): (usize, &FlowPlan)| {
        let id = id as u32;
        let sent = *sent_flows.get(&(plan.hosts[flow.from].name.as_str(), id))?;
        let received = received_flows
            .get(&(plan.hosts[flow.to].name.as_str(), id))
            .copied();
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
