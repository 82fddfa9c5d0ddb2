//! Reorder buffer for READ responses that arrive after a missing READ response.

use std::collections::VecDeque;

use xoff_units::Picos;

/// READ responses and acknowledgements that arrived before an earlier READ response. Used only if
/// [`QpConfig::reorders`](super::config::QpConfig::reorders) is true. Memory is allocated only after the
/// first missing response.
#[derive(Debug)]
#[repr(C)]
pub(super) struct HeldResponses {
    /// End of the tolerated reordering time of the oldest gap. [`Picos::NEVER`] without a tolerated gap.
    pub(super) gap_deadline: Picos,
    /// `None` until the first response or acknowledgement arrives too early.
    early: Option<Box<EarlyAnswers>>,
}

/// What has arrived before an earlier READ response.
#[derive(Debug, Default)]
struct EarlyAnswers {
    /// Sequence number of the first element of `held`.
    first: u64,
    /// One element for each sequence number: true if the response has arrived.
    held: VecDeque<bool>,
    /// All requests before this sequence number are acknowledged, except READs.
    acked_to: u64,
}

impl HeldResponses {
    pub(super) fn new() -> HeldResponses {
        HeldResponses {
            gap_deadline: Picos::NEVER,
            early: None,
        }
    }

    /// Stores a response. Ignores sequence numbers that are `slots_max` or more after `unacked`.
    pub(super) fn store(&mut self, unacked: u64, sequence: u64, slots_max: usize) {
        let early = self.early.get_or_insert_default();
        early.remove_before(unacked);
        let ahead = usize::try_from(sequence - unacked).unwrap_or(usize::MAX);
        if ahead >= slots_max {
            return;
        }
        if early.held.len() <= ahead {
            early.held.resize(ahead + 1, false);
        }
        early.held[ahead] = true;
    }

    /// Stores that all requests before a sequence number are acknowledged, except READs.
    pub(super) fn store_acknowledgement(&mut self, acked_end: u64) {
        let early = self.early.get_or_insert_default();
        early.acked_to = early.acked_to.max(acked_end);
    }

    /// Returns the sequence number before which all requests are acknowledged, except READs.
    pub(super) fn acked_to(&self) -> u64 {
        self.early.as_ref().map_or(0, |early| early.acked_to)
    }

    /// Returns whether the response with the sequence number `unacked` has arrived.
    pub(super) fn has_response(&mut self, unacked: u64) -> bool {
        self.early.as_mut().is_some_and(|early| {
            early.remove_before(unacked);
            early.held.front().copied().unwrap_or(false)
        })
    }

    /// Returns whether any response or acknowledgement after `unacked` has arrived.
    pub(super) fn has_later_data(&mut self, unacked: u64) -> bool {
        self.early.as_mut().is_some_and(|early| {
            early.remove_before(unacked);
            !early.held.is_empty() || early.acked_to > unacked
        })
    }

    /// Discards all responses and acknowledgements.
    pub(super) fn clear(&mut self) {
        *self = HeldResponses::new();
    }
}

impl EarlyAnswers {
    fn remove_before(&mut self, unacked: u64) {
        while self.first < unacked && self.held.pop_front().is_some() {
            self.first += 1;
        }
        if self.held.is_empty() {
            self.first = unacked;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_responses_wait_for_the_missing_one() {
        let mut ahead = HeldResponses::new();
        assert!(!ahead.has_response(5) && !ahead.has_later_data(5));
        for sequence in [6, 8, 6, 9] {
            ahead.store(5, sequence, 4);
        }
        assert!(!ahead.has_response(5) && ahead.has_later_data(5));
        assert!(ahead.has_response(6));
        assert!(!ahead.has_response(7) && ahead.has_later_data(7));
        ahead.store(7, 10, 4);
        assert!(
            ahead.has_response(8) && !ahead.has_response(9) && ahead.has_response(10),
            "9 had no place"
        );
        assert!(!ahead.has_later_data(11));
        ahead.store(1_000, 1_001, 4);
        assert!(
            ahead.has_response(1_001),
            "places follow the oldest missing response"
        );
        ahead.clear();
        assert!(!ahead.has_response(1_001));
    }
}
