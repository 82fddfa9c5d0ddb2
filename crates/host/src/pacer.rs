//! Pacing of open-loop flows.

use xoff_units::Picos;

/// Number of frames that a flow can catch up after it was blocked. This number compensates a wait for the
/// link and avoids a large burst.
const CREDIT_FRAMES: u64 = 4;

/// Spaces the frames of a flow by its rate. Rounding errors do not accumulate.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    bits_per_second: u64,
    due: Picos,
    /// Fraction of the due time, in picoseconds divided by `bits_per_second`.
    remainder: u64,
}

impl Pacer {
    /// Creates a pacer that has not started.
    pub(super) fn new(bits_per_second: u64) -> Pacer {
        Pacer {
            bits_per_second: bits_per_second.max(1),
            due: Picos::NEVER,
            remainder: 0,
        }
    }

    /// Sets the departure time of the first frame.
    pub(super) fn start(&mut self, at: Picos) {
        self.due = at;
        self.remainder = 0;
    }

    /// Sets the rate. The departure time of the next frame does not change.
    pub(super) fn set_rate(&mut self, bits_per_second: u64) {
        self.bits_per_second = bits_per_second.max(1);
        self.remainder = 0;
    }

    /// Returns the departure time of the next frame.
    pub(super) fn due(&self) -> Picos {
        self.due
    }

    /// Records a frame of `wire_len` bytes (with preamble and gap) that leaves at `start`. Returns the time that the
    /// flow cannot catch up.
    pub(super) fn record_sent(&mut self, start: Picos, wire_len: u32) -> Picos {
        // The product is below 2^63 because a wire length is below 2^20. The remainder is less than the rate.
        let time = u64::from(wire_len) * 8_000_000_000_000 + self.remainder;
        let interval = time / self.bits_per_second;
        let oldest = start.0.saturating_sub(interval.saturating_mul(CREDIT_FRAMES));
        let lost = Picos(oldest.saturating_sub(self.due.0));
        if self.due.0 < oldest {
            self.due = Picos(oldest);
            self.remainder = 0;
        } else {
            self.remainder = time % self.bits_per_second;
        }
        self.due = self.due.saturating_add(Picos(interval));
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_keep_the_rate_and_waiting_earns_limited_credit() {
        // 8848 bits at 700 Mb/s are no whole number of picoseconds.
        let mut pacer = Pacer::new(700_000_000);
        pacer.start(Picos::ZERO);
        for _ in 0..700_000 {
            pacer.record_sent(pacer.due(), 1106);
        }
        assert_eq!(pacer.due(), Picos(8_848_000_000_000));

        let late = pacer.due().saturating_add(Picos::from_millis(1_000));
        let lost = pacer.record_sent(late, 1106);
        let interval = 8_848_000_000_000_000_u64 / 700_000_000;
        assert_eq!(pacer.due().0, late.0 - 3 * interval);
        assert_eq!(lost.0, 1_000_000_000_000 - 4 * interval);
        assert_eq!(pacer.record_sent(pacer.due(), 1106), Picos::ZERO);
    }
}
