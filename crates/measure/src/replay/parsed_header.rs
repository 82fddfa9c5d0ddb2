//! Parses the headers of captured frames. The capture may contain only the first part of a frame.

use xoff_wire::parse::{ParsedHeaders, Payload, TAGS_MAX, parse_prefix};
use xoff_wire::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, vlan};

use super::mac_address::Mac;
use xoff_capture::CapturedFrame;

/// Offset of the first VLAN tag, or of the ethertype of an untagged frame, in bytes.
const ADDRESSES_LEN: usize = 12;

/// The parsed headers of a captured frame.
#[derive(Clone, Debug)]
pub struct CapturedHeaders {
    /// The fields of the headers. Fields that were not captured have the values of [`Self::completion`].
    pub parsed: ParsedHeaders,
    /// Destination address and source address, or `None` if the capture does not contain both.
    pub addresses: Option<(Mac, Mac)>,
    /// Bytes that complete the headers if the capture contains only a part of them. Empty otherwise. The
    /// switch reads these bytes after the captured bytes. The added bytes are either the rest of the VLAN
    /// tags and an unknown ethertype, or the rest of an IP header. All bytes are 0, except the length fields
    /// and the ethertype.
    pub completion: Vec<u8>,
    /// True if the capture does not contain the bytes that select the traffic class.
    pub lacks_class: bool,
}

impl CapturedHeaders {
    /// Parses the headers of a captured frame. If the capture contains only a part of a header, completes
    /// this header.
    pub fn of(record: &CapturedFrame) -> CapturedHeaders {
        let address = |at: usize| record.data.get(at..)?.first_chunk::<6>().copied();
        let len = record.len as usize;
        let mut header = CapturedHeaders {
            parsed: parse_prefix(&record.data, len),
            addresses: address(0).zip(address(6)),
            completion: Vec::new(),
            lacks_class: false,
        };
        if record.data.len() < len && matches!(header.parsed.payload, Payload::Other | Payload::Truncated) {
            match link_header_completion(&record.data) {
                rest if rest.is_empty() => header.complete_ip_header(&record.data, len),
                rest => header.complete_link_header(&record.data, rest, len),
            }
        }
        header
    }

    /// Returns true for frames that bridges never forward, such as flow control, spanning tree and LLDP.
    /// Switches also send such frames, so the sender may be a switch instead of a station.
    pub fn is_link_local(&self) -> bool {
        let reserved = |mac: Mac| mac[..5] == [0x01, 0x80, 0xc2, 0, 0] && mac[5] & 0xf0 == 0;
        self.parsed.payload == Payload::MacControl || self.addresses.is_some_and(|(to, _)| reserved(to))
    }

    /// Completes the VLAN tags and the ethertype with `rest`, unless the frame itself is too short for them.
    fn complete_link_header(&mut self, stored: &[u8], rest: Vec<u8>, len: usize) {
        if stored.len() + rest.len() > len {
            return;
        }
        self.lacks_class = true;
        if self.addresses.is_some() {
            self.parsed = parse_prefix(&[stored, &rest].concat(), len);
            self.completion = rest;
        }
    }

    /// Completes an IP header if the capture contains only a part of it.
    fn complete_ip_header(&mut self, stored: &[u8], len: usize) {
        let at = usize::from(self.parsed.l3_offset);
        let ethertype = stored.get(at.wrapping_sub(2)..).and_then(<[u8]>::first_chunk);
        let (version, header_len) = match ethertype.map(|bytes| u16::from_be_bytes(*bytes)) {
            Some(ETHERTYPE_IPV4) => (4, IPV4_LEN),
            Some(ETHERTYPE_IPV6) => (6, IPV6_LEN),
            _ => return,
        };
        let packet = &stored[at..];
        let packet_len = len.saturating_sub(at);
        if packet.len() >= header_len || packet_len < header_len {
            return;
        }
        match packet {
            [first, _, ..] if first >> 4 == version => {}
            [first, ..] if first >> 4 != version => return,
            _ => {
                self.lacks_class = true;
                return;
            }
        }
        let mut whole = stored.to_vec();
        whole.resize(at + header_len, 0);
        if version == 4 {
            let [high, low] = u16::try_from(packet_len).unwrap_or(u16::MAX).to_be_bytes();
            if packet.len() < 3 {
                whole[at + 2] = high;
            }
            if packet.len() < 4 {
                whole[at + 3] = low;
            }
        }
        let parsed = parse_prefix(&whole, len);
        if matches!(parsed.payload, Payload::Ipv4 | Payload::Ipv6) {
            self.parsed = parsed;
            self.completion = whole.split_off(stored.len());
        }
    }
}

/// Returns the bytes that are missing between the captured bytes and the end of the ethertype. If the VLAN
/// identifier of a tag was not captured, the tag becomes a priority tag (VLAN 0). The completed ethertype is
/// always unknown to the switch, even if its first byte was captured.
fn link_header_completion(stored: &[u8]) -> Vec<u8> {
    let mut at = ADDRESSES_LEN;
    for _ in 0..=TAGS_MAX {
        let Some(ethertype) = stored.get(at..).and_then(<[u8]>::first_chunk) else {
            let missing = stored.len()..at + 2;
            return missing.map(|offset| if offset < at { 0 } else { 0xff }).collect();
        };
        if !vlan::is_tpid(u16::from_be_bytes(*ethertype)) {
            break;
        }
        at += vlan::TAG_LEN;
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_capture::Direction;

    fn parse_prefix_of(frame: &[u8], stored_bytes: usize) -> CapturedHeaders {
        CapturedHeaders::of(&CapturedFrame {
            number: 1,
            offset: 0,
            interface: 0,
            at_ns: None,
            data: frame[..stored_bytes].to_vec(),
            len: frame.len() as u32,
            direction: Direction::Unknown,
        })
    }

    /// Builds a frame of 200 bytes with `rest` after the addresses.
    fn frame_of_200_bytes(rest: &[u8]) -> Vec<u8> {
        let mut frame = [&[2; 12], rest].concat();
        frame.resize(200, 0);
        frame
    }

    #[test]
    fn class_is_known_when_its_byte_is_captured() {
        let ipv4 = frame_of_200_bytes(&[0x08, 0x00, 0x45, 26 << 2, 0, 186]);
        let tagged = frame_of_200_bytes(&[0x81, 0x00, 0x60, 5, 0x08, 0x00, 0x45, 26 << 2, 0, 182]);
        let ipv6 = frame_of_200_bytes(&[0x86, 0xdd, 0x66, 0x80]);
        for (frame, l3) in [(ipv4, 14), (tagged, 18), (ipv6, 14)] {
            for stored in 0..frame.len() {
                let header = parse_prefix_of(&frame, stored);
                let known = stored >= l3 + 2;
                assert_eq!(header.parsed.dscp(), known.then_some(26), "{stored} of {frame:?}");
                assert_eq!(header.lacks_class, !known, "{stored}");
                let end = stored + header.completion.len();
                assert!(
                    !known || header.completion.is_empty() || end >= l3 + 20,
                    "{stored}"
                );
            }
        }
    }

    #[test]
    fn tags_and_ethertypes_beyond_the_captured_bytes_are_unknown() {
        let untagged = frame_of_200_bytes(&[0x08, 0x00, 0x45]);
        let stacked = frame_of_200_bytes(&[0x88, 0xa8, 0x60, 5, 0x81, 0x00, 0, 6, 0x88, 0x08]);
        let expected = [
            (&untagged, 12, None, 2),
            (&untagged, 13, None, 1),
            (&stacked, 12, None, 2),
            (&stacked, 13, None, 1),
            (&stacked, 14, Some((0, 0)), 4),
            (&stacked, 15, Some((3, 0)), 3),
            (&stacked, 16, Some((3, 5)), 2),
            (&stacked, 17, Some((3, 5)), 1),
            (&stacked, 18, Some((3, 5)), 4),
            (&stacked, 21, Some((3, 5)), 1),
        ];
        for (frame, stored, tag, missing) in expected {
            let header = parse_prefix_of(frame, stored);
            assert_eq!(
                (header.parsed.payload, header.lacks_class),
                (Payload::Other, true)
            );
            assert_eq!(header.completion.len(), missing, "{stored} of {frame:?}");
            assert_eq!(header.parsed.tag.map(|tag| (tag.pcp(), tag.vid())), tag);
        }
    }

    #[test]
    fn frame_that_ends_before_its_ethertype_is_not_completed() {
        for len in 12..16 {
            let header = CapturedHeaders::of(&CapturedFrame {
                number: 1,
                offset: 0,
                interface: 0,
                at_ns: None,
                data: vec![2; 12],
                len,
                direction: Direction::Unknown,
            });
            assert_eq!(header.parsed.payload == Payload::Truncated, len < 14);
        }
    }

    #[test]
    fn frame_without_ip_needs_only_its_ethertype() {
        let arp = frame_of_200_bytes(&[0x08, 0x06, 0, 1]);
        assert!(parse_prefix_of(&arp, 13).lacks_class);
        assert!((14..60).all(|stored| !parse_prefix_of(&arp, stored).lacks_class));
        let malformed = frame_of_200_bytes(&[0x08, 0x00, 0x25, 26 << 2]);
        assert!((16..60).all(|stored| parse_prefix_of(&malformed, stored).parsed.dscp().is_none()));
    }
}
