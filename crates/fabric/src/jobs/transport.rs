//! Transport options of jobs, and the queue pairs that they describe.

use xoff_dataplane::{LinkTiming, Picos};
use xoff_host::{Entropy, QueuePairSetup};
use xoff_rdma::congestion::{ControllerContext, ControllerFactory};
use xoff_rdma::{MTU_MAX, MTU_MIN, QpConfig, Transport as Service, Verb, message_bytes_max};
use xoff_wire::Ecn;
use xoff_workload::{Connection, MessageSpread};

use super::HostDirectory;
use crate::packet_lengths::PacketLengths;
use crate::path::FabricPath;

/// Transport options of the connections of a job. Each connection has one or more queue pairs.
#[derive(Clone, Debug)]
pub struct JobTransport {
    /// Configuration of the queue pairs. [`Jobs::new`](super::Jobs::new) replaces `number` and `peer` for each
    /// queue pair.
    pub qp: QpConfig,
    /// Factory that creates one congestion controller for each queue pair.
    pub congestion: ControllerFactory,
    /// DSCP values, 0 to 63: first for data packets, then for acknowledgements, then for CNPs.
    pub dscp: [u8; 3],
    /// UDP source port of all queue pairs. `None`: the port of a queue pair is computed from the numbers of
    /// both queue pairs.
    pub source_port: Option<u16>,
    /// Entropy: the UDP source port changes with each packet. `None`: all packets of a queue pair have one
    /// source port.
    pub entropy: Option<Entropy>,
    /// ECN field of data packets. Switches mark packets only if the field is not [`Ecn::NotEct`].
    pub ecn: Ecn,
}

impl JobTransport {
    /// Returns the lengths of the packets on links. Data packets and acknowledgements include the telemetry
    /// that the congestion control needs.
    pub fn packet_lengths(&self) -> PacketLengths {
        PacketLengths::new(self.congestion.telemetry_format())
    }
}

/// Transport options that determine the shortest time of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReferenceTransport {
    pub(super) mtu: u32,
    pub(super) service: Service,
    pub(super) lengths: PacketLengths,
    pub(super) entropy: bool,
}

impl ReferenceTransport {
    pub(super) fn new(transport: &JobTransport) -> ReferenceTransport {
        ReferenceTransport {
            mtu: transport.qp.mtu.clamp(MTU_MIN, MTU_MAX),
            service: transport.qp.transport,
            lengths: transport.packet_lengths(),
            entropy: transport.entropy.is_some_and(|entropy| entropy.values > 1),
        }
    }
}

/// Returns the number of queue pairs that carry parts of a message of `bytes` bytes.
pub(super) fn used_queue_pairs(connection: &Connection, bytes: u64) -> u64 {
    match connection.spread {
        MessageSpread::Split if bytes >= u64::from(connection.qps) => u64::from(connection.qps),
        MessageSpread::Split | MessageSpread::RoundRobin => 1,
    }
}

/// Returns the largest length of a work request, in bytes. A longer part of a message is transferred by several work
/// requests. A datagram cannot be divided, so a message that is too long for UD is one work request, which fails.
pub(super) fn request_bytes_max(transport: &ReferenceTransport, verb: Verb) -> u64 {
    let mtu = u64::from(transport.mtu);
    match message_bytes_max(transport.service, verb, transport.mtu) {
        // Only the last packet of a message can be shorter than the MTU.
        Some(bytes_max) if transport.service != Service::Ud => bytes_max / mtu * mtu,
        _ => u64::MAX,
    }
}

pub(super) fn queue_pair_setup(
    link: &LinkTiming,
    (transport, lengths): (&JobTransport, PacketLengths),
    directory: &dyn HostDirectory,
    path: Option<FabricPath>,
    (at, to): (u32, u32),
    (number, peer): (u32, u32),
    seed: u64,
) -> QueuePairSetup {
    let context = ControllerContext {
        line_rate_bps: u64::from(link.speed_mbps) * 1_000_000,
        base_rtt: path.map_or(Picos::from_micros(10), |path| {
            path.round_trip(transport.qp.mtu, lengths)
        }),
        packet_bytes: transport.qp.mtu + transport.qp.header_bytes,
        seed: seed ^ u64::from(number) << 32,
    };
    let config = QpConfig {
        number,
        peer,
        ..transport.qp.clone()
    };
    let congestion = transport.congestion.make(&context);
    QueuePairSetup {
        dst_mac: directory.next_hop_mac(at as usize, to as usize),
        dscp: transport.dscp[0],
        ack_dscp: transport.dscp[1],
        cnp_dscp: transport.dscp[2],
        ecn: transport.ecn,
        udp_source_port: transport.source_port,
        entropy: transport.entropy,
        ..QueuePairSetup::new(config, congestion, directory.address(to as usize))
    }
}
