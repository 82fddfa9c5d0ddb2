//! Echo requests of ICMP (RFC 792) and ICMPv6 (RFC 4443 section 4), and the replies to them.

use core::net::IpAddr;

use smoltcp::wire::{Icmpv4Message, Icmpv4Packet, Icmpv6Message, Icmpv6Packet};

use crate::{Addresses, IpProtocol, Ipv4Packet, Ipv6Packet};

/// An echo request of ICMP (RFC 792) or ICMPv6 (RFC 4443 section 4) that is not a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoRequest {
    l3_offset: usize,
    addresses: Addresses,
}

impl EchoRequest {
    /// Parses a frame whose IP header begins at byte `l3_offset`. Returns `None` in these cases:
    ///
    /// - the frame is truncated, a fragment or not an echo request,
    /// - the ICMPv6 checksum is wrong.
    ///
    /// The checksums of IPv4 and ICMP are not verified.
    pub fn parse(frame: &[u8], l3_offset: usize) -> Option<EchoRequest> {
        let l3 = frame.get(l3_offset..)?;
        let (is_request, addresses) = match l3.first()? >> 4 {
            4 => {
                let packet = Ipv4Packet::new_checked(l3).ok()?;
                let (src, dst) = (packet.src_addr(), packet.dst_addr());
                let message = Icmpv4Packet::new_checked(packet.payload()).ok()?;
                let is_request = packet.next_header() == IpProtocol::Icmp
                    && !packet.more_frags()
                    && packet.frag_offset() == 0
                    && message.msg_type() == Icmpv4Message::EchoRequest;
                (is_request, Addresses::V4 { src, dst })
            }
            6 => {
                let packet = Ipv6Packet::new_checked(l3).ok()?;
                let (src, dst) = (packet.src_addr(), packet.dst_addr());
                let message = Icmpv6Packet::new_checked(packet.payload()).ok()?;
                let is_request = packet.next_header() == IpProtocol::Icmpv6
                    && message.msg_type() == Icmpv6Message::EchoRequest
                    && message.verify_checksum(&src, &dst);
                (is_request, Addresses::V6 { src, dst })
            }
            _ => return None,
        };
        is_request.then_some(EchoRequest { l3_offset, addresses })
    }

    /// Returns the destination address of the request.
    pub const fn destination(&self) -> IpAddr {
        match self.addresses {
            Addresses::V4 { dst, .. } => IpAddr::V4(dst),
            Addresses::V6 { dst, .. } => IpAddr::V6(dst),
        }
    }

    /// Turns the frame of this request into the reply of the station with the MAC address `mac`. The function
    /// exchanges the addresses and writes the ICMP type and checksum. All other bytes stay unchanged. `frame`
    /// must be the parsed frame or a copy.
    ///
    /// # Panics
    ///
    /// May panic if `frame` is another frame.
    pub fn turn_into_reply(&self, mac: [u8; 6], frame: &mut [u8]) {
        frame.copy_within(6..12, 0);
        frame[6..12].copy_from_slice(&mac);
        let l3 = &mut frame[self.l3_offset..];
        // The order of the addresses does not change the checksum of the IPv4 header.
        match self.addresses {
            Addresses::V4 { src, dst } => {
                let mut packet = Ipv4Packet::new_unchecked(l3);
                packet.set_src_addr(dst);
                packet.set_dst_addr(src);
                let mut message = Icmpv4Packet::new_unchecked(packet.payload_mut());
                message.set_msg_type(Icmpv4Message::EchoReply);
                message.fill_checksum();
            }
            Addresses::V6 { src, dst } => {
                let mut packet = Ipv6Packet::new_unchecked(l3);
                packet.set_src_addr(dst);
                packet.set_dst_addr(src);
                let mut message = Icmpv6Packet::new_unchecked(packet.payload_mut());
                message.set_msg_type(Icmpv6Message::EchoReply);
                message.fill_checksum(&dst, &src);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 2];
    /// From 10.0.0.1 to 10.0.0.2: identifier 7, sequence number 9, four bytes and padding.
    const IPV4_REQUEST: [u8; 60] = [
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 32, 0, 1, 0, 0, 64, 1, 0x66, 0xda, 10, 0, 0, 1,
        10, 0, 0, 2, 8, 0, 0x29, 0x43, 0, 7, 0, 9, 0xde, 0xad, 0xef, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0,
    ];

    /// Returns an ICMPv6 echo request from fe80::1 to fe80::2 with a valid checksum.
    fn ipv6_request() -> Vec<u8> {
        let mut frame = vec![
            2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 9, 58, 64,
        ];
        for last in [1, 2] {
            frame.extend_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        frame.extend_from_slice(&[128, 0, 0, 0, 0, 7, 0, 9, 0xde]);
        let mut packet = Ipv6Packet::new_unchecked(&mut frame[14..]);
        let (source, destination) = (packet.src_addr(), packet.dst_addr());
        Icmpv6Packet::new_unchecked(packet.payload_mut()).fill_checksum(&source, &destination);
        frame
    }

    fn reply_to(frame: &[u8]) -> Vec<u8> {
        let mut reply = frame.to_vec();
        EchoRequest::parse(frame, 14)
            .unwrap()
            .turn_into_reply(OWN, &mut reply);
        reply
    }

    #[test]
    fn a_reply_exchanges_the_addresses_and_keeps_the_data() {
        let reply = reply_to(&IPV4_REQUEST);
        assert_eq!(reply[..14], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        assert_eq!(reply[14..26], IPV4_REQUEST[14..26]);
        assert_eq!(reply[26..34], [10, 0, 0, 2, 10, 0, 0, 1]);
        assert_eq!(reply[34..38], [0, 0, 0x31, 0x43]);
        assert_eq!(reply[38..], IPV4_REQUEST[38..]);
    }

    #[test]
    fn an_ipv6_reply_has_a_valid_checksum() {
        let reply = reply_to(&ipv6_request());
        let packet = Ipv6Packet::new_checked(&reply[14..]).unwrap();
        let (source, destination) = (packet.src_addr(), packet.dst_addr());
        assert_eq!((source.octets()[15], destination.octets()[15]), (2, 1));
        let message = Icmpv6Packet::new_checked(packet.payload()).unwrap();
        assert_eq!(message.msg_type(), Icmpv6Message::EchoReply);
        assert!(message.verify_checksum(&source, &destination));
        assert_eq!(reply[58..], ipv6_request()[58..]);
    }

    #[test]
    fn fragments_replies_and_damaged_requests_are_refused() {
        for (offset, value) in [(20, 0x20), (21, 1), (23, 17), (34, 0), (14, 0x55), (17, 60)] {
            let mut frame = IPV4_REQUEST;
            frame[offset] = value;
            assert_eq!(EchoRequest::parse(&frame, 14), None, "byte {offset}");
        }
        for offset in [20, 54, 58, 62] {
            let mut frame = ipv6_request();
            frame[offset] ^= 1;
            assert_eq!(EchoRequest::parse(&frame, 14), None, "byte {offset}");
        }
        (0..46).for_each(|end| assert_eq!(EchoRequest::parse(&IPV4_REQUEST[..end], 14), None));
    }
}
