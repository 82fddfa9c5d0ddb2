//! Detects received frames that the switch cannot forward unchanged.
//!
//! All backends on network devices use these rules. The result of a run therefore does not depend on
//! the backend.

use xoff_dataplane::DropReason;
use xoff_wire::parse::{ParsedHeaders, Payload};

/// Length of the two MAC addresses, in bytes. This is also the offset of a VLAN tag in a frame.
pub(super) const ADDRESSES_BYTES: usize = 12;

/// The lengths of a received frame that the backend knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct CapturedLengths {
    /// Length of the frame in bytes. A VLAN tag that the kernel has removed is not included.
    pub(super) frame_len: u64,
    /// Length in bytes of the VLAN tag that the kernel has removed. 0 if the kernel has removed none.
    pub(super) tag_len: u64,
    /// Number of bytes of the frame that the backend has stored.
    pub(super) stored_len: usize,
}

/// Checks whether the switch can forward a frame unchanged. If so, returns `None`. Otherwise, returns the
/// reason for dropping the frame.
///
/// `frame_len_max` is the length of the longest frame of the link, in bytes. `is_unfinished` returns whether
/// the checksum is unfinished. A checksum is unfinished if the sender relies on checksum offload.
pub(super) fn find_drop_reason(
    lengths: CapturedLengths,
    frame_len_max: u32,
    is_unfinished: impl FnOnce() -> bool,
) -> Option<DropReason> {
    let sent_len = lengths.frame_len + lengths.tag_len;
    // A superframe also has an unfinished checksum. Its length is the more precise reason.
    if sent_len > u64::from(frame_len_max) || (lengths.stored_len as u64) < lengths.frame_len {
        Some(DropReason::Oversized)
    } else if is_unfinished() {
        Some(DropReason::ChecksumUnfinished)
    } else if lengths.stored_len < ADDRESSES_BYTES {
        // A socket always returns at least an Ethernet header. A shorter frame would have no place for a tag.
        Some(DropReason::Truncated)
    } else {
        None
    }
}

/// Returns the message about dropped frames of `device`, with the remedy. `reason` is a result of
/// [`find_drop_reason`]. `is_tap` is true if the far end of the device is a program, usually a
/// virtual machine.
pub(super) fn drop_message(device: &str, is_tap: bool, frame_len_max: u32, reason: DropReason) -> String {
    let defect = match reason {
        DropReason::ChecksumUnfinished => "with a checksum that the sender left to hardware".to_owned(),
        _ => format!(
            "of more than {frame_len_max} bytes, the limit of the port's MTU: the sender coalesced them, or its MTU \
             is larger"
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
        "frames arrive on '{device}' {defect}; they are dropped ({}). Run {fix}",
        reason.name()
    )
}

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const HOP_BY_HOP: u8 = 0;
const DESTINATION_OPTIONS: u8 = 60;
/// Largest number of IPv6 option headers that are skipped to find the transport header.
const OPTION_HEADERS_MAX: usize = 4;

/// Returns whether the TCP or UDP checksum of a frame is unfinished. A kernel with checksum offload stores
/// only the sum of the pseudo header in the checksum field. Backends without a checksum flag of the kernel
/// use this function.
///
/// The function does not find unfinished checksums inside a tunnel. A correct checksum can equal the sum of
/// the pseudo header by chance. The function therefore also verifies the checksum over the whole packet, and
/// reports only frames whose checksum is wrong.
pub(super) fn has_unfinished_checksum(frame: &[u8], parsed: &ParsedHeaders) -> bool {
    let l3 = frame.get(usize::from(parsed.l3_offset)..).unwrap_or_default();
    let transport = match parsed.payload {
        Payload::Ipv4 => parse_ipv4_transport(l3),
        Payload::Ipv6 => parse_ipv6_transport(l3),
        _ => None,
    };
    let Some((protocol, addresses, transport)) = transport else {
        return false;
    };
    let checksum_offset = match protocol {
        PROTOCOL_TCP => 16,
        PROTOCOL_UDP => 6,
        _ => return false,
    };
    let Some(&[high, low]) = transport.get(checksum_offset..checksum_offset + 2) else {
        return false;
    };
    // Zero means a UDP packet without a checksum, such as most RoCEv2 packets. The sum of a pseudo header is
    // never 0.
    if high | low == 0 {
        return false;
    }
    let pseudo_sum = sum_words(addresses) + u64::from(protocol) + transport.len() as u64;
    fold_to_16_bits(pseudo_sum) == u16::from_be_bytes([high, low])
        && fold_to_16_bits(pseudo_sum + sum_words(transport)) != 0xffff
}

/// Returns the protocol, both addresses and the transport segment of an IPv4 packet. Returns `None` for
/// fragments. The checksum of a fragment is always complete, so no caller needs its segment.
fn parse_ipv4_transport(l3: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let header: &[u8; 20] = l3.first_chunk()?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return None;
    }
    Some((header[9], &l3[12..20], l3.get(header_len..total_len)?))
}

/// Same as [`parse_ipv4_transport`], for an IPv6 packet. Skips option headers.
fn parse_ipv6_transport(l3: &[u8]) -> Option<(u8, &[u8], &[u8])> {
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

/// Returns the sum of all 16-bit words. If the number of bytes is odd, the last byte is the high byte of the
/// last word.
fn sum_words(bytes: &[u8]) -> u64 {
    let (words, odd) = bytes.as_chunks::<2>();
    let words: u64 = words
        .iter()
        .map(|word| u64::from(u16::from_be_bytes(*word)))
        .sum();
    words + odd.first().map_or(0, |byte| u64::from(*byte) << 8)
}

/// Folds a sum of 16-bit words to their ones' complement sum.
fn fold_to_16_bits(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_wire::parse::parse;

    /// Builds a frame with a UDP or TCP packet. `checksum` returns the checksum field. Its arguments are two
    /// folded sums: the sum of the pseudo header, and the sum of the whole packet.
    fn transport_frame(
        is_ipv6: bool,
        protocol: u8,
        payload_len: usize,
        checksum: impl Fn(u16, u16) -> u16,
    ) -> Vec<u8> {
        let header = if protocol == PROTOCOL_UDP { 8 } else { 20 };
        let len = header + payload_len;
        let mut frame = vec![2; 12];
        let addresses: Vec<u8> = (0..if is_ipv6 { 32 } else { 8 })
            .map(|n: u32| (17 * n + 3) as u8)
            .collect();
        if is_ipv6 {
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
        let pseudo = sum_words(&addresses) + u64::from(protocol) + len as u64;
        let value = checksum(
            fold_to_16_bits(pseudo),
            fold_to_16_bits(pseudo + sum_words(&transport)),
        );
        transport[at..at + 2].copy_from_slice(&value.to_be_bytes());
        frame.extend(transport);
        frame
    }

    #[test]
    fn only_the_pseudo_header_sum_counts_as_an_unfinished_checksum() {
        for v6 in [false, true] {
            for protocol in [PROTOCOL_TCP, PROTOCOL_UDP] {
                for payload in [0, 1, 7, 100, 1400] {
                    let looks = |frame: &[u8]| has_unfinished_checksum(frame, &parse(frame));
                    let unfinished = transport_frame(v6, protocol, payload, |pseudo, _| pseudo);
                    assert!(looks(&unfinished), "{v6} {protocol} {payload}");
                    let finished = transport_frame(v6, protocol, payload, |_, full| !full);
                    assert!(!looks(&finished), "{v6} {protocol} {payload}");
                    let none = transport_frame(v6, protocol, payload, |_, _| 0);
                    let wrong = transport_frame(v6, protocol, payload, |_, full| !full ^ 0x55);
                    assert!(!looks(&none) && !looks(&wrong));
                    // Padding after the packet and a tag before it do not change the result.
                    let padded = [&unfinished[..], &[9; 3]].concat();
                    let tagged = [&unfinished[..12], &[0x81, 0, 0, 5], &unfinished[12..]].concat();
                    assert!(looks(&padded) && looks(&tagged));
                }
            }
        }
    }

    #[test]
    fn fragments_and_truncated_packets_have_no_unfinished_checksum() {
        let looks = |frame: &[u8]| has_unfinished_checksum(frame, &parse(frame));
        let unfinished = transport_frame(false, PROTOCOL_UDP, 100, |pseudo, _| pseudo);
        let mut fragment = unfinished.clone();
        fragment[20] = 0x20;
        assert!(!looks(&fragment));
        for len in 0..unfinished.len() {
            assert!(!looks(&unfinished[..len]));
        }
        let plain = transport_frame(true, PROTOCOL_UDP, 100, |pseudo, _| pseudo);
        let mut options = plain.clone();
        options.splice(54..54, [PROTOCOL_UDP, 0, 1, 4, 0, 0, 0, 0]);
        options[20] = HOP_BY_HOP;
        options[19] += 8;
        assert!(looks(&options));
    }

    #[test]
    fn excess_length_takes_precedence_over_the_checksum() {
        let reason = |frame_len, stored_len, is_unfinished| {
            let lengths = CapturedLengths {
                frame_len,
                tag_len: 0,
                stored_len,
            };
            find_drop_reason(lengths, 1522, || is_unfinished)
        };
        assert_eq!(reason(1523, 1523, true), Some(DropReason::Oversized));
        assert_eq!(reason(100, 60, true), Some(DropReason::Oversized));
        assert_eq!(reason(100, 100, true), Some(DropReason::ChecksumUnfinished));
        assert_eq!(reason(8, 8, false), Some(DropReason::Truncated));
        assert_eq!(reason(1522, 1522, false), None);
    }
}
