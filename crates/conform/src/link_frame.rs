//! Frames on the link between the instrument and the device.

use xoff_units::{LinkTiming, Picos};

/// Number of bytes of preamble and start delimiter before a frame.
const PREAMBLE_BYTES: u32 = 8;

/// A defect of a frame that a receiver must detect (IEEE 802.3 clause 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The frame check sequence is wrong.
    WrongFcs,
    /// The frame is shorter than 64 bytes with FCS, and its FCS is right.
    Runt,
}

/// A frame on the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkFrame {
    /// The bytes of the frame without FCS. The link pads a frame to its shortest length, unless it is a runt.
    pub bytes: Vec<u8>,
    /// The defect of the frame. `None`: the frame is correct.
    pub defect: Option<Defect>,
}

impl LinkFrame {
    /// Makes a correct frame. `bytes` has no FCS.
    pub fn new(bytes: Vec<u8>) -> LinkFrame {
        LinkFrame { bytes, defect: None }
    }

    /// Returns the length of the frame with padding and FCS, in bytes.
    pub fn mac_len(&self, link: &LinkTiming) -> u32 {
        let frame_len = self.bytes.len() as u32;
        match self.defect {
            Some(Defect::Runt) => frame_len + link.fcs_bytes,
            _ => link.mac_len(frame_len),
        }
    }

    /// Returns the time from the first bit of the preamble to the last bit of the FCS.
    pub fn duration(&self, link: &LinkTiming) -> Picos {
        link.duration(self.mac_len(link) + PREAMBLE_BYTES)
    }

    /// Returns the time for which the frame occupies the link, with its preamble and gap.
    pub fn occupied(&self, link: &LinkTiming) -> Picos {
        link.duration(link.wire_len(self.mac_len(link)))
    }
}
