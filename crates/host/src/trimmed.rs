//! What of a datagram has arrived. Packets that a switch has trimmed are incomplete: RoCE has no use for them.

use xoff_wire::parse::{ParsedHeaders, Payload};
use xoff_wire::{IPV4_LEN, IPV6_LEN, PROTOCOL_UDP, ROCE_UDP_PORT, UDP_LEN};

/// A RoCEv2 packet behind its IP header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram<'a> {
    /// What is stored of it behind the UDP header.
    pub(super) rest: &'a [u8],
    /// Its length by UDP, that header included.
    pub(super) udp_len: usize,
    /// What IP has brought of it.
    carried: usize,
}

impl Datagram<'_> {
    /// UDP says that there is more than IP has brought.
    #[inline]
    pub(super) fn is_trimmed(&self) -> bool {
        self.udp_len > self.carried
    }
}

/// Whether a frame is a RoCEv2 packet of which a switch has sent on the beginning alone. Its ICRC is gone with its end, so that
/// nothing in it can be relied on.
pub(super) fn is_trimmed(prefix: &[u8], parsed: &ParsedHeaders) -> bool {
    datagram(prefix, parsed).is_some_and(|datagram| datagram.is_trimmed())
}

/// Reads a RoCEv2 packet down to its UDP header; `None` for anything else, fragments included.
#[inline]
pub(super) fn datagram<'a>(prefix: &'a [u8], parsed: &ParsedHeaders) -> Option<Datagram<'a>> {
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
    (protocol == PROTOCOL_UDP && to == ROCE_UDP_PORT).then(|| Datagram {
        rest,
        udp_len: usize::from(u16::from_be_bytes([udp[4], udp[5]])),
        carried,
    })
}
