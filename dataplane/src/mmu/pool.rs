//! The sums of a pool, and the groups of the pool that wait for XON.

use super::limits::PoolLimits;
use crate::counters::{BufferOccupancy, PoolBuffers};

/// A priority group in XOFF that waits for free cells of its pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct XonWaiter {
    /// Number of free shared cells in the pool at which the group may resume. [`i64::MIN`] means that any
    /// number is sufficient. [`i64::MAX`] means that the use of the group itself must fall first.
    pub(super) needed: i64,
    /// Index of the priority group in the MMU.
    pub(super) group: u16,
}

/// The state of a pool: its use by all groups and queues, and the groups that wait for XON.
///
/// A *waiter* is a group that waits for XON until the pool has enough free cells. No waiter needs fewer free
/// cells than `lower_bound`. A release therefore only compares the free cells with this bound. When the bound
/// is reached, all waiters are checked and the bound is computed again. The bound may be too low but never
/// too high. A new waiter that needs fewer cells lowers the bound at once. If the need of a waiter grows, the
/// bound does not change, which costs at most one unnecessary check.
#[derive(Clone, Debug)]
#[repr(C, align(64))] // each frame uses the first cache line
pub(super) struct BufferPool {
    /// Number of free shared cells. The number is negative if lossless queues have exceeded the pool, or if a
    /// new configuration has made the pool smaller than its use.
    pub(super) free: i64,
    /// Smallest number of free cells since the last clear. The watermark of the shared space is the size of
    /// the pool minus this number.
    least_free: i64,
    lower_bound: i64,
    /// Groups that pause their peer (XOFF) and whose port has a port limit. Every release of cells of the
    /// pool checks all groups of this list.
    pub(super) waiting_at_port_limit: Vec<u16>,
    pub(super) limits: PoolLimits,
    /// Headroom cells in use, including private headroom.
    pub(super) headroom: i64,
    headroom_peak: i64,
    waiters: Vec<XonWaiter>,
}

impl BufferPool {
    pub(super) fn new(limits: PoolLimits) -> BufferPool {
        BufferPool {
            limits,
            free: limits.size,
            headroom: 0,
            least_free: limits.size,
            headroom_peak: 0,
            lower_bound: i64::MAX,
            waiters: Vec::new(),
            waiting_at_port_limit: Vec::new(),
        }
    }

    /// Reserves memory for `groups` waiting groups, so that no allocation is needed when a group pauses its
    /// peer (XOFF).
    pub(super) fn reserve_waiters(&mut self, groups: usize) {
        self.waiters.reserve(groups);
        self.waiting_at_port_limit.reserve(groups);
    }

    /// Returns the number of shared cells in use.
    pub(super) fn shared(&self) -> i64 {
        self.limits.size - self.free
    }

    fn shared_peak(&self) -> i64 {
        self.limits.size - self.least_free
    }

    #[inline(always)]
    pub(super) fn charge_shared(&mut self, cells: u32) {
        self.free -= i64::from(cells);
        self.least_free = self.least_free.min(self.free);
    }

    #[inline]
    pub(super) fn charge_headroom(&mut self, cells: u32) {
        self.headroom += i64::from(cells);
        self.headroom_peak = self.headroom_peak.max(self.headroom);
    }

    /// Keeps the watermarks of the previous configuration, because a reconfiguration does not clear them.
    pub(super) fn keep_watermarks(&mut self, before: &BufferPool) {
        self.least_free = self.least_free.min(self.limits.size - before.shared_peak());
        self.headroom_peak = self.headroom_peak.max(before.headroom_peak);
    }

    pub(super) fn clear_watermarks(&mut self) {
        self.least_free = self.free;
        self.headroom_peak = self.headroom;
    }

    pub(super) fn buffers(&self) -> PoolBuffers {
        let gauge = |current: i64, peak: i64| BufferOccupancy {
            current_cells: current.clamp(0, i64::from(u32::MAX)) as u32,
            peak_cells: peak.clamp(0, i64::from(u32::MAX)) as u32,
        };
        PoolBuffers {
            shared: gauge(self.shared(), self.shared_peak()),
            headroom: gauge(self.headroom, self.headroom_peak),
        }
    }

    /// Adds a waiter. Returns its position in the list.
    pub(super) fn add_waiter(&mut self, waiter: XonWaiter) -> u32 {
        self.lower_bound = self.lower_bound.min(waiter.needed);
        self.waiters.push(waiter);
        (self.waiters.len() - 1) as u32
    }

    /// Sets the number of free cells that the waiter at `waiter_index` needs.
    #[inline]
    pub(super) fn update_waiter(&mut self, waiter_index: u32, needed: i64) {
        self.lower_bound = self.lower_bound.min(needed);
        self.waiters[waiter_index as usize].needed = needed;
    }

    /// Removes the waiter at `waiter_index`. Returns the waiter that moved to this position. Returns `None`
    /// if the removed waiter was the last waiter.
    pub(super) fn remove_waiter(&mut self, waiter_index: u32) -> Option<XonWaiter> {
        self.waiters.swap_remove(waiter_index as usize);
        self.waiters.get(waiter_index as usize).copied()
    }

    /// Returns true if a group may be able to resume after a release.
    #[inline(always)]
    pub(super) fn can_resume_any(&self) -> bool {
        self.is_resume_bound_reached() || !self.waiting_at_port_limit.is_empty()
    }

    /// Returns true if at least one waiter may be able to resume.
    #[inline]
    pub(super) fn is_resume_bound_reached(&self) -> bool {
        self.free >= self.lower_bound
    }

    /// Returns the first position, at or after `from`, of a waiter that may resume. Returns `None` if there
    /// is none.
    pub(super) fn next_resumable(&self, from: u32) -> Option<u32> {
        let rest = &self.waiters[from as usize..];
        rest.iter()
            .position(|waiter| waiter.needed <= self.free)
            .map(|i| from + i as u32)
    }

    /// Sets the bound to the smallest need of all waiters.
    pub(super) fn recompute_lower_bound(&mut self) {
        self.lower_bound = self
            .waiters
            .iter()
            .map(|waiter| waiter.needed)
            .min()
            .unwrap_or(i64::MAX);
    }

    pub(super) fn waiters(&self) -> &[XonWaiter] {
        &self.waiters
    }

    /// Returns true if no waiter needs fewer cells than the bound. Used by [`super::Mmu::assert_consistent`].
    pub(super) fn is_resume_bound_valid(&self) -> bool {
        self.waiters
            .iter()
            .all(|waiter| self.lower_bound <= waiter.needed)
    }
}
