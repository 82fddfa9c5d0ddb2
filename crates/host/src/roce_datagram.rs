//! Detects RoCEv2 packets that a switch has trimmed (truncated). RoCE cannot use these packets.

use xoff_wire::parse::{ParsedHeaders, Payload};
use xoff_wire::{IPV4_LEN, IPV6_LEN, PROTOCOL_UDP, ROCE_UDP_PORT, UDP_LEN};

/// A RoCEv2 packet without its IP header.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoceDatagram<'a> {
    /// Stored bytes after the UDP header.
    pub(super) rest: &'a [u8],
    /// Length in the UDP header in bytes. The UDP header is included.
    pub(super) udp_len: usize,
    /// Length of the IP payload in bytes, by the IP header.
    carried: usize,
}

impl RoceDatagram<'_> {
    /// Returns whether the packet was trimmed: its UDP length exceeds the IP payload.
    #[inline]
    pub(super) fn is_trimmed(&self) -> bool {
        self.udp_len > self.carried
    }
}

/// Returns whether a frame is a trimmed RoCEv2 packet. A trimmed packet has no ICRC, so nobody can verify
/// its contents.
pub(super) fn is_trimmed(prefix: &[u8], parsed: &ParsedHeaders) -> bool {
    parse_roce_datagram(prefix, parsed).is_some_and(|datagram| datagram.is_trimmed())
}

/// Parses a RoCEv2 packet up to its UDP header. Returns `None` if the frame is a fragment or not a
/// RoCEv2 packet.
#[inline]
pub(super) fn parse_roce_datagram<'a>(prefix: &'a [u8], parsed: &ParsedHeaders) -> Option<RoceDatagram<'a>> {
    let l3 = prefix.get(usize::from(parsed.l3_offset)..)?;
    let be16 = |at: usize| usize::from(u16::from_be_bytes([l3[at], l3[at + 1]]));
    let (protocol, at, carried) = match parsed.payload {
        Payload::Ipv4 if l3.len() >= IPV4_LEN && be16(6) & 0x3fff == 0 => {
            let header_len = usize::from(l3[0] & 15) * 4;
            (l3[9], header_len, be16(2).checked_sub(header_len)?)
        }
        Payload::Ipv6 if l3.len() >= IPV6_LEN => (l3[6], IPV6_LEN, be16(4)),
        _ => return None,
    };
    let (udp, rest) = l3.get(at..)?.split_first_chunk::<UDP_LEN>()?;
    let to = u16::from_be_bytes([udp[2], udp[3]]);
    (protocol == PROTOCOL_UDP && to == ROCE_UDP_PORT).then(|| RoceDatagram {
        rest,
        udp_len: usize::from(u16::from_be_bytes([udp[4], udp[5]])),
        carried,
    })
}
