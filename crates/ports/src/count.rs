//! What a backend counts.

use xoff_dataplane::DropReason;

/// What became of frames outside the switch, since the last question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortDrops {
    /// Frames that the backend itself dropped, by reason; only reasons that occurred.
    pub by_reason: Vec<(DropReason, u64)>,
    /// Frames that the kernel lost, in or out: the run is no longer exact.
    pub lost: u64,
    /// What a person should know, once: what happens, why, and the command that ends it.
    pub notes: Vec<String>,
}

/// Drops by reason.
#[derive(Debug)]
pub(super) struct DropCounts([u64; DropReason::COUNT]);

impl DropCounts {
    pub(super) fn new() -> DropCounts {
        DropCounts([0; DropReason::COUNT])
    }

    pub(super) fn add(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }

    /// What was counted since the last call.
    pub(super) fn take(&mut self) -> Vec<(DropReason, u64)> {
        let counts = std::mem::replace(&mut self.0, [0; DropReason::COUNT]);
        let all = DropReason::ALL.iter().copied().zip(counts);
        all.filter(|(_, count)| *count != 0).collect()
    }
}

/// A counter of the kernel that only grows, read from time to time.
#[derive(Debug)]
pub(super) struct Growing(Option<u64>);

impl Growing {
    /// `now`: its value at the start, where it can be read.
    pub(super) fn new(now: Option<u64>) -> Growing {
        Growing(now)
    }

    /// By how much it grew since it was read last. A smaller value is a new device's: nothing is known of the
    /// difference, so the new value counts.
    pub(super) fn growth(&mut self, now: Option<u64>) -> u64 {
        let Some(now) = now else { return 0 };
        let before = self.0.replace(now).unwrap_or(now);
        now.checked_sub(before).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_told_once_and_by_reason() {
        let mut counts = DropCounts::new();
        counts.add(DropReason::Oversized);
        counts.add(DropReason::BackendRefused);
        counts.add(DropReason::Oversized);
        assert_eq!(
            counts.take(),
            [(DropReason::Oversized, 2), (DropReason::BackendRefused, 1)]
        );
        assert_eq!(counts.take(), []);
    }

    #[test]
    fn growth_counts_from_the_first_reading_and_survives_a_reset() {
        let mut counter = Growing::new(Some(10));
        assert_eq!(counter.growth(Some(13)), 3);
        assert_eq!(counter.growth(None), 0);
        assert_eq!(counter.growth(Some(13)), 0);
        assert_eq!(counter.growth(Some(2)), 2);
        let mut unknown = Growing::new(None);
        assert_eq!(unknown.growth(Some(100)), 0);
        assert_eq!(unknown.growth(Some(101)), 1);
    }
}
