//! The reader of RoCEv2 frames.

use core::fmt;

use crate::bth::{self, Bth};
use crate::ext::Extension;
use crate::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, Error, IPV4_LEN, IPV6_LEN, Ipv4Packet, Ipv6Packet, PROTOCOL_UDP,
    ROCE_UDP_PORT, UDP_LEN, UdpPacket, icrc, read_be16, require_len, vlan,
};

/// Offsets of the parts of a RoCEv2 frame. IPv4 headers have no options, so `udp - ip` is 20 or 40.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoceLayout {
    pub(crate) ip: usize,
    pub(crate) udp: usize,
    pub(crate) bth: usize,
    pub(crate) icrc: usize,
}

impl RoceLayout {
    /// Finds the parts of a frame. UDP must fill the IP payload, and BTH and ICRC must fit into it. Bytes
    /// after the IP packet are Ethernet padding and are ignored.
    pub(crate) fn of_frame(frame: &[u8]) -> Result<RoceLayout, Error> {
        let mut tags = vlan::tags(frame);
        tags.by_ref().for_each(drop);
        let ip = tags.header_len();
        require_len("Ethernet", frame, ip)?;
        let packet = &frame[ip..];
        let (header_len, packet_len) = match read_be16(frame, ip - 2..ip) {
            ETHERTYPE_IPV4 => (IPV4_LEN, roce_ipv4_len(packet)?),
            ETHERTYPE_IPV6 => (IPV6_LEN, roce_ipv6_len(packet)?),
            ethertype => return Err(Error::NotIp { ethertype }),
        };
        check_roce_datagram(&packet[header_len..packet_len])?;
        let udp = ip + header_len;
        Ok(RoceLayout {
            ip,
            udp,
            bth: udp + UDP_LEN,
            icrc: ip + packet_len - crate::ICRC_LEN,
        })
    }
}

/// Returns the length of an IPv4 packet that can carry RoCEv2: no fragment, no options, protocol UDP.
fn roce_ipv4_len(bytes: &[u8]) -> Result<usize, Error> {
    require_len("IPv4", bytes, IPV4_LEN)?;
    let packet = Ipv4Packet::new_unchecked(bytes);
    check_version(4, packet.version())?;
    match usize::from(packet.header_len()) {
        IPV4_LEN => {}
        header_len if header_len > IPV4_LEN => return Err(Error::Ipv4Options { header_len }),
        value => {
            return Err(Error::Length {
                header: "IPv4",
                value,
                min: IPV4_LEN,
                max: 60,
            });
        }
    }
    let len = check_length("IPv4", usize::from(packet.total_len()), IPV4_LEN, bytes.len())?;
    if packet.more_frags() || packet.frag_offset() != 0 {
        return Err(Error::Fragment);
    }
    check_protocol(packet.next_header().into())?;
    Ok(len)
}

/// Returns the length of an IPv6 packet that can carry RoCEv2: no extension headers, next header UDP.
fn roce_ipv6_len(bytes: &[u8]) -> Result<usize, Error> {
    require_len("IPv6", bytes, IPV6_LEN)?;
    let packet = Ipv6Packet::new_unchecked(bytes);
    check_version(6, packet.version())?;
    let payload = check_length(
        "IPv6",
        usize::from(packet.payload_len()),
        0,
        bytes.len() - IPV6_LEN,
    )?;
    check_protocol(packet.next_header().into())?;
    Ok(IPV6_LEN + payload)
}

/// Checks the UDP header of an IP payload, and that BTH and ICRC fit into the datagram.
fn check_roce_datagram(datagram: &[u8]) -> Result<(), Error> {
    require_len("UDP", datagram, UDP_LEN)?;
    let udp = UdpPacket::new_unchecked(datagram);
    if udp.dst_port() != ROCE_UDP_PORT {
        return Err(Error::NotRoce { port: udp.dst_port() });
    }
    check_length("UDP", usize::from(udp.len()), datagram.len(), datagram.len())?;
    require_len("BTH and ICRC", &datagram[UDP_LEN..], bth::LEN + crate::ICRC_LEN)
}

fn check_version(expected: u8, found: u8) -> Result<(), Error> {
    if expected == found {
        Ok(())
    } else {
        Err(Error::IpVersion { expected, found })
    }
}

fn check_protocol(protocol: u8) -> Result<(), Error> {
    if protocol == PROTOCOL_UDP {
        Ok(())
    } else {
        Err(Error::NotUdp { protocol })
    }
}

fn check_length(header: &'static str, value: usize, min: usize, max: usize) -> Result<usize, Error> {
    if (min..=max).contains(&value) {
        Ok(value)
    } else {
        Err(Error::Length {
            header,
            value,
            min,
            max,
        })
    }
}

/// A whole RoCEv2 frame: Ethernet, VLAN tags, IPv4 or IPv6, UDP, BTH, extension headers, payload, pad and
/// ICRC.
///
/// Lengths and layers are checked. The ICRC is not checked, see [`RoceView::icrc_is_valid`].
#[derive(Clone, Copy, Debug)]
pub struct RoceView<'a> {
    frame: &'a [u8],
    layout: RoceLayout,
    payload: (usize, usize),
}

impl<'a> RoceView<'a> {
    /// Checks that a frame is RoCEv2 from its Ethernet header to its ICRC.
    ///
    /// # Errors
    ///
    /// The first layer that is not valid RoCEv2.
    pub fn new_checked(frame: &'a [u8]) -> Result<RoceView<'a>, Error> {
        let layout = RoceLayout::of_frame(frame)?;
        let behind_bth = &frame[layout.bth + bth::LEN..layout.icrc];
        let bth = Bth::new_unchecked(&frame[layout.bth..layout.icrc]);
        let extensions_len = bth.opcode().extensions_len();
        require_len("extension headers", behind_bth, extensions_len)?;
        let available = behind_bth.len() - extensions_len;
        let pad = bth.pad();
        if usize::from(pad) > available || !available.is_multiple_of(4) {
            return Err(Error::Padding { pad, available });
        }
        let start = layout.bth + bth::LEN + extensions_len;
        Ok(RoceView {
            frame,
            layout,
            payload: (start, layout.icrc - usize::from(pad)),
        })
    }

    /// Returns the base transport header of the packet.
    pub fn bth(&self) -> Bth<&'a [u8]> {
        Bth::new_unchecked(&self.frame[self.layout.bth..self.layout.icrc])
    }

    /// Returns the extension headers in the order of the frame.
    pub fn extensions(&self) -> impl Iterator<Item = Extension> + use<'a> {
        let mut rest = &self.frame[self.layout.bth + bth::LEN..self.payload.0];
        self.bth().opcode().extensions().iter().map_while(move |&kind| {
            let extension = Extension::parse(kind, rest).ok()?;
            rest = &rest[kind.header_len()..];
            Some(extension)
        })
    }

    /// Returns the payload without pad bytes.
    pub fn payload(&self) -> &'a [u8] {
        &self.frame[self.payload.0..self.payload.1]
    }

    /// Returns the UDP datagram: header and payload.
    pub fn udp(&self) -> UdpPacket<&'a [u8]> {
        UdpPacket::new_unchecked(&self.frame[self.layout.udp..self.layout.icrc + crate::ICRC_LEN])
    }

    /// Offset of the IP header in the frame.
    pub fn ip_offset(&self) -> usize {
        self.layout.ip
    }

    /// Traffic class byte of IP: DSCP (6 bits) and ECN (2 bits).
    pub fn tos(&self) -> u8 {
        let ip = &self.frame[self.layout.ip..];
        if self.is_ipv6() {
            ip[0] << 4 | ip[1] >> 4
        } else {
            ip[1]
        }
    }

    /// Returns whether the packet is IPv6 instead of IPv4.
    pub fn is_ipv6(&self) -> bool {
        self.layout.udp - self.layout.ip == IPV6_LEN
    }

    /// Returns whether the stored ICRC of the frame is correct.
    pub fn icrc_is_valid(&self) -> bool {
        icrc::is_stored_icrc_valid(self.frame, &self.layout)
    }
}

impl fmt::Display for RoceView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ip = &self.frame[self.layout.ip..];
        let (from, to) = (self.udp().src_port(), self.udp().dst_port());
        if self.is_ipv6() {
            let ip = Ipv6Packet::new_unchecked(ip);
            write!(f, "IP6 {}.{from} > {}.{to}", ip.src_addr(), ip.dst_addr())?;
        } else {
            let ip = Ipv4Packet::new_unchecked(ip);
            write!(f, "IP {}.{from} > {}.{to}", ip.src_addr(), ip.dst_addr())?;
        }
        write!(f, ": RoCEv2 tos {:#04x}, {}", self.tos(), self.bth())?;
        for extension in self.extensions() {
            write!(f, ", {extension}")?;
        }
        write!(f, ", length {}", self.payload().len())?;
        if !self.icrc_is_valid() {
            write!(f, ", bad ICRC")?;
        }
        Ok(())
    }
}
