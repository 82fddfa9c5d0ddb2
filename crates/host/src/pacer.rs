//! How often a flow may send.

use xoff_units::Picos;

/// A flow that could not send keeps at most this many frames' worth of its rate: enough to make up for waiting
/// its turn on the link, too little to become a burst.
const CREDIT_FRAMES: u64 = 4;

/// Spaces the frames of a flow at its rate, exactly: no rounding adds up.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    bits_per_second: u64,
    due: Picos,
    /// What the due time lies beyond `due`, in picoseconds / `bits_per_second`.
    remainder: u64,
}

impl Pacer {
    /// A pacer that has not started.
    pub(super) fn new(bits_per_second: u64) -> Pacer {
        Pacer {
            bits_per_second: bits_per_second.max(1),
            due: Picos::NEVER,
            remainder: 0,
        }
    }

    /// Lets the first frame leave at `at`.
    pub(super) fn start(&mut self, at: Picos) {
        self.due = at;
        self.remainder = 0;
    }

    /// When the next frame may leave.
    pub(super) fn due(&self) -> Picos {
        self.due
    }

    /// Counts a frame of `wire_len` bytes that begins to leave at `start`.
    pub(super) fn sent(&mut self, start: Picos, wire_len: u32) {
        // A wire length below 2^20 keeps this below 2^63; the remainder is below the rate.
        let time = u64::from(wire_len) * 8_000_000_000_000 + self.remainder;
        let interval = time / self.bits_per_second;
        let oldest = start.0.saturating_sub(interval.saturating_mul(CREDIT_FRAMES));
        if self.due.0 < oldest {
            self.due = Picos(oldest);
            self.remainder = 0;
        } else {
            self.remainder = time % self.bits_per_second;
        }
        self.due = self.due.saturating_add(Picos(interval));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_keep_the_rate_without_rounding_and_waiting_earns_a_bounded_credit() {
        // 8848 bits at 700 Mb/s last no whole number of picoseconds.
        let mut pacer = Pacer::new(700_000_000);
        pacer.start(Picos::ZERO);
        for _ in 0..700_000 {
            pacer.sent(pacer.due(), 1106);
        }
        assert_eq!(pacer.due(), Picos(8_848_000_000_000));

        let late = pacer.due().saturating_add(Picos::from_millis(1_000));
        pacer.sent(late, 1106);
        let interval = 8_848_000_000_000_000_u64 / 700_000_000;
        assert_eq!(pacer.due().0, late.0 - 3 * interval);
    }
}
