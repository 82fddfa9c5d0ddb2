//! The buffer accounting of one egress queue.

use super::limits::ProfileLimits;

/// An egress queue: its limits, its use and its watermarks, in cells.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct EgressQueue {
    pub(super) limits: ProfileLimits,
    pub(super) reserved: u32,
    pub(super) shared: u32,
    pub(super) total_peak: u32,
    pub(super) shared_peak: u32,
}

impl EgressQueue {
    pub(super) fn new(limits: ProfileLimits) -> EgressQueue {
        EgressQueue {
            limits,
            reserved: 0,
            shared: 0,
            total_peak: 0,
            shared_peak: 0,
        }
    }

    /// Releases cells, shared cells first. Returns the number of released shared cells.
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
