//! 802.1Q and 802.1ad tags (IEEE 802.1Q clause 9.6).

use core::fmt;

use super::{ETHERNET_LEN, be16};

/// Octets of a tag: protocol id and control information.
pub const TAG_LEN: usize = 4;
/// Customer tag (802.1Q).
pub const TPID_CTAG: u16 = 0x8100;
/// Service tag (802.1ad).
pub const TPID_STAG: u16 = 0x88a8;

mod field {
    use core::ops::Range;

    pub(super) const ADDRESSES: Range<usize> = 0..12;
    pub(super) const TPID: Range<usize> = 12..14;
    pub(super) const TCI: Range<usize> = 14..16;
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Tag protocol id: 0x8100, 0x88A8, 0x9100 or 0x9200.
    pub tpid: u16,
    /// Priority (3 bits), drop eligibility (1), VLAN id (12).
    pub tci: u16,
}

impl Tag {
    /// An 802.1Q tag. Only the low 3 bits of `pcp` and the low 12 of `vid` count.
    pub const fn dot1q(pcp: u8, vid: u16) -> Tag {
        Tag {
            tpid: TPID_CTAG,
            tci: (pcp as u16 & 7) << 13 | vid & 0x0fff,
        }
    }
    /// VLAN id, 0 for a priority tag.
    pub const fn vid(self) -> u16 {
        self.tci & 0x0fff
    }
    /// 802.1p priority.
    pub const fn pcp(self) -> u8 {
        (self.tci >> 13) as u8
    }
    /// Drop eligible indicator.
    pub const fn dei(self) -> bool {
        self.tci & 0x1000 != 0
    }
}

impl fmt::Display for Tag {
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

/// Whether an ethertype announces a VLAN tag: 802.1Q, 802.1ad, or the two ids of QinQ before 802.1ad.
pub const fn is_tpid(ethertype: u16) -> bool {
    matches!(ethertype, TPID_CTAG | TPID_STAG | 0x9100 | 0x9200)
}

/// The tags of a frame, outermost first, however many there are.
#[derive(Clone, Debug)]
pub struct Tags<'a> {
    frame: &'a [u8],
    at: usize,
}

/// Reads the tags of a frame. A tag counts when the ethertype behind it is there too.
pub fn tags(frame: &[u8]) -> Tags<'_> {
    Tags {
        frame,
        at: field::TPID.start,
    }
}

impl Tags<'_> {
    /// Offset of the header behind the Ethernet header and the tags read so far.
    pub fn header_len(&self) -> usize {
        self.at + 2
    }
}

impl Iterator for Tags<'_> {
    type Item = Tag;

    fn next(&mut self) -> Option<Tag> {
        let octets = self.frame.get(self.at..self.at + TAG_LEN + 2)?;
        let tag = Tag {
            tpid: be16(octets, 0..2),
            tci: be16(octets, 2..4),
        };
        if !is_tpid(tag.tpid) {
            return None;
        }
        self.at += TAG_LEN;
        Some(tag)
    }
}

/// Writes `tag` as the outermost tag of a frame that has just got [`TAG_LEN`] octets put in front
/// (`Store::push_front` of the switch): the addresses move forward, the tag takes their
/// place. False, and nothing done, when the frame is shorter than an Ethernet header and the new octets.
pub fn write_pushed(frame: &mut [u8], tag: Tag) -> bool {
    if frame.len() < TAG_LEN + ETHERNET_LEN {
        return false;
    }
    frame.copy_within(TAG_LEN..TAG_LEN + field::ADDRESSES.end, 0);
    frame[field::TPID].copy_from_slice(&tag.tpid.to_be_bytes());
    frame[field::TCI].copy_from_slice(&tag.tci.to_be_bytes());
    true
}

/// Overwrites the outermost tag of a frame by moving the addresses back, so that [`TAG_LEN`] octets can then
/// be pulled from its front (`Store::pull_front` of the switch). False, and nothing
/// done, when the frame has no tag.
pub fn prepare_pull(frame: &mut [u8]) -> bool {
    if tags(frame).next().is_none() {
        return false;
    }
    frame.copy_within(field::ADDRESSES, TAG_LEN);
    true
}

/// Replaces priority, DEI and VLAN id of the outermost tag. False, and nothing done, when the frame has none.
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
        assert_eq!(read.next(), Some(Tag::dot1q(3, 0xfff)));
        assert_eq!(read.next(), None);
        assert_eq!(read.header_len(), 22);
        assert_eq!(outer.to_string(), "vlan 100 p 1 DEI tpid 0x88a8");
    }

    #[test]
    fn every_truncation_is_read_without_a_tag_that_is_not_whole() {
        for len in 0..QINQ.len() {
            let expected = match len {
                0..18 => 0,
                18..22 => 1,
                _ => 2,
            };
            assert_eq!(tags(&QINQ[..len]).count(), expected, "{len} octets");
        }
    }

    #[test]
    fn push_and_pull_are_inverse() {
        let plain = &QINQ[..];
        let mut frame = [&[0; TAG_LEN], plain].concat();
        assert!(write_pushed(&mut frame, Tag::dot1q(5, 42)));
        assert_eq!(tags(&frame).collect::<Vec<_>>()[0], Tag::dot1q(5, 42));
        assert_eq!(frame[16..], plain[12..]);
        assert!(set_tci(&mut frame, 7));
        assert_eq!(tags(&frame).next().unwrap().vid(), 7);
        assert!(prepare_pull(&mut frame));
        assert_eq!(frame[TAG_LEN..], *plain);
    }

    #[test]
    fn frames_too_short_or_untagged_are_left_alone() {
        let mut short = [7; TAG_LEN + ETHERNET_LEN - 1];
        assert!(!write_pushed(&mut short, Tag::dot1q(0, 1)));
        assert!(!prepare_pull(&mut short));
        assert!(!set_tci(&mut short, 1));
        assert_eq!(short, [7; TAG_LEN + ETHERNET_LEN - 1]);
    }
}
