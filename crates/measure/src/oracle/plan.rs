//! The fabric of a scenario: the model's links, hosts, buffers and pauses.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};
use xoff_dataplane::config::{
    BalancingConfig, BridgingConfig, BufferProfile, BufferThreshold, ClassMaps, GlobalPause,
    InterfaceAttachment, InterfaceConfig, MarkPoint, PauseModel, PfcConfig, PoolConfig, PoolSide, PortConfig,
    QueueConfig, RoutingConfig, SchedulingMode, StaticNeighbour, SwitchConfig, TrustMode, WatchdogConfig,
    WredProfile,
};
use xoff_dataplane::ids::{InterfaceId, PRIORITIES, TRAFFIC_CLASSES};
use xoff_dataplane::route::{Fib, FibError, NextHop, Route, RoutePath, RouteTag, RouteTarget};
use xoff_dataplane::{LinkTiming, Picos};

use xoff_fabric::{FabricPlan, LinkEnd, LinkPlan};
use xoff_host::{FixedLengths, HostConfig};
use xoff_lab::ns3::{FlowPaths, Link, Parameters, Scenario, SwitchBuffer, Topology, node_address};
use xoff_telemetry::failure::Failure;

/// Bytes of a data frame beside its payload, in the model: Ethernet 14, IPv4 20, UDP 8, sequence 6.
pub(super) const HEADER_BYTES: u32 = 48;
/// Bytes of an acknowledgement in the model.
pub(super) const ACK_BYTES: u32 = 60;
/// Bytes of a PFC frame in the model: Ethernet 14, IPv4 20, pause 9.
const PFC_BYTES: u32 = 43;
/// Bytes of a PFC frame on Ethernet, FCS included.
const PFC_ETHERNET_BYTES: u32 = 64;
/// Most frames in one switch: a table of so many entries is allocated.
const FRAMES_MAX: u64 = 1 << 22;
/// Largest packet, as far as routers are asked.
const MTU: u32 = 9_216;

/// Addresses that data and acknowledgements of each flow go to, so that each flow has a route of its own.
const DATA_ADDRESSES: u32 = 0x0a10_0000;
const ACK_ADDRESSES: u32 = 0x0a20_0000;
/// Addresses of neighbours on links.
const LINK_ADDRESSES: u32 = 0x0a30_0000;

/// Which lengths frames have and what links add to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// The model's: 48 bytes of headers, no preamble, FCS or gap, times cut off to nanoseconds.
    Model,
    /// Those of RoCEv2 over Ethernet.
    Ethernet,
}

impl Lengths {
    /// Timing of a link.
    pub(super) fn timing(self, speed_mbps: u32) -> LinkTiming {
        match self {
            Lengths::Ethernet => LinkTiming::ethernet(speed_mbps),
            Lengths::Model => LinkTiming {
                speed_mbps,
                overhead_bytes: 0,
                gap_bytes: 0,
                fcs_bytes: 0,
                min_frame_bytes: 1,
                rounding_ps: 1_000,
                as_ns3: true,
            },
        }
    }

    fn pfc_bytes(self) -> u32 {
        match self {
            Lengths::Model => PFC_BYTES,
            Lengths::Ethernet => PFC_ETHERNET_BYTES,
        }
    }
}

/// A scenario as a fabric.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) fabric: FabricPlan,
    /// Where each node is.
    pub(super) ends: Vec<NodeIndex>,
    /// The paths of each flow.
    pub(super) paths: Vec<FlowPaths>,
}

/// What became of a node: its index among switches or hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeIndex {
    Switch(u32),
    Host(u32),
}

/// The address that the data of a flow go to, and that of its acknowledgements.
pub(super) fn flow_addresses(flow: usize) -> [Ipv4Addr; 2] {
    [DATA_ADDRESSES, ACK_ADDRESSES].map(|base| Ipv4Addr::from_bits(base + flow as u32))
}

/// The hardware address of a node's interface (from 1).
pub(super) fn mac(node: u32, interface: u32) -> [u8; 6] {
    let ([.., a, b], [.., c, d]) = (node.to_be_bytes(), interface.to_be_bytes());
    [0x02, 0x58, a, b, c, d]
}

/// Puts the fabric together.
///
/// # Errors
/// A flow whose hosts nothing connects.
pub(super) fn plan(scenario: &Scenario, lengths: Lengths, seed: u64) -> Result<Plan, Failure> {
    let topology = &scenario.topology;
    let paths = scenario.paths()?;
    let mut counts = [0, 0];
    let ends: Vec<NodeIndex> = topology
        .nodes
        .iter()
        .map(|node| {
            let count = &mut counts[usize::from(node.is_switch)];
            *count += 1;
            match node.is_switch {
                true => NodeIndex::Switch(*count - 1),
                false => NodeIndex::Host(*count - 1),
            }
        })
        .collect();
    let builder = Builder {
        scenario,
        lengths,
        seed,
        paths: &paths,
    };
    let switches: Result<Vec<SwitchConfig>, FibError> =
        topology.switches().map(|node| builder.switch(node)).collect();
    let switches = switches.map_err(|error| {
        Failure::configuration("the flows make no table of routes")
            .at(scenario.name.clone())
            .because(error)
    })?;
    let fabric = FabricPlan {
        switches,
        hosts: topology.hosts().map(|node| builder.host(node)).collect(),
        links: (0..topology.links.len())
            .map(|link| link_plan(topology, &ends, link))
            .collect(),
    };
    Ok(Plan { fabric, ends, paths })
}

fn link_plan(topology: &Topology, ends: &[NodeIndex], index: usize) -> LinkPlan {
    let link = &topology.links[index];
    let end = |node: u32| match ends[node as usize] {
        NodeIndex::Host(host) => LinkEnd::Host(host),
        NodeIndex::Switch(switch) => LinkEnd::Switch {
            switch,
            port: topology.interface(node, index).unwrap_or(1) as u16 - 1,
        },
    };
    LinkPlan {
        name: format!("{}--{}", link.ends[0], link.ends[1]),
        ends: link.ends.map(end),
        delay: Picos::from_nanos(link.delay_ns),
    }
}

struct Builder<'a> {
    scenario: &'a Scenario,
    lengths: Lengths,
    seed: u64,
    paths: &'a [FlowPaths],
}

impl Builder<'_> {
    fn topology(&self) -> &Topology {
        &self.scenario.topology
    }

    fn parameters(&self) -> &Parameters {
        &self.scenario.parameters
    }

    fn host(&self, node: u32) -> HostConfig {
        let link = self.topology().nodes[node as usize].links.first();
        // A host without a link sends nothing.
        let speed_mbps = link.map_or(1_000, |link| self.topology().links[*link].speed_mbps);
        let mut config = HostConfig::new(
            format!("host {node}"),
            mac(node, 1),
            self.lengths.timing(speed_mbps),
        );
        config.ipv4 = Some(Ipv4Addr::from_bits(node_address(node)));
        config.announce_interval = Picos::ZERO;
        config.nic.response_ns = 0;
        config.nic.pauses_until_resumed = true;
        config.round_robin = true;
        config.fixed_lengths = (self.lengths == Lengths::Model).then_some(FixedLengths {
            header_bytes: self.parameters().header_bytes(),
            ack_bytes: self.parameters().ack_bytes(),
        });
        config
    }

    fn switch(&self, node: u32) -> Result<SwitchConfig, FibError> {
        let links = &self.topology().nodes[node as usize].links;
        let ports: Vec<PortConfig> = links
            .iter()
            .enumerate()
            .map(|(port, link)| self.port(node, port as u16, &self.topology().links[*link]))
            .collect();
        let buffer = SwitchBuffer::new(self.scenario, node);
        let mut profiles: Vec<BufferProfile> = links
            .iter()
            .map(|link| ingress_profile(&buffer, &self.topology().links[*link]))
            .collect();
        let frames_max = self.frames_max(&profiles);
        profiles.push(egress_profile());
        Ok(SwitchConfig {
            name: format!("switch {node}"),
            mac: mac(node, 0),
            seed: self.seed ^ u64::from(node) << 32,
            cell_bytes: 1,
            pipeline_latency: Picos::ZERO,
            mark_point: MarkPoint::Dequeue,
            fdb_ageing: Picos::NEVER,
            fdb_entries_max: 1,
            frames_max,
            ports,
            pools: vec![
                pool(
                    "buffer",
                    PoolSide::Ingress,
                    u64::from(self.parameters().buffer_bytes),
                ),
                pool("queues", PoolSide::Egress, 0),
            ],
            profiles,
            port_profiles: Vec::new(),
            lags: Vec::new(),
            bridging: BridgingConfig::Vlans(Vec::new()),
            routing: self.routing(node)?,
            balancing: BalancingConfig::default(),
            watchdog: WatchdogConfig::default(),
            trimming: None,
        })
    }

    /// What the buffer holds of the shortest frames; or, where it limits nothing (see `mmu::hpcc`), all packets of all flows and
    /// their acknowledgements.
    fn frames_max(&self, profiles: &[BufferProfile]) -> usize {
        let set_aside: u64 = profiles.iter().map(|p| p.size_bytes + p.xoff_bytes).sum();
        let buffer = u64::from(self.parameters().buffer_bytes);
        let by_buffer = match set_aside <= buffer {
            true => buffer / u64::from(ACK_BYTES),
            false => u64::MAX,
        };
        let payload = u64::from(self.parameters().payload_bytes);
        let packets = |bytes: u64| bytes.div_ceil(payload).saturating_mul(2);
        let flows = self.scenario.flows.iter();
        let all = flows.fold(0_u64, |sum, flow| sum.saturating_add(packets(flow.bytes)));
        all.min(by_buffer).clamp(1_024, FRAMES_MAX) as usize
    }

    fn port(&self, node: u32, port: u16, link: &Link) -> PortConfig {
        let interface = u32::from(port) + 1;
        let identity = std::array::from_fn(|n| n as u8);
        let class_of = std::array::from_fn(|n| (n % PRIORITIES) as u8);
        let egress_profile = self.topology().nodes[node as usize].links.len() as u16;
        let wred = self.wred(link);
        let queue = |n: usize| QueueConfig {
            profile: egress_profile,
            schedule: SchedulingMode::Dwrr { weight: 1 },
            shaper: None,
            wred: wred.filter(|_| n > 0),
        };
        PortConfig {
            name: format!("interface {interface}"),
            mac: mac(node, interface),
            admin_up: true,
            mtu: MTU,
            link: self.lengths.timing(link.speed_mbps),
            tpid: 0x8100,
            classify: ClassMaps {
                trust: TrustMode::Dscp,
                dscp_to_tc: std::array::from_fn(|dscp| (dscp / PRIORITIES) as u8),
                dot1p_to_tc: identity,
                tc_to_queue: class_of,
                tc_to_pg: class_of,
            },
            pfc: PfcConfig {
                enabled: 0xfe,
                asymmetric: false,
                pause_quanta: u16::MAX,
                refresh: Picos::NEVER,
                priority_to_queue: identity,
                priority_to_pg: identity,
                pauses: PauseModel::UntilResumed {
                    frame_bytes: self.lengths.pfc_bytes(),
                },
                response_quanta: 0,
                global: GlobalPause::default(),
            },
            watchdog: None,
            tc_to_dscp: [None; TRAFFIC_CLASSES],
            pgs: [port; PRIORITIES],
            queues: std::array::from_fn(queue),
            shaper: None,
        }
    }

    fn wred(&self, link: &Link) -> Option<WredProfile> {
        let marking = self.parameters().marking(link.rate_bps())?;
        self.parameters().ecn.then_some(WredProfile {
            min_bytes: marking.min_bytes,
            max_bytes: marking.max_bytes,
            max_probability: (marking.max_probability * 4_294_967_296.0) as u64,
            ecn: true,
            drop: false,
        })
    }

    /// An interface per port, its peer as a neighbour, and a route for each direction of each flow that comes by.
    fn routing(&self, node: u32) -> Result<RoutingConfig, FibError> {
        let topology = self.topology();
        let links = &topology.nodes[node as usize].links;
        let interfaces = (0..links.len()).map(|port| InterfaceConfig {
            name: format!("interface {}", port + 1),
            attachment: InterfaceAttachment::Port(port as u16),
            mac: mac(node, port as u32 + 1),
            mtu: MTU,
            addresses: Vec::new(),
        });
        let neighbours: Vec<StaticNeighbour> = links
            .iter()
            .enumerate()
            .map(|(port, link)| {
                let peer = topology.links[*link].peer_of(node);
                StaticNeighbour {
                    interface: InterfaceId(port as u16),
                    address: neighbour_address(port),
                    mac: mac(peer, topology.interface(peer, *link).unwrap_or(1)),
                }
            })
            .collect();
        let mut routes = Vec::new();
        for (flow, paths) in self.paths.iter().enumerate() {
            for (steps, address) in [&paths.data, &paths.acks].into_iter().zip(flow_addresses(flow)) {
                let link = steps.iter().find(|step| step.node == node).map(|step| step.link);
                let port = link.and_then(|link| links.iter().position(|own| *own == link));
                routes.extend(port.map(|port| route(address, port)));
            }
        }
        Ok(RoutingConfig {
            interfaces: interfaces.collect(),
            fib: Arc::new(Fib::build(routes)?),
            neighbours_max: neighbours.len().max(1),
            neighbours,
            ..RoutingConfig::default()
        })
    }
}

fn neighbour_address(port: usize) -> IpAddr {
    Ipv4Addr::from_bits(LINK_ADDRESSES + port as u32).into()
}

fn route(address: Ipv4Addr, port: usize) -> Route {
    Route {
        prefix: IpNet::V4(Ipv4Net::from(address)),
        target: RouteTarget::Via(vec![RoutePath {
            next_hop: NextHop {
                interface: InterfaceId(port as u16),
                address: neighbour_address(port),
            },
            weight: 1,
        }]),
        tag: RouteTag::default(),
    }
}

fn pool(name: &str, side: PoolSide, size_bytes: u64) -> PoolConfig {
    PoolConfig {
        name: name.into(),
        side,
        size_bytes,
        xoff_bytes: 0,
    }
}

/// Queues have no limit: the model drops at ingress alone.
fn egress_profile() -> BufferProfile {
    BufferProfile {
        name: "queues".into(),
        pool: 1,
        size_bytes: 0,
        threshold: BufferThreshold::Static(0),
        xoff_bytes: 0,
        xon_bytes: 0,
        xon_offset_bytes: 0,
        trim: false,
    }
}

/// Reserve, headroom and limit of a port.
fn ingress_profile(buffer: &SwitchBuffer, link: &Link) -> BufferProfile {
    let port = buffer.port_profile(link.speed_mbps, link.delay_ns);
    BufferProfile {
        name: format!("{} Mb/s, {} ns", link.speed_mbps, link.delay_ns),
        pool: 0,
        size_bytes: port.reserve_bytes,
        threshold: BufferThreshold::Hpcc { shift: port.shift },
        xoff_bytes: port.headroom_bytes,
        xon_bytes: 0,
        xon_offset_bytes: port.resume_offset_bytes,
        trim: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_takes_what_the_model_says() {
        let timing = Lengths::Model.timing(100_000);
        let data = timing.duration(timing.wire_len(timing.mac_len(1_048)));
        assert_eq!(data, Picos::from_nanos(83), "83.84 ns, cut off");
        assert_eq!(timing.gap_duration(), Picos::ZERO);
    }
}
