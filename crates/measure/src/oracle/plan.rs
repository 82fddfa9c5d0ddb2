//! Builds the fabric of a scenario, with the links, hosts, buffers and pauses of the ns-3 model.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};
use xoff_dataplane::config::{
    BridgingConfig, BufferProfile, BufferThreshold, ClassMaps, InterfaceAttachment, InterfaceConfig,
    PauseModel, PfcConfig, PoolConfig, PoolSide, PortConfig, QueueConfig, RoutingConfig, StaticNeighbour,
    SwitchConfig, TrustMode, WredProfile,
};
use xoff_dataplane::ids::{InterfaceId, PRIORITIES};
use xoff_dataplane::route::{Fib, FibError, NextHop, Route, RoutePath, RouteTag, RouteTarget};
use xoff_dataplane::{LinkTiming, Picos};

use xoff_fabric::{FabricPlan, LinkEnd, LinkPlan};
use xoff_host::{FixedLengths, HostConfig};
use xoff_lab::ns3::{FlowPaths, Link, Ns3ModelParameters, Scenario, SwitchBuffer, Topology, node_address};
use xoff_telemetry::failure::Failure;

/// Bytes that a data frame of the model adds to its payload: Ethernet 14, IPv4 20, UDP 8, sequence number 6.
pub(super) const MODEL_HEADER_BYTES: u32 = 48;
/// Bytes of an acknowledgement in the model.
pub(super) const MODEL_ACK_BYTES: u32 = 60;
/// Bytes of a PFC frame in the model: Ethernet 14, IPv4 20, pause 9.
const MODEL_PFC_BYTES: u32 = 43;
/// Bytes of a PFC frame on Ethernet, with FCS.
const ETHERNET_PFC_BYTES: u32 = 64;
/// Largest number of frame slots of one switch. A switch allocates all its slots when it starts.
const FRAME_SLOTS_MAX: u64 = 1 << 22;
/// MTU of ports and routed interfaces.
const MTU_BYTES: u32 = 9_216;

/// First destination address of data packets. Each flow has its own address and therefore its own route.
const FIRST_DATA_ADDRESS: u32 = 0x0a10_0000;
/// First destination address of acknowledgements.
const FIRST_ACK_ADDRESS: u32 = 0x0a20_0000;
/// First address of neighbours on links.
const FIRST_NEIGHBOUR_ADDRESS: u32 = 0x0a30_0000;

/// The rule for frame lengths and for the overhead of links in an oracle run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameLengths {
    /// The frame lengths of the ns-3 model. A frame has 48 bytes of headers, and no preamble, FCS or gap.
    /// Times are rounded down to nanoseconds.
    Model,
    /// The lengths of RoCEv2 frames on Ethernet, with preamble, FCS and gap.
    Ethernet,
}

impl FrameLengths {
    /// Returns the timing of a link.
    pub(super) fn timing(self, speed_mbps: u32) -> LinkTiming {
        match self {
            FrameLengths::Ethernet => LinkTiming::ethernet(speed_mbps),
            FrameLengths::Model => LinkTiming {
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
            FrameLengths::Model => MODEL_PFC_BYTES,
            FrameLengths::Ethernet => ETHERNET_PFC_BYTES,
        }
    }
}

/// A scenario as a plan of a fabric.
#[derive(Debug)]
pub(super) struct OraclePlan {
    pub(super) fabric: FabricPlan,
    /// Index of each node among the switches or among the hosts.
    pub(super) node_indices: Vec<NodeIndex>,
    /// Paths of data and acknowledgements of each flow.
    pub(super) paths: Vec<FlowPaths>,
}

/// The index of a node among the switches or among the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeIndex {
    Switch(u32),
    Host(u32),
}

/// Returns the destination addresses of a flow's data and of its acknowledgements.
pub(super) fn flow_addresses(flow: usize) -> [Ipv4Addr; 2] {
    [FIRST_DATA_ADDRESS, FIRST_ACK_ADDRESS].map(|base| Ipv4Addr::from_bits(base + flow as u32))
}

/// Returns the MAC address of an interface of a node. Interfaces are numbered from 1. Interface 0 stands for
/// the node itself.
pub(super) fn interface_mac(node: u32, interface: u32) -> [u8; 6] {
    let ([.., a, b], [.., c, d]) = (node.to_be_bytes(), interface.to_be_bytes());
    [0x02, 0x58, a, b, c, d]
}

/// Builds the plan of a scenario's fabric. `seed` is the seed of the switches' random decisions.
///
/// # Errors
/// No path connects the hosts of a flow, or the routes of a switch are not valid.
pub(super) fn plan_fabric(
    scenario: &Scenario,
    lengths: FrameLengths,
    seed: u64,
) -> Result<OraclePlan, Failure> {
    let topology = &scenario.topology;
    let paths = scenario.paths()?;
    let mut counts = [0, 0];
    let node_indices: Vec<NodeIndex> = topology
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
    let builder = FabricBuilder {
        scenario,
        lengths,
        seed,
        paths: &paths,
    };
    let switches: Result<Vec<SwitchConfig>, FibError> = topology
        .switches()
        .map(|node| builder.switch_config(node))
        .collect();
    let switches = switches.map_err(|error| {
        Failure::configuration("the flows do not form a valid routing table")
            .at(scenario.name.clone())
            .because(error)
    })?;
    let fabric = FabricPlan {
        switches: switches.into_iter().map(Arc::new).collect(),
        hosts: topology.hosts().map(|node| builder.host_config(node)).collect(),
        links: (0..topology.links.len())
            .map(|link| link_plan(topology, &node_indices, link))
            .collect(),
    };
    Ok(OraclePlan {
        fabric,
        node_indices,
        paths,
    })
}

fn link_plan(topology: &Topology, node_indices: &[NodeIndex], index: usize) -> LinkPlan {
    let link = &topology.links[index];
    let end = |node: u32| match node_indices[node as usize] {
        NodeIndex::Host(host) => LinkEnd::Host(host),
        NodeIndex::Switch(switch) => LinkEnd::Switch {
            switch,
            port: topology.interface_number(node, index).unwrap_or(1) as u16 - 1,
        },
    };
    LinkPlan {
        name: format!("{}--{}", link.ends[0], link.ends[1]),
        ends: link.ends.map(end),
        delay: Picos::from_nanos(link.delay_ns),
    }
}

struct FabricBuilder<'a> {
    scenario: &'a Scenario,
    lengths: FrameLengths,
    seed: u64,
    paths: &'a [FlowPaths],
}

impl FabricBuilder<'_> {
    fn topology(&self) -> &Topology {
        &self.scenario.topology
    }

    fn parameters(&self) -> &Ns3ModelParameters {
        &self.scenario.parameters
    }

    fn host_config(&self, node: u32) -> HostConfig {
        let link = self.topology().nodes[node as usize].links.first();
        // A host without a link sends nothing, so its speed is arbitrary.
        let speed_mbps = link.map_or(1_000, |link| self.topology().links[*link].speed_mbps);
        let mut config = HostConfig::new(
            format!("host {node}"),
            interface_mac(node, 1),
            self.lengths.timing(speed_mbps),
        );
        config.ipv4 = Some(Ipv4Addr::from_bits(node_address(node)));
        config.announce_interval = Picos::ZERO;
        config.nic.response_ns = 0;
        config.nic.pauses_until_resumed = true;
        config.round_robin = true;
        config.fixed_lengths = (self.lengths == FrameLengths::Model).then_some(FixedLengths {
            header_bytes: self.parameters().header_bytes(),
            ack_bytes: self.parameters().ack_bytes(),
        });
        config
    }

    fn switch_config(&self, node: u32) -> Result<SwitchConfig, FibError> {
        let links = &self.topology().nodes[node as usize].links;
        let ports: Vec<PortConfig> = links
            .iter()
            .enumerate()
            .map(|(port, link)| self.port_config(node, port as u16, &self.topology().links[*link]))
            .collect();
        let buffer = SwitchBuffer::new(self.scenario, node);
        let mut profiles: Vec<BufferProfile> = links
            .iter()
            .map(|link| ingress_buffer_profile(&buffer, &self.topology().links[*link]))
            .collect();
        let frames_max = self.frame_capacity(&profiles);
        profiles.push(egress_buffer_profile());
        let mut config = SwitchConfig::new(format!("switch {node}"), interface_mac(node, 0), ports);
        config.seed = self.seed ^ u64::from(node) << 32;
        config.cell_bytes = 1;
        config.fdb_ageing = Picos::NEVER;
        config.fdb_entries_max = 1;
        config.frames_max = frames_max;
        let buffer_bytes = u64::from(self.parameters().buffer_bytes);
        config.pools = vec![
            PoolConfig::new("buffer", PoolSide::Ingress, buffer_bytes),
            PoolConfig::new("queues", PoolSide::Egress, 0),
        ];
        config.profiles = profiles;
        config.bridging = BridgingConfig::Vlans(Vec::new());
        config.routing = self.routing_config(node)?;
        Ok(config)
    }

    /// Returns the number of frame slots of a switch. If the buffer limits the number of frames, there is one
    /// slot for each shortest frame that fits in the buffer. If the buffer has no limit (see `mmu::hpcc`),
    /// there is one slot for each packet and each acknowledgement of all flows.
    fn frame_capacity(&self, profiles: &[BufferProfile]) -> usize {
        let set_aside: u64 = profiles.iter().map(|p| p.size_bytes + p.xoff_bytes).sum();
        let buffer = u64::from(self.parameters().buffer_bytes);
        let by_buffer = match set_aside <= buffer {
            true => buffer / u64::from(MODEL_ACK_BYTES),
            false => u64::MAX,
        };
        let payload = u64::from(self.parameters().payload_bytes);
        let packets = |bytes: u64| bytes.div_ceil(payload).saturating_mul(2);
        let flows = self.scenario.flows.iter();
        let frames_of_flows = flows.fold(0_u64, |sum, flow| sum.saturating_add(packets(flow.bytes)));
        frames_of_flows.min(by_buffer).clamp(1_024, FRAME_SLOTS_MAX) as usize
    }

    fn port_config(&self, node: u32, port: u16, link: &Link) -> PortConfig {
        let interface = u32::from(port) + 1;
        let identity = std::array::from_fn(|n| n as u8);
        let class_of = std::array::from_fn(|n| (n % PRIORITIES) as u8);
        let egress_profile = self.topology().nodes[node as usize].links.len() as u16;
        let wred = self.wred_profile(link);
        let mac = interface_mac(node, interface);
        let timing = self.lengths.timing(link.speed_mbps);
        let mut config = PortConfig::new(format!("interface {interface}"), mac, timing);
        config.mtu = MTU_BYTES;
        config.classify = ClassMaps {
            trust: TrustMode::Dscp,
            dscp_to_tc: std::array::from_fn(|dscp| (dscp / PRIORITIES) as u8),
            dot1p_to_tc: identity,
            tc_to_queue: class_of,
            tc_to_pg: class_of,
        };
        config.pfc = PfcConfig {
            enabled: 0xfe,
            refresh: Picos::NEVER,
            pauses: PauseModel::UntilResumed {
                frame_bytes: self.lengths.pfc_bytes(),
            },
            ..PfcConfig::default()
        };
        config.pgs = [port; PRIORITIES];
        config.queues = std::array::from_fn(|n| QueueConfig {
            wred: wred.filter(|_| n > 0),
            ..QueueConfig::new(egress_profile)
        });
        config
    }

    fn wred_profile(&self, link: &Link) -> Option<WredProfile> {
        let marking = self.parameters().marking(link.rate_bps())?;
        self.parameters().ecn.then_some(WredProfile {
            min_bytes: marking.min_bytes,
            max_bytes: marking.max_bytes,
            max_probability: (marking.max_probability * 4_294_967_296.0) as u64,
            ecn: true,
            drop: false,
        })
    }

    /// Returns the routing of a switch. Each port has an interface and a neighbour entry for its peer. Each
    /// flow through the switch has one route for data and one for acknowledgements.
    fn routing_config(&self, node: u32) -> Result<RoutingConfig, FibError> {
        let topology = self.topology();
        let links = &topology.nodes[node as usize].links;
        let interfaces = (0..links.len()).map(|port| InterfaceConfig {
            name: format!("interface {}", port + 1),
            attachment: InterfaceAttachment::Port(port as u16),
            mac: interface_mac(node, port as u32 + 1),
            mtu: MTU_BYTES,
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
                    mac: interface_mac(peer, topology.interface_number(peer, *link).unwrap_or(1)),
                }
            })
            .collect();
        let mut routes = Vec::new();
        for (flow, paths) in self.paths.iter().enumerate() {
            for (steps, address) in [&paths.data, &paths.acks].into_iter().zip(flow_addresses(flow)) {
                let link = steps.iter().find(|step| step.node == node).map(|step| step.link);
                let port = link.and_then(|link| links.iter().position(|own| *own == link));
                routes.extend(port.map(|port| flow_route(address, port)));
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
    Ipv4Addr::from_bits(FIRST_NEIGHBOUR_ADDRESS + port as u32).into()
}

fn flow_route(address: Ipv4Addr, port: usize) -> Route {
    Route {
        prefix: IpNet::V4(Ipv4Net::from(address)),
        target: RouteTarget::Via(
            [RoutePath {
                next_hop: NextHop {
                    interface: InterfaceId(port as u16),
                    address: neighbour_address(port),
                },
                weight: 1,
            }]
            .into(),
        ),
        tag: RouteTag::default(),
    }
}

/// Returns the buffer profile of egress queues. The profile has no limit: the ns-3 model drops frames at
/// ingress but never at egress.
fn egress_buffer_profile() -> BufferProfile {
    BufferProfile::new("queues", 1, BufferThreshold::Static(0))
}

/// Returns the buffer profile of a port: reserved space, headroom and limit.
fn ingress_buffer_profile(buffer: &SwitchBuffer, link: &Link) -> BufferProfile {
    let port = buffer.port_profile(link.speed_mbps, link.delay_ns);
    let name = format!("{} Mb/s, {} ns", link.speed_mbps, link.delay_ns);
    BufferProfile {
        size_bytes: port.reserve_bytes,
        xoff_bytes: port.headroom_bytes,
        xon_offset_bytes: port.resume_offset_bytes,
        ..BufferProfile::new(name, 0, BufferThreshold::Hpcc { shift: port.shift })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_times_equal_those_of_the_model() {
        let timing = FrameLengths::Model.timing(100_000);
        let data = timing.duration(timing.wire_len(timing.mac_len(1_048)));
        assert_eq!(data, Picos::from_nanos(83), "83.84 ns, rounded down");
        assert_eq!(timing.gap_duration(), Picos::ZERO);
    }
}
