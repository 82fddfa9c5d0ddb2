//! The builder of RoCEv2 frames.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bth::{self, BthFields, Opcode};
use crate::ext::Extension;
use crate::roce_layout::RoceLayout;
use crate::vlan::{TAG_LEN, VlanTag};
use crate::{
    ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ecn, IPV4_LEN, IPV6_LEN, IpProtocol, Ipv4Packet,
    Ipv6Packet, ROCE_UDP_PORT, UDP_LEN, UdpPacket, emit_ethernet_header, icrc,
};

/// Source and destination address of an IP packet. Both have the same IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// A pair of IPv4 addresses.
    V4 {
        /// Source address.
        src: Ipv4Addr,
        /// Destination address.
        dst: Ipv4Addr,
    },
    /// A pair of IPv6 addresses.
    V6 {
        /// Source address.
        src: Ipv6Addr,
        /// Destination address.
        dst: Ipv6Addr,
    },
}

impl Addresses {
    /// Pairs two addresses. Returns `None` if they have different IP versions.
    pub const fn new(source: IpAddr, destination: IpAddr) -> Option<Addresses> {
        match (source, destination) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Some(Addresses::V4 { src, dst }),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Some(Addresses::V6 { src, dst }),
            _ => None,
        }
    }
}

/// Ethernet, IP and UDP header fields that all packets of a flow have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowHeaders {
    /// Destination MAC address: the receiver, or the first router on the path.
    pub dst_mac: [u8; 6],
    /// Source MAC address.
    pub src_mac: [u8; 6],
    /// VLAN tag of the frame. `None`: the frame has no tag.
    pub tag: Option<VlanTag>,
    /// IP addresses of the sender (source) and the receiver (destination).
    pub addresses: Addresses,
    /// DSCP. Only the low 6 bits are used.
    pub dscp: u8,
    /// ECN field of IP.
    pub ecn: Ecn,
    /// TTL of IPv4 or hop limit of IPv6.
    pub hop_limit: u8,
    /// Flow label of IPv6. Only the low 20 bits are used. IPv4 ignores the field.
    pub flow_label: u32,
    /// UDP source port. Switches hash the port to spread flows over paths.
    /// [`FlowHeaders::source_port_of_flow_label`] computes the port as Linux does.
    pub udp_src_port: u16,
}

impl FlowHeaders {
    /// Makes headers with the usual values: no VLAN tag, DSCP 26 (RoCE data), ECT(0), hop limit 64, flow
    /// label 0 and UDP source port 0xC000.
    pub const fn new(src_mac: [u8; 6], dst_mac: [u8; 6], addresses: Addresses) -> FlowHeaders {
        FlowHeaders {
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

    /// Returns the UDP source port that Linux derives from a 20-bit flow label
    /// (`rdma_flow_label_to_udp_sport`). The result is 0xC000 or larger.
    pub const fn source_port_of_flow_label(flow_label: u32) -> u16 {
        let (low, high) = (flow_label & 0x3fff, flow_label >> 14 & 0x3f);
        (low ^ high) as u16 | 0xc000
    }

    /// Returns the 20-bit flow label that Linux derives from two queue pair numbers (`rdma_calc_flow_label`).
    /// Both directions have the same label.
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
        let ethertype = match self.addresses {
            Addresses::V4 { .. } => ETHERTYPE_IPV4,
            Addresses::V6 { .. } => ETHERTYPE_IPV6,
        };
        emit_ethernet_header(frame, self.dst_mac, self.src_mac, self.tag, ethertype);
    }

    /// Writes the IP header of a packet with `udp_len` bytes of UDP. As RoCE senders do, the function sets DF
    /// and the identification 0. A packet with DF needs no identification (RFC 6864).
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

    /// Writes the UDP header. The checksum is 0 for IPv4 and IPv6, as in Linux. The ICRC protects more fields
    /// than the UDP checksum would (IBTA annex A17).
    fn emit_udp(&self, bytes: &mut [u8], udp_len: u16) {
        let mut udp = UdpPacket::new_unchecked(bytes);
        udp.set_src_port(self.udp_src_port);
        udp.set_dst_port(ROCE_UDP_PORT);
        udp.set_len(udp_len);
        udp.set_checksum(0);
    }
}

/// The reason why a frame was not built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The buffer is shorter than the frame.
    NoRoom {
        /// Length of the frame in bytes.
        needed: usize,
        /// Length of the buffer in bytes.
        available: usize,
    },
    /// The payload does not fit into an IP packet.
    TooLong {
        /// Length of the requested payload in bytes.
        payload_len: usize,
    },
    /// The extension headers of the packet are not those of its opcode ([`Opcode::extensions`]).
    Extensions {
        /// The opcode of the packet.
        opcode: Opcode,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::NoRoom { needed, available } => {
                write!(
                    f,
                    "the frame has {needed} bytes, but the buffer has only {available}"
                )
            }
            BuildError::TooLong { payload_len } => {
                write!(
                    f,
                    "a payload of {payload_len} bytes does not fit into an IP packet"
                )
            }
            BuildError::Extensions { opcode } => {
                write!(f, "{opcode} needs exactly these extension headers:")?;
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

/// Rounds up to a multiple of four. If the result would overflow, it is the largest multiple of four. A later
/// check refuses this length.
const fn round_up_to_four(payload_len: usize) -> usize {
    payload_len.saturating_add(3) & !3
}

/// A RoCEv2 packet to be written into a buffer. Writing does not allocate.
#[derive(Clone, Copy, Debug)]
pub struct RocePacket<'a> {
    /// Ethernet, IP and UDP header fields.
    pub headers: &'a FlowHeaders,
    /// Fields of the base transport header.
    pub bth: BthFields,
    /// Extension headers in the order of [`Opcode::extensions`].
    pub extensions: &'a [Extension],
}

impl RocePacket<'_> {
    /// Returns the length of the frame without FCS in bytes. The payload has `payload_len` bytes without pad.
    pub const fn frame_len(&self, payload_len: usize) -> usize {
        self.udp_len(payload_len)
            .saturating_add(self.headers.ip_offset() + self.headers.ip_len())
    }

    const fn udp_len(&self, payload_len: usize) -> usize {
        let headers = UDP_LEN + bth::LEN + self.bth.opcode.extensions_len();
        round_up_to_four(payload_len).saturating_add(headers + crate::ICRC_LEN)
    }

    /// Writes the packet to the start of `frame` and returns its length in bytes without FCS. The function
    /// calls `payload` once with the `payload_len` bytes to fill. Before the call, these bytes have the
    /// previous contents of the buffer.
    ///
    /// # Errors
    ///
    /// Returns a [`BuildError`] if the extension headers do not match the opcode, the payload is too long, or
    /// `frame` is too short. `frame` is unchanged in this case.
    pub fn emit(
        &self,
        frame: &mut [u8],
        payload_len: usize,
        payload: impl FnOnce(&mut [u8]),
    ) -> Result<usize, BuildError> {
        let (layout, udp_len) = self.check_and_layout(frame.len(), payload_len)?;
        let frame = &mut frame[..layout.icrc + crate::ICRC_LEN];
        self.headers.emit_ethernet(frame);
        self.headers.emit_ip(&mut frame[layout.ip..], udp_len);
        self.headers.emit_udp(&mut frame[layout.udp..], udp_len);
        let pad = round_up_to_four(payload_len) - payload_len;
        let mut at = layout.bth + bth::LEN;
        if let Some(header) = frame[layout.bth..].first_chunk_mut() {
            self.bth.emit(pad as u8, header);
        }
        for extension in self.extensions {
            at += extension.emit(&mut frame[at..]).unwrap_or_default();
        }
        payload(&mut frame[at..at + payload_len]);
        frame[at + payload_len..layout.icrc].fill(0);
        let value = icrc::compute_icrc_at_layout(frame, &layout);
        frame[layout.icrc..].copy_from_slice(&value.to_le_bytes());
        Ok(frame.len())
    }

    /// Writes only the headers. Use this method for a frame whose payload is not stored. Returns the
    /// number of bytes written. The IP length field is that of a frame with `frame_len` bytes, which is
    /// usually [`RocePacket::frame_len`]. A simulator may use shorter frames. The UDP length always
    /// follows from `payload_len`.
    ///
    /// # Errors
    ///
    /// Returns a [`BuildError`] if the extension headers do not match the opcode or the payload is too long.
    /// If `buffer` or `frame_len` is shorter than the headers, the error is [`BuildError::NoRoom`].
    pub fn emit_headers(
        &self,
        buffer: &mut [u8],
        payload_len: usize,
        frame_len: usize,
    ) -> Result<usize, BuildError> {
        self.check_extensions()?;
        let ip = self.headers.ip_offset();
        let udp = ip + self.headers.ip_len();
        let needed = udp + UDP_LEN + bth::LEN + self.bth.opcode.extensions_len();
        let available = buffer.len().min(frame_len);
        if available < needed {
            return Err(BuildError::NoRoom { needed, available });
        }
        let udp_len = self.udp_len(payload_len);
        if udp_len.max(frame_len) > usize::from(u16::MAX) - IPV4_LEN {
            return Err(BuildError::TooLong { payload_len });
        }
        self.headers.emit_ethernet(buffer);
        self.headers.emit_ip(&mut buffer[ip..], (frame_len - udp) as u16);
        self.headers.emit_udp(&mut buffer[udp..], udp_len as u16);
        let transport = udp + UDP_LEN;
        Ok(transport + self.emit_transport(&mut buffer[transport..], payload_len)?)
    }

    /// Writes only the base transport header and the extension headers to the start of `buffer`. Returns the
    /// number of bytes written. `payload_len` determines the pad count.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError::Extensions`] if the extension headers do not match the opcode, and
    /// [`BuildError::NoRoom`] if `buffer` is shorter than the headers.
    #[inline(always)] // what it writes is known where it is called
    pub fn emit_transport(&self, buffer: &mut [u8], payload_len: usize) -> Result<usize, BuildError> {
        self.check_extensions()?;
        let needed = bth::LEN + self.bth.opcode.extensions_len();
        let available = buffer.len();
        let header = buffer
            .first_chunk_mut()
            .filter(|_| available >= needed)
            .ok_or(BuildError::NoRoom { needed, available })?;
        self.bth
            .emit((round_up_to_four(payload_len) - payload_len) as u8, header);
        let mut at = bth::LEN;
        for extension in self.extensions {
            at += extension.emit(&mut buffer[at..]).unwrap_or_default();
        }
        Ok(at)
    }

    /// Returns the offset of the base transport header in the frame, in bytes.
    pub const fn transport_offset(&self) -> usize {
        self.headers.ip_offset() + self.headers.ip_len() + UDP_LEN
    }

    /// Checks that the extension headers are those of the opcode.
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

    /// Checks the packet and computes its layout and UDP length.
    fn check_and_layout(
        &self,
        available: usize,
        payload_len: usize,
    ) -> Result<(RoceLayout, u16), BuildError> {
        self.check_extensions()?;
        // The 16-bit length of IPv4 includes its header. The same limit is used for IPv6.
        if self.udp_len(payload_len) > usize::from(u16::MAX) - IPV4_LEN {
            return Err(BuildError::TooLong { payload_len });
        }
        let needed = self.frame_len(payload_len);
        if available < needed {
            return Err(BuildError::NoRoom { needed, available });
        }
        let ip = self.headers.ip_offset();
        let udp = ip + self.headers.ip_len();
        let layout = RoceLayout {
            ip,
            udp,
            bth: udp + UDP_LEN,
            icrc: needed - crate::ICRC_LEN,
        };
        Ok((layout, self.udp_len(payload_len) as u16))
    }
}
