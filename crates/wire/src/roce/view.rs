//! Reading a RoCEv2 frame.

use core::fmt;

use crate::bth::{self, Bth};
use crate::ext::Extension;
use crate::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, Error, IPV4_LEN, IPV6_LEN, Ipv4Packet, Ipv6Packet, PROTOCOL_UDP,
    ROCE_UDP_PORT, UDP_LEN, UdpPacket, be16, icrc, require, vlan,
};

/// Where the parts of a RoCEv2 frame lie: offsets into it. IPv4 without options, so `udp - ip` is 20 or 40.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) ip: usize,
    pub(crate) udp: usize,
    pub(crate) bth: usize,
    pub(crate) icrc: usize,
}

impl Layout {
    /// Finds the parts. Layers must agree: UDP fills the IP payload, and behind the BTH there is room for an
    /// ICRC. Octets behind the IP packet (Ethernet padding) are not part of it.
    pub(crate) fn of(frame: &[u8]) -> Result<Layout, Error> {
        let mut tags = vlan::tags(frame);
        tags.by_ref().for_each(drop);
        let ip = tags.header_len();
        require("Ethernet", frame, ip)?;
        let packet = &frame[ip..];
        let (header_len, packet_len) = match be16(frame, ip - 2..ip) {
            ETHERTYPE_IPV4 => (IPV4_LEN, ipv4_len(packet)?),
            ETHERTYPE_IPV6 => (IPV6_LEN, ipv6_len(packet)?),
            ethertype => return Err(Error::NotIp { ethertype }),
        };
        udp_is_roce(&packet[header_len..packet_len])?;
        let udp = ip + header_len;
        Ok(Layout {
            ip,
            udp,
            bth: udp + UDP_LEN,
            icrc: ip + packet_len - icrc::LEN,
        })
    }
}

/// Length of an IPv4 packet that can carry RoCEv2: unfragmented, no options, UDP.
fn ipv4_len(bytes: &[u8]) -> Result<usize, Error> {
    require("IPv4", bytes, IPV4_LEN)?;
    let packet = Ipv4Packet::new_unchecked(bytes);
    check_version(4, packet.version())?;
    match usize::from(packet.header_len()) {
        IPV4_LEN => {}
        header_len if header_len > IPV4_LEN => return Err(Error::Ipv4Options { header_len }),
        says => {
            return Err(Error::Length {
                header: "IPv4",
                says,
                least: IPV4_LEN,
                most: 60,
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

/// Length of an IPv6 packet that can carry RoCEv2: no extension headers, UDP.
fn ipv6_len(bytes: &[u8]) -> Result<usize, Error> {
    require("IPv6", bytes, IPV6_LEN)?;
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

/// Checks the UDP header of an IP payload, and that BTH and ICRC fit behind it.
fn udp_is_roce(datagram: &[u8]) -> Result<(), Error> {
    require("UDP", datagram, UDP_LEN)?;
    let udp = UdpPacket::new_unchecked(datagram);
    if udp.dst_port() != ROCE_UDP_PORT {
        return Err(Error::NotRoce { port: udp.dst_port() });
    }
    check_length("UDP", usize::from(udp.len()), datagram.len(), datagram.len())?;
    require("BTH and ICRC", &datagram[UDP_LEN..], bth::LEN + icrc::LEN)
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

fn check_length(header: &'static str, says: usize, least: usize, most: usize) -> Result<usize, Error> {
    if (least..=most).contains(&says) {
        Ok(says)
    } else {
        Err(Error::Length {
            header,
            says,
            least,
            most,
        })
    }
}

/// A whole RoCEv2 frame: Ethernet, any tags, IPv4 or IPv6, UDP, BTH, extension headers, payload, pad, ICRC.
///
/// Lengths and layers are checked; the ICRC is not, see [`RoceView::icrc_is_valid`].
#[derive(Clone, Copy, Debug)]
pub struct RoceView<'a> {
    frame: &'a [u8],
    layout: Layout,
    payload: (usize, usize),
}

impl<'a> RoceView<'a> {
    /// Checks that a frame is RoCEv2 from its Ethernet header to its ICRC.
    ///
    /// # Errors
    /// The first layer that does not hold, and why.
    pub fn new_checked(frame: &'a [u8]) -> Result<RoceView<'a>, Error> {
        let layout = Layout::of(frame)?;
        let behind_bth = &frame[layout.bth + bth::LEN..layout.icrc];
        let bth = Bth::new_unchecked(&frame[layout.bth..layout.icrc]);
        let extensions_len = bth.opcode().extensions_len();
        require("extension headers", behind_bth, extensions_len)?;
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

    /// The base transport header.
    pub fn bth(&self) -> Bth<&'a [u8]> {
        Bth::new_unchecked(&self.frame[self.layout.bth..self.layout.icrc])
    }

    /// The extension headers, in order.
    pub fn extensions(&self) -> impl Iterator<Item = Extension> + use<'a> {
        let mut rest = &self.frame[self.layout.bth + bth::LEN..self.payload.0];
        self.bth().opcode().extensions().iter().map_while(move |&kind| {
            let extension = Extension::parse(kind, rest).ok()?;
            rest = &rest[kind.header_len()..];
            Some(extension)
        })
    }

    /// The payload, without pad.
    pub fn payload(&self) -> &'a [u8] {
        &self.frame[self.payload.0..self.payload.1]
    }

    /// The UDP header and everything behind it.
    pub fn udp(&self) -> UdpPacket<&'a [u8]> {
        UdpPacket::new_unchecked(&self.frame[self.layout.udp..self.layout.icrc + icrc::LEN])
    }

    /// Offset of the IP header.
    pub fn ip_offset(&self) -> usize {
        self.layout.ip
    }

    /// Traffic class octet of IP: DSCP (6 bits), ECN (2).
    pub fn tos(&self) -> u8 {
        let ip = &self.frame[self.layout.ip..];
        if self.is_ipv6() {
            ip[0] << 4 | ip[1] >> 4
        } else {
            ip[1]
        }
    }

    /// Whether the packet is IPv6; IPv4 otherwise.
    pub fn is_ipv6(&self) -> bool {
        self.layout.udp - self.layout.ip == IPV6_LEN
    }

    /// Whether the frame carries the ICRC that it should.
    pub fn icrc_is_valid(&self) -> bool {
        icrc::matches(self.frame, &self.layout)
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
