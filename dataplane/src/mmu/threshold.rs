//! How much of a pool's shared part one user may take: the replaceable piece of the MMU.
//!
//! Everything else (regions, order of release, waiting for XON) asks a [`Rule`] three questions and knows
//! nothing of its arithmetic. The rule of the HPCC simulator asks for other regions as well: see the module `hpcc`.
//!
//! The arithmetic is exact in whole cells: `2^n` is a shift, rounded down as chips do (the measurements of
//! Tomahawk and Tomahawk 2 in `tests/data/chip-mmu.json` fix this to the cell).

use super::hpcc;
use crate::config::Threshold;

/// Fraction bits that make the smallest factor, `2^-8`, a left shift as well: one shift for all of -8 to 7.
const FRACTION_BITS: u32 = 8;

/// The limit of one user's shared cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// `2^n` times the free shared cells of the pool at that moment (SAI `SHARED_DYNAMIC_TH`).
    Dynamic {
        /// `n + 8`, so 0 to 15.
        shift: u8,
    },
    /// A fixed number of cells (SAI `SHARED_STATIC_TH`); `u32::MAX` where SAI's 0 says no limit.
    Static {
        /// The limit.
        cells: u32,
    },
    /// The HPCC simulator's: free shared cells, shifted right.
    Hpcc {
        /// 0 to 31.
        shift: u8,
    },
}

impl Rule {
    /// The rule of a configured threshold; `whole_cells` cuts bytes down to cells.
    pub(super) fn new(threshold: Threshold, whole_cells: impl Fn(u64) -> u32) -> Rule {
        match threshold {
            Threshold::Dynamic(n) => Rule::Dynamic {
                shift: (n.clamp(-8, 7) + FRACTION_BITS as i8) as u8,
            },
            Threshold::Static(0) => Rule::Static { cells: u32::MAX },
            Threshold::Static(bytes) => Rule::Static {
                cells: whole_cells(bytes),
            },
            Threshold::Hpcc { shift } => Rule::Hpcc { shift: shift.min(31) },
        }
    }

    /// Whether it is the HPCC simulator's, which takes another way through the MMU.
    #[inline(always)]
    pub(super) fn is_hpcc(self) -> bool {
        matches!(self, Rule::Hpcc { .. })
    }

    /// The limit while `free` shared cells of the pool are free. Negative `free` (lossless queues charged
    /// beyond the pool, or a pool made smaller) counts as none.
    #[inline(always)]
    pub(super) fn limit(self, free: i64) -> u64 {
        match self {
            Rule::Dynamic { shift } => ((free.max(0) as u64) << shift) >> FRACTION_BITS,
            Rule::Static { cells } => u64::from(cells),
            Rule::Hpcc { shift } => u64::from(hpcc::limit(free, shift)),
        }
    }

    /// Whether all of `wanted` cells may be charged to shared (see [`Rule::room`]).
    #[inline(always)]
    pub(super) fn fits(self, used: u32, free: i64, wanted: u32) -> bool {
        let Some(last) = wanted.checked_sub(1) else {
            return true;
        };
        // Use rises and the limit falls with each cell, so if the last one may enter, all may.
        i64::from(last) < free && u64::from(used) + u64::from(last) < self.limit(free - i64::from(last))
    }

    /// How many of `wanted` cells may be charged to shared, one after the other, each while the use before
    /// it is under the limit of that moment and the pool has a free cell.
    #[inline(always)]
    pub(super) fn room(self, used: u32, free: i64, wanted: u32) -> u32 {
        if self.fits(used, free, wanted) {
            return wanted;
        }
        if free <= 0 || u64::from(used) >= self.limit(free) {
            return 0;
        }
        self.crossing(i64::from(used), free).min(i64::from(wanted)) as u32
    }

    /// The smallest `j` such that after `j` more cells no further one may enter. Some may: `free > 0` and
    /// `used < limit(free)`.
    #[cold]
    fn crossing(self, used: i64, free: i64) -> i64 {
        match self {
            // used + j >= (free - j) * 2^n
            Rule::Dynamic { shift } if u32::from(shift) >= FRACTION_BITS => {
                let n = u32::from(shift) - FRACTION_BITS;
                div_ceil((free << n) - used, 1 + (1 << n))
            }
            // used + j >= floor((free - j) / 2^k), which is (used + j + 1) * 2^k > free - j
            Rule::Dynamic { shift } => {
                let k = FRACTION_BITS - u32::from(shift);
                div_ceil(free + 1 - ((used + 1) << k), 1 + (1 << k))
            }
            Rule::Static { cells } => (i64::from(cells) - used).min(free),
            // Frames are not divided under this rule, and nobody asks.
            Rule::Hpcc { .. } => 0,
        }
    }

    /// The fewest free cells of the pool with which a user of `used` shared cells would stay under its limit
    /// even if it held `then` of them: `then < limit(free - (then - used))`. [`i64::MIN`] if any number will
    /// do, [`i64::MAX`] if none will.
    #[inline]
    pub(super) fn free_needed(self, used: u32, then: i64) -> i64 {
        let free_then = match self {
            // then < free_then * 2^n
            Rule::Dynamic { shift } if u32::from(shift) >= FRACTION_BITS => {
                (then >> (u32::from(shift) - FRACTION_BITS)) + 1
            }
            // then < floor(free_then / 2^k)
            Rule::Dynamic { shift } => (then + 1) << (FRACTION_BITS - u32::from(shift)),
            Rule::Static { cells } if then < i64::from(cells) => return i64::MIN,
            // Under HPCC's rule a group resumes by its own releases alone.
            Rule::Static { .. } | Rule::Hpcc { .. } => return i64::MAX,
        };
        free_then + then - i64::from(used)
    }
}

/// Rounded up, for a positive divisor.
fn div_ceil(dividend: i64, divisor: i64) -> i64 {
    dividend.div_euclid(divisor) + i64::from(dividend.rem_euclid(divisor) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Vec<Rule> {
        let whole = |bytes| bytes as u32;
        let dynamic = (-8..=7).map(|n| Rule::new(Threshold::Dynamic(n), whole));
        dynamic
            .chain([0, 1, 5, 40].map(|cells| Rule::new(Threshold::Static(cells), whole)))
            .collect()
    }

    #[test]
    fn dynamic_limit_is_the_power_of_two_rounded_down() {
        let limit = |n, free| Rule::new(Threshold::Dynamic(n), |b| b as u32).limit(free);
        assert_eq!(limit(0, 1000), 1000);
        assert_eq!(limit(7, 1000), 128_000);
        assert_eq!(limit(-1, 1001), 500);
        assert_eq!(limit(-8, 255), 0);
        assert_eq!(limit(-8, 256), 1);
        assert_eq!(limit(3, -4), 0, "a pool in debt has no free cells");
    }

    #[test]
    fn static_zero_is_no_limit() {
        let rule = Rule::new(Threshold::Static(0), |_| unreachable!());
        assert_eq!(rule.room(1_000_000, 50, 49), 49);
        assert_eq!(rule.room(1_000_000, 50, 80), 50, "but the pool is");
        assert_eq!(rule.free_needed(7, 1_000_000), i64::MIN);
    }

    #[test]
    fn room_equals_charging_cell_by_cell() {
        for rule in rules() {
            for used in 0..50 {
                for free in -2..70 {
                    for wanted in 0..75 {
                        let mut charged = 0;
                        while charged < wanted
                            && free > i64::from(charged)
                            && u64::from(used + charged) < rule.limit(free - i64::from(charged))
                        {
                            charged += 1;
                        }
                        assert_eq!(
                            rule.room(used, free, wanted),
                            charged,
                            "{rule:?} used {used} free {free} wanted {wanted}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn free_needed_is_the_smallest_that_will_do() {
        for rule in rules() {
            for used in 0..30_u32 {
                for then in 0..40_i64 {
                    let under = |free: i64| (then as u64) < rule.limit(free - (then - i64::from(used)));
                    match rule.free_needed(used, then) {
                        i64::MIN => assert!(under(-100_000)),
                        i64::MAX => assert!(!under(100_000)),
                        needed => assert!(under(needed) && !under(needed - 1), "{rule:?} {used} {then}"),
                    }
                }
            }
        }
    }
}
