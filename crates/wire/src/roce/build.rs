//! Building a RoCEv2 frame in place: what hosts and tests send.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::view::Layout;
use crate::bth::{self, BthFields, Opcode};
use crate::ext::Extension;
use crate::vlan::{TAG_LEN, Tag};
use crate::{
    ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ecn, IPV4_LEN, IPV6_LEN, IpProtocol, Ipv4Packet,
    Ipv6Packet, ROCE_UDP_PORT, UDP_LEN, UdpPacket, icrc,
};

/// Source and destination of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// Source.
        src: Ipv4Addr,
        /// Destination.
        dst: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// Source.
        src: Ipv6Addr,
        /// Destination.
        dst: Ipv6Addr,
    },
}

/// What the frames of a flow have in common below the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Destination MAC address.
    pub dst_mac: [u8; 6],
    /// Source MAC address.
    pub src_mac: [u8; 6],
    /// VLAN tag.
    pub tag: Option<Tag>,
    /// IP addresses.
    pub addresses: Addresses,
    /// DSCP; the low 6 bits count.
    pub dscp: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// Time to live, hop limit.
    pub hop_limit: u8,
    /// IPv6 flow label; the low 20 bits count. Unused for IPv4.
    pub flow_label: u32,
    /// UDP source port, which spreads flows over paths: see [`Path::source_port_of_flow_label`].
    pub udp_src_port: u16,
}

impl Path {
    /// A path with the usual values: no tag, DSCP 26 (RoCE data), ECT(0), 64 hops, source port 0xC000.
    pub const fn new(src_mac: [u8; 6], dst_mac: [u8; 6], addresses: Addresses) -> Path {
        Path {
            dst_mac,
            src_mac,
            tag: None,
            addresses,
            dscp: 26,
            ecn: Ecn::Ect0,
            hop_limit: 64,
            flow_label: 0,
            udp_src_port: 0xc000,
        }
    }

    /// The UDP source port that Linux and vendors derive from a 20-bit flow label
    /// (`rdma_flow_label_to_udp_sport`).
    pub const fn source_port_of_flow_label(flow_label: u32) -> u16 {
        let (low, high) = (flow_label & 0x3fff, flow_label >> 14 & 0x3f);
        (low ^ high) as u16 | 0xc000
    }

    /// The flow label that Linux derives from the two queue pair numbers, the same in both directions
    /// (`rdma_calc_flow_label`).
    pub const fn flow_label_of_queue_pairs(local_qp: u32, remote_qp: u32) -> u32 {
        let mut v = local_qp as u64 * remote_qp as u64;
        v ^= v >> 20;
        v ^= v >> 40;
        (v & 0xf_ffff) as u32
    }

    const fn ip_offset(&self) -> usize {
        ETHERNET_LEN + if self.tag.is_some() { TAG_LEN } else { 0 }
    }

    const fn ip_len(&self) -> usize {
        match self.addresses {
            Addresses::V4 { .. } => IPV4_LEN,
            Addresses::V6 { .. } => IPV6_LEN,
        }
    }

    fn emit_ethernet(&self, frame: &mut [u8]) {
        frame[0..6].copy_from_slice(&self.dst_mac);
        frame[6..12].copy_from_slice(&self.src_mac);
        let mut at = 12;
        if let Some(tag) = self.tag {
            frame[12..14].copy_from_slice(&tag.tpid.to_be_bytes());
            frame[14..16].copy_from_slice(&tag.tci.to_be_bytes());
            at += TAG_LEN;
        }
        let ethertype = match self.addresses {
            Addresses::V4 { .. } => ETHERTYPE_IPV4,
            Addresses::V6 { .. } => ETHERTYPE_IPV6,
        };
        frame[at..at + 2].copy_from_slice(&ethertype.to_be_bytes());
    }

    /// Writes the IP header in front of `udp_len` octets. DF is set and the identification is 0, as RoCE
    /// senders do (RFC 6864: an atomic datagram needs none).
    fn emit_ip(&self, bytes: &mut [u8], udp_len: u16) {
        match self.addresses {
            Addresses::V4 { src, dst } => {
                let mut ip = Ipv4Packet::new_unchecked(bytes);
                ip.set_version(4);
                ip.set_header_len(IPV4_LEN as u8);
                ip.set_dscp(self.dscp & 0x3f);
                ip.set_ecn(self.ecn as u8);
                ip.set_total_len(IPV4_LEN as u16 + udp_len);
                ip.set_ident(0);
                ip.clear_flags();
                ip.set_frag_offset(0);
                ip.set_dont_frag(true);
                ip.set_hop_limit(self.hop_limit);
                ip.set_next_header(IpProtocol::Udp);
                ip.set_src_addr(src);
                ip.set_dst_addr(dst);
                ip.fill_checksum();
            }
            Addresses::V6 { src, dst } => {
                let mut ip = Ipv6Packet::new_unchecked(bytes);
                ip.set_version(6);
                ip.set_traffic_class(self.dscp << 2 | self.ecn as u8);
                ip.set_flow_label(self.flow_label & 0xf_ffff);
                ip.set_payload_len(udp_len);
                ip.set_next_header(IpProtocol::Udp);
                ip.set_hop_limit(self.hop_limit);
                ip.set_src_addr(src);
                ip.set_dst_addr(dst);
            }
        }
    }

    /// The UDP checksum is 0 over IPv4 and IPv6: the ICRC protects more than it would (IBTA annex A17; Linux
    /// sends 0 too).
    fn emit_udp(&self, bytes: &mut [u8], udp_len: u16) {
        let mut udp = UdpPacket::new_unchecked(bytes);
        udp.set_src_port(self.udp_src_port);
        udp.set_dst_port(ROCE_UDP_PORT);
        udp.set_len(udp_len);
        udp.set_checksum(0);
    }
}

/// Why a frame was not built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The buffer is too small.
    NoRoom {
        /// Octets the frame has.
        needed: usize,
        /// Octets of the buffer.
        available: usize,
    },
    /// The payload is longer than IP can carry.
    TooLong {
        /// Octets of payload asked for.
        payload_len: usize,
    },
    /// The extension headers given are not those of the opcode.
    Extensions {
        /// The opcode.
        opcode: Opcode,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::NoRoom { needed, available } => {
                write!(f, "the frame has {needed} octets, the buffer {available}")
            }
            BuildError::TooLong { payload_len } => {
                write!(f, "{payload_len} octets of payload do not fit an IP packet")
            }
            BuildError::Extensions { opcode } => {
                write!(f, "{opcode} takes exactly these extension headers:")?;
                for kind in opcode.extensions() {
                    write!(f, " {}", kind.name())?;
                }
                if opcode.extensions().is_empty() {
                    write!(f, " none")?;
                }
                Ok(())
            }
        }
    }
}

impl core::error::Error for BuildError {}

/// The next multiple of four. Lengths that overflow are saturated here and refused later.
const fn padded(payload_len: usize) -> usize {
    payload_len.saturating_add(3) & !3
}

/// A RoCEv2 packet to be written. No part of it allocates.
#[derive(Clone, Copy, Debug)]
pub struct RocePacket<'a> {
    /// Everything below the transport.
    pub path: &'a Path,
    /// Base transport header.
    pub bth: BthFields,
    /// Extension headers, in the order of [`Opcode::extensions`].
    pub extensions: &'a [Extension],
}

impl RocePacket<'_> {
    /// Octets of the frame (no FCS) with `payload_len` octets of payload.
    pub const fn frame_len(&self, payload_len: usize) -> usize {
        self.udp_len(payload_len)
            .saturating_add(self.path.ip_offset() + self.path.ip_len())
    }

    const fn udp_len(&self, payload_len: usize) -> usize {
        let headers = UDP_LEN + bth::LEN + self.bth.opcode.extensions_len();
        padded(payload_len).saturating_add(headers + icrc::LEN)
    }

    /// Writes the frame to the front of `frame` and returns its length. `payload` is called once with the
    /// `payload_len` octets to be filled, which hold what the buffer held before.
    ///
    /// # Errors
    /// See [`BuildError`]; nothing is written then.
    pub fn emit(
        &self,
        frame: &mut [u8],
        payload_len: usize,
        payload: impl FnOnce(&mut [u8]),
    ) -> Result<usize, BuildError> {
        let (layout, udp_len) = self.check(frame.len(), payload_len)?;
        let frame = &mut frame[..layout.icrc + icrc::LEN];
        self.path.emit_ethernet(frame);
        self.path.emit_ip(&mut frame[layout.ip..], udp_len);
        self.path.emit_udp(&mut frame[layout.udp..], udp_len);
        let pad = padded(payload_len) - payload_len;
        let mut at = layout.bth + bth::LEN;
        if let Some(header) = frame[layout.bth..].first_chunk_mut() {
            self.bth.emit(pad as u8, header);
        }
        for extension in self.extensions {
            at += extension.emit(&mut frame[at..]).unwrap_or_default();
        }
        payload(&mut frame[at..at + payload_len]);
        frame[at + payload_len..layout.icrc].fill(0);
        let value = icrc::over(frame, &layout);
        frame[layout.icrc..].copy_from_slice(&value.to_le_bytes());
        Ok(frame.len())
    }

    /// Writes the headers alone, for a frame whose payload is only a length. IP says that the frame has `frame_len` octets:
    /// usually [`RocePacket::frame_len`], but a simulator's frames may be shorter; UDP's length is that of the payload in any
    /// case. Returns how many octets were written.
    ///
    /// # Errors
    /// See [`BuildError`]; a buffer or a `frame_len` shorter than the headers is [`BuildError::NoRoom`].
    pub fn emit_headers(
        &self,
        buffer: &mut [u8],
        payload_len: usize,
        frame_len: usize,
    ) -> Result<usize, BuildError> {
        self.check_extensions()?;
        let ip = self.path.ip_offset();
        let udp = ip + self.path.ip_len();
        let needed = udp + UDP_LEN + bth::LEN + self.bth.opcode.extensions_len();
        let available = buffer.len().min(frame_len);
        if available < needed {
            return Err(BuildError::NoRoom { needed, available });
        }
        let udp_len = self.udp_len(payload_len);
        if udp_len.max(frame_len) > usize::from(u16::MAX) - IPV4_LEN {
            return Err(BuildError::TooLong { payload_len });
        }
        self.path.emit_ethernet(buffer);
        self.path.emit_ip(&mut buffer[ip..], (frame_len - udp) as u16);
        self.path.emit_udp(&mut buffer[udp..], udp_len as u16);
        let transport = udp + UDP_LEN;
        Ok(transport + self.emit_transport(&mut buffer[transport..], payload_len)?)
    }

    /// Writes the base transport header and those that extend it alone, for a packet whose lower headers are there already. Returns how
    /// many octets were written.
    ///
    /// # Errors
    /// Wrong extension headers, or a `buffer` shorter than the headers.
    #[inline(always)] // what it writes is known where it is called
    pub fn emit_transport(&self, buffer: &mut [u8], payload_len: usize) -> Result<usize, BuildError> {
        self.check_extensions()?;
        let needed = bth::LEN + self.bth.opcode.extensions_len();
        let available = buffer.len();
        let header = buffer
            .first_chunk_mut()
            .filter(|_| available >= needed)
            .ok_or(BuildError::NoRoom { needed, available })?;
        self.bth.emit((padded(payload_len) - payload_len) as u8, header);
        let mut at = bth::LEN;
        for extension in self.extensions {
            at += extension.emit(&mut buffer[at..]).unwrap_or_default();
        }
        Ok(at)
    }

    /// Where the transport's headers begin.
    pub const fn transport_offset(&self) -> usize {
        self.path.ip_offset() + self.path.ip_len() + UDP_LEN
    }

    /// The extension headers are those of the opcode.
    #[inline]
    fn check_extensions(&self) -> Result<(), BuildError> {
        let kinds = self.bth.opcode.extensions().iter().copied();
        match self.extensions.iter().map(Extension::kind).eq(kinds) {
            true => Ok(()),
            false => Err(BuildError::Extensions {
                opcode: self.bth.opcode,
            }),
        }
    }

    /// Where the parts will lie, and the UDP length.
    fn check(&self, available: usize, payload_len: usize) -> Result<(Layout, u16), BuildError> {
        self.check_extensions()?;
        // IPv4 counts its header in the 16-bit length; one limit for both families.
        if self.udp_len(payload_len) > usize::from(u16::MAX) - IPV4_LEN {
            return Err(BuildError::TooLong { payload_len });
        }
        let needed = self.frame_len(payload_len);
        if available < needed {
            return Err(BuildError::NoRoom { needed, available });
        }
        let ip = self.path.ip_offset();
        let udp = ip + self.path.ip_len();
        let layout = Layout {
            ip,
            udp,
            bth: udp + UDP_LEN,
            icrc: needed - icrc::LEN,
        };
        Ok((layout, self.udp_len(payload_len) as u16))
    }
}
