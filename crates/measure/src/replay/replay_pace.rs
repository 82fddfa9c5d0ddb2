//! The pace of a replay.

/// The rule for the times at which frames are offered to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayPace {
    /// At the times of the capture, divided by a speed factor. The fields are the numerator and the
    /// denominator of the factor. For example, `(2, 1)` is twice as fast as the capture.
    Captured(u64, u64),
    /// All at model time 0. Each port then receives its frames at the speed of its link.
    BackToBack,
}
