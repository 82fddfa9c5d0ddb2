//! Packets that a switch has trimmed: RoCE has no use for them.

use xoff_dataplane::parse::{Parsed, Payload};
use xoff_dataplane::wire::{IPV4_LEN, IPV6_LEN, PROTOCOL_UDP, ROCE_UDP_PORT, UDP_LEN};

/// Whether a frame is a RoCEv2 packet of which a switch has sent on the beginning alone: UDP says that there is more than IP has
/// brought. Its ICRC is gone with its end, so that nothing in it can be relied on.
#[inline]
pub(super) fn is_trimmed(prefix: &[u8], parsed: &Parsed) -> bool {
    let l3 = prefix.get(usize::from(parsed.l3_offset)..).unwrap_or(&[]);
    datagram(l3, parsed.payload).is_some_and(|(udp, ip_payload_len)| {
        let port = u16::from_be_bytes([udp[2], udp[3]]);
        let udp_len = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
        port == ROCE_UDP_PORT && udp_len > ip_payload_len
    })
}

/// The UDP header of a packet that is no fragment, and how many octets IP says it carries.
#[inline]
fn datagram(l3: &[u8], payload: Payload) -> Option<(&[u8; UDP_LEN], usize)> {
    let be16 = |at: usize| usize::from(u16::from_be_bytes([l3[at], l3[at + 1]]));
    let (protocol, at, len) = match payload {
        Payload::Ipv4 if l3.len() >= IPV4_LEN && be16(6) & 0x3fff == 0 => {
            let header_len = usize::from(l3[0] & 15) * 4;
            (l3[9], header_len, be16(2).checked_sub(header_len)?)
        }
        Payload::Ipv6 if l3.len() >= IPV6_LEN => (l3[6], IPV6_LEN, be16(4)),
        _ => return None,
    };
    let udp = l3.get(at..)?.first_chunk()?;
    (protocol == PROTOCOL_UDP).then_some((udp, len))
}
