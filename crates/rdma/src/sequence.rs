//! Packet sequence numbers: 24 bits on the wire, 64 inside, where they never wrap.

use xoff_wire::bth::MASK_24;

/// Half of the PSN space: what lies less than this ahead is new, the rest old (IBTA 9.7.1).
const HALF: u32 = 1 << 23;

/// Numbers of one direction: sequence 0 has the PSN it starts with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbering {
    first_psn: u32,
}

impl Numbering {
    pub(super) fn new(first_psn: u32) -> Numbering {
        Numbering { first_psn }
    }

    /// The PSN of a sequence number.
    #[inline]
    pub(super) fn psn(self, sequence: u64) -> u32 {
        self.first_psn.wrapping_add(sequence as u32) & MASK_24
    }

    /// The sequence number nearest to `reference` that has this PSN; `None` if it would lie before the first.
    #[inline]
    pub(super) fn sequence(self, psn: u32, reference: u64) -> Option<u64> {
        let ahead = psn.wrapping_sub(self.psn(reference)) & MASK_24;
        if ahead < HALF {
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
    fn numbers_survive_the_wrap_and_the_window_is_half_the_space() {
        let numbering = Numbering::new(0xff_fff0);
        for reference in [0_u64, 15, 16, 1 << 24, (1 << 40) + 5] {
            for ahead in [0_u64, 1, 100, u64::from(HALF) - 1] {
                let sequence = reference + ahead;
                assert_eq!(
                    numbering.sequence(numbering.psn(sequence), reference),
                    Some(sequence)
                );
            }
            let behind = reference.checked_sub(u64::from(HALF));
            assert_eq!(
                numbering.sequence(numbering.psn(reference + u64::from(HALF)), reference),
                behind
            );
        }
        assert_eq!(numbering.psn(16), 0);
        assert_eq!(numbering.sequence(0xff_ffef, 0), None, "before the first");
    }
}
