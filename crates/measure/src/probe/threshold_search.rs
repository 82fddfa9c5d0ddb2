//! Searches for the smallest number of frames that causes an event, such as XOFF. The search first doubles or
//! halves the number until the event begins or ceases to occur. Then it bisects the range. Each measurement
//! is repeated.

use xoff_telemetry::failure::{Exit, Failure};

/// The bisection ends when the width of the range is this fraction of its centre: one twentieth (5 %).
const RANGE_WIDTH_DIVISOR: u32 = 20;

/// The parameters of a search, and the number of measurements so far.
#[derive(Clone, Copy, Debug)]
pub struct ThresholdSearch {
    /// The first number of frames to try, such as the size of the pool. If the number is outside the range 1
    /// to `frames_max`, the nearest limit of the range is used.
    pub first: u32,
    /// The largest number of frames to try, at least 1.
    pub frames_max: u32,
    /// The number of times that each measurement is made, where 0 counts as 1. If the results differ, the
    /// search fails with [`Exit::Inconclusive`].
    pub verifications: u32,
    /// Number of measurements so far. Each measurement fills the buffer once.
    pub fillings: u32,
}

/// A range of frame counts that contains a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameRange {
    /// The event does not occur with this number of frames.
    pub(super) lower: u32,
    /// The event occurs with this number of frames.
    pub(super) upper: u32,
}

impl ThresholdSearch {
    /// Finds a range that contains the threshold and has a width of at most 5 %. Returns `None` if the event
    /// does not occur with `frames_max` frames.
    pub(super) fn find_range(
        &mut self,
        mut happens: impl FnMut(u32) -> Result<bool, Failure>,
    ) -> Result<Option<FrameRange>, Failure> {
        let mut upper = self.first.clamp(1, self.frames_max);
        while !self.measure_repeatedly(upper, &mut happens)? {
            if upper == self.frames_max {
                return Ok(None);
            }
            upper = upper.saturating_mul(2).min(self.frames_max);
        }
        let mut lower = upper / 2;
        while lower > 0 && self.measure_repeatedly(lower, &mut happens)? {
            (upper, lower) = (lower, lower / 2);
        }
        while upper - lower > 1 && (upper - lower) > (upper + lower) / 2 / RANGE_WIDTH_DIVISOR {
            let middle = lower + (upper - lower) / 2;
            match self.measure_repeatedly(middle, &mut happens)? {
                true => upper = middle,
                false => lower = middle,
            }
        }
        Ok(Some(FrameRange { lower, upper }))
    }

    /// Makes a measurement `verifications` times and returns the common result.
    ///
    /// # Errors
    /// The results differ.
    pub(super) fn measure_repeatedly(
        &mut self,
        frames: u32,
        happens: &mut impl FnMut(u32) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        self.fillings += 1;
        let first = happens(frames)?;
        for _ in 1..self.verifications.max(1) {
            self.fillings += 1;
            if happens(frames)? != first {
                return Err(inconsistent_measurement_error(frames));
            }
        }
        Ok(first)
    }

    /// Bisects a range until it contains only the threshold. Returns the threshold: the smallest number of
    /// frames that causes the event.
    pub(super) fn bisect_to_threshold(
        &mut self,
        mut range: FrameRange,
        mut happens: impl FnMut(u32) -> Result<bool, Failure>,
    ) -> Result<u32, Failure> {
        while range.upper - range.lower > 1 {
            let middle = range.lower + (range.upper - range.lower) / 2;
            match self.measure_repeatedly(middle, &mut happens)? {
                true => range.upper = middle,
                false => range.lower = middle,
            }
        }
        Ok(range.upper)
    }
}

pub(super) fn inconsistent_measurement_error(frames: u32) -> Failure {
    Failure::new(
        Exit::Inconclusive,
        format!(
            "the result differs when {} are sent again",
            xoff_telemetry::count_noun(u64::from(frames), "frame")
        ),
    )
    .because("other traffic passes the switch, or the switch drops frames at random")
    .fix("remove other traffic, and disable WRED drops of the class")
}
