//! Frames of the link as bytes with FCS.

use xoff_lockstep::{append_fcs, has_right_fcs};

use crate::link_frame::{Defect, LinkFrame};

/// Length of the shortest frame without FCS, in bytes.
const SHORTEST_FRAME: usize = 60;
/// Length of the FCS in bytes.
const FCS_BYTES: usize = 4;

/// Returns the bytes of a frame with padding and FCS.
pub(crate) fn to_wire_bytes(frame: &LinkFrame) -> Vec<u8> {
    let mut wire_bytes = frame.bytes.clone();
    if frame.defect != Some(Defect::Runt) && wire_bytes.len() < SHORTEST_FRAME {
        wire_bytes.resize(SHORTEST_FRAME, 0);
    }
    append_fcs(&mut wire_bytes);
    if frame.defect == Some(Defect::WrongFcs)
        && let Some(last) = wire_bytes.last_mut()
    {
        *last ^= 0xff;
    }
    wire_bytes
}

/// Returns the frame of bytes with FCS. `has_error`: the PHY signals an error, which counts as a wrong FCS.
pub(crate) fn from_wire_bytes(mut wire_bytes: Vec<u8>, has_error: bool) -> LinkFrame {
    let is_right = has_right_fcs(&wire_bytes) && !has_error;
    wire_bytes.truncate(wire_bytes.len().saturating_sub(FCS_BYTES));
    let defect = match is_right {
        false => Some(Defect::WrongFcs),
        true => (wire_bytes.len() < SHORTEST_FRAME).then_some(Defect::Runt),
    };
    LinkFrame {
        bytes: wire_bytes,
        defect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defects_survive_the_bytes() {
        let frame = |len: usize, defect| LinkFrame {
            bytes: vec![7; len],
            defect,
        };
        for frame in [
            frame(60, None),
            frame(1_514, None),
            frame(60, Some(Defect::WrongFcs)),
            frame(46, Some(Defect::Runt)),
        ] {
            assert_eq!(from_wire_bytes(to_wire_bytes(&frame), false), frame);
        }
        assert_eq!(
            to_wire_bytes(&frame(14, None)).len(),
            64,
            "short frames are padded"
        );
        let wire_bytes = to_wire_bytes(&frame(60, None));
        assert_eq!(from_wire_bytes(wire_bytes, true).defect, Some(Defect::WrongFcs));
        assert_eq!(from_wire_bytes(vec![1], false).defect, Some(Defect::WrongFcs));
    }
}
