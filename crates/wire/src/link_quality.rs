//! Link quality messages. A switch sends them to its neighbours to report the load of its paths to each site.
//! A site is a number for all destinations behind one leaf switch.
//!
//! The format is private to xoff. A message starts with the first ethertype that IEEE 802 reserves for local
//! experiments, followed by a subtype and a version. All numbers are big-endian.
//!
//! | byte | field | value |
//! |---|---|---|
//! | 0 | destination | 01-80-C2-00-00-0E, nearest bridge: bridges do not forward it (IEEE 802.1Q 8.6.3) |
//! | 6 | source | MAC address of the sending port |
//! | 12 | ethertype | 0x88B5 |
//! | 14 | subtype | 0x5851, "XQ" |
//! | 16 | version | 1 |
//! | 17 | reserved | sent as 0, ignored on receipt |
//! | 18 | length | bytes from the subtype to the end of the last entry: 16 + 12 n |
//! | 20 | reserved | sent as 0, ignored on receipt |
//! | 22 | sequence | greater than in the previous message, modulo 2^32 |
//! | 26 | hold | lifetime of the reported loads in microseconds |
//! | 30 | entries | 12 bytes each, at most [`ENTRIES_MAX`] |
//!
//! | byte of an entry | field | value |
//! |---|---|---|
//! | 0 | site | 1 to 65 535 |
//! | 2 | load | 0 (idle) to 1 000, the input of the quality bands; 65 535: not measured |
//! | 4 | utilisation | 0 to 1 000; 65 535: not measured |
//! | 6 | reserved | sent as 0, ignored on receipt |
//! | 8 | capacity | Mb/s towards the site; 0: no path exists |

use core::fmt;

use super::{read_be16, read_be32};

/// Ethertype 1 for local experiments (IEEE 802, 9.2.4).
pub const ETHERTYPE: u16 = 0x88b5;
/// Destination address of the messages: the group address of the nearest bridge.
pub const DESTINATION: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];
/// Subtype of link quality messages: "XQ" in ASCII. The ethertype is reserved for local experiments, and the
/// subtype distinguishes link quality messages from frames of unrelated experiments.
pub const SUBTYPE: u16 = 0x5851;
/// Version of the message format. [`LinkQuality::parse`] refuses other versions.
pub const VERSION: u8 = 1;
/// Largest number of entries in a message. A message with this number of entries fits an MTU of 1 500 bytes.
pub const ENTRIES_MAX: usize = 120;
/// Largest value of load and utilisation: 1 000 permille. Both values are in permille.
pub const LOAD_MAX: u16 = 1_000;

/// Value of load and utilisation in a message if nothing is measured.
const UNMEASURED: u16 = u16::MAX;
/// Number of bytes from the subtype to the first entry.
const HEADER_LEN: usize = 16;
const ENTRY_LEN: usize = 12;
const MESSAGE: usize = 14;
const ENTRIES: usize = MESSAGE + HEADER_LEN;

/// The entry of one site in a link quality message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteEntry {
    /// Number of the site, 1 to 65 535. A site consists of all destinations behind one leaf switch.
    pub site: u16,
    /// Load of the path to the site. `None` if the load is not measured.
    pub load: Option<PathLoad>,
    /// Capacity of the paths from the sender to the site (the destinations behind one leaf), in Mb/s. The
    /// value 0 means that the sender has no path to the site.
    pub capacity_mbps: u32,
}

/// Load of a path. This is the load of the busiest link on the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathLoad {
    /// Load of the path, 0 (idle) to 1 000. The receiver derives the quality band of the path from this
    /// value. A quality band is a class from 0 to 7.
    pub load: u16,
    /// Sent and queued traffic of the busiest link, in permille of the link speed, 0 to 1 000.
    pub utilisation: u16,
}

/// A link quality message that has been parsed and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkQuality<'a> {
    /// Sequence number of the message on its link. Each message has a greater number than the previous
    /// message, modulo 2^32.
    pub sequence: u32,
    /// Lifetime of the reported loads in microseconds.
    pub hold_us: u32,
    /// The bytes of the entries, as in the frame.
    entries: &'a [u8],
}

/// The reason why a frame is not a valid link quality message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkQualityError {
    /// The frame ends inside the message.
    Truncated {
        /// Number of bytes needed.
        needed: usize,
        /// Number of bytes present.
        available: usize,
    },
    /// The destination address, the ethertype or the subtype belongs to another protocol.
    NotLinkQuality,
    /// The message has this version. Only [`VERSION`] is supported.
    Version(u8),
    /// The length field has this value. A valid value is 16 + 12 n, where the number of entries n is at
    /// most [`ENTRIES_MAX`].
    Length(u16),
    /// An entry has site number 0.
    SiteZero,
    /// Load and utilisation of an entry are not valid. Either both values are at most 1 000, or both values
    /// are 65 535 (not measured).
    Load {
        /// Number of the site.
        site: u16,
        /// Value of the load field.
        load: u16,
        /// Value of the utilisation field.
        utilisation: u16,
    },
}

impl<'a> LinkQuality<'a> {
    /// Returns whether a frame has the destination address, ethertype and subtype of a link quality message.
    /// The rest of the message is not checked.
    #[inline]
    pub fn is_link_quality(frame: &[u8]) -> bool {
        let Some(front) = frame.first_chunk::<16>() else {
            return false;
        };
        front[..6] == DESTINATION
            && read_be16(front, 12..14) == ETHERTYPE
            && read_be16(front, 14..16) == SUBTYPE
    }

    /// Reads a link quality message. Bytes after the last entry are padding and are ignored.
    ///
    /// # Errors
    ///
    /// Returns the first problem of the message ([`LinkQualityError`]).
    pub fn parse(frame: &'a [u8]) -> Result<LinkQuality<'a>, LinkQualityError> {
        require_len(frame, ENTRIES)?;
        if !LinkQuality::is_link_quality(frame) {
            return Err(LinkQualityError::NotLinkQuality);
        }
        if frame[16] != VERSION {
            return Err(LinkQualityError::Version(frame[16]));
        }
        let value = read_be16(frame, 18..20);
        let length = usize::from(value);
        let fits = (HEADER_LEN..=HEADER_LEN + ENTRIES_MAX * ENTRY_LEN).contains(&length);
        if !fits || !(length - HEADER_LEN).is_multiple_of(ENTRY_LEN) {
            return Err(LinkQualityError::Length(value));
        }
        require_len(frame, MESSAGE + length)?;
        let message = LinkQuality {
            sequence: read_be32(frame, 22..26),
            hold_us: read_be32(frame, 26..30),
            entries: &frame[ENTRIES..MESSAGE + length],
        };
        message
            .entries
            .chunks_exact(ENTRY_LEN)
            .try_for_each(check_entry)?;
        Ok(message)
    }

    /// Returns the entries of the message, one for each site.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = SiteEntry> + 'a {
        self.entries.chunks_exact(ENTRY_LEN).map(|bytes| SiteEntry {
            site: read_be16(bytes, 0..2),
            load: (read_be16(bytes, 2..4) != UNMEASURED).then(|| PathLoad {
                load: read_be16(bytes, 2..4),
                utilisation: read_be16(bytes, 4..6),
            }),
            capacity_mbps: read_be32(bytes, 8..12),
        })
    }
}

/// Returns the length in bytes of a frame with this number of entries, without FCS.
pub const fn frame_len(entries: usize) -> usize {
    ENTRIES + entries * ENTRY_LEN
}

/// Returns the number of entries that fit into a frame with `mtu` bytes of Ethernet payload, at
/// most [`ENTRIES_MAX`].
pub const fn max_entries_for_mtu(mtu: usize) -> usize {
    let fit = mtu.saturating_sub(HEADER_LEN) / ENTRY_LEN;
    if fit < ENTRIES_MAX { fit } else { ENTRIES_MAX }
}

/// Writes a message into `frame`. The length of `frame` must be the result of [`frame_len`] for the number of
/// entries. `source` is the MAC address of the sending port, and `hold_us` is the lifetime of the loads in
/// microseconds. A load or utilisation above [`LOAD_MAX`] is written as [`LOAD_MAX`].
pub fn emit(
    frame: &mut [u8],
    source: [u8; 6],
    sequence: u32,
    hold_us: u32,
    entries: impl IntoIterator<Item = SiteEntry>,
) {
    frame.fill(0);
    let Some((header, room)) = frame.split_at_mut_checked(ENTRIES) else {
        return;
    };
    let length = HEADER_LEN + room.len().min(ENTRIES_MAX * ENTRY_LEN) / ENTRY_LEN * ENTRY_LEN;
    header[..6].copy_from_slice(&DESTINATION);
    header[6..12].copy_from_slice(&source);
    header[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    header[14..16].copy_from_slice(&SUBTYPE.to_be_bytes());
    header[16] = VERSION;
    header[18..20].copy_from_slice(&(length as u16).to_be_bytes());
    header[22..26].copy_from_slice(&sequence.to_be_bytes());
    header[26..30].copy_from_slice(&hold_us.to_be_bytes());
    for (bytes, entry) in room.chunks_exact_mut(ENTRY_LEN).zip(entries) {
        let (load, utilisation) = match entry.load {
            Some(load) => (load.load.min(LOAD_MAX), load.utilisation.min(LOAD_MAX)),
            None => (UNMEASURED, UNMEASURED),
        };
        bytes[..2].copy_from_slice(&entry.site.to_be_bytes());
        bytes[2..4].copy_from_slice(&load.to_be_bytes());
        bytes[4..6].copy_from_slice(&utilisation.to_be_bytes());
        bytes[8..12].copy_from_slice(&entry.capacity_mbps.to_be_bytes());
    }
}

fn check_entry(bytes: &[u8]) -> Result<(), LinkQualityError> {
    let (site, load, utilisation) = (
        read_be16(bytes, 0..2),
        read_be16(bytes, 2..4),
        read_be16(bytes, 4..6),
    );
    if site == 0 {
        return Err(LinkQualityError::SiteZero);
    }
    let measured = load <= LOAD_MAX && utilisation <= LOAD_MAX;
    if !measured && (load, utilisation) != (UNMEASURED, UNMEASURED) {
        return Err(LinkQualityError::Load {
            site,
            load,
            utilisation,
        });
    }
    Ok(())
}

fn require_len(frame: &[u8], needed: usize) -> Result<(), LinkQualityError> {
    match frame.len() < needed {
        true => Err(LinkQualityError::Truncated {
            needed,
            available: frame.len(),
        }),
        false => Ok(()),
    }
}

impl fmt::Display for SiteEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "site {}", self.site)?;
        match (self.capacity_mbps, self.load) {
            (0, _) => f.write_str(" unreachable"),
            (capacity, None) => write!(f, " {capacity} Mb/s"),
            (capacity, Some(PathLoad { load, utilisation })) => {
                write!(f, " load {load} utilisation {utilisation} of {capacity} Mb/s")
            }
        }
    }
}

impl fmt::Display for LinkQuality<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link quality {}, hold {} us", self.sequence, self.hold_us)?;
        self.entries().try_for_each(|entry| write!(f, ", {entry}"))
    }
}

impl fmt::Display for LinkQualityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("link quality: ")?;
        match *self {
            LinkQualityError::Truncated { needed, available } => {
                write!(f, "{needed} bytes needed, {available} present")
            }
            LinkQualityError::NotLinkQuality => {
                f.write_str("destination, ethertype or subtype of another protocol")
            }
            LinkQualityError::Version(found) => write!(f, "version {found}, expected {VERSION}"),
            LinkQualityError::Length(value) => write!(
                f,
                "length field is {value}, expected 16 to {} in steps of {ENTRY_LEN}",
                HEADER_LEN + ENTRIES_MAX * ENTRY_LEN
            ),
            LinkQualityError::SiteZero => f.write_str("an entry has site number 0"),
            LinkQualityError::Load {
                site,
                load,
                utilisation,
            } => write!(
                f,
                "site {site}: load {load} and utilisation {utilisation}, expected 0 to {LOAD_MAX}, or {UNMEASURED} for both"
            ),
        }
    }
}

impl core::error::Error for LinkQualityError {}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 10];

    fn message_with(entries: &[SiteEntry]) -> Vec<u8> {
        let mut frame = vec![0xff; frame_len(entries.len())];
        emit(&mut frame, SOURCE, 7, 200, entries.iter().copied());
        frame
    }

    fn two_entries() -> [SiteEntry; 2] {
        let load = Some(PathLoad {
            load: 350,
            utilisation: 300,
        });
        [
            SiteEntry {
                site: 2,
                load,
                capacity_mbps: 100_000,
            },
            SiteEntry {
                site: 0x0304,
                load: None,
                capacity_mbps: 0,
            },
        ]
    }

    #[test]
    fn message_matches_the_recorded_bytes() {
        let frame = message_with(&two_entries());
        let expected = [
            &[1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 10, 0x88, 0xb5][..],
            &[0x58, 0x51, 1, 0, 0, 40, 0, 0, 0, 0, 0, 7, 0, 0, 0, 200],
            &[0, 2, 1, 94, 1, 44, 0, 0, 0, 1, 0x86, 0xa0],
            &[3, 4, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(frame, expected);
        let read = LinkQuality::parse(&frame).unwrap();
        assert_eq!((read.sequence, read.hold_us), (7, 200));
        assert_eq!(read.entries().collect::<Vec<_>>(), two_entries());
        assert_eq!(
            read.to_string(),
            "link quality 7, hold 200 us, site 2 load 350 utilisation 300 of 100000 Mb/s, site 772 unreachable"
        );
    }

    #[test]
    fn padding_is_ignored_and_every_truncation_refused() {
        let frame = message_with(&two_entries());
        let padded = [&frame[..], &[0xee; 30]].concat();
        assert_eq!(LinkQuality::parse(&padded), LinkQuality::parse(&frame));
        for available in 0..frame.len() {
            let needed = if available < 30 { 30 } else { frame.len() };
            assert_eq!(
                LinkQuality::parse(&frame[..available]),
                Err(LinkQualityError::Truncated { needed, available })
            );
        }
    }

    #[test]
    fn malformed_messages_are_refused_with_the_reason() {
        let good = message_with(&two_entries());
        let changed = |at: usize, to: u8| {
            let mut frame = good.clone();
            frame[at] = to;
            LinkQuality::parse(&frame).map(|_| ())
        };
        assert_eq!(changed(5, 0), Err(LinkQualityError::NotLinkQuality));
        assert_eq!(changed(13, 0xb6), Err(LinkQualityError::NotLinkQuality));
        assert_eq!(changed(15, 0), Err(LinkQualityError::NotLinkQuality));
        assert_eq!(changed(16, 2), Err(LinkQualityError::Version(2)));
        assert_eq!(changed(19, 41), Err(LinkQualityError::Length(41)));
        assert_eq!(changed(19, 4), Err(LinkQualityError::Length(4)));
        assert_eq!(changed(18, 0xff), Err(LinkQualityError::Length(0xff28)));
        assert_eq!(changed(31, 0), Err(LinkQualityError::SiteZero));
        let load = |load, utilisation| LinkQualityError::Load {
            site: 2,
            load,
            utilisation,
        };
        assert_eq!(changed(32, 4), Err(load(1_118, 300)));
        assert_eq!(changed(34, 0xff), Err(load(350, 0xff2c)));
        assert_eq!(changed(17, 9), Ok(()), "reserved");
    }

    #[test]
    fn messages_fit_their_mtu() {
        assert_eq!(
            (
                max_entries_for_mtu(68),
                max_entries_for_mtu(1_500),
                max_entries_for_mtu(9_216)
            ),
            (4, 120, 120)
        );
        assert!(frame_len(ENTRIES_MAX) - 14 <= 1_500);
        assert_eq!(max_entries_for_mtu(10), 0);
    }
}
