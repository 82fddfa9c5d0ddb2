//! Queue pairs of a host: converts packets of the RDMA transport to frames and back.

use std::net::IpAddr;

use xoff_units::{Picos, prefetch};
use xoff_wire::parse::ParsedHeaders;
use xoff_wire::{
    Aeth, Bth, BthFields, Cnp, Deth, Ecn, ExtensionKind, FlowHeaders, ICRC_LEN, Opcode, Reth, RocePacket,
    UDP_LEN, bth, cnp,
};

use super::config::{FixedLengths, HostConfig};
use super::entropy::{Entropy, SourcePortPool};
use super::flow_sender::PATTERN;
use super::nic::EarliestDepartures;
use super::queue_pair_path::{QueuePairPath, with_headers};
use super::roce_datagram::parse_roce_datagram;
use xoff_rdma::congestion::CongestionControl;
use xoff_rdma::{
    ArrivalInfo, Completion, Counters, Endpoint, ExtensionHeader, Packet, PostError, QpConfig, QpIndex,
    Telemetry, TelemetryFormat, WorkRequest,
};

/// Options of a queue pair and of the path to its peer.
#[derive(Debug)]
pub struct QueuePairSetup {
    /// Configuration of the queue pair, with both queue pair numbers.
    pub config: QpConfig,
    /// Congestion controller of the queue pair.
    pub congestion: Box<dyn CongestionControl>,
    /// IP address of the peer.
    pub dst_ip: IpAddr,
    /// MAC address of the peer or of the gateway. `None`: the host resolves the address by ARP or
    /// neighbour discovery.
    pub dst_mac: Option<[u8; 6]>,
    /// DSCP of requests and READ responses, 0 to 63.
    pub dscp: u8,
    /// DSCP of acknowledgements and NAKs, 0 to 63.
    pub ack_dscp: u8,
    /// DSCP of CNPs (congestion notification packets), 0 to 63. NICs use 48.
    pub cnp_dscp: u8,
    /// ECN field of all packets except CNPs, which are not ECN-capable.
    pub ecn: Ecn,
    /// Hop limit (IPv4 TTL) of all packets, 1 to 255.
    pub ttl: u8,
    /// UDP source port. `None`: the port is computed from the queue pair numbers as in rdma-core.
    pub udp_source_port: Option<u16>,
    /// Entropy: the source port changes with each packet of a request or READ response. The first port is
    /// `udp_source_port` or its default. `None`: all packets have this port.
    pub entropy: Option<Entropy>,
}

impl QueuePairSetup {
    /// Creates a setup with DSCP 26, ECT(0), a hop limit of 64 and no MAC address. CNPs have DSCP 48. The
    /// source port is computed as in rdma-core.
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

/// Which part of a frame is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmitMode {
    /// The whole frame, with payload and ICRC.
    Whole,
    /// Only the headers.
    Headers,
}

/// A frame that a host has written to a buffer.
#[derive(Debug)]
pub struct EmittedFrame {
    /// Number of bytes that were written to the start of the buffer.
    pub stored: usize,
    /// Length of the whole frame in bytes, without FCS.
    pub frame_len: usize,
    /// Telemetry that an acknowledgement returns to the sender. `None`: the frame returns no telemetry. The
    /// value is boxed, so that the struct stays small: it is passed by value, and few frames have telemetry.
    pub telemetry: Option<Box<Telemetry>>,
    /// Format of the telemetry that the frame collects on its path. `None`: the frame collects none.
    pub collects: Option<TelemetryFormat>,
    /// True if the frame cannot complete a request ([`Packet::completes_no_message`]). `false` if this is
    /// not known.
    pub completes_no_message: bool,
    /// Flow hash of an untagged IPv4 packet. `None`: the hash is not known before the frame is parsed.
    pub flow_hash: Option<u32>,
}

impl EmittedFrame {
    /// Creates the description of a frame that is stored completely.
    pub(super) fn complete(frame_len: usize) -> EmittedFrame {
        EmittedFrame {
            stored: frame_len,
            frame_len,
            telemetry: None,
            collects: None,
            completes_no_message: false,
            flow_hash: None,
        }
    }
}

/// All queue pairs of a host.
#[derive(Debug)]
#[repr(C)]
pub(super) struct QueuePairs {
    paths: Vec<QueuePairPath>,
    /// Length of the longest frame in bytes, without FCS.
    pub(super) frame_len_max: usize,
    fixed_lengths: Option<FixedLengths>,
    /// See [`HostConfig::round_robin`].
    round_robin: bool,
    endpoint: Endpoint,
}

impl QueuePairs {
    pub(super) fn new(host: &HostConfig) -> QueuePairs {
        let mut endpoint = Endpoint::new();
        if host.round_robin {
            endpoint.enable_round_robin();
        }
        QueuePairs {
            endpoint,
            paths: Vec::new(),
            fixed_lengths: host.fixed_lengths,
            round_robin: host.round_robin,
            frame_len_max: 0,
        }
    }

    /// Adds a queue pair and returns its index. If the MAC address of its next hop is not known, also returns
    /// the IP address of the next hop.
    pub(super) fn create(&mut self, setup: QueuePairSetup, host: &HostConfig) -> (QpIndex, Option<IpAddr>) {
        let label = FlowHeaders::flow_label_of_queue_pairs(setup.config.number, setup.config.peer);
        let addresses = host.addresses_to(setup.dst_ip);
        let headers = FlowHeaders {
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
            headers: &headers,
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
        // Without this, the first path would reserve memory for four, and most hosts have two.
        if self.paths.len() == self.paths.capacity() {
            self.paths.reserve_exact(self.paths.len().max(1));
        }
        self.paths.push(QueuePairPath {
            headers,
            source_ports: setup
                .entropy
                .map(|entropy| SourcePortPool::new(entropy, headers.udp_src_port, pair)),
            ack_dscp: setup.ack_dscp,
            cnp_dscp: setup.cnp_dscp,
            next_hop,
            resolved: setup.dst_mac.is_some(),
            lower: None,
        });
        let index = self.endpoint.create_queue_pair(setup.config, setup.congestion);
        (index, setup.dst_mac.is_none().then_some(next_hop))
    }

    /// Sets the MAC address of the next hop `ip` for all queue pairs that wait for it.
    pub(super) fn resolve(&mut self, ip: IpAddr, mac: [u8; 6]) {
        for path in self
            .paths
            .iter_mut()
            .filter(|path| path.next_hop == ip && !path.resolved)
        {
            path.headers.dst_mac = mac;
            (path.resolved, path.lower) = (true, None);
        }
    }

    /// See [`Host::prefetch`](super::Host::prefetch).
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(self);
        self.endpoint.prefetch();
    }

    /// See [`Host::prefetch_controllers`](super::Host::prefetch_controllers).
    #[inline]
    pub(super) fn prefetch_controllers(&self) {
        self.endpoint.prefetch_controllers();
    }

    /// See [`Host::prefetch_receiver`](super::Host::prefetch_receiver).
    #[inline]
    pub(super) fn prefetch_receiver(&self, number: u32, is_acknowledge: bool) {
        let index = self.endpoint.prefetch_receiver(number, is_acknowledge);
        if let Some(index) = index.filter(|_| !is_acknowledge) {
            self.prefetch_path(index);
        }
    }

    /// See [`Host::prefetch_senders`](super::Host::prefetch_senders).
    #[inline]
    pub(super) fn prefetch_senders(&self) {
        self.endpoint.prefetch_senders(|index| self.prefetch_path(index));
    }

    #[inline]
    fn prefetch_path(&self, index: QpIndex) {
        if let Some(path) = self.paths.get(index.0 as usize) {
            path.prefetch();
        }
    }

    pub(super) fn post(&mut self, now: Picos, qp: QpIndex, request: WorkRequest) -> Result<(), PostError> {
        self.begin_event(now);
        let posted = self.endpoint.post(now, qp, request);
        self.end_event(now);
        posted
    }

    /// Called before a frame or a posted message is processed (see [`Endpoint::begin_event`]).
    #[inline]
    pub(super) fn begin_event(&mut self, now: Picos) {
        if self.round_robin {
            self.endpoint.begin_event(now);
        }
    }

    /// See [`Endpoint::end_event`].
    #[inline]
    pub(super) fn end_event(&mut self, now: Picos) {
        if self.round_robin {
            self.endpoint.end_event(now);
        }
    }

    /// Records that a packet leaves at `now` and that the link is busy for `duration`.
    #[inline]
    pub(super) fn link_free_at(&mut self, now: Picos, duration: Picos) {
        if self.round_robin {
            self.endpoint.set_link_free_at(now.saturating_add(duration));
        }
    }

    pub(super) fn post_receives(&mut self, now: Picos, qp: QpIndex, count: u32) {
        self.endpoint.post_receives(now, qp, count);
    }

    /// Processes a frame with a correct ICRC. Returns `false` if the frame is for no queue pair of this host.
    #[inline]
    pub(super) fn receive(
        &mut self,
        now: Picos,
        prefix: &[u8],
        parsed: &ParsedHeaders,
        telemetry: Option<&Telemetry>,
    ) -> bool {
        let Some(packet) = parse_packet(prefix, parsed, self.fixed_lengths.is_none()) else {
            return false;
        };
        let arrival = ArrivalInfo {
            ce: parsed.tos & 3 == Ecn::Ce as u8,
            telemetry,
        };
        self.endpoint.receive(now, &packet, arrival)
    }

    /// Counts a RoCE frame that is for no queue pair and belongs to no flow.
    pub(super) fn count_unknown_packet(&mut self) {
        self.endpoint.count_unknown_packet();
    }

    #[inline]
    pub(super) fn earliest(&self) -> EarliestDepartures<'_> {
        EarliestDepartures {
            at: self.endpoint.earliest_departures(),
            waiting: self.endpoint.waiting_classes(),
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

    pub(super) fn pending_completions(&self) -> impl DoubleEndedIterator<Item = &Completion> {
        self.endpoint.pending_completions()
    }

    pub(super) fn has_completions(&self) -> bool {
        self.endpoint.has_completions()
    }

    #[inline]
    pub(super) fn completes_no_message_before(&self, until: Picos) -> bool {
        self.endpoint.completes_no_message_before(until)
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

    /// Writes the next packet of a class to the start of `buf`. The packet leaves at `now`. Returns `None` in
    /// these cases:
    ///
    /// - No packet is ready.
    /// - The packet does not fit, or the MAC address of the next hop is unknown. The packet then counts as
    ///   sent and is lost.
    #[inline]
    pub(super) fn emit_next(
        &mut self,
        now: Picos,
        class: u8,
        mode: EmitMode,
        buf: &mut [u8],
    ) -> Option<EmittedFrame> {
        let outgoing = self.endpoint.pop_packet(now, class)?;
        let path = &mut self.paths[outgoing.qp.0 as usize];
        if !path.resolved {
            return None;
        }
        let packet = &outgoing.packet;
        let telemetry_bytes = match &outgoing.telemetry {
            Some(echo) => Some(echo.format()),
            None => outgoing.collects,
        }
        .map_or(0, |format| u32::from(format.bytes));
        if mode == EmitMode::Headers
            && let Some((stored, lower)) = path.reuse_lower_headers(packet, telemetry_bytes, buf)
        {
            return Some(EmittedFrame {
                stored,
                frame_len: lower.frame_len(),
                completes_no_message: packet.completes_no_message(),
                flow_hash: lower.flow_hash(),
                telemetry: outgoing.telemetry,
                collects: outgoing.collects,
            });
        }
        let headers = path.next_headers(packet.opcode);
        let len = packet.payload_len as usize;
        let written = match (packet.opcode, mode) {
            (Opcode::Cnp, EmitMode::Whole) => {
                let cnp = Cnp {
                    dest_qp: packet.dst_qp,
                    becn: packet.becn,
                };
                let whole = cnp.emit(&headers, buf).ok()?;
                (whole, whole)
            }
            (opcode, EmitMode::Headers) => {
                let len = if opcode == Opcode::Cnp {
                    cnp::RESERVED_LEN
                } else {
                    len
                };
                let (stored, frame_len) = self.emit_headers(&headers, packet, (len, telemetry_bytes), buf)?;
                self.paths[outgoing.qp.0 as usize].store_lower_headers(
                    packet,
                    telemetry_bytes,
                    buf,
                    (stored, frame_len),
                );
                (stored, frame_len)
            }
            (_, EmitMode::Whole) => {
                let fill = |payload: &mut [u8]| payload.copy_from_slice(&PATTERN[..len]);
                let whole = with_headers(packet, &headers, |roce| roce.emit(buf, len, fill)).ok()?;
                (whole, whole)
            }
        };
        Some(EmittedFrame {
            stored: written.0,
            frame_len: written.1,
            completes_no_message: packet.completes_no_message(),
            flow_hash: None,
            telemetry: outgoing.telemetry,
            collects: outgoing.collects,
        })
    }

    fn emit_headers(
        &self,
        headers: &FlowHeaders,
        packet: &Packet,
        (payload_len, telemetry_bytes): (usize, u32),
        buf: &mut [u8],
    ) -> Option<(usize, usize)> {
        with_headers(packet, headers, |roce| {
            let own = roce.frame_len(payload_len);
            let frame_len = match self.fixed_lengths {
                None => own,
                Some(fixed) if is_acknowledgement_or_cnp(packet.opcode) => fixed.ack_bytes as usize,
                // With a payload of a few bytes, the real headers can be longer.
                Some(fixed) => (fixed.header_bytes as usize + payload_len).max(own - payload_len - ICRC_LEN),
            };
            // Telemetry follows the ICRC, after the end of the UDP datagram (in the surplus area of
            // RFC 9868).
            let frame_len = frame_len + telemetry_bytes as usize;
            let stored = roce.emit_headers(buf, payload_len, frame_len).ok()?;
            Some((stored, frame_len))
        })
    }
}

fn is_acknowledgement_or_cnp(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Cnp | Opcode::RcAcknowledge)
}

/// Parses the headers of a RoCEv2 packet. Returns `None` if the frame is not a RoCEv2 packet or a switch has
/// trimmed the packet. `check_length` is false if frames have fixed lengths for a comparison with ns-3.
/// Trimmed packets are then not detected.
#[inline]
fn parse_packet(prefix: &[u8], parsed: &ParsedHeaders, check_length: bool) -> Option<Packet> {
    let packet = parse_roce_datagram(prefix, parsed)?;
    if check_length && packet.is_trimmed() {
        return None;
    }
    let rest = packet.rest;
    let header = Bth::new_checked(rest).ok()?;
    let opcode = header.opcode();
    let extensions = rest.get(bth::LEN..)?;
    let extension = match opcode.extensions().first() {
        Some(ExtensionKind::Reth) => ExtensionHeader::Reth(Reth::parse(extensions).ok()?),
        Some(ExtensionKind::Aeth) => ExtensionHeader::Aeth(Aeth::parse(extensions).ok()?),
        Some(ExtensionKind::Deth) => ExtensionHeader::Deth(Deth::parse(extensions).ok()?),
        _ => ExtensionHeader::None,
    };
    let beside = UDP_LEN + bth::LEN + opcode.extensions_len() + usize::from(header.pad()) + ICRC_LEN;
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
