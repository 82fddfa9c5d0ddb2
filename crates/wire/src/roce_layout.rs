//! Positions of the headers of a RoCEv2 frame.

use crate::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, Error, ICRC_LEN, IPV4_LEN, IPV6_LEN, Ipv4Packet, Ipv6Packet,
    PROTOCOL_UDP, ROCE_UDP_PORT, UDP_LEN, UdpPacket, bth, read_be16, require_len, vlan,
};

/// Offsets of the parts of a RoCEv2 frame in bytes. IPv4 headers have no options, so `udp - ip` is 20 or 40.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoceLayout {
    pub(crate) ip: usize,
    pub(crate) udp: usize,
    pub(crate) bth: usize,
    pub(crate) icrc: usize,
}

impl RoceLayout {
    /// Finds the parts of a frame. The UDP datagram must fill the IP payload and have room for BTH and ICRC.
    /// Bytes after the IP packet are Ethernet padding and are ignored.
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
            icrc: ip + packet_len - ICRC_LEN,
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

/// Returns the length of an IPv6 packet in bytes, with its header. To carry RoCEv2, the packet must have no
/// extension headers, so its next header must be UDP.
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
    require_len("BTH and ICRC", &datagram[UDP_LEN..], bth::LEN + ICRC_LEN)
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
