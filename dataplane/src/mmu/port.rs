//! A port limit is a limit for the shared cells of a whole port in one pool
//! (`BUFFER_PORT_INGRESS_PROFILE_LIST`, `BUFFER_PORT_EGRESS_PROFILE_LIST`, SAI
//! `PORT_ATTR_QOS_INGRESS_BUFFER_PROFILE_LIST`).
//!
//! The limit of a port is computed from its threshold and the free cells of the pool, like the limit of a
//! group or queue. A group or queue is also at its limit when its port is at the port limit. If both
//! thresholds are dynamic, a group or queue may use `2^n` times the space that is left under the port limit.
//! Let `p` be the factor of the port and `g` the factor of the group. The use of a group that is alone in the
//! pool then settles at `p * g / (p * g + g + 1)` of the pool, as on chips with two levels.
//!
//! Ports without a threshold, or with a threshold that never limits, have no port limit and cost nothing.

use super::threshold::LimitRule;

/// Index for a group or queue whose port has no limit in its pool.
pub(super) const NO_PORT_LIMIT: u16 = u16::MAX;

/// The threshold of a port in a pool, and the use of the pool by the port.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortLimit {
    pub(super) rule: LimitRule,
    /// Shared cells of all groups, or of all queues, of the port.
    pub(super) used: i64,
}

impl PortLimit {
    /// Returns the number of shared cells that the port may use while the pool has `free` free cells.
    fn limit(self, free: i64) -> i64 {
        i64::try_from(self.rule.limit(free)).unwrap_or(i64::MAX)
    }

    /// Returns the shared limit of a group or queue with threshold `rule` at this port, in cells.
    pub(super) fn profile_limit(self, rule: LimitRule, free: i64) -> u64 {
        match (rule, self.rule) {
            (LimitRule::Dynamic { .. }, LimitRule::Dynamic { .. }) => {
                rule.limit(self.limit(free) - self.used)
            }
            _ => rule.limit(free),
        }
    }

    /// Returns true if a group or queue with `used` shared cells is at its own limit or at the port limit.
    pub(super) fn at_limit(self, rule: LimitRule, used: i64, free: i64) -> bool {
        self.used >= self.limit(free)
            || used >= i64::try_from(self.profile_limit(rule, free)).unwrap_or(i64::MAX)
    }

    /// Returns the state after charging `cells` more cells.
    pub(super) fn after_charging(self, cells: i64) -> PortLimit {
        PortLimit {
            used: self.used + cells,
            ..self
        }
    }

    /// Returns how many of `wanted` cells a group or queue with `used` shared cells may store in shared
    /// space. Cells are added one by one until the limit of the group or queue, the port limit or the end of
    /// the pool is reached.
    pub(super) fn available_cells(self, rule: LimitRule, used: u32, free: i64, wanted: u32) -> u32 {
        let admits = |cell: u32| {
            let cell = i64::from(cell);
            cell < free
                && !self
                    .after_charging(cell)
                    .at_limit(rule, i64::from(used) + cell, free - cell)
        };
        // Use rises and limits fall with each cell, so a binary search finds the first refused cell.
        let (mut admitted, mut refused) = (0, wanted);
        while admitted < refused {
            let middle = admitted + (refused - admitted) / 2;
            match admits(middle) {
                true => admitted = middle + 1,
                false => refused = middle,
            }
        }
        admitted
    }

    /// Returns the value of the port limit at the last of `wanted` cells. Returns `None` if the port limit
    /// admits this cell.
    pub(super) fn limit_if_refusing(self, free: i64, wanted: u32) -> Option<i64> {
        let before = i64::from(wanted) - 1;
        let limit = self.limit(free - before);
        (self.used + before >= limit).then_some(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BufferThreshold;

    fn dynamic(n: i8) -> LimitRule {
        LimitRule::new(BufferThreshold::Dynamic(n), |bytes| bytes as u32)
    }

    /// Charges cells to one group alone until it reaches a limit.
    fn cells_until_limit(port: LimitRule, group: LimitRule, pool: i64) -> i64 {
        let mut used = 0;
        let port_limit = PortLimit { rule: port, used: 0 };
        while used < pool && !port_limit.after_charging(used).at_limit(group, used, pool - used) {
            used += 1;
        }
        used
    }

    #[test]
    fn one_group_settles_at_the_formula_of_chips_with_two_levels() {
        let pool = 100_000_i64;
        for (p, g) in [(0, 0), (1, 0), (0, 2), (-1, 0), (-2, -3), (3, 1), (5, -2)] {
            let alpha = |n: i8| 2_f64.powi(i32::from(n));
            let (a, b) = (alpha(p), alpha(g));
            let expected = (a * b / (a * b + b + 1.0) * pool as f64).min(a / (1.0 + a) * pool as f64);
            let settled = cells_until_limit(dynamic(p), dynamic(g), pool) as f64;
            assert!((settled - expected).abs() <= 3.0, "{p} {g}: {settled} {expected}");
        }
    }

    #[test]
    fn the_smaller_of_two_limits_applies() {
        let fixed = |cells: u64| LimitRule::new(BufferThreshold::Static(cells), |bytes| bytes as u32);
        assert_eq!(cells_until_limit(fixed(70), fixed(50), 1_000), 50);
        assert_eq!(cells_until_limit(fixed(30), fixed(50), 1_000), 30);
        assert_eq!(cells_until_limit(fixed(30), dynamic(0), 1_000), 30);
        assert_eq!(cells_until_limit(fixed(700), dynamic(0), 1_000), 500);
        assert_eq!(cells_until_limit(dynamic(-1), fixed(500), 999), 333);
    }

    #[test]
    fn available_cells_equal_charging_cell_by_cell() {
        for (port, group) in [
            (dynamic(0), dynamic(0)),
            (dynamic(-2), dynamic(3)),
            (dynamic(2), dynamic(-1)),
        ] {
            for port_used in 0..20 {
                for used in 0..=port_used {
                    for free in -1..40 {
                        let port_limit = PortLimit {
                            rule: port,
                            used: port_used,
                        };
                        let admits = |n: i64| {
                            free > n && !port_limit.after_charging(n).at_limit(group, used + n, free - n)
                        };
                        let slow = (0..25).take_while(|n| admits(*n)).count() as u32;
                        assert_eq!(port_limit.available_cells(group, used as u32, free, 25), slow);
                    }
                }
            }
        }
    }
}
