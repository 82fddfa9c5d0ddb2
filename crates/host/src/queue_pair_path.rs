//! Headers of the packets of a queue pair, and their reuse for the next packet.

use std::mem;
use std::net::IpAddr;

use xoff_rdma::{ExtensionHeader, Packet};
use xoff_units::prefetch;
use xoff_wire::parse::parse_prefix;
use xoff_wire::{BthFields, Ecn, Extension, FlowHeaders, Opcode, RocePacket};

use super::entropy::SourcePortPool;

/// Headers and next hop of the packets of a queue pair. Nearly every packet reads the first two fields only.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct QueuePairPath {
    pub(super) resolved: bool,
    /// Lower headers of the last packet. Used only if the host writes headers only.
    pub(super) lower: Option<LowerHeaders>,
    pub(super) ack_dscp: u8,
    pub(super) cnp_dscp: u8,
    pub(super) headers: FlowHeaders,
    /// Source ports of data packets if they change with each packet.
    pub(super) source_ports: Option<SourcePortPool>,
    pub(super) next_hop: IpAddr,
}

/// Length of the longest lower headers: Ethernet, a tag, IPv6 and UDP.
const LOWER_HEADERS_LEN_MAX: usize = 66;
/// Length of the most frequent lower headers: Ethernet, IPv4 and UDP.
const IPV4_HEADERS_LEN: usize = 42;

/// Headers below the transport header: Ethernet, tag, IP and UDP. The next packet with the same opcode and
/// length has equal lower headers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct LowerHeaders {
    opcode: Opcode,
    /// Number of valid bytes in `octets`.
    len: u8,
    has_flow_hash: bool,
    payload_len: u16,
    telemetry_bytes: u16,
    frame_len: u16,
    flow_hash: u32,
    octets: [u8; LOWER_HEADERS_LEN_MAX],
}

// Packets with IPv4 and without a tag read one cache line.
const _: () = assert!(
    mem::offset_of!(QueuePairPath, lower) + mem::offset_of!(LowerHeaders, octets) + IPV4_HEADERS_LEN <= 64
);

impl LowerHeaders {
    /// Returns the length of the frame in bytes, without FCS.
    pub(super) fn frame_len(&self) -> usize {
        usize::from(self.frame_len)
    }

    /// See [`EmittedFrame::flow_hash`](super::queue_pairs::EmittedFrame::flow_hash).
    pub(super) fn flow_hash(&self) -> Option<u32> {
        self.has_flow_hash.then_some(self.flow_hash)
    }

    /// Copies the headers to the beginning of `buf`. Returns the space behind them, or `None` if `buf` is too short.
    #[inline]
    fn copy_to<'a>(&self, buf: &'a mut [u8]) -> Option<&'a mut [u8]> {
        if usize::from(self.len) <= IPV4_HEADERS_LEN {
            *buf.first_chunk_mut::<IPV4_HEADERS_LEN>()? = *self.octets.first_chunk()?;
        } else {
            *buf.first_chunk_mut()? = self.octets;
        }
        buf.get_mut(usize::from(self.len)..)
    }
}

impl QueuePairPath {
    /// Fetches the memory that nearly every packet uses, without waiting for it.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(self);
    }

    /// Returns the headers of the next packet with this opcode.
    #[inline]
    pub(super) fn next_headers(&mut self, opcode: Opcode) -> FlowHeaders {
        match opcode {
            Opcode::Cnp => FlowHeaders {
                dscp: self.cnp_dscp,
                ecn: Ecn::NotEct,
                ..self.headers
            },
            Opcode::RcAcknowledge => FlowHeaders {
                dscp: self.ack_dscp,
                ..self.headers
            },
            _ => match &mut self.source_ports {
                None => self.headers,
                Some(ports) => FlowHeaders {
                    udp_src_port: ports.next_port(),
                    ..self.headers
                },
            },
        }
    }

    /// Stores the lower headers of a packet that has just been written. Packets with changing headers are
    /// not stored.
    pub(super) fn store_lower_headers(
        &mut self,
        packet: &Packet,
        telemetry_bytes: u32,
        frame: &[u8],
        (stored, frame_len): (usize, usize),
    ) {
        if packet.opcode == Opcode::Cnp || self.source_ports.is_some() {
            return;
        }
        let lengths = [packet.payload_len, telemetry_bytes, frame_len as u32].map(u16::try_from);
        let (Some(octets), [Ok(payload_len), Ok(telemetry_bytes), Ok(frame_len)]) =
            (frame.first_chunk(), lengths)
        else {
            return;
        };
        let parsed = parse_prefix(&frame[..stored], usize::from(frame_len));
        self.lower = Some(LowerHeaders {
            opcode: packet.opcode,
            len: with_headers(packet, &self.headers, |roce| roce.transport_offset() as u8),
            has_flow_hash: parsed.is_plain_ipv4(),
            payload_len,
            telemetry_bytes,
            frame_len,
            flow_hash: parsed.flow_hash,
            octets: *octets,
        });
    }

    /// Writes the headers of a packet with the help of the stored lower headers. Returns the length of the
    /// headers and the stored headers. Returns `None` if the stored lower headers do not fit the packet.
    #[inline]
    pub(super) fn reuse_lower_headers(
        &self,
        packet: &Packet,
        telemetry_bytes: u32,
        buf: &mut [u8],
    ) -> Option<(usize, &LowerHeaders)> {
        let lower = self.lower.as_ref()?;
        if lower.opcode != packet.opcode
            || u32::from(lower.payload_len) != packet.payload_len
            || u32::from(lower.telemetry_bytes) != telemetry_bytes
        {
            return None;
        }
        let transport = lower.copy_to(buf)?;
        let payload_len = packet.payload_len as usize;
        let mut write = |roce: RocePacket<'_>| roce.emit_transport(transport, payload_len);
        // The two most frequent cases are handled separately, so that the compiler can simplify them.
        let written = match packet.header {
            ExtensionHeader::None => write(with_extensions(packet, &self.headers, &[])),
            ExtensionHeader::Aeth(aeth) => {
                write(with_extensions(packet, &self.headers, &[Extension::Aeth(aeth)]))
            }
            _ => with_headers(packet, &self.headers, write),
        };
        Some((usize::from(lower.len) + written.ok()?, lower))
    }
}

/// Calls `write` with a packet and its extension header.
#[inline]
pub(super) fn with_headers<R>(
    packet: &Packet,
    headers: &FlowHeaders,
    write: impl FnOnce(RocePacket<'_>) -> R,
) -> R {
    let header = match packet.header {
        ExtensionHeader::None => None,
        ExtensionHeader::Reth(reth) => Some([Extension::Reth(reth)]),
        ExtensionHeader::Aeth(aeth) => Some([Extension::Aeth(aeth)]),
        ExtensionHeader::Deth(deth) => Some([Extension::Deth(deth)]),
    };
    let extensions = header.as_ref().map_or(&[][..], |header| header);
    write(with_extensions(packet, headers, extensions))
}

/// Returns the packet in the form that the encoder needs.
#[inline]
fn with_extensions<'a>(
    packet: &Packet,
    headers: &'a FlowHeaders,
    extensions: &'a [Extension],
) -> RocePacket<'a> {
    RocePacket {
        headers,
        bth: BthFields {
            ack_req: packet.ack_req,
            becn: packet.becn,
            ..BthFields::new(packet.opcode, packet.dst_qp, packet.psn)
        },
        extensions,
    }
}
