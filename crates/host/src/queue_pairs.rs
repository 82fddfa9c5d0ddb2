//! The queue pairs of a host: between the transport's packets and frames.

use std::net::IpAddr;

use xoff_units::Picos;
use xoff_wire::parse::{ParsedHeaders, parse_prefix};
use xoff_wire::{
    Addresses, Aeth, Bth, BthFields, Cnp, Deth, Ecn, Extension, ExtensionKind, FlowHeaders, Opcode, Reth,
    RocePacket, UDP_LEN, bth, cnp, icrc,
};

use super::config::{FixedLengths, HostConfig};
use super::entropy::{Entropy, SourcePorts};
use super::nic::Earliest;
use super::requester::PATTERN;
use super::trimmed::datagram;
use xoff_rdma::congestion::CongestionControl;
use xoff_rdma::{
    Arrival, Completion, Counters, Endpoint, Header, Packet, PostError, QpConfig, QpIndex, Telemetry,
    TelemetryFormat, WorkRequest,
};

/// A queue pair, and the way to its peer.
#[derive(Debug)]
pub struct QueuePairSetup {
    /// The transport.
    pub config: QpConfig,
    /// Its congestion control.
    pub congestion: Box<dyn CongestionControl>,
    /// The peer.
    pub dst_ip: IpAddr,
    /// The peer's MAC address, or that of the router before it; `None` asks by ARP or neighbour discovery.
    pub dst_mac: Option<[u8; 6]>,
    /// DSCP of requests and READ responses, 0 to 63.
    pub dscp: u8,
    /// DSCP of acknowledgements.
    pub ack_dscp: u8,
    /// DSCP of CNPs; NICs use 48.
    pub cnp_dscp: u8,
    /// ECN field of what it sends, CNPs excepted, which are not capable.
    pub ecn: Ecn,
    /// Hop limit, at least 1.
    pub ttl: u8,
    /// UDP source port; `None` derives it from the queue pairs as rdma-core does.
    pub udp_source_port: Option<u16>,
    /// Source ports that change with each packet, from that one on; `None`: they do not.
    pub entropy: Option<Entropy>,
}

impl QueuePairSetup {
    /// DSCP 26, ECT(0), CNPs in DSCP 48, 64 hops, the source port by the public formula.
    pub fn new(config: QpConfig, congestion: Box<dyn CongestionControl>, dst_ip: IpAddr) -> QueuePairSetup {
        QueuePairSetup {
            config,
            congestion,
            dst_ip,
            dst_mac: None,
            dscp: 26,
            ack_dscp: 26,
            cnp_dscp: cnp::DSCP,
            ecn: Ecn::Ect0,
            ttl: 64,
            udp_source_port: None,
            entropy: None,
        }
    }
}

/// How much of a frame is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// All of it, payload and ICRC included.
    Whole,
    /// The headers.
    Headers,
}

/// A frame that was written.
#[derive(Debug)]
pub struct Emitted {
    /// Octets at the front of the buffer.
    pub stored: usize,
    /// Length of the frame, as a socket would see it.
    pub frame_len: usize,
    /// The telemetry that it carries. In a box, as it comes: hardly any frame has one, and this travels by value.
    pub telemetry: Option<Box<Telemetry>>,
    /// The room that it has for telemetry of its path; `None`: it collects nothing.
    pub collects: Option<TelemetryFormat>,
    /// See [`Packet::completes_nothing`]; false where that is not known.
    pub completes_nothing: bool,
    /// The flow hash of an untagged IPv4 packet, if it is known without a look at it.
    pub flow_hash: Option<u32>,
}

impl Emitted {
    /// A frame that is stored whole.
    pub(super) fn whole(frame_len: usize) -> Emitted {
        Emitted {
            stored: frame_len,
            frame_len,
            telemetry: None,
            collects: None,
            completes_nothing: false,
            flow_hash: None,
        }
    }
}

/// The way of a queue pair's packets.
#[derive(Debug)]
struct Way {
    path: FlowHeaders,
    /// What its data packets have for source ports, if not that of the path.
    source_ports: Option<SourcePorts>,
    ack_dscp: u8,
    cnp_dscp: u8,
    next_hop: IpAddr,
    resolved: bool,
    /// What the latest packet had below the transport, where only headers are written.
    lower: Option<LowerHeaders>,
}

/// The longest headers below the transport: Ethernet, a tag, IPv6, UDP.
const LOWER_MAX: usize = 66;

/// The headers below the transport of a packet: the next one of its kind and length has the same.
#[derive(Clone, Copy, Debug)]
struct LowerHeaders {
    opcode: Opcode,
    payload_len: u32,
    telemetry_bytes: u32,
    frame_len: u32,
    /// How many of `octets` they are.
    len: u32,
    /// See [`Emitted::flow_hash`].
    flow_hash: Option<u32>,
    octets: [u8; LOWER_MAX],
}

/// All queue pairs of a host.
#[derive(Debug)]
pub(super) struct QueuePairs {
    endpoint: Endpoint,
    ways: Vec<Way>,
    fixed_lengths: Option<FixedLengths>,
    /// See [`HostConfig::take_turns`].
    take_turns: bool,
    /// Length of the longest frame.
    pub(super) frame_len_max: usize,
}

impl QueuePairs {
    pub(super) fn new(host: &HostConfig) -> QueuePairs {
        let mut endpoint = Endpoint::new();
        if host.take_turns {
            endpoint.take_turns();
        }
        QueuePairs {
            endpoint,
            ways: Vec::new(),
            fixed_lengths: host.fixed_lengths,
            take_turns: host.take_turns,
            frame_len_max: 0,
        }
    }

    /// Adds one; its next hop, if the link address of that is not known.
    pub(super) fn create(&mut self, setup: QueuePairSetup, host: &HostConfig) -> (QpIndex, Option<IpAddr>) {
        let label = FlowHeaders::flow_label_of_queue_pairs(setup.config.number, setup.config.peer);
        let addresses = match setup.dst_ip {
            IpAddr::V4(dst) => Addresses::V4 {
                src: host.ipv4.unwrap_or(dst),
                dst,
            },
            IpAddr::V6(dst) => Addresses::V6 {
                src: host.ipv6.unwrap_or(dst),
                dst,
            },
        };
        let path = FlowHeaders {
            tag: host.vlan,
            dscp: setup.dscp,
            ecn: setup.ecn,
            hop_limit: setup.ttl,
            flow_label: label,
            udp_src_port: setup
                .udp_source_port
                .unwrap_or(FlowHeaders::source_port_of_flow_label(label)),
            ..FlowHeaders::new(host.mac, setup.dst_mac.unwrap_or_default(), addresses)
        };
        let next_hop = host.next_hop(setup.dst_ip);
        let longest = RocePacket {
            headers: &path,
            bth: BthFields::new(Opcode::RcWriteOnly, 0, 0),
            extensions: &[],
        };
        let telemetry = setup.congestion.telemetry_format();
        let telemetry_bytes = telemetry.map_or(0, |format| usize::from(format.bytes));
        self.frame_len_max = self
            .frame_len_max
            .max(longest.frame_len(setup.config.mtu as usize) + telemetry_bytes)
            .max(longest.frame_len(cnp::RESERVED_LEN));
        let pair = u64::from(setup.config.number) << 32 | u64::from(setup.config.peer);
        self.ways.push(Way {
            path,
            source_ports: setup
                .entropy
                .map(|entropy| SourcePorts::new(entropy, path.udp_src_port, pair)),
            ack_dscp: setup.ack_dscp,
            cnp_dscp: setup.cnp_dscp,
            next_hop,
            resolved: setup.dst_mac.is_some(),
            lower: None,
        });
        let index = self.endpoint.create(setup.config, setup.congestion);
        (index, setup.dst_mac.is_none().then_some(next_hop))
    }

    /// A next hop has said its link address.
    pub(super) fn resolve(&mut self, ip: IpAddr, mac: [u8; 6]) {
        for way in self
            .ways
            .iter_mut()
            .filter(|way| way.next_hop == ip && !way.resolved)
        {
            way.path.dst_mac = mac;
            (way.resolved, way.lower) = (true, None);
        }
    }

    pub(super) fn post(&mut self, now: Picos, qp: QpIndex, request: WorkRequest) -> Result<(), PostError> {
        self.begin_event(now);
        let posted = self.endpoint.post(now, qp, request);
        self.end_event(now);
        posted
    }

    /// A frame arrives or a message is posted: see [`Endpoint::begin_event`].
    #[inline]
    pub(super) fn begin_event(&mut self, now: Picos) {
        if self.take_turns {
            self.endpoint.begin_event(now);
        }
    }

    /// See [`Endpoint::end_event`].
    #[inline]
    pub(super) fn end_event(&mut self, now: Picos) {
        if self.take_turns {
            self.endpoint.end_event(now);
        }
    }

    /// A packet begins to leave at `now`, and the link is busy for `duration`.
    #[inline]
    pub(super) fn link_free_at(&mut self, now: Picos, duration: Picos) {
        if self.take_turns {
            self.endpoint.link_free_at(now.saturating_add(duration));
        }
    }

    pub(super) fn post_receives(&mut self, now: Picos, qp: QpIndex, count: u32) {
        self.endpoint.post_receives(now, qp, count);
    }

    /// Takes a frame whose ICRC is right. False if it is for no queue pair here.
    #[inline]
    pub(super) fn receive(
        &mut self,
        now: Picos,
        prefix: &[u8],
        parsed: &ParsedHeaders,
        telemetry: Option<&Telemetry>,
    ) -> bool {
        let Some(packet) = decode(prefix, parsed, self.fixed_lengths.is_none()) else {
            return false;
        };
        let arrival = Arrival {
            ce: parsed.tos & 3 == Ecn::Ce as u8,
            telemetry,
        };
        self.endpoint.receive(now, &packet, arrival)
    }

    #[inline]
    pub(super) fn earliest(&self) -> Earliest<'_> {
        Earliest {
            at: self.endpoint.earliest(),
            waiting: self.endpoint.waiting(),
        }
    }

    pub(super) fn advance(&mut self, now: Picos) {
        if self.endpoint.next_deadline() <= now {
            self.endpoint.advance(now);
        }
    }

    pub(super) fn next_deadline(&self) -> Picos {
        self.endpoint.next_deadline()
    }

    pub(super) fn completions(&mut self) -> impl Iterator<Item = Completion> + '_ {
        self.endpoint.completions()
    }

    pub(super) fn has_completions(&self) -> bool {
        self.endpoint.has_completions()
    }

    #[inline]
    pub(super) fn completes_nothing_before(&self, until: Picos) -> bool {
        self.endpoint.completes_nothing_before(until)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.endpoint.is_empty()
    }

    pub(super) fn counters(&self) -> Counters {
        self.endpoint.counters()
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Writes the next packet of a class, which begins to leave now, to the front of `buf`; `None` if there is none, or if it
    /// does not fit or its way is not known (it counts as sent and is lost).
    #[inline]
    pub(super) fn emit(&mut self, now: Picos, class: u8, depth: Depth, buf: &mut [u8]) -> Option<Emitted> {
        let outgoing = self.endpoint.pop(now, class)?;
        let way = &mut self.ways[outgoing.qp.0 as usize];
        if !way.resolved {
            return None;
        }
        let packet = &outgoing.packet;
        let telemetry_bytes = match &outgoing.telemetry {
            Some(echo) => Some(echo.format()),
            None => outgoing.collects,
        }
        .map_or(0, |format| u32::from(format.bytes));
        if depth == Depth::Headers
            && let Some((stored, lower)) = way.repeat_lower(packet, telemetry_bytes, buf)
        {
            return Some(Emitted {
                stored,
                frame_len: lower.frame_len as usize,
                completes_nothing: packet.completes_nothing(),
                flow_hash: lower.flow_hash,
                telemetry: outgoing.telemetry,
                collects: outgoing.collects,
            });
        }
        let path = way.next_path(packet.opcode);
        let len = packet.payload_len as usize;
        let written = match (packet.opcode, depth) {
            (Opcode::Cnp, Depth::Whole) => {
                let cnp = Cnp {
                    dest_qp: packet.dst_qp,
                    becn: packet.becn,
                };
                let whole = cnp.emit(&path, buf).ok()?;
                (whole, whole)
            }
            (opcode, Depth::Headers) => {
                let len = if opcode == Opcode::Cnp {
                    cnp::RESERVED_LEN
                } else {
                    len
                };
                let (stored, frame_len) = self.emit_headers(&path, packet, (len, telemetry_bytes), buf)?;
                self.ways[outgoing.qp.0 as usize].keep_lower(
                    packet,
                    telemetry_bytes,
                    buf,
                    (stored, frame_len),
                );
                (stored, frame_len)
            }
            (_, Depth::Whole) => {
                let fill = |payload: &mut [u8]| payload.copy_from_slice(&PATTERN[..len]);
                let whole = with_headers(packet, &path, |roce| roce.emit(buf, len, fill)).ok()?;
                (whole, whole)
            }
        };
        Some(Emitted {
            stored: written.0,
            frame_len: written.1,
            completes_nothing: packet.completes_nothing(),
            flow_hash: None,
            telemetry: outgoing.telemetry,
            collects: outgoing.collects,
        })
    }

    fn emit_headers(
        &self,
        path: &FlowHeaders,
        packet: &Packet,
        (payload_len, telemetry_bytes): (usize, u32),
        buf: &mut [u8],
    ) -> Option<(usize, usize)> {
        with_headers(packet, path, |roce| {
            let own = roce.frame_len(payload_len);
            let frame_len = match self.fixed_lengths {
                None => own,
                Some(fixed) if is_answer(packet.opcode) => fixed.ack_bytes as usize,
                // A payload of a few bytes is shorter than what our headers have more.
                Some(fixed) => (fixed.header_bytes as usize + payload_len).max(own - payload_len - icrc::LEN),
            };
            // Telemetry follows the ICRC, behind the end of the UDP datagram (the surplus area of RFC 9868).
            let frame_len = frame_len + telemetry_bytes as usize;
            let stored = roce.emit_headers(buf, payload_len, frame_len).ok()?;
            Some((stored, frame_len))
        })
    }
}

impl Way {
    /// The way of the next packet.
    #[inline]
    fn next_path(&mut self, opcode: Opcode) -> FlowHeaders {
        match opcode {
            Opcode::Cnp => FlowHeaders {
                dscp: self.cnp_dscp,
                ecn: Ecn::NotEct,
                ..self.path
            },
            Opcode::RcAcknowledge => FlowHeaders {
                dscp: self.ack_dscp,
                ..self.path
            },
            _ => match &mut self.source_ports {
                None => self.path,
                Some(ports) => FlowHeaders {
                    udp_src_port: ports.next(),
                    ..self.path
                },
            },
        }
    }
}

impl Way {
    /// Keeps the lower headers of a packet that has just been written, where others will have the same.
    fn keep_lower(
        &mut self,
        packet: &Packet,
        telemetry_bytes: u32,
        frame: &[u8],
        (stored, frame_len): (usize, usize),
    ) {
        if packet.opcode == Opcode::Cnp || self.source_ports.is_some() {
            return;
        }
        let parsed = parse_prefix(&frame[..stored], frame_len);
        self.lower = frame.first_chunk().map(|octets| LowerHeaders {
            opcode: packet.opcode,
            payload_len: packet.payload_len,
            telemetry_bytes,
            frame_len: frame_len as u32,
            len: with_headers(packet, &self.path, |roce| roce.transport_offset() as u32),
            flow_hash: parsed.is_plain_ipv4().then_some(parsed.flow_hash),
            octets: *octets,
        });
    }

    /// Writes the headers of a packet that has the lower ones of the latest; how many octets they are, and what those were. `None`:
    /// it has others.
    #[inline]
    fn repeat_lower(
        &self,
        packet: &Packet,
        telemetry_bytes: u32,
        buf: &mut [u8],
    ) -> Option<(usize, &LowerHeaders)> {
        let lower = self.lower.as_ref()?;
        if lower.opcode != packet.opcode
            || (lower.payload_len, lower.telemetry_bytes) != (packet.payload_len, telemetry_bytes)
        {
            return None;
        }
        *buf.first_chunk_mut()? = lower.octets;
        let transport = buf.get_mut(lower.len as usize..)?;
        let payload_len = packet.payload_len as usize;
        let mut write = |roce: RocePacket<'_>| roce.emit_transport(transport, payload_len);
        // Each of the two that nearly all packets are by itself: little is left of the general way then.
        let written = match packet.header {
            Header::None => write(with_extensions(packet, &self.path, &[])),
            Header::Aeth(aeth) => write(with_extensions(packet, &self.path, &[Extension::Aeth(aeth)])),
            _ => with_headers(packet, &self.path, write),
        };
        Some((lower.len as usize + written.ok()?, lower))
    }
}

fn is_answer(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Cnp | Opcode::RcAcknowledge)
}

/// Hands a packet with its headers to `write`.
#[inline]
fn with_headers<R>(packet: &Packet, path: &FlowHeaders, write: impl FnOnce(RocePacket<'_>) -> R) -> R {
    let header = match packet.header {
        Header::None => None,
        Header::Reth(reth) => Some([Extension::Reth(reth)]),
        Header::Aeth(aeth) => Some([Extension::Aeth(aeth)]),
        Header::Deth(deth) => Some([Extension::Deth(deth)]),
    };
    let extensions = header.as_ref().map_or(&[][..], |header| header);
    write(with_extensions(packet, path, extensions))
}

/// A packet as it is written.
#[inline]
fn with_extensions<'a>(
    packet: &Packet,
    path: &'a FlowHeaders,
    extensions: &'a [Extension],
) -> RocePacket<'a> {
    RocePacket {
        headers: path,
        bth: BthFields {
            ack_req: packet.ack_req,
            becn: packet.becn,
            ..BthFields::new(packet.opcode, packet.dst_qp, packet.psn)
        },
        extensions,
    }
}

/// Reads the headers of a RoCEv2 packet of which the headers at least are stored; `None` for anything else, and for a packet of
/// which a switch has sent on the beginning alone. `whole`: lengths are those of the packets, not fixed ones.
#[inline]
fn decode(prefix: &[u8], parsed: &ParsedHeaders, whole: bool) -> Option<Packet> {
    let packet = datagram(prefix, parsed)?;
    if whole && packet.is_trimmed() {
        return None;
    }
    let rest = packet.rest;
    let header = Bth::new_checked(rest).ok()?;
    let opcode = header.opcode();
    let extensions = rest.get(bth::LEN..)?;
    let extension = match opcode.extensions().first() {
        Some(ExtensionKind::Reth) => Header::Reth(Reth::parse(extensions).ok()?),
        Some(ExtensionKind::Aeth) => Header::Aeth(Aeth::parse(extensions).ok()?),
        Some(ExtensionKind::Deth) => Header::Deth(Deth::parse(extensions).ok()?),
        _ => Header::None,
    };
    let beside = UDP_LEN + bth::LEN + opcode.extensions_len() + usize::from(header.pad()) + icrc::LEN;
    Some(Packet {
        opcode,
        dst_qp: header.dest_qp(),
        psn: header.psn(),
        ack_req: header.ack_req(),
        becn: header.becn(),
        payload_len: packet.udp_len.checked_sub(beside)? as u32,
        header: extension,
    })
}
