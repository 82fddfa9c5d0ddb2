//! VLAN tags of 802.1Q and 802.1ad (IEEE 802.1Q clause 9.6).

use core::fmt;

use super::{ETHERNET_LEN, read_be16};

/// Length of a VLAN tag in bytes: protocol identifier and control information.
pub const TAG_LEN: usize = 4;
/// TPID of a customer tag (802.1Q).
pub const TPID_CTAG: u16 = 0x8100;
/// TPID of a service tag (802.1ad).
pub const TPID_STAG: u16 = 0x88a8;

mod field {
    use core::ops::Range;

    pub(super) const ADDRESSES: Range<usize> = 0..12;
    pub(super) const TPID: Range<usize> = 12..14;
    pub(super) const TCI: Range<usize> = 14..16;
}

/// A VLAN tag of a frame (IEEE 802.1Q clause 9.6): protocol identifier and control information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// Tag protocol identifier: 0x8100, 0x88A8, 0x9100 or 0x9200.
    pub tpid: u16,
    /// Tag control information: PCP (3 bits), DEI (1 bit) and VLAN identifier (12 bits).
    pub tci: u16,
}

impl VlanTag {
    /// Makes an 802.1Q tag from the low 3 bits of `pcp` and the low 12 bits of `vid`.
    pub const fn dot1q(pcp: u8, vid: u16) -> VlanTag {
        VlanTag {
            tpid: TPID_CTAG,
            tci: (pcp as u16 & 7) << 13 | vid & 0x0fff,
        }
    }
    /// Returns the VLAN identifier, 0 to 4095. The value 0 marks a priority tag.
    pub const fn vid(self) -> u16 {
        self.tci & 0x0fff
    }
    /// Returns the priority code point (PCP), 0 to 7.
    pub const fn pcp(self) -> u8 {
        (self.tci >> 13) as u8
    }
    /// Returns the drop eligible indicator (DEI): true if the frame may be dropped first.
    pub const fn dei(self) -> bool {
        self.tci & 0x1000 != 0
    }
}

impl fmt::Display for VlanTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vlan {} p {}", self.vid(), self.pcp())?;
        if self.dei() {
            write!(f, " DEI")?;
        }
        if self.tpid != TPID_CTAG {
            write!(f, " tpid {:#06x}", self.tpid)?;
        }
        Ok(())
    }
}

/// Returns whether an ethertype is a TPID: 802.1Q, 802.1ad, or one of the two values of QinQ before 802.1ad.
pub const fn is_tpid(ethertype: u16) -> bool {
    matches!(ethertype, TPID_CTAG | TPID_STAG | 0x9100 | 0x9200)
}

/// Iterator over the VLAN tags of a frame, outermost first. The number of tags is not limited.
#[derive(Clone, Debug)]
pub struct VlanTags<'a> {
    frame: &'a [u8],
    at: usize,
}

/// Returns an iterator over the VLAN tags of a frame. A tag without the following ethertype is ignored.
pub fn tags(frame: &[u8]) -> VlanTags<'_> {
    VlanTags {
        frame,
        at: field::TPID.start,
    }
}

impl VlanTags<'_> {
    /// Returns the length in bytes of the Ethernet header with the tags that the iterator has returned so
    /// far. This is the offset of the next header.
    pub fn header_len(&self) -> usize {
        self.at + 2
    }
}

impl Iterator for VlanTags<'_> {
    type Item = VlanTag;

    fn next(&mut self) -> Option<VlanTag> {
        let bytes = self.frame.get(self.at..self.at + TAG_LEN + 2)?;
        let tag = VlanTag {
            tpid: read_be16(bytes, 0..2),
            tci: read_be16(bytes, 2..4),
        };
        if !is_tpid(tag.tpid) {
            return None;
        }
        self.at += TAG_LEN;
        Some(tag)
    }
}

/// Writes `tag` as the outermost tag of a frame. Before the call, the caller must add [`TAG_LEN`] bytes at
/// the front of the frame, for example with `Store::push_front` of the switch. The function moves the MAC
/// addresses to the front and writes the tag after them. Returns false and changes nothing if the frame is
/// shorter than an Ethernet header and [`TAG_LEN`] bytes.
pub fn write_outer_tag(frame: &mut [u8], tag: VlanTag) -> bool {
    if frame.len() < TAG_LEN + ETHERNET_LEN {
        return false;
    }
    frame.copy_within(TAG_LEN..TAG_LEN + field::ADDRESSES.end, 0);
    frame[field::TPID].copy_from_slice(&tag.tpid.to_be_bytes());
    frame[field::TCI].copy_from_slice(&tag.tci.to_be_bytes());
    true
}

/// Prepares the removal of the outermost tag by moving the MAC addresses over the tag. The caller must then
/// remove the first [`TAG_LEN`] bytes of the frame, for example with `Store::pull_front` of the switch.
/// Returns false and changes nothing if the frame has no tag.
pub fn prepare_tag_removal(frame: &mut [u8]) -> bool {
    if tags(frame).next().is_none() {
        return false;
    }
    frame.copy_within(field::ADDRESSES, TAG_LEN);
    true
}

/// Replaces the tag control information (PCP, DEI and VLAN identifier) of the outermost tag. Returns false
/// and changes nothing if the frame has no tag.
pub fn set_tci(frame: &mut [u8], tci: u16) -> bool {
    if tags(frame).next().is_none() {
        return false;
    }
    frame[field::TCI].copy_from_slice(&tci.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const QINQ: [u8; 26] = [
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xa8, 0x30, 0x64, 0x81, 0x00, 0x6f, 0xff, 0x08, 0x00, 0x45,
        0, 0, 20,
    ];

    #[test]
    fn tags_are_read_outermost_first() {
        let mut read = tags(&QINQ);
        assert_eq!(read.header_len(), 14);
        let outer = read.next().unwrap();
        assert_eq!(
            (outer.tpid, outer.vid(), outer.pcp(), outer.dei()),
            (0x88a8, 100, 1, true)
        );
        assert_eq!(read.next(), Some(VlanTag::dot1q(3, 0xfff)));
        assert_eq!(read.next(), None);
        assert_eq!(read.header_len(), 22);
        assert_eq!(outer.to_string(), "vlan 100 p 1 DEI tpid 0x88a8");
    }

    #[test]
    fn truncated_tags_are_not_read() {
        for len in 0..QINQ.len() {
            let expected = match len {
                0..18 => 0,
                18..22 => 1,
                _ => 2,
            };
            assert_eq!(tags(&QINQ[..len]).count(), expected, "{len} bytes");
        }
    }

    #[test]
    fn push_and_pull_are_inverse() {
        let plain = &QINQ[..];
        let mut frame = [&[0; TAG_LEN], plain].concat();
        assert!(write_outer_tag(&mut frame, VlanTag::dot1q(5, 42)));
        assert_eq!(tags(&frame).collect::<Vec<_>>()[0], VlanTag::dot1q(5, 42));
        assert_eq!(frame[16..], plain[12..]);
        assert!(set_tci(&mut frame, 7));
        assert_eq!(tags(&frame).next().unwrap().vid(), 7);
        assert!(prepare_tag_removal(&mut frame));
        assert_eq!(frame[TAG_LEN..], *plain);
    }

    #[test]
    fn short_or_untagged_frames_are_unchanged() {
        let mut short = [7; TAG_LEN + ETHERNET_LEN - 1];
        assert!(!write_outer_tag(&mut short, VlanTag::dot1q(0, 1)));
        assert!(!prepare_tag_removal(&mut short));
        assert!(!set_tci(&mut short, 1));
        assert_eq!(short, [7; TAG_LEN + ETHERNET_LEN - 1]);
    }
}
