//! Link quality messages: what a switch tells its neighbours of its ways to the sites of a fabric.
//!
//! A format of our own, with the first of the two ethertypes that IEEE 802 sets aside for local experiments and, as it asks,
//! a subtype and a version behind it. All numbers are big-endian.
//!
//! | octets | field | |
//! |---|---|---|
//! | 0 | destination | 01-80-C2-00-00-0E, the nearest bridge: nobody forwards it (IEEE 802.1Q 8.6.3) |
//! | 6 | source | address of the sending port |
//! | 12 | ethertype | 0x88B5 |
//! | 14 | subtype | 0x5851, "XQ" |
//! | 16 | version | 1 |
//! | 17 | reserved | sent as 0, not looked at |
//! | 18 | length | octets from the subtype to the end of the last entry: 16 + 12 n |
//! | 20 | reserved | |
//! | 22 | sequence | greater than in the message before, modulo 2^32 |
//! | 26 | hold | microseconds after which loads told here are forgotten |
//! | 30 | entries | 12 octets each, at most [`ENTRIES_MAX`] |
//!
//! | octets of an entry | field | |
//! |---|---|---|
//! | 0 | site | 1 to 65 535 |
//! | 2 | load | 0 (idle) to 1 000, as it makes quality bands; 65 535: not measured |
//! | 4 | utilisation | 0 to 1 000, or 65 535 |
//! | 6 | reserved | |
//! | 8 | capacity | Mb/s towards the site; 0: there is no way |

use core::fmt;

use super::{be16, be32};

/// Ethertype 1 for local experiments (IEEE 802 9.2.4).
pub const ETHERTYPE: u16 = 0x88b5;
/// Nearest bridge group address.
pub const DESTINATION: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];
/// Tells these messages from other experiments.
pub const SUBTYPE: u16 = 0x5851;
/// The form that is described here.
pub const VERSION: u8 = 1;
/// Most entries of a message: it fits an MTU of 1 500.
pub const ENTRIES_MAX: usize = 120;
/// Greatest load and utilisation.
pub const LOAD_MAX: u16 = 1_000;

/// A load that is not measured.
const UNMEASURED: u16 = u16::MAX;
/// Octets from the subtype to the first entry.
const HEADER_LEN: usize = 16;
const ENTRY_LEN: usize = 12;
const MESSAGE: usize = 14;
const ENTRIES: usize = MESSAGE + HEADER_LEN;

/// What is said of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The site, not 0.
    pub site: u16,
    /// How good the way is; `None`: not measured.
    pub load: Option<PathLoad>,
    /// Mb/s towards the site; 0: the sender has no way.
    pub capacity_mbps: u32,
}

/// How busy a way is: its busiest link counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathLoad {
    /// What quality bands follow from: 0 (idle) to 1 000 (the load of a path quality).
    pub load: u16,
    /// What is sent, or waits, in permille of what the link can send: 0 to 1 000.
    pub utilisation: u16,
}

/// A message that has been checked, or what it consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkQuality<'a> {
    /// Counts messages of a link.
    pub sequence: u32,
    /// How long loads hold, in microseconds.
    pub hold_us: u32,
    /// The entries as they lie on the wire.
    entries: &'a [u8],
}

/// Why a message means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// The frame ends early.
    Truncated {
        /// Octets it needs.
        needed: usize,
        /// Octets there are.
        available: usize,
    },
    /// Another destination, ethertype or subtype: no message of this kind.
    Foreign,
    /// A version that is not known.
    Version(u8),
    /// A length that is not 16 + 12 n, with n up to [`ENTRIES_MAX`].
    Length(u16),
    /// An entry about site 0.
    NoSite,
    /// A load or utilisation above 1 000 that is not 65 535, or only one of them measured.
    Load {
        /// The site.
        site: u16,
        /// What is said of its load.
        load: u16,
        /// And of its utilisation.
        utilisation: u16,
    },
}

impl<'a> LinkQuality<'a> {
    /// Whether a frame is one of these messages, well-formed or not.
    #[inline]
    pub fn is(frame: &[u8]) -> bool {
        let Some(front) = frame.first_chunk::<16>() else {
            return false;
        };
        front[..6] == DESTINATION && be16(front, 12..14) == ETHERTYPE && be16(front, 14..16) == SUBTYPE
    }

    /// Reads a message. What stands behind its last entry is padding; reserved octets are not looked at.
    ///
    /// # Errors
    /// What is wrong with it; of several mistakes the first one.
    pub fn parse(frame: &'a [u8]) -> Result<LinkQuality<'a>, Malformed> {
        require(frame, ENTRIES)?;
        if !LinkQuality::is(frame) {
            return Err(Malformed::Foreign);
        }
        if frame[16] != VERSION {
            return Err(Malformed::Version(frame[16]));
        }
        let says = be16(frame, 18..20);
        let length = usize::from(says);
        let fits = (HEADER_LEN..=HEADER_LEN + ENTRIES_MAX * ENTRY_LEN).contains(&length);
        if !fits || !(length - HEADER_LEN).is_multiple_of(ENTRY_LEN) {
            return Err(Malformed::Length(says));
        }
        require(frame, MESSAGE + length)?;
        let message = LinkQuality {
            sequence: be32(frame, 22..26),
            hold_us: be32(frame, 26..30),
            entries: &frame[ENTRIES..MESSAGE + length],
        };
        message.entries.chunks_exact(ENTRY_LEN).try_for_each(check)?;
        Ok(message)
    }

    /// The sites it speaks of.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry> + 'a {
        self.entries.chunks_exact(ENTRY_LEN).map(|octets| Entry {
            site: be16(octets, 0..2),
            load: (be16(octets, 2..4) != UNMEASURED).then(|| PathLoad {
                load: be16(octets, 2..4),
                utilisation: be16(octets, 4..6),
            }),
            capacity_mbps: be32(octets, 8..12),
        })
    }
}

/// Octets of a message with so many entries.
pub const fn frame_len(entries: usize) -> usize {
    ENTRIES + entries * ENTRY_LEN
}

/// How many entries fit into a frame that carries `mtu` octets behind its Ethernet header.
pub const fn entries_in(mtu: usize) -> usize {
    let fit = mtu.saturating_sub(HEADER_LEN) / ENTRY_LEN;
    if fit < ENTRIES_MAX { fit } else { ENTRIES_MAX }
}

/// Writes a whole message into `frame`, which has [`frame_len`] octets for as many entries as are taken from `entries`.
/// `source` is the address of the sending port.
pub fn emit(
    frame: &mut [u8],
    source: [u8; 6],
    sequence: u32,
    hold_us: u32,
    entries: impl IntoIterator<Item = Entry>,
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
    for (octets, entry) in room.chunks_exact_mut(ENTRY_LEN).zip(entries) {
        let (load, utilisation) = match entry.load {
            Some(load) => (load.load.min(LOAD_MAX), load.utilisation.min(LOAD_MAX)),
            None => (UNMEASURED, UNMEASURED),
        };
        octets[..2].copy_from_slice(&entry.site.to_be_bytes());
        octets[2..4].copy_from_slice(&load.to_be_bytes());
        octets[4..6].copy_from_slice(&utilisation.to_be_bytes());
        octets[8..12].copy_from_slice(&entry.capacity_mbps.to_be_bytes());
    }
}

fn check(octets: &[u8]) -> Result<(), Malformed> {
    let (site, load, utilisation) = (be16(octets, 0..2), be16(octets, 2..4), be16(octets, 4..6));
    if site == 0 {
        return Err(Malformed::NoSite);
    }
    let measured = load <= LOAD_MAX && utilisation <= LOAD_MAX;
    if !measured && (load, utilisation) != (UNMEASURED, UNMEASURED) {
        return Err(Malformed::Load {
            site,
            load,
            utilisation,
        });
    }
    Ok(())
}

fn require(frame: &[u8], needed: usize) -> Result<(), Malformed> {
    match frame.len() < needed {
        true => Err(Malformed::Truncated {
            needed,
            available: frame.len(),
        }),
        false => Ok(()),
    }
}

impl fmt::Display for Entry {
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

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("link quality: ")?;
        match *self {
            Malformed::Truncated { needed, available } => {
                write!(f, "needs {needed} octets, {available} are there")
            }
            Malformed::Foreign => f.write_str("destination, ethertype or subtype of something else"),
            Malformed::Version(found) => write!(f, "version {found}, expected {VERSION}"),
            Malformed::Length(says) => write!(
                f,
                "length field says {says}, possible are 16 to {} in steps of {ENTRY_LEN}",
                HEADER_LEN + ENTRIES_MAX * ENTRY_LEN
            ),
            Malformed::NoSite => f.write_str("an entry about site 0"),
            Malformed::Load {
                site,
                load,
                utilisation,
            } => write!(
                f,
                "site {site}: load {load} and utilisation {utilisation}, possible are 0 to {LOAD_MAX}, or {UNMEASURED} for both"
            ),
        }
    }
}

impl core::error::Error for Malformed {}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 10];

    fn message(entries: &[Entry]) -> Vec<u8> {
        let mut frame = vec![0xff; frame_len(entries.len())];
        emit(&mut frame, SOURCE, 7, 200, entries.iter().copied());
        frame
    }

    fn two() -> [Entry; 2] {
        let load = Some(PathLoad {
            load: 350,
            utilisation: 300,
        });
        [
            Entry {
                site: 2,
                load,
                capacity_mbps: 100_000,
            },
            Entry {
                site: 0x0304,
                load: None,
                capacity_mbps: 0,
            },
        ]
    }

    #[test]
    fn a_byte_exact_vector() {
        let frame = message(&two());
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
        assert_eq!(read.entries().collect::<Vec<_>>(), two());
        assert_eq!(
            read.to_string(),
            "link quality 7, hold 200 us, site 2 load 350 utilisation 300 of 100000 Mb/s, site 772 unreachable"
        );
    }

    #[test]
    fn padding_is_ignored_and_every_truncation_refused() {
        let frame = message(&two());
        let padded = [&frame[..], &[0xee; 30]].concat();
        assert_eq!(LinkQuality::parse(&padded), LinkQuality::parse(&frame));
        for available in 0..frame.len() {
            let needed = if available < 30 { 30 } else { frame.len() };
            assert_eq!(
                LinkQuality::parse(&frame[..available]),
                Err(Malformed::Truncated { needed, available })
            );
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        let good = message(&two());
        let changed = |at: usize, to: u8| {
            let mut frame = good.clone();
            frame[at] = to;
            LinkQuality::parse(&frame).map(|_| ())
        };
        assert_eq!(changed(5, 0), Err(Malformed::Foreign));
        assert_eq!(changed(13, 0xb6), Err(Malformed::Foreign));
        assert_eq!(changed(15, 0), Err(Malformed::Foreign));
        assert_eq!(changed(16, 2), Err(Malformed::Version(2)));
        assert_eq!(changed(19, 41), Err(Malformed::Length(41)));
        assert_eq!(changed(19, 4), Err(Malformed::Length(4)));
        assert_eq!(changed(18, 0xff), Err(Malformed::Length(0xff28)));
        assert_eq!(changed(31, 0), Err(Malformed::NoSite));
        let load = |load, utilisation| Malformed::Load {
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
            (entries_in(68), entries_in(1_500), entries_in(9_216)),
            (4, 120, 120)
        );
        assert!(frame_len(ENTRIES_MAX) - 14 <= 1_500);
        assert_eq!(entries_in(10), 0);
    }
}
