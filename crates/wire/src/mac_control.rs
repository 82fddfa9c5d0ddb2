//! MAC control frames: 802.3x PAUSE (IEEE 802.3 Annex 31B) and 802.1Qbb PFC (IEEE 802.1Q clause 36, 802.3
//! Annex 31D).

use core::fmt;

use super::{ETHERTYPE_MAC_CONTROL, MIN_FRAME_LEN, array, be16};
use crate::PRIORITIES;

/// Octets of a MAC control frame without FCS.
pub const FRAME_LEN: usize = MIN_FRAME_LEN;
/// The destination of all PAUSE and PFC that is sent; a bridge never forwards it.
pub const DESTINATION: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];
/// Opcode of 802.3x PAUSE.
pub const OPCODE_PAUSE: u16 = 0x0001;
/// Opcode of priority-based flow control.
pub const OPCODE_PFC: u16 = 0x0101;

mod field {
    use core::ops::Range;

    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const ETHERTYPE: Range<usize> = 12..14;
    pub(super) const OPCODE: Range<usize> = 14..16;
    pub(super) const PAUSE_QUANTA: Range<usize> = 16..18;
    /// High octet reserved, low octet: bit *n* makes `quanta(n)` valid.
    pub(super) const ENABLE_VECTOR: Range<usize> = 16..18;

    pub(super) const fn quanta(priority: usize) -> Range<usize> {
        18 + 2 * priority..20 + 2 * priority
    }
    pub(super) const PFC_END: usize = quanta(crate::PRIORITIES - 1).end;
}

/// A priority-based flow control frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pfc {
    /// Bit *n*: `quanta[n]` is valid. A clear bit leaves the priority as it is; it does not resume it.
    pub enable: u8,
    /// How long each priority shall stop, in quanta of 512 bit times of the port; 0 resumes.
    pub quanta: [u16; PRIORITIES],
}

impl Pfc {
    /// Whether any enabled priority is stopped, rather than resumed.
    pub fn is_xoff(&self) -> bool {
        (0..PRIORITIES).any(|n| self.enable & 1 << n != 0 && self.quanta[n] != 0)
    }
}

/// What a MAC control frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacControl {
    /// 802.3x PAUSE: stop everything for so many quanta of 512 bit times; 0 resumes.
    Pause {
        /// The pause time.
        quanta: u16,
    },
    /// 802.1Qbb: stop priorities.
    Pfc(Pfc),
}

/// Why a MAC control frame means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// The frame ends before its last parameter.
    Truncated {
        /// Octets the opcode needs.
        needed: usize,
        /// Octets there are.
        available: usize,
    },
    /// The ethertype is not 0x8808, or a VLAN tag stands in front of it.
    EtherType(u16),
    /// The destination is not 01:80:C2:00:00:01, nor, for PAUSE, the station's own address.
    Destination([u8; 6]),
    /// Neither PAUSE nor PFC.
    Opcode(u16),
}

impl MacControl {
    /// Reads a MAC control frame.
    ///
    /// All parameters must be there, but not the padding up to [`FRAME_LEN`]: veth and tap devices have no
    /// MAC that pads, and whoever sends a shorter frame there would have had it padded by hardware. Octets
    /// behind the parameters, the high octet of the enable vector and the quanta of priorities not enabled
    /// are not looked at (802.1Qbb reserves them). Destinations other than the group address are refused: see
    /// [`MacControl::parse_at`]. The source may be anything, zero included.
    pub fn parse(frame: &[u8]) -> Result<MacControl, Malformed> {
        MacControl::parse_at(frame, DESTINATION)
    }

    /// As [`MacControl::parse`], as the station with the address `own` reads it: PAUSE may also be addressed to the station
    /// itself (802.3 Annex 31B.3.3), PFC to the group address alone (Annex 31D, 802.1Q clause 36).
    pub fn parse_at(frame: &[u8], own: [u8; 6]) -> Result<MacControl, Malformed> {
        require(frame, field::OPCODE.end)?;
        match be16(frame, field::ETHERTYPE) {
            ETHERTYPE_MAC_CONTROL => {}
            other => return Err(Malformed::EtherType(other)),
        }
        match array(frame, field::DESTINATION) {
            DESTINATION => {}
            other if other == own && be16(frame, field::OPCODE) == OPCODE_PAUSE => {}
            other => return Err(Malformed::Destination(other)),
        }
        match be16(frame, field::OPCODE) {
            OPCODE_PAUSE => {
                require(frame, field::PAUSE_QUANTA.end)?;
                Ok(MacControl::Pause {
                    quanta: be16(frame, field::PAUSE_QUANTA),
                })
            }
            OPCODE_PFC => {
                require(frame, field::PFC_END)?;
                Ok(MacControl::Pfc(Pfc {
                    enable: be16(frame, field::ENABLE_VECTOR) as u8,
                    quanta: core::array::from_fn(|priority| be16(frame, field::quanta(priority))),
                }))
            }
            other => Err(Malformed::Opcode(other)),
        }
    }

    /// Writes the whole frame, padding included. `source` is the address of the sending port.
    pub fn emit(&self, source: [u8; 6], frame: &mut [u8; FRAME_LEN]) {
        frame.fill(0);
        frame[field::DESTINATION].copy_from_slice(&DESTINATION);
        frame[field::SOURCE].copy_from_slice(&source);
        frame[field::ETHERTYPE].copy_from_slice(&ETHERTYPE_MAC_CONTROL.to_be_bytes());
        match self {
            MacControl::Pause { quanta } => {
                frame[field::OPCODE].copy_from_slice(&OPCODE_PAUSE.to_be_bytes());
                frame[field::PAUSE_QUANTA].copy_from_slice(&quanta.to_be_bytes());
            }
            MacControl::Pfc(pfc) => {
                frame[field::OPCODE].copy_from_slice(&OPCODE_PFC.to_be_bytes());
                frame[field::ENABLE_VECTOR].copy_from_slice(&u16::from(pfc.enable).to_be_bytes());
                for (priority, quanta) in pfc.quanta.iter().enumerate() {
                    frame[field::quanta(priority)].copy_from_slice(&quanta.to_be_bytes());
                }
            }
        }
    }

    /// The whole frame.
    pub fn to_frame(&self, source: [u8; 6]) -> [u8; FRAME_LEN] {
        let mut frame = [0; FRAME_LEN];
        self.emit(source, &mut frame);
        frame
    }
}

fn require(frame: &[u8], needed: usize) -> Result<(), Malformed> {
    if frame.len() < needed {
        return Err(Malformed::Truncated {
            needed,
            available: frame.len(),
        });
    }
    Ok(())
}

impl fmt::Display for MacControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MacControl::Pause { quanta } => write!(f, "PAUSE quanta {quanta}"),
            MacControl::Pfc(pfc) => {
                write!(f, "PFC")?;
                if pfc.enable == 0 {
                    write!(f, " no priority")?;
                }
                for (priority, quanta) in pfc.quanta.iter().enumerate() {
                    match (pfc.enable & 1 << priority != 0, quanta) {
                        (false, _) => {}
                        (true, 0) => write!(f, " xon {priority}")?,
                        (true, quanta) => write!(f, " xoff {priority} quanta {quanta}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Truncated { needed, available } => {
                write!(f, "MAC control: needs {needed} octets, {available} are there")
            }
            Malformed::EtherType(found) => {
                write!(
                    f,
                    "MAC control: ethertype {found:#06x}, expected 0x8808 without a tag"
                )
            }
            Malformed::Destination([a, b, c, d, e, g]) => write!(
                f,
                "MAC control: destination {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}, expected 01:80:c2:00:00:01"
            ),
            Malformed::Opcode(found) => {
                write!(
                    f,
                    "MAC control: opcode {found:#06x} is neither PAUSE (0x0001) nor PFC (0x0101)"
                )
            }
        }
    }
}

impl core::error::Error for Malformed {}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 10];

    fn stop(priority: usize, quanta: u16) -> MacControl {
        let mut pfc = Pfc {
            enable: 1 << priority,
            ..Pfc::default()
        };
        pfc.quanta[priority] = quanta;
        MacControl::Pfc(pfc)
    }

    /// Header octets of a vector; the rest of its 60 is zero.
    fn vector(front: &[u8]) -> [u8; FRAME_LEN] {
        let mut frame = [0; FRAME_LEN];
        frame[..14].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 10, 0x88, 8]);
        frame[14..14 + front.len()].copy_from_slice(front);
        frame
    }

    #[test]
    fn byte_exact_vectors() {
        let xoff = vector(&[1, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        let xon = vector(&[1, 1, 0, 8]);
        let pause = vector(&[0, 1, 0xff, 0xff]);
        // CRC-32 as it stands on the wire: the published vectors give the FCS too.
        for (frame, says, fcs) in [
            (xoff, stop(3, 0xffff), [0xda, 0xa8, 0x57, 0x28]),
            (xon, stop(3, 0), [0xbb, 0x2b, 0x06, 0x47]),
            (
                pause,
                MacControl::Pause { quanta: 0xffff },
                [0xb7, 0x66, 0xcc, 0x14],
            ),
        ] {
            assert_eq!(says.to_frame(SOURCE), frame);
            assert_eq!(MacControl::parse(&frame), Ok(says));
            assert_eq!(crc32fast::hash(&frame).to_le_bytes(), fcs);
        }
    }

    #[test]
    fn every_truncation_is_refused_up_to_the_last_parameter() {
        for (frame, needed) in [
            (stop(7, 9).to_frame(SOURCE), 34),
            (MacControl::Pause { quanta: 1 }.to_frame(SOURCE), 18),
        ] {
            for available in 0..=FRAME_LEN {
                let read = MacControl::parse(&frame[..available]);
                if available < needed {
                    let needed = if available < 16 { 16 } else { needed };
                    assert_eq!(read, Err(Malformed::Truncated { needed, available }));
                } else {
                    assert_eq!(read, MacControl::parse(&frame));
                }
            }
        }
    }

    #[test]
    fn what_is_not_a_pause_is_refused_with_the_reason() {
        let good = stop(3, 1).to_frame(SOURCE);
        let changed = |at: usize, to: u8| {
            let mut frame = good;
            frame[at] = to;
            MacControl::parse(&frame)
        };
        let unicast = [0x00, 0x80, 0xc2, 0, 0, 1];
        assert_eq!(changed(0, 0), Err(Malformed::Destination(unicast)));
        assert_eq!(changed(12, 0x08), Err(Malformed::EtherType(0x0808)));
        assert_eq!(changed(15, 2), Err(Malformed::Opcode(0x0102)));
        let mut tagged = [&[0; 4][..], &good].concat();
        super::super::vlan::write_pushed(&mut tagged, super::super::Tag::dot1q(3, 1));
        assert_eq!(MacControl::parse(&tagged), Err(Malformed::EtherType(0x8100)));
        assert_eq!(
            changed(5, 2).unwrap_err().to_string(),
            "MAC control: destination 01:80:c2:00:00:02, expected 01:80:c2:00:00:01"
        );
    }

    #[test]
    fn a_station_reads_pause_to_its_own_address_but_no_pfc() {
        let own = [2, 0xff, 0, 0, 1, 1];
        let mut pause = MacControl::Pause { quanta: 9 }.to_frame(SOURCE);
        pause[..6].copy_from_slice(&own);
        assert_eq!(
            MacControl::parse_at(&pause, own),
            Ok(MacControl::Pause { quanta: 9 })
        );
        assert_eq!(MacControl::parse(&pause), Err(Malformed::Destination(own)));
        let mut pfc = stop(3, 9).to_frame(SOURCE);
        assert_eq!(MacControl::parse_at(&pfc, own), Ok(stop(3, 9)));
        pfc[..6].copy_from_slice(&own);
        assert_eq!(MacControl::parse_at(&pfc, own), Err(Malformed::Destination(own)));
    }

    #[test]
    fn reserved_octets_and_what_follows_are_ignored() {
        let good = stop(3, 1);
        let mut frame = good.to_frame(SOURCE);
        frame[16] = 0xff;
        frame[34..].fill(0xee);
        assert_eq!(MacControl::parse(&frame), Ok(good));
        assert_eq!(MacControl::parse(&[&frame[..], &[1; 100]].concat()), Ok(good));
    }

    #[test]
    fn display_names_priorities() {
        let both = Pfc {
            enable: 0b1001,
            quanta: [0, 0, 0, 65_535, 9, 0, 0, 0],
        };
        assert_eq!(MacControl::Pfc(both).to_string(), "PFC xon 0 xoff 3 quanta 65535");
        assert_eq!(MacControl::Pfc(Pfc::default()).to_string(), "PFC no priority");
        assert_eq!(MacControl::Pause { quanta: 7 }.to_string(), "PAUSE quanta 7");
        assert!(both.is_xoff() && !Pfc { enable: 1, ..both }.is_xoff());
    }
}
