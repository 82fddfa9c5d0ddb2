//! Priority groups and queues, and the rules for one of them.

use super::plan::{BufferLimit, BufferRefusal};
use super::pool::BufferPool;
use super::port::PortLimit;
use super::resolve::UserLimits;

/// `waiter_index` of a group that is not in XOFF.
pub(super) const NOT_WAITING: u32 = u32::MAX;
/// Value of `waiter_index` for a group in XOFF that resumes only after its own releases (rule of
/// the HPCC simulator).
pub(super) const WAITS_FOR_OWN_RELEASE: u32 = u32::MAX - 1;

/// Value of `waiter_index` for a group in XOFF with a port limit. Such a group is in the list
/// `waiting_at_port_limit` of its pool.
pub(super) const WAITS_AT_PORT_LIMIT: u32 = u32::MAX - 2;

/// A priority group. Its limits, use and watermarks fill one cache line. Admission reads only this cache line
/// and the pool.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct PriorityGroup {
    pub(super) limits: UserLimits,
    pub(super) reserved: u32,
    pub(super) shared: u32,
    pub(super) headroom: u32,
    pub(super) total_peak: u32,
    pub(super) shared_peak: u32,
    pub(super) headroom_peak: u32,
    /// Position of the group in the waiter list of the pool, or a special value. The value is [`NOT_WAITING`]
    /// if the group is not in XOFF.
    pub(super) waiter_index: u32,
}

impl PriorityGroup {
    pub(super) fn new(limits: UserLimits) -> PriorityGroup {
        PriorityGroup {
            limits,
            reserved: 0,
            shared: 0,
            headroom: 0,
            total_peak: 0,
            shared_peak: 0,
            headroom_peak: 0,
            waiter_index: NOT_WAITING,
        }
    }

    #[inline(always)]
    pub(super) fn total(&self) -> u32 {
        self.reserved + self.shared + self.headroom
    }

    /// Returns true if the XOFF rule holds.
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

    /// Returns true if the next cell takes the group into XOFF. The caller has checked that the group is at
    /// its shared limit. The next cell still uses shared space, and all later cells need headroom.
    #[inline]
    pub(super) fn next_cell_enters_xoff(&self, pool: &BufferPool) -> bool {
        self.limits.headroom > 0 && self.waiter_index == NOT_WAITING && pool.free > 0
    }

    /// Returns the smallest number of free shared cells in the pool at which this group may resume (XON
    /// rule).
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

    /// Returns the shared use `total - reserved + offset - 1`. The group may resume if this shared use does
    /// not cause XOFF. The XON condition is `total <= reserved + X - offset`, where `X` is the smallest
    /// shared use that causes XOFF.
    fn largest_use_outside_xoff(&self) -> i64 {
        let total = self.reserved + self.shared;
        i64::from(total) - i64::from(self.limits.reserved) + i64::from(self.limits.xon_offset) - 1
    }

    /// Returns true if the XON rule of a group with a port limit holds.
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

    /// Releases cells in the order headroom, shared, reserved. Returns the numbers of released headroom cells
    /// and shared cells.
    #[inline(never)]
    pub(super) fn release(&mut self, cells: u32) -> (u32, u32) {
        let headroom = cells.min(self.headroom);
        let shared = (cells - headroom).min(self.shared);
        let reserved = cells - headroom - shared;
        debug_assert!(
            reserved <= self.reserved,
            "released more than was charged: {self:?}"
        );
        self.headroom -= headroom;
        self.shared -= shared;
        self.reserved = self.reserved.saturating_sub(reserved);
        (headroom, shared)
    }

    #[inline(always)]
    pub(super) fn record_watermarks(&mut self) {
        self.record_use_watermarks();
        self.headroom_peak = self.headroom_peak.max(self.headroom);
    }

    /// Like [`PriorityGroup::record_watermarks`], but for the case that headroom has not grown.
    #[inline(always)]
    pub(super) fn record_use_watermarks(&mut self) {
        self.total_peak = self.total_peak.max(self.total());
        self.shared_peak = self.shared_peak.max(self.shared);
    }
}

/// An egress queue: limits, use and watermarks.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct EgressQueue {
    pub(super) limits: UserLimits,
    pub(super) reserved: u32,
    pub(super) shared: u32,
    pub(super) total_peak: u32,
    pub(super) shared_peak: u32,
}

impl EgressQueue {
    pub(super) fn new(limits: UserLimits) -> EgressQueue {
        EgressQueue {
            limits,
            reserved: 0,
            shared: 0,
            total_peak: 0,
            shared_peak: 0,
        }
    }

    /// Releases cells, shared cells first. Returns the released shared cells.
    #[inline(never)]
    pub(super) fn release(&mut self, cells: u32) -> u32 {
        let shared = cells.min(self.shared);
        let reserved = cells - shared;
        debug_assert!(
            reserved <= self.reserved,
            "released more than was charged: {self:?}"
        );
        self.shared -= shared;
        self.reserved = self.reserved.saturating_sub(reserved);
        shared
    }

    #[inline(always)]
    pub(super) fn charge(&mut self, cells: u32) -> u32 {
        let reserved = cells.min(self.limits.reserved.saturating_sub(self.reserved));
        let shared = cells - reserved;
        self.reserved += reserved;
        self.shared += shared;
        self.total_peak = self.total_peak.max(self.reserved + self.shared);
        self.shared_peak = self.shared_peak.max(self.shared);
        shared
    }
}

/// Returns the reason why `wanted` cells did not fit: the pool, the port limit or the limit of the
/// group or queue.
#[cold]
pub(super) fn describe_refusal(
    limits: &UserLimits,
    used: u32,
    pool: &BufferPool,
    port_limit: Option<PortLimit>,
    wanted: u32,
) -> BufferRefusal {
    let cells = |n: i64| n.clamp(0, i64::from(u32::MAX)) as u32;
    if i64::from(wanted) > pool.free {
        return BufferRefusal {
            limit: BufferLimit::Pool,
            limit_cells: cells(pool.limits.size),
            used_cells: cells(pool.shared()),
            wanted_cells: wanted,
        };
    }
    let before = i64::from(wanted) - 1;
    if let Some((port_limit, limit)) =
        port_limit.and_then(|port_limit| Some((port_limit, port_limit.limit_if_refusing(pool.free, wanted)?)))
    {
        return BufferRefusal {
            limit: BufferLimit::Port,
            limit_cells: cells(limit),
            used_cells: cells(port_limit.used),
            wanted_cells: wanted,
        };
    }
    let limit = match port_limit {
        Some(port_limit) => port_limit
            .after_charging(before)
            .user_limit(limits.rule, pool.free - before),
        None => limits.rule.limit(pool.free - before),
    };
    BufferRefusal {
        limit: BufferLimit::Shared,
        limit_cells: limit.min(u64::from(u32::MAX)) as u32,
        used_cells: used,
        wanted_cells: wanted,
    }
}
