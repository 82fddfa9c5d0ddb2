//! READ responses that arrived behind a missing one.

use std::collections::VecDeque;

use xoff_units::Picos;

/// What a requester has received behind a READ response that is missing, where the configuration lets it keep such packets
/// ([`QpConfig::reorders`](super::config::QpConfig::reorders)). Without memory until the first gap.
#[derive(Debug)]
pub(super) struct ResponsesAhead {
    /// Sequence number of the first place of `held`.
    first: u64,
    /// For each sequence number: its response is here.
    held: VecDeque<bool>,
    /// The responder has acknowledged all requests before this sequence number that are no READs.
    pub(super) acked_to: u64,
    /// When the oldest gap will have lasted as long as is tolerated.
    pub(super) gap_deadline: Picos,
}

impl ResponsesAhead {
    pub(super) fn new() -> ResponsesAhead {
        ResponsesAhead {
            first: 0,
            held: VecDeque::new(),
            acked_to: 0,
            gap_deadline: Picos::NEVER,
        }
    }

    /// Keeps the response with this sequence number, which lies behind `unacked` and less than `places_max` from it.
    pub(super) fn hold(&mut self, unacked: u64, sequence: u64, places_max: usize) {
        self.forget_before(unacked);
        let ahead = usize::try_from(sequence - unacked).unwrap_or(usize::MAX);
        if ahead >= places_max {
            return;
        }
        if self.held.len() <= ahead {
            self.held.resize(ahead + 1, false);
        }
        self.held[ahead] = true;
    }

    /// Whether the response with this sequence number, the oldest one missing, is here.
    pub(super) fn has(&mut self, unacked: u64) -> bool {
        self.forget_before(unacked);
        self.held.front().copied().unwrap_or(false)
    }

    /// Whether something arrived behind `unacked`.
    pub(super) fn is_waiting(&mut self, unacked: u64) -> bool {
        self.forget_before(unacked);
        !self.held.is_empty() || self.acked_to > unacked
    }

    fn forget_before(&mut self, unacked: u64) {
        while self.first < unacked && self.held.pop_front().is_some() {
            self.first += 1;
        }
        if self.held.is_empty() {
            self.first = unacked;
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.acked_to = 0;
        self.gap_deadline = Picos::NEVER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_wait_for_the_missing_one() {
        let mut ahead = ResponsesAhead::new();
        assert!(!ahead.has(5) && !ahead.is_waiting(5));
        for sequence in [6, 8, 6, 9] {
            ahead.hold(5, sequence, 4);
        }
        assert!(!ahead.has(5) && ahead.is_waiting(5));
        assert!(ahead.has(6));
        assert!(!ahead.has(7) && ahead.is_waiting(7));
        ahead.hold(7, 10, 4);
        assert!(ahead.has(8) && !ahead.has(9) && ahead.has(10), "9 had no place");
        assert!(!ahead.is_waiting(11));
        ahead.hold(1_000, 1_001, 4);
        assert!(ahead.has(1_001), "places follow the oldest missing response");
        ahead.clear();
        assert!(!ahead.has(1_001));
    }
}
