//! What the headers of a captured frame say, where only a part of them may be stored.

use xoff_dataplane::parse::{Parsed, Payload, parse_prefix};
use xoff_dataplane::wire::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, vlan};

use super::survey::Mac;
use crate::capture::Record;

/// The headers of a captured frame.
#[derive(Clone, Debug)]
pub struct ParsedHeader {
    /// The fields of the headers.
    pub parsed: Parsed,
    /// Destination and source; `None` where they are not stored.
    pub addresses: Option<(Mac, Mac)>,
    /// Bytes to put behind the stored ones so that an IP header of which the traffic class is stored is whole. They stand for what
    /// was not captured: lengths are right, everything else is 0.
    pub completion: Vec<u8>,
    /// The bytes that decide on the traffic class are not stored.
    pub lacks_class: bool,
}

impl ParsedHeader {
    /// Parses the headers of a frame.
    pub fn of(record: &Record) -> ParsedHeader {
        let address = |at: usize| record.data.get(at..)?.first_chunk::<6>().copied();
        let len = record.len as usize;
        let mut header = ParsedHeader {
            parsed: parse_prefix(&record.data, len),
            addresses: address(0).zip(address(6)),
            completion: Vec::new(),
            lacks_class: false,
        };
        if record.data.len() < len && matches!(header.parsed.payload, Payload::Other | Payload::Truncated) {
            header.complete(&record.data, len);
        }
        header
    }

    /// Whether the frame ends at the next bridge: flow control, spanning tree, LLDP and their like. Switches send those
    /// too, so they do not make their sender a station.
    pub fn is_link_local(&self) -> bool {
        let reserved = |mac: Mac| mac[..5] == [0x01, 0x80, 0xc2, 0, 0] && mac[5] & 0xf0 == 0;
        self.parsed.payload == Payload::MacControl || self.addresses.is_some_and(|(to, _)| reserved(to))
    }

    /// Completes an IP header that is stored in part.
    fn complete(&mut self, stored: &[u8], len: usize) {
        let at = usize::from(self.parsed.l3_offset);
        let ethertype = stored
            .get(at.wrapping_sub(2)..)
            .and_then(|bytes| bytes.first_chunk());
        let (version, header_len) = match ethertype.map(|bytes| u16::from_be_bytes(*bytes)) {
            Some(ETHERTYPE_IPV4) => (4, IPV4_LEN),
            Some(ETHERTYPE_IPV6) => (6, IPV6_LEN),
            // A tag of which only the begin is stored, or no ethertype at all.
            Some(ethertype) => {
                self.lacks_class = vlan::is_tpid(ethertype) && stored.len() < at + 4;
                return;
            }
            None => {
                self.lacks_class = true;
                return;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Direction;

    fn header(frame: &[u8], stored: usize) -> ParsedHeader {
        ParsedHeader::of(&Record {
            number: 1,
            offset: 0,
            interface: 0,
            at_ns: None,
            data: frame[..stored].to_vec(),
            len: frame.len() as u32,
            direction: Direction::Unknown,
        })
    }

    /// A frame of 200 bytes with these bytes behind the addresses.
    fn frame(rest: &[u8]) -> Vec<u8> {
        let mut frame = [&[2; 12], rest].concat();
        frame.resize(200, 0);
        frame
    }

    #[test]
    fn the_class_is_known_as_soon_as_its_byte_is_stored() {
        let ipv4 = frame(&[0x08, 0x00, 0x45, 26 << 2, 0, 186]);
        let tagged = frame(&[0x81, 0x00, 0x60, 5, 0x08, 0x00, 0x45, 26 << 2, 0, 182]);
        let ipv6 = frame(&[0x86, 0xdd, 0x66, 0x80]);
        for (frame, l3) in [(ipv4, 14), (tagged, 18), (ipv6, 14)] {
            for stored in 0..frame.len() {
                let header = header(&frame, stored);
                let known = stored >= l3 + 2;
                assert_eq!(header.parsed.dscp(), known.then_some(26), "{stored} of {frame:?}");
                assert_eq!(header.lacks_class, !known, "{stored}");
                let end = stored + header.completion.len();
                assert!(header.completion.is_empty() || end >= l3 + 20, "{stored}");
            }
        }
    }

    #[test]
    fn what_is_no_ip_needs_no_more_than_its_ethertype() {
        let arp = frame(&[0x08, 0x06, 0, 1]);
        assert!(header(&arp, 13).lacks_class);
        assert!((14..60).all(|stored| !header(&arp, stored).lacks_class));
        let malformed = frame(&[0x08, 0x00, 0x25, 26 << 2]);
        assert!((16..60).all(|stored| header(&malformed, stored).parsed.dscp().is_none()));
    }
}
