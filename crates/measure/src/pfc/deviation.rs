//! Deviations of MAC control frames from the standard.

use std::fmt;

use xoff_units::count_noun;
use xoff_wire::DisplayMac;

/// A deviation of a MAC control frame from IEEE 802.3 annexes 31A, 31B and 31D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deviation {
    /// The frame has a VLAN tag. Receivers do not regard it as a MAC control frame.
    VlanTag {
        /// Priority code point of the tag.
        pcp: u8,
        /// VLAN id of the tag.
        vid: u16,
    },
    /// The destination is not 01:80:c2:00:00:01.
    Destination([u8; 6]),
    /// The source is a group address.
    GroupSource([u8; 6]),
    /// The opcode is neither PAUSE nor PFC.
    Opcode(u16),
    /// The frame ends before its last parameter.
    Truncated {
        /// Length of the frame in bytes that the opcode needs.
        needed: usize,
        /// Length of the frame in bytes.
        available: usize,
    },
    /// The frame has fewer or more than 60 bytes without FCS.
    Length(usize),
    /// The high byte of the class-enable vector is not zero.
    ReservedVectorBits(u8),
    /// A class has a pause time, but its enable bit is clear. Receivers ignore the pause time.
    QuantaWithoutEnable {
        /// Number of the class.
        class: u8,
        /// Pause time in quanta.
        quanta: u16,
    },
    /// No class is enabled, so the frame has no effect.
    NoClass,
    /// Padding bytes are not zero.
    Padding {
        /// Number of bytes that are not zero.
        bytes: usize,
    },
}

impl Deviation {
    /// Returns whether receivers ignore a frame with this deviation.
    pub fn is_ignored_frame(&self) -> bool {
        matches!(
            self,
            Deviation::VlanTag { .. }
                | Deviation::Destination(_)
                | Deviation::Opcode(_)
                | Deviation::Truncated { .. }
                | Deviation::NoClass
        )
    }
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Deviation::VlanTag { pcp, vid } => write!(f, "VLAN tag with PCP {pcp}, VID {vid}"),
            Deviation::Destination(mac) => {
                write!(f, "destination {}, expected 01:80:c2:00:00:01", DisplayMac(mac))
            }
            Deviation::GroupSource(mac) => write!(f, "source {} is a group address", DisplayMac(mac)),
            Deviation::Opcode(opcode) => {
                write!(
                    f,
                    "opcode {opcode:#06x} is neither PAUSE (0x0001) nor PFC (0x0101)"
                )
            }
            Deviation::Truncated { needed, available } => {
                let length = count_noun(available as u64, "byte");
                write!(f, "length {length}, the parameters need {needed}")
            }
            Deviation::Length(bytes) => {
                let length = count_noun(bytes as u64, "byte");
                write!(f, "length {length} without FCS, expected 60")
            }
            Deviation::ReservedVectorBits(bits) => {
                write!(
                    f,
                    "high byte of the class-enable vector is {bits:#04x}, expected 0"
                )
            }
            Deviation::QuantaWithoutEnable { class, quanta } => {
                write!(f, "class {class} has quanta {quanta}, but its enable bit is 0")
            }
            Deviation::NoClass => f.write_str("the class-enable vector is 0"),
            Deviation::Padding { bytes } => write!(f, "number of padding bytes that are not zero is {bytes}"),
        }
    }
}
