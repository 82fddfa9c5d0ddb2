//! Frames of the link as octets with FCS.

use xoff_lockstep::{append_fcs, has_right_fcs};

use crate::link_frame::{Defect, LinkFrame};

/// Length of the shortest frame without FCS, in bytes.
const SHORTEST_FRAME: usize = 60;
/// Length of the FCS in bytes.
const FCS_BYTES: usize = 4;

/// Returns the octets of a frame with padding and FCS.
pub(crate) fn to_octets(frame: &LinkFrame) -> Vec<u8> {
    let mut octets = frame.bytes.clone();
    if frame.defect != Some(Defect::Runt) && octets.len() < SHORTEST_FRAME {
        octets.resize(SHORTEST_FRAME, 0);
    }
    append_fcs(&mut octets);
    if frame.defect == Some(Defect::WrongFcs)
        && let Some(last) = octets.last_mut()
    {
        *last ^= 0xff;
    }
    octets
}

/// Returns the frame of octets with FCS. `has_error`: the PHY signals an error, which counts as a wrong FCS.
pub(crate) fn from_octets(mut octets: Vec<u8>, has_error: bool) -> LinkFrame {
    let is_right = has_right_fcs(&octets) && !has_error;
    octets.truncate(octets.len().saturating_sub(FCS_BYTES));
    let defect = match is_right {
        false => Some(Defect::WrongFcs),
        true => (octets.len() < SHORTEST_FRAME).then_some(Defect::Runt),
    };
    LinkFrame {
        bytes: octets,
        defect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defects_survive_the_octets() {
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
            assert_eq!(from_octets(to_octets(&frame), false), frame);
        }
        assert_eq!(to_octets(&frame(14, None)).len(), 64, "short frames are padded");
        let octets = to_octets(&frame(60, None));
        assert_eq!(from_octets(octets, true).defect, Some(Defect::WrongFcs));
        assert_eq!(from_octets(vec![1], false).defect, Some(Defect::WrongFcs));
    }
}
