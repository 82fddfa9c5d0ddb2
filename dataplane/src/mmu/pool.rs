//! A pool's sums, and the groups that wait in it for XON.

use super::resolve::PoolLimits;
use crate::counters::{Gauge, PoolBuffers};

/// A group in XOFF, and how many free shared cells of the pool would let it resume as it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    /// [`i64::MIN`]: any number. [`i64::MAX`]: none, it has to drain itself first.
    pub(super) needed: i64,
    /// The group's index.
    pub(super) group: u16,
}

/// What the users of a pool hold together.
///
/// Everything a release has to know of the groups that wait is `bound`: no waiter needs fewer free cells. A
/// release compares once and looks at the waiters only when the bound is reached; it is then computed anew.
/// The bound may be too low, never too high: a waiter that needs less lowers it at once, one that needs more
/// leaves it where it is, which costs at most one look in vain.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub(super) limits: PoolLimits,
    /// Shared cells not in use; negative when lossless queues took more than there are, or the pool shrank.
    pub(super) free: i64,
    /// Headroom cells in use, private ones as well.
    pub(super) headroom: i64,
    /// Fewest free cells since the last clear: the peak of the shared part, as a departure from its size.
    least_free: i64,
    headroom_peak: i64,
    bound: i64,
    waiters: Vec<Waiter>,
    /// Groups in XOFF whose port has a second level: they are looked at one by one at each release.
    pub(super) behind_ports: Vec<u16>,
}

impl Pool {
    pub(super) fn new(limits: PoolLimits) -> Pool {
        Pool {
            limits,
            free: limits.size,
            headroom: 0,
            least_free: limits.size,
            headroom_peak: 0,
            bound: i64::MAX,
            waiters: Vec::new(),
            behind_ports: Vec::new(),
        }
    }

    /// Makes room for this many waiters, so that a group that goes to XOFF allocates nothing.
    pub(super) fn expect_waiters(&mut self, groups: usize) {
        self.waiters.reserve(groups);
        self.behind_ports.reserve(groups);
    }

    /// Shared cells in use.
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

    /// Peaks of the generation before, so that a reconfiguration is not a clear.
    pub(super) fn keep_peaks(&mut self, before: &Pool) {
        self.least_free = self.least_free.min(self.limits.size - before.shared_peak());
        self.headroom_peak = self.headroom_peak.max(before.headroom_peak);
    }

    pub(super) fn clear_peaks(&mut self) {
        self.least_free = self.free;
        self.headroom_peak = self.headroom;
    }

    pub(super) fn buffers(&self) -> PoolBuffers {
        let gauge = |current: i64, peak: i64| Gauge {
            current_cells: current.clamp(0, i64::from(u32::MAX)) as u32,
            peak_cells: peak.clamp(0, i64::from(u32::MAX)) as u32,
        };
        PoolBuffers {
            shared: gauge(self.shared(), self.shared_peak()),
            headroom: gauge(self.headroom, self.headroom_peak),
        }
    }

    /// Adds a waiter; returns its place.
    pub(super) fn wait(&mut self, waiter: Waiter) -> u32 {
        self.bound = self.bound.min(waiter.needed);
        self.waiters.push(waiter);
        (self.waiters.len() - 1) as u32
    }

    /// The waiter at `place` needs another number now.
    #[inline]
    pub(super) fn update(&mut self, place: u32, needed: i64) {
        self.bound = self.bound.min(needed);
        self.waiters[place as usize].needed = needed;
    }

    /// Takes the waiter at `place` out; returns the one that now has that place, if any.
    pub(super) fn leave(&mut self, place: u32) -> Option<Waiter> {
        self.waiters.swap_remove(place as usize);
        self.waiters.get(place as usize).copied()
    }

    /// Whether a release may have let some group go.
    #[inline(always)]
    pub(super) fn someone_may_go(&self) -> bool {
        self.bound_reached() || !self.behind_ports.is_empty()
    }

    /// Whether some waiter may have become free to go.
    #[inline]
    pub(super) fn bound_reached(&self) -> bool {
        self.free >= self.bound
    }

    /// The place of some waiter that may go, at or after `from`.
    pub(super) fn ready(&self, from: u32) -> Option<u32> {
        let rest = &self.waiters[from as usize..];
        rest.iter()
            .position(|waiter| waiter.needed <= self.free)
            .map(|i| from + i as u32)
    }

    /// The bound exactly, after all who may go have gone.
    pub(super) fn tighten_bound(&mut self) {
        self.bound = self
            .waiters
            .iter()
            .map(|waiter| waiter.needed)
            .min()
            .unwrap_or(i64::MAX);
    }

    pub(super) fn waiters(&self) -> &[Waiter] {
        &self.waiters
    }

    /// For [`super::Mmu::check`]: the bound is below every waiter's need.
    pub(super) fn bound_holds(&self) -> bool {
        self.waiters.iter().all(|waiter| self.bound <= waiter.needed)
    }
}
