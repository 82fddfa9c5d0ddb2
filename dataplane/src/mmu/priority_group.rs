//! The buffer accounting of one priority group. The module `xoff` decides when the group pauses its peer.

use super::limits::ProfileLimits;

/// `waiter_index` of a group that is not in XOFF.
pub(super) const NOT_WAITING: u32 = u32::MAX;
/// Value of `waiter_index` for a priority group that pauses its peer (XOFF) and follows the rules of the HPCC
/// simulator. Such a group resumes its peer only when one of its own frames leaves.
pub(super) const WAITS_FOR_OWN_RELEASE: u32 = u32::MAX - 1;

/// Value of `waiter_index` for a priority group that pauses its peer (XOFF) and has a port limit. Such a
/// group is in the list `waiting_at_port_limit` of its pool.
pub(super) const WAITS_AT_PORT_LIMIT: u32 = u32::MAX - 2;

/// A priority group. Its limits, use and watermarks are in one cache line. On admission, the MMU reads only
/// this cache line and the pool.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct PriorityGroup {
    pub(super) limits: ProfileLimits,
    pub(super) reserved: u32,
    pub(super) shared: u32,
    pub(super) headroom: u32,
    pub(super) total_peak: u32,
    pub(super) shared_peak: u32,
    pub(super) headroom_peak: u32,
    /// Position of the group in the list of waiting groups of its pool. If the group is not in this list, the
    /// field has a special value: for example, [`NOT_WAITING`] if the group does not pause its peer (XOFF).
    pub(super) waiter_index: u32,
}

impl PriorityGroup {
    pub(super) fn new(limits: ProfileLimits) -> PriorityGroup {
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

    /// Releases cells in the order headroom, shared, reserved. Returns the number of released headroom cells
    /// and the number of released shared cells.
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

    /// Like [`PriorityGroup::record_watermarks`], but for the case that the use of headroom has not grown.
    #[inline(always)]
    pub(super) fn record_use_watermarks(&mut self) {
        self.total_peak = self.total_peak.max(self.total());
        self.shared_peak = self.shared_peak.max(self.shared);
    }
}
