//! The limit of the shared use of one group or queue. The limit is static, dynamic, or follows the rule of
//! the HPCC simulator.
//!
//! A [`LimitRule`] computes three values for the MMU: the limit, the number of cells up to the limit, and the
//! number of free cells that are needed for XON. The rule of the HPCC simulator also divides the buffer
//! differently. See the module `hpcc`.
//!
//! The arithmetic is exact in whole cells. The factor `2^n` is implemented as a shift, so results are rounded
//! down as on chips. The measurements of Tomahawk and Tomahawk 2 in `tests/data/chip-mmu.json` confirm this
//! to the cell.

use crate::config::BufferThreshold;

/// Number of fraction bits. With 8 fraction bits, even the smallest factor `2^-8` is a left shift, so the
/// same code handles exponents from -8 to 7.
const FRACTION_BITS: u32 = 8;

/// The rule for the shared limit of one group or queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitRule {
    /// `2^n` times the number of free shared cells of the pool at that moment (SAI `SHARED_DYNAMIC_TH`).
    Dynamic {
        /// `n + 8`, 0 to 15.
        shift: u8,
    },
    /// A fixed number of cells (SAI `SHARED_STATIC_TH`). The SAI value 0, which means no limit, is
    /// `u32::MAX` here.
    Static {
        /// The limit in cells.
        cells: u32,
    },
    /// The rule of the HPCC simulator: the number of free shared cells, shifted right.
    Hpcc {
        /// Number of bits of the shift, 0 to 31.
        shift: u8,
    },
}

impl LimitRule {
    /// Converts a configured threshold. `bytes_to_cells` rounds bytes down to cells.
    pub(super) fn new(threshold: BufferThreshold, bytes_to_cells: impl Fn(u64) -> u32) -> LimitRule {
        match threshold {
            BufferThreshold::Dynamic(n) => LimitRule::Dynamic {
                shift: (n.clamp(-8, 7) + FRACTION_BITS as i8) as u8,
            },
            BufferThreshold::Static(0) => LimitRule::Static { cells: u32::MAX },
            BufferThreshold::Static(bytes) => LimitRule::Static {
                cells: bytes_to_cells(bytes),
            },
            BufferThreshold::Hpcc { shift } => LimitRule::Hpcc { shift: shift.min(31) },
        }
    }

    /// Returns true if this is the rule of the HPCC simulator. The MMU has separate code for that rule.
    #[inline(always)]
    pub(super) fn is_hpcc(self) -> bool {
        matches!(self, LimitRule::Hpcc { .. })
    }

    /// Returns the limit in cells while the pool has `free` free shared cells. `free` is negative if lossless
    /// queues have exceeded the pool, or if a new configuration has made the pool smaller. Static and dynamic
    /// rules treat a negative value as 0.
    #[inline(always)]
    pub(super) fn limit(self, free: i64) -> u64 {
        match self {
            LimitRule::Dynamic { shift } => ((free.max(0) as u64) << shift) >> FRACTION_BITS,
            LimitRule::Static { cells } => u64::from(cells),
            LimitRule::Hpcc { shift } => u64::from(shared_limit(free, shift)),
        }
    }

    /// Returns true if [`LimitRule::available_cells`] would permit all of `wanted` cells in shared space.
    #[inline(always)]
    pub(super) fn fits(self, used: u32, free: i64, wanted: u32) -> bool {
        let Some(last) = wanted.checked_sub(1) else {
            return true;
        };
        // Use rises and the limit falls with each cell, so the last cell decides.
        i64::from(last) < free && u64::from(used) + u64::from(last) < self.limit(free - i64::from(last))
    }

    /// Returns how many of `wanted` cells may use shared space. Cells are added one by one. For each cell,
    /// the use must be below the present limit and the pool must have a free cell.
    #[inline(always)]
    pub(super) fn available_cells(self, used: u32, free: i64, wanted: u32) -> u32 {
        if self.fits(used, free, wanted) {
            return wanted;
        }
        if free <= 0 || u64::from(used) >= self.limit(free) {
            return 0;
        }
        self.cells_until_limit(i64::from(used), free)
            .min(i64::from(wanted)) as u32
    }

    /// Returns the smallest number of cells after which no further cell may use shared space. The caller must
    /// ensure that `free > 0` and `used < limit(free)`.
    #[cold]
    fn cells_until_limit(self, used: i64, free: i64) -> i64 {
        match self {
            // used + j >= (free - j) * 2^n
            LimitRule::Dynamic { shift } if u32::from(shift) >= FRACTION_BITS => {
                let n = u32::from(shift) - FRACTION_BITS;
                div_ceil((free << n) - used, 1 + (1 << n))
            }
            // used + j >= floor((free - j) / 2^k), which is (used + j + 1) * 2^k > free - j
            LimitRule::Dynamic { shift } => {
                let k = FRACTION_BITS - u32::from(shift);
                div_ceil(free + 1 - ((used + 1) << k), 1 + (1 << k))
            }
            LimitRule::Static { cells } => (i64::from(cells) - used).min(free),
            // This rule charges only complete frames, so the result is not used.
            LimitRule::Hpcc { .. } => 0,
        }
    }

    /// Returns the smallest number `free` of free cells for which
    /// `target_use < limit(free - (target_use - used))`. With this many free cells, a group that now holds
    /// `used` shared cells would stay below its limit with `target_use` cells. Returns [`i64::MIN`] if any
    /// number of free cells is sufficient, and [`i64::MAX`] if no number is.
    #[inline]
    pub(super) fn needed_free_cells(self, used: u32, target_use: i64) -> i64 {
        let free_at_target = match self {
            // target < free_then * 2^n
            LimitRule::Dynamic { shift } if u32::from(shift) >= FRACTION_BITS => {
                (target_use >> (u32::from(shift) - FRACTION_BITS)) + 1
            }
            // target < floor(free_then / 2^k)
            LimitRule::Dynamic { shift } => (target_use + 1) << (FRACTION_BITS - u32::from(shift)),
            LimitRule::Static { cells } if target_use < i64::from(cells) => return i64::MIN,
            // With the HPCC rule, a group resumes only after its own releases.
            LimitRule::Static { .. } | LimitRule::Hpcc { .. } => return i64::MAX,
        };
        free_at_target + target_use - i64::from(used)
    }
}

/// Division that rounds up, for a positive divisor.
fn div_ceil(dividend: i64, divisor: i64) -> i64 {
    dividend.div_euclid(divisor) + i64::from(dividend.rem_euclid(divisor) != 0)
}

/// Returns the HPCC rule's limit of the shared use of a group, in cells. `free` is the number of free cells
/// of the buffer.
#[inline]
pub(super) fn shared_limit(free: i64, shift: u8) -> u32 {
    // Modulo 2^32, because the simulator subtracts without a check.
    (free as u32) >> shift
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_rules() -> Vec<LimitRule> {
        let whole = |bytes| bytes as u32;
        let dynamic = (-8..=7).map(|n| LimitRule::new(BufferThreshold::Dynamic(n), whole));
        dynamic
            .chain([0, 1, 5, 40].map(|cells| LimitRule::new(BufferThreshold::Static(cells), whole)))
            .collect()
    }

    #[test]
    fn dynamic_limit_is_the_power_of_two_rounded_down() {
        let limit = |n, free| LimitRule::new(BufferThreshold::Dynamic(n), |b| b as u32).limit(free);
        assert_eq!(limit(0, 1000), 1000);
        assert_eq!(limit(7, 1000), 128_000);
        assert_eq!(limit(-1, 1001), 500);
        assert_eq!(limit(-8, 255), 0);
        assert_eq!(limit(-8, 256), 1);
        assert_eq!(limit(3, -4), 0, "a pool in debt has no free cells");
    }

    #[test]
    fn static_threshold_zero_is_no_limit() {
        let rule = LimitRule::new(BufferThreshold::Static(0), |_| unreachable!());
        assert_eq!(rule.available_cells(1_000_000, 50, 49), 49);
        assert_eq!(rule.available_cells(1_000_000, 50, 80), 50, "but the pool is");
        assert_eq!(rule.needed_free_cells(7, 1_000_000), i64::MIN);
    }

    #[test]
    fn available_cells_equal_charging_cell_by_cell() {
        for rule in all_rules() {
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
                            rule.available_cells(used, free, wanted),
                            charged,
                            "{rule:?} used {used} free {free} wanted {wanted}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn needed_free_cells_is_the_smallest_sufficient_number() {
        for rule in all_rules() {
            for used in 0..30_u32 {
                for target_use in 0..40_i64 {
                    let under =
                        |free: i64| (target_use as u64) < rule.limit(free - (target_use - i64::from(used)));
                    match rule.needed_free_cells(used, target_use) {
                        i64::MIN => assert!(under(-100_000)),
                        i64::MAX => assert!(!under(100_000)),
                        needed => assert!(
                            under(needed) && !under(needed - 1),
                            "{rule:?} {used} {target_use}"
                        ),
                    }
                }
            }
        }
    }
}
