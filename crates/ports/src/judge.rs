//! Which received frames cannot be passed on unharmed. The same for every backend on a netdev, so that it makes no
//! difference to a run which of them a port has.

use xoff_dataplane::DropReason;
use xoff_wire::parse::{ParsedHeaders, Payload};

/// Octets of the two addresses, behind which a tag goes.
pub(super) const ADDRESSES_BYTES: usize = 12;

/// What a backend has of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Its length, without a tag that was taken off.
    pub(super) len: u64,
    /// Octets of that tag, or 0.
    pub(super) tag_bytes: u64,
    /// How many octets we have.
    pub(super) stored: usize,
}

/// Why a frame would not leave as it came, if so. `longest` is what a frame of this link can have, `is_unfinished` says
/// whether its checksum is left to hardware.
pub(super) fn harm(found: Found, longest: u32, is_unfinished: impl FnOnce() -> bool) -> Option<DropReason> {
    // A superframe has an unfinished checksum too; its length says more.
    if found.len + found.tag_bytes > u64::from(longest) || (found.stored as u64) < found.len {
        Some(DropReason::Oversized)
    } else if is_unfinished() {
        Some(DropReason::ChecksumUnfinished)
    } else if found.stored < ADDRESSES_BYTES {
        // A socket cannot get less than an Ethernet header; the kernel would be wrong, and there is no place for a tag.
        Some(DropReason::Truncated)
    } else {
        None
    }
}

/// What to tell a person, once, of frames of `device` that are dropped for a reason of [`harm`], with what to do about
/// it. `is_tap`: behind the device is a program, most likely a guest.
pub(super) fn warning(device: &str, is_tap: bool, longest: u32, reason: DropReason) -> String {
    let what = match reason {
        DropReason::ChecksumUnfinished => "with a checksum that the sender left to hardware".to_owned(),
        _ => format!(
            "of more than {longest} octets, the most that the port's MTU allows: glued together by the sender, or its MTU is \
             larger"
        ),
    };
    let fix = match is_tap {
        true => format!(
            "`ethtool -K DEV tx off` in the guest behind '{device}', or start QEMU with `vnet_hdr=off` in its \
             `-netdev tap`"
        ),
        false => format!("`ethtool -K PEER tx off` for the far end of '{device}', in its namespace"),
    };
    format!(
        "frames arrive on '{device}' {what}; they are dropped ({}). Run {fix}",
        reason.name()
    )
}

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const HOP_BY_HOP: u8 = 0;
const DESTINATION_OPTIONS: u8 = 60;
/// Headers of options that are looked behind.
const OPTION_HEADERS_MAX: usize = 4;

/// Whether a frame has the TCP or UDP checksum that a kernel leaves to hardware: in its place stands the sum of the
/// pseudo header, and that is not the checksum. For backends that are not told. What it cannot see is a checksum inside
/// a tunnel, and a frame that was made to look so is taken for one.
pub(super) fn looks_unfinished(frame: &[u8], parsed: &ParsedHeaders) -> bool {
    let l3 = frame.get(usize::from(parsed.l3_offset)..).unwrap_or_default();
    let found = match parsed.payload {
        Payload::Ipv4 => ipv4_transport(l3),
        Payload::Ipv6 => ipv6_transport(l3),
        _ => None,
    };
    let Some((protocol, addresses, transport)) = found else {
        return false;
    };
    let at = match protocol {
        PROTOCOL_TCP => 16,
        PROTOCOL_UDP => 6,
        _ => return false,
    };
    let Some(&[a, b]) = transport.get(at..at + 2) else {
        return false;
    };
    // A UDP packet without checksum, as nearly all of RoCEv2 are; no pseudo header sums up to nothing.
    if a | b == 0 {
        return false;
    }
    let pseudo = sum(addresses) + u64::from(protocol) + transport.len() as u64;
    fold(pseudo) == u16::from_be_bytes([a, b]) && fold(pseudo + sum(transport)) != 0xffff
}

/// Protocol, both addresses, and what follows the header; nothing of a fragment, whose checksum is always finished.
fn ipv4_transport(l3: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let header: &[u8; 20] = l3.first_chunk()?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return None;
    }
    Some((header[9], &l3[12..20], l3.get(header_len..total_len)?))
}

/// As [`ipv4_transport`], behind headers of options.
fn ipv6_transport(l3: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let header: &[u8; 40] = l3.first_chunk()?;
    let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut rest = l3.get(40..40 + payload_len)?;
    let mut next = header[6];
    for _ in 0..OPTION_HEADERS_MAX {
        if next != HOP_BY_HOP && next != DESTINATION_OPTIONS {
            break;
        }
        let &[following, len] = rest.first_chunk()?;
        rest = rest.get(8 + 8 * usize::from(len)..)?;
        next = following;
    }
    Some((next, &l3[8..40], rest))
}

/// Sum of 16-bit words, the last octet of an odd number as the high one.
fn sum(bytes: &[u8]) -> u64 {
    let (words, odd) = bytes.as_chunks::<2>();
    let words: u64 = words
        .iter()
        .map(|word| u64::from(u16::from_be_bytes(*word)))
        .sum();
    words + odd.first().map_or(0, |octet| u64::from(*octet) << 8)
}

/// The sum in ones' complement of 16 bits.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_wire::parse::parse;

    /// A frame of a UDP or TCP packet with a payload, its checksum as `checksum` makes it of pseudo sum and full sum.
    fn packet(v6: bool, protocol: u8, payload: usize, checksum: impl Fn(u16, u16) -> u16) -> Vec<u8> {
        let header = if protocol == PROTOCOL_UDP { 8 } else { 20 };
        let len = header + payload;
        let mut frame = vec![2; 12];
        let addresses: Vec<u8> = (0..if v6 { 32 } else { 8 })
            .map(|n: u32| (17 * n + 3) as u8)
            .collect();
        if v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((len as u16).to_be_bytes());
            frame.extend([protocol, 64]);
        } else {
            frame.extend([0x08, 0x00, 0x45, 0]);
            frame.extend((20 + len as u16).to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
        }
        frame.extend(&addresses);
        let mut transport: Vec<u8> = (0..len).map(|n| (n * 31) as u8).collect();
        let at = if protocol == PROTOCOL_UDP { 6 } else { 16 };
        transport[at..at + 2].fill(0);
        let pseudo = sum(&addresses) + u64::from(protocol) + len as u64;
        let value = checksum(fold(pseudo), fold(pseudo + sum(&transport)));
        transport[at..at + 2].copy_from_slice(&value.to_be_bytes());
        frame.extend(transport);
        frame
    }

    #[test]
    fn what_a_kernel_leaves_undone_is_seen_and_nothing_else() {
        for v6 in [false, true] {
            for protocol in [PROTOCOL_TCP, PROTOCOL_UDP] {
                for payload in [0, 1, 7, 100, 1400] {
                    let looks = |frame: &[u8]| looks_unfinished(frame, &parse(frame));
                    let unfinished = packet(v6, protocol, payload, |pseudo, _| pseudo);
                    assert!(looks(&unfinished), "{v6} {protocol} {payload}");
                    let finished = packet(v6, protocol, payload, |_, full| !full);
                    assert!(!looks(&finished), "{v6} {protocol} {payload}");
                    let none = packet(v6, protocol, payload, |_, _| 0);
                    let wrong = packet(v6, protocol, payload, |_, full| !full ^ 0x55);
                    assert!(!looks(&none) && !looks(&wrong));
                    // Padding behind the packet does not count, nor does a tag in front of it.
                    let padded = [&unfinished[..], &[9; 3]].concat();
                    let tagged = [&unfinished[..12], &[0x81, 0, 0, 5], &unfinished[12..]].concat();
                    assert!(looks(&padded) && looks(&tagged));
                }
            }
        }
    }

    #[test]
    fn fragments_options_and_cut_packets_are_not_misread() {
        let looks = |frame: &[u8]| looks_unfinished(frame, &parse(frame));
        let unfinished = packet(false, PROTOCOL_UDP, 100, |pseudo, _| pseudo);
        let mut fragment = unfinished.clone();
        fragment[20] = 0x20;
        assert!(!looks(&fragment));
        for len in 0..unfinished.len() {
            assert!(!looks(&unfinished[..len]));
        }
        let plain = packet(true, PROTOCOL_UDP, 100, |pseudo, _| pseudo);
        let mut options = plain.clone();
        options.splice(54..54, [PROTOCOL_UDP, 0, 1, 4, 0, 0, 0, 0]);
        options[20] = HOP_BY_HOP;
        options[19] += 8;
        assert!(looks(&options));
    }

    #[test]
    fn length_says_more_than_the_checksum() {
        let of = |len, stored, is_unfinished| {
            let found = Found {
                len,
                tag_bytes: 0,
                stored,
            };
            harm(found, 1522, || is_unfinished)
        };
        assert_eq!(of(1523, 1523, true), Some(DropReason::Oversized));
        assert_eq!(of(100, 60, true), Some(DropReason::Oversized));
        assert_eq!(of(100, 100, true), Some(DropReason::ChecksumUnfinished));
        assert_eq!(of(8, 8, false), Some(DropReason::Truncated));
        assert_eq!(of(1522, 1522, false), None);
    }
}
