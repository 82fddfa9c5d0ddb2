//! Packet sequence numbers (PSNs). A packet carries the lower 24 bits of a number. xoff computes with 64
//! bits, so its numbers never wrap.

use xoff_wire::bth::MASK_24;

/// Half of the PSN space. A PSN is new if it is less than this distance ahead of the expected PSN. Otherwise
/// it is old (IBTA 9.7.1).
const HALF_PSN_SPACE: u32 = 1 << 23;

/// Sequence numbers of the packets in one direction. The first PSN has sequence number 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct PsnNumbering {
    first_psn: u32,
}

impl PsnNumbering {
    pub(super) fn new(first_psn: u32) -> PsnNumbering {
        PsnNumbering { first_psn }
    }

    /// Returns the PSN of a sequence number.
    #[inline]
    pub(super) fn psn(self, sequence: u64) -> u32 {
        self.first_psn.wrapping_add(sequence as u32) & MASK_24
    }

    /// Returns the 64-bit sequence number with this PSN that is nearest to `reference`. Returns `None` if the
    /// number would be negative.
    #[inline]
    pub(super) fn nearest_sequence(self, psn: u32, reference: u64) -> Option<u64> {
        let ahead = psn.wrapping_sub(self.psn(reference)) & MASK_24;
        if ahead < HALF_PSN_SPACE {
            reference.checked_add(u64::from(ahead))
        } else {
            reference.checked_sub(u64::from(MASK_24 + 1 - ahead))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_are_correct_across_the_psn_wrap() {
        let numbering = PsnNumbering::new(0xff_fff0);
        for reference in [0_u64, 15, 16, 1 << 24, (1 << 40) + 5] {
            for ahead in [0_u64, 1, 100, u64::from(HALF_PSN_SPACE) - 1] {
                let sequence = reference + ahead;
                assert_eq!(
                    numbering.nearest_sequence(numbering.psn(sequence), reference),
                    Some(sequence)
                );
            }
            let behind = reference.checked_sub(u64::from(HALF_PSN_SPACE));
            assert_eq!(
                numbering.nearest_sequence(numbering.psn(reference + u64::from(HALF_PSN_SPACE)), reference),
                behind
            );
        }
        assert_eq!(numbering.psn(16), 0);
        assert_eq!(numbering.nearest_sequence(0xff_ffef, 0), None, "before the first");
    }
}
