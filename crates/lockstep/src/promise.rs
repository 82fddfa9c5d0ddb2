//! What one side has promised about its later frames.

use std::collections::VecDeque;

use crate::error::OrderError;
use crate::message::{Frame, Grant};

/// Largest number of messages that one side sends before the other side counts them in a grant.
const UNCOUNTED_MAX: usize = 4_096;

/// The promises of one side. All times are picoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promise {
    first_bit_ps: u64,
    last_bit_ps: u64,
    /// Number of messages of the other side that the promise takes into account.
    counted: u64,
    /// The times at which reactions to later messages of the other side can start.
    uncounted: VecDeque<u64>,
    /// Last bit of the previous frame.
    previous_ps: u64,
}

impl Promise {
    /// Returns the promise after a reset: nothing before its end.
    pub(crate) fn after_reset(time_ps: u64) -> Promise {
        Promise {
            first_bit_ps: time_ps,
            last_bit_ps: time_ps,
            previous_ps: time_ps,
            ..Promise::default()
        }
    }

    /// Returns the earliest time at which a reaction to an uncounted message can start.
    fn reaction_ps(&self) -> u64 {
        self.uncounted.iter().copied().min().unwrap_or(u64::MAX)
    }

    /// Returns the latest time until which all frames of this side are known that end at this time or before.
    pub(crate) fn horizon(&self) -> u64 {
        // A frame takes time, so its last bit is after its first one.
        let promised = self.first_bit_ps.max(self.last_bit_ps.saturating_sub(1));
        promised.min(self.reaction_ps())
    }

    /// Returns whether the promise takes all messages of the other side into account.
    pub(crate) fn counts_all(&self) -> bool {
        self.uncounted.is_empty()
    }

    /// Notes a message of the other side. This side can react to it from `effect_ps` on.
    pub(crate) fn add_uncounted(&mut self, effect_ps: u64) -> Result<(), OrderError> {
        self.uncounted.push_back(effect_ps);
        match self.uncounted.len() > UNCOUNTED_MAX {
            true => Err(OrderError::Flood(UNCOUNTED_MAX)),
            false => Ok(()),
        }
    }

    /// Checks a frame of this side.
    pub(crate) fn check_frame(&mut self, frame: &Frame) -> Result<(), OrderError> {
        let (first_bit_ps, last_bit_ps) = (frame.first_bit_ps, frame.last_bit_ps);
        if last_bit_ps <= first_bit_ps {
            return Err(OrderError::EmptyFrame {
                first_bit_ps,
                last_bit_ps,
            });
        }
        let is_promised = first_bit_ps >= self.first_bit_ps && last_bit_ps >= self.last_bit_ps;
        if !is_promised && first_bit_ps < self.reaction_ps() {
            return Err(OrderError::FrameBeforeGrant {
                first_bit_ps,
                last_bit_ps,
                granted_first_ps: self.first_bit_ps,
                granted_last_ps: self.last_bit_ps,
            });
        }
        if first_bit_ps < self.previous_ps {
            return Err(OrderError::Overlap {
                first_bit_ps,
                previous_ps: self.previous_ps,
            });
        }
        self.previous_ps = last_bit_ps;
        Ok(())
    }

    /// Checks a grant of this side, and replaces the promise.
    pub(crate) fn replace(&mut self, grant: Grant) -> Result<(), OrderError> {
        let most = self.counted + self.uncounted.len() as u64;
        if !(self.counted..=most).contains(&grant.received) {
            return Err(OrderError::Count {
                received: grant.received,
                least: self.counted,
                most,
            });
        }
        let reaction_ps = self.reaction_ps();
        for (time_ps, before_ps) in [
            (grant.first_bit_ps, self.first_bit_ps),
            (grant.last_bit_ps, self.last_bit_ps),
        ] {
            let granted_ps = before_ps.min(reaction_ps);
            if time_ps < granted_ps {
                return Err(OrderError::GrantGoesBack { time_ps, granted_ps });
            }
        }
        self.uncounted.drain(..(grant.received - self.counted) as usize);
        self.counted = grant.received;
        self.first_bit_ps = grant.first_bit_ps;
        self.last_bit_ps = grant.last_bit_ps;
        Ok(())
    }

    /// Checks the time of a request of this side.
    pub(crate) fn check_request(&self, time_ps: u64) -> Result<(), OrderError> {
        let granted_ps = self.first_bit_ps.min(self.reaction_ps());
        match time_ps < granted_ps {
            true => Err(OrderError::RequestBeforeGrant { time_ps, granted_ps }),
            false => Ok(()),
        }
    }
}
