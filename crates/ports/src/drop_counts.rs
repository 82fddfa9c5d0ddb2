//! Counters of dropped and lost frames.

use xoff_dataplane::DropReason;

/// Numbers of frames that a port dropped or lost since the previous call
/// of [`Port::take_drops`](crate::Port::take_drops).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortDrops {
    /// Number of frames that the backend dropped, by reason. Reasons without frames are not listed.
    pub by_reason: Vec<(DropReason, u64)>,
    /// Number of frames that the kernel lost, in both directions together. Such a loss taints the run, which
    /// means that the run proves nothing.
    pub lost: u64,
    /// Messages for the user. Each message contains a problem, its cause, and a command that solves
    /// the problem.
    pub notes: Vec<String>,
}

/// Counts of dropped frames, by reason.
#[derive(Debug)]
pub(super) struct DropCounts([u64; DropReason::COUNT]);

impl DropCounts {
    pub(super) fn new() -> DropCounts {
        DropCounts([0; DropReason::COUNT])
    }

    pub(super) fn add(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }

    /// Returns the counts since the last call and resets them.
    pub(super) fn take_counts(&mut self) -> Vec<(DropReason, u64)> {
        let counts = std::mem::replace(&mut self.0, [0; DropReason::COUNT]);
        let all = DropReason::ALL.iter().copied().zip(counts);
        all.filter(|(_, count)| *count != 0).collect()
    }
}

/// A counter of the kernel that never decreases. The field is the last value that was read, or `None` before
/// the first reading.
#[derive(Debug)]
pub(super) struct KernelCounter(Option<u64>);

impl KernelCounter {
    /// Creates a counter with the current value of the kernel. `value` is `None` if the counter cannot
    /// be read.
    pub(super) fn new(value: Option<u64>) -> KernelCounter {
        KernelCounter(value)
    }
    /// Stores the current value and returns its increase since the last reading. Returns 0 if `value` is
    /// `None` or if this is the first reading.
    ///
    /// If the value has decreased, the device was replaced, and the counter of the new device started at 0.
    /// The function then returns the whole new value.
    pub(super) fn update(&mut self, value: Option<u64>) -> u64 {
        let Some(value) = value else { return 0 };
        let previous = self.0.replace(value).unwrap_or(value);
        value.checked_sub(previous).unwrap_or(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_reported_once_and_by_reason() {
        let mut counts = DropCounts::new();
        counts.add(DropReason::Oversized);
        counts.add(DropReason::BackendRefused);
        counts.add(DropReason::Oversized);
        assert_eq!(
            counts.take_counts(),
            [(DropReason::Oversized, 2), (DropReason::BackendRefused, 1)]
        );
        assert_eq!(counts.take_counts(), []);
    }

    #[test]
    fn counter_increases_start_at_the_first_reading_and_survive_a_reset() {
        let mut counter = KernelCounter::new(Some(10));
        assert_eq!(counter.update(Some(13)), 3);
        assert_eq!(counter.update(None), 0);
        assert_eq!(counter.update(Some(13)), 0);
        assert_eq!(counter.update(Some(2)), 2);
        let mut unknown = KernelCounter::new(None);
        assert_eq!(unknown.update(Some(100)), 0);
        assert_eq!(unknown.update(Some(101)), 1);
    }
}
