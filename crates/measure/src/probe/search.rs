//! The smallest number of frames with which something happens: doubled, halved, bisected, and each answer asked for again.

use xoff_telemetry::failure::{Exit, Failure};

/// The width of the range at which bisection ends: one part in so many of its middle, 5 %.
const RANGE_PARTS: u32 = 20;

/// How a search goes, and how much it took.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The first number tried; a pool's size is a good one.
    pub first: u32,
    /// The largest number tried.
    pub frames_max: u32,
    /// How often each answer is asked for; all must agree.
    pub verifications: u32,
    /// Fillings so far.
    pub fillings: u32,
}

/// Numbers of frames around a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// It does not happen with these.
    pub(super) lower: u32,
    /// It happens with these.
    pub(super) upper: u32,
}

impl Search {
    /// A range of at most 5 % around the threshold of `happens`; `None`: it does not happen with `frames_max`.
    pub(super) fn range(
        &mut self,
        mut happens: impl FnMut(u32) -> Result<bool, Failure>,
    ) -> Result<Option<Range>, Failure> {
        let mut upper = self.first.clamp(1, self.frames_max);
        while !self.verified(upper, &mut happens)? {
            if upper == self.frames_max {
                return Ok(None);
            }
            upper = upper.saturating_mul(2).min(self.frames_max);
        }
        let mut lower = upper / 2;
        while lower > 0 && self.verified(lower, &mut happens)? {
            (upper, lower) = (lower, lower / 2);
        }
        while upper - lower > 1 && (upper - lower) > (upper + lower) / 2 / RANGE_PARTS {
            let middle = lower + (upper - lower) / 2;
            match self.verified(middle, &mut happens)? {
                true => upper = middle,
                false => lower = middle,
            }
        }
        Ok(Some(Range { lower, upper }))
    }

    /// The same answer as often as is asked for.
    pub(super) fn verified(
        &mut self,
        frames: u32,
        happens: &mut impl FnMut(u32) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        self.fillings += 1;
        let first = happens(frames)?;
        for _ in 1..self.verifications.max(1) {
            self.fillings += 1;
            if happens(frames)? != first {
                return Err(unstable(frames));
            }
        }
        Ok(first)
    }

    /// Bisects a range to its end.
    pub(super) fn narrow(
        &mut self,
        mut range: Range,
        mut happens: impl FnMut(u32) -> Result<bool, Failure>,
    ) -> Result<u32, Failure> {
        while range.upper - range.lower > 1 {
            let middle = range.lower + (range.upper - range.lower) / 2;
            match self.verified(middle, &mut happens)? {
                true => range.upper = middle,
                false => range.lower = middle,
            }
        }
        Ok(range.upper)
    }
}

pub(super) fn unstable(frames: u32) -> Failure {
    Failure::new(
        Exit::Inconclusive,
        format!("{frames} frames give another answer when they are sent again"),
    )
    .because("other traffic passes the switch, or it drops by chance")
    .fix("keep other traffic away, and switch early drops (WRED) of the class off")
}
