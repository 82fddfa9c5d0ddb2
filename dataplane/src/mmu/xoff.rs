//! The XOFF and XON rules of a priority group: when the group pauses its peer, and when the peer may resume.
//!
//! The module `threshold` computes the shared limit that these rules compare with the use of the group.

use super::pool::BufferPool;
use super::port::PortLimit;
use super::priority_group::{NOT_WAITING, PriorityGroup, WAITS_AT_PORT_LIMIT, WAITS_FOR_OWN_RELEASE};

impl PriorityGroup {
    /// Returns true if the group must pause its peer (XOFF): headroom is in use, or the group is at its
    /// limit. `free` is the number of free shared cells of the pool.
    #[inline(always)]
    pub(super) fn meets_xoff_condition(&self, free: i64, port_limit: Option<PortLimit>) -> bool {
        if let Some(port_limit) = port_limit {
            let full = self.reserved >= self.limits.reserved;
            return self.headroom > 0
                || (full && port_limit.at_limit(self.limits.rule, i64::from(self.shared), free));
        }
        let at_limit = u64::from(self.shared) >= self.limits.rule.limit(free)
            && (self.reserved >= self.limits.reserved || self.limits.rule.is_hpcc());
        at_limit || self.headroom > 0
    }

    /// Returns true if the group is in the waiter list of its pool.
    pub(super) fn waits_in_pool(&self) -> bool {
        !matches!(
            self.waiter_index,
            NOT_WAITING | WAITS_FOR_OWN_RELEASE | WAITS_AT_PORT_LIMIT
        )
    }

    /// Returns true if the group pauses its peer (XOFF) with the next cell. The caller has checked that
    /// the group is at its shared limit. The next cell may still use shared space, and all later cells
    /// need headroom.
    #[inline]
    pub(super) fn next_cell_enters_xoff(&self, pool: &BufferPool) -> bool {
        self.limits.headroom > 0 && self.waiter_index == NOT_WAITING && pool.free > 0
    }

    /// Returns the smallest number of free shared cells in the pool at which this group may resume (XON
    /// rule). See [`XonWaiter::needed`](super::pool::XonWaiter::needed) for the special values.
    #[inline]
    pub(super) fn needed_free_cells(&self) -> i64 {
        if self.headroom > 0 {
            return i64::MAX;
        }
        let total = self.reserved + self.shared;
        if total <= self.limits.xon {
            return i64::MIN;
        }
        if self.limits.xon_offset == 0 {
            return i64::MAX;
        }
        let target_use = self.largest_use_outside_xoff();
        if target_use < 0 {
            i64::MIN
        } else {
            self.limits.rule.needed_free_cells(self.shared, target_use)
        }
    }

    /// Returns the shared use `total - reserved + offset - 1`. If this shared use would not cause XOFF, the
    /// group may let its peer resume. The XON condition is `total <= reserved + X - offset`, where `X` is the
    /// smallest shared use that causes XOFF.
    fn largest_use_outside_xoff(&self) -> i64 {
        let total = self.reserved + self.shared;
        i64::from(total) - i64::from(self.limits.reserved) + i64::from(self.limits.xon_offset) - 1
    }

    /// Returns true if a group with a port limit may let its peer resume (XON). `free` is the number of free
    /// shared cells of the pool.
    pub(super) fn can_resume(&self, free: i64, port_limit: PortLimit) -> bool {
        if self.headroom > 0 {
            return false;
        }
        if self.reserved + self.shared <= self.limits.xon {
            return true;
        }
        let target_use = self.largest_use_outside_xoff();
        let more = target_use - i64::from(self.shared);
        self.limits.xon_offset > 0
            && (target_use < 0
                || !port_limit
                    .after_charging(more)
                    .at_limit(self.limits.rule, target_use, free - more))
    }
}
