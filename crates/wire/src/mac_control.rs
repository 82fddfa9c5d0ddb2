//! MAC control frames: 802.3x PAUSE (IEEE 802.3 Annex 31B) and PFC (IEEE 802.1Q clause 36,
//! IEEE 802.3 Annex 31D).

use core::fmt;

use super::{ETHERTYPE_MAC_CONTROL, MIN_FRAME_LEN, read_array, read_be16};
use crate::{DisplayMac, PRIORITIES};

/// Length of a MAC control frame without FCS, in bytes.
pub const FRAME_LEN: usize = MIN_FRAME_LEN;
/// Destination address of PAUSE and PFC frames. Bridges do not forward frames with this address.
pub const DESTINATION: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];
/// Opcode of an 802.3x PAUSE frame.
pub const OPCODE_PAUSE: u16 = 0x0001;
/// Opcode of a PFC frame.
pub const OPCODE_PFC: u16 = 0x0101;

mod field {
    use core::ops::Range;

    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const ETHERTYPE: Range<usize> = 12..14;
    pub(super) const OPCODE: Range<usize> = 14..16;
    pub(super) const PAUSE_QUANTA: Range<usize> = 16..18;
    /// The high byte is reserved. Bit *n* of the low byte enables `quanta(n)`.
    pub(super) const ENABLE_VECTOR: Range<usize> = 16..18;

    pub(super) const fn quanta(priority: usize) -> Range<usize> {
        18 + 2 * priority..20 + 2 * priority
    }
    pub(super) const PFC_END: usize = quanta(crate::PRIORITIES - 1).end;
}

/// The parameters of a PFC frame. A frame with `Pfc::default()` has no effect, because no priority
/// is enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pfc {
    /// Class-enable vector. Bit *n* enables `quanta[n]`. If the bit of a priority is clear, the frame neither
    /// pauses nor resumes the priority.
    pub enable: u8,
    /// Pause time of each priority in quanta of 512 bit times of the port. The value 0 resumes the priority.
    /// The index is the priority.
    pub quanta: [u16; PRIORITIES],
}

impl Pfc {
    /// Returns whether the frame pauses at least one priority: its bit is set and its pause time is above 0.
    pub fn is_xoff(&self) -> bool {
        (0..PRIORITIES).any(|n| self.enable & 1 << n != 0 && self.quanta[n] != 0)
    }
}

/// The contents of a PAUSE or PFC frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacControl {
    /// 802.3x PAUSE: all priorities pause.
    Pause {
        /// Pause time in quanta of 512 bit times of the port. The value 0 ends the pause.
        quanta: u16,
    },
    /// PFC: selected priorities pause.
    Pfc(Pfc),
}

/// The reason why a frame is not a valid PAUSE or PFC frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MacControlError {
    /// The frame ends before its last parameter.
    Truncated {
        /// Length of the frame in bytes that the opcode needs.
        needed: usize,
        /// Length of the frame in bytes.
        available: usize,
    },
    /// The frame has this ethertype instead of 0x8808. MAC control frames have no VLAN tags, so the value can
    /// also be the TPID of a tag.
    EtherType(u16),
    /// The frame has this destination address instead of 01:80:C2:00:00:01. For PAUSE,
    /// [`MacControl::parse_for_station`] also accepts the address of the receiving port.
    Destination([u8; 6]),
    /// The frame has this opcode, which is neither PAUSE nor PFC.
    Opcode(u16),
}

impl MacControl {
    /// Reads a MAC control frame with the destination address 01:80:C2:00:00:01.
    /// [`MacControl::parse_for_station`] also accepts the address of the port.
    ///
    /// The frame must contain all parameters. Padding up to [`FRAME_LEN`] may be missing, because veth and
    /// tap devices do not pad frames. The function ignores reserved bytes and bytes after the parameters. It
    /// accepts every source address.
    ///
    /// # Errors
    ///
    /// Returns the first problem of the frame ([`MacControlError`]).
    pub fn parse(frame: &[u8]) -> Result<MacControl, MacControlError> {
        MacControl::parse_for_station(frame, DESTINATION)
    }

    /// Reads a MAC control frame that a station with the MAC address `own_mac` has received. The destination
    /// of a PFC frame must be 01:80:C2:00:00:01 (IEEE 802.3 Annex 31D, IEEE 802.1Q clause 36). The
    /// destination of a PAUSE frame may be this address or `own_mac` (IEEE 802.3 Annex 31B.3.3).
    ///
    /// The rules of [`MacControl::parse`] for padding, reserved bytes and source addresses apply.
    ///
    /// # Errors
    ///
    /// Returns the first problem of the frame ([`MacControlError`]).
    pub fn parse_for_station(frame: &[u8], own_mac: [u8; 6]) -> Result<MacControl, MacControlError> {
        require_len(frame, field::OPCODE.end)?;
        match read_be16(frame, field::ETHERTYPE) {
            ETHERTYPE_MAC_CONTROL => {}
            other => return Err(MacControlError::EtherType(other)),
        }
        match read_array(frame, field::DESTINATION) {
            DESTINATION => {}
            other if other == own_mac && read_be16(frame, field::OPCODE) == OPCODE_PAUSE => {}
            other => return Err(MacControlError::Destination(other)),
        }
        match read_be16(frame, field::OPCODE) {
            OPCODE_PAUSE => {
                require_len(frame, field::PAUSE_QUANTA.end)?;
                Ok(MacControl::Pause {
                    quanta: read_be16(frame, field::PAUSE_QUANTA),
                })
            }
            OPCODE_PFC => {
                require_len(frame, field::PFC_END)?;
                Ok(MacControl::Pfc(Pfc {
                    enable: read_be16(frame, field::ENABLE_VECTOR) as u8,
                    quanta: core::array::from_fn(|priority| read_be16(frame, field::quanta(priority))),
                }))
            }
            other => Err(MacControlError::Opcode(other)),
        }
    }

    /// Writes the whole frame with padding but without FCS. `source` is the MAC address of the sending port.
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

    /// Returns the whole frame with padding but without FCS. `source` is the MAC address of the sending port.
    pub fn to_frame(&self, source: [u8; 6]) -> [u8; FRAME_LEN] {
        let mut frame = [0; FRAME_LEN];
        self.emit(source, &mut frame);
        frame
    }
}

fn require_len(frame: &[u8], needed: usize) -> Result<(), MacControlError> {
    if frame.len() < needed {
        return Err(MacControlError::Truncated {
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

impl fmt::Display for MacControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MacControlError::Truncated { needed, available } => {
                write!(f, "MAC control: {needed} bytes needed, {available} present")
            }
            MacControlError::EtherType(found) => {
                write!(
                    f,
                    "MAC control: ethertype {found:#06x}, expected 0x8808 without a tag"
                )
            }
            MacControlError::Destination(found) => {
                let found = DisplayMac(*found);
                write!(f, "MAC control: destination {found}, expected 01:80:c2:00:00:01")
            }
            MacControlError::Opcode(found) => {
                write!(
                    f,
                    "MAC control: opcode {found:#06x} is neither PAUSE (0x0001) nor PFC (0x0101)"
                )
            }
        }
    }
}

impl core::error::Error for MacControlError {}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 10];

    fn pause_one_priority(priority: usize, quanta: u16) -> MacControl {
        let mut pfc = Pfc {
            enable: 1 << priority,
            ..Pfc::default()
        };
        pfc.quanta[priority] = quanta;
        MacControl::Pfc(pfc)
    }

    /// A frame with the given bytes after the ethertype. The rest of its 60 bytes is zero.
    fn frame_with_parameters(parameters: &[u8]) -> [u8; FRAME_LEN] {
        let mut frame = [0; FRAME_LEN];
        frame[..14].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 10, 0x88, 8]);
        frame[14..14 + parameters.len()].copy_from_slice(parameters);
        frame
    }

    #[test]
    fn frames_match_the_published_bytes() {
        let xoff = frame_with_parameters(&[1, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        let xon = frame_with_parameters(&[1, 1, 0, 8]);
        let pause = frame_with_parameters(&[0, 1, 0xff, 0xff]);
        // The published vectors contain the FCS as well, so the test compares the CRC-32 of the frame with
        // it.
        for (frame, control, fcs) in [
            (xoff, pause_one_priority(3, 0xffff), [0xda, 0xa8, 0x57, 0x28]),
            (xon, pause_one_priority(3, 0), [0xbb, 0x2b, 0x06, 0x47]),
            (
                pause,
                MacControl::Pause { quanta: 0xffff },
                [0xb7, 0x66, 0xcc, 0x14],
            ),
        ] {
            assert_eq!(control.to_frame(SOURCE), frame);
            assert_eq!(MacControl::parse(&frame), Ok(control));
            assert_eq!(crc32fast::hash(&frame).to_le_bytes(), fcs);
        }
    }

    #[test]
    fn every_truncation_is_refused_up_to_the_last_parameter() {
        for (frame, needed) in [
            (pause_one_priority(7, 9).to_frame(SOURCE), 34),
            (MacControl::Pause { quanta: 1 }.to_frame(SOURCE), 18),
        ] {
            for available in 0..=FRAME_LEN {
                let read = MacControl::parse(&frame[..available]);
                if available < needed {
                    let needed = if available < 16 { 16 } else { needed };
                    assert_eq!(read, Err(MacControlError::Truncated { needed, available }));
                } else {
                    assert_eq!(read, MacControl::parse(&frame));
                }
            }
        }
    }

    #[test]
    fn frames_that_are_not_pauses_are_refused_with_the_reason() {
        let good = pause_one_priority(3, 1).to_frame(SOURCE);
        let changed = |at: usize, to: u8| {
            let mut frame = good;
            frame[at] = to;
            MacControl::parse(&frame)
        };
        let unicast = [0x00, 0x80, 0xc2, 0, 0, 1];
        assert_eq!(changed(0, 0), Err(MacControlError::Destination(unicast)));
        assert_eq!(changed(12, 0x08), Err(MacControlError::EtherType(0x0808)));
        assert_eq!(changed(15, 2), Err(MacControlError::Opcode(0x0102)));
        let mut tagged = [&[0; 4][..], &good].concat();
        super::super::vlan::write_outer_tag(&mut tagged, super::super::VlanTag::dot1q(3, 1));
        assert_eq!(
            MacControl::parse(&tagged),
            Err(MacControlError::EtherType(0x8100))
        );
        assert_eq!(
            changed(5, 2).unwrap_err().to_string(),
            "MAC control: destination 01:80:c2:00:00:02, expected 01:80:c2:00:00:01"
        );
    }

    #[test]
    fn pause_to_the_own_address_is_accepted_but_pfc_is_not() {
        let own_mac = [2, 0xff, 0, 0, 1, 1];
        let mut pause = MacControl::Pause { quanta: 9 }.to_frame(SOURCE);
        pause[..6].copy_from_slice(&own_mac);
        assert_eq!(
            MacControl::parse_for_station(&pause, own_mac),
            Ok(MacControl::Pause { quanta: 9 })
        );
        assert_eq!(
            MacControl::parse(&pause),
            Err(MacControlError::Destination(own_mac))
        );
        let mut pfc = pause_one_priority(3, 9).to_frame(SOURCE);
        assert_eq!(
            MacControl::parse_for_station(&pfc, own_mac),
            Ok(pause_one_priority(3, 9))
        );
        pfc[..6].copy_from_slice(&own_mac);
        assert_eq!(
            MacControl::parse_for_station(&pfc, own_mac),
            Err(MacControlError::Destination(own_mac))
        );
    }

    #[test]
    fn reserved_and_trailing_bytes_are_ignored() {
        let good = pause_one_priority(3, 1);
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
