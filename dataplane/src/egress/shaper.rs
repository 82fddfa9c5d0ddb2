//! Limits the peak rate of a queue or port. The limiter is a token bucket, which is stored as one time value
//! (generic cell rate algorithm).

use crate::egress::config::ShaperConfig;
use xoff_units::Picos;

const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// Limits frames to `bytes_per_second`, with bursts of `burst_bytes` after an idle time.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    bytes_per_second: u64,
    burst: Picos,
    /// Time at which the bucket is full again (theoretical arrival time).
    full_at: Picos,
}

impl TokenBucket {
    pub(crate) fn new(shaper: ShaperConfig) -> TokenBucket {
        let bytes_per_second = shaper.bytes_per_second.max(1);
        TokenBucket {
            bytes_per_second,
            burst: time_for_bytes(bytes_per_second, shaper.burst_bytes),
            full_at: Picos::ZERO,
        }
    }

    /// Returns the earliest time at which the next frame may start. The time may be in the past.
    pub(crate) fn ready_at(&self) -> Picos {
        Picos(self.full_at.0.saturating_sub(self.burst.0))
    }

    /// Records that a frame of `bytes` bytes started at `now`.
    pub(crate) fn charge(&mut self, now: Picos, bytes: u32) {
        self.full_at = self
            .full_at
            .max(now)
            .saturating_add(time_for_bytes(self.bytes_per_second, bytes));
    }

    /// Changes the rate and the burst. The tokens that are already used stay used.
    pub(crate) fn reconfigure(&mut self, shaper: ShaperConfig) {
        let fresh = TokenBucket::new(shaper);
        self.bytes_per_second = fresh.bytes_per_second;
        self.burst = fresh.burst;
    }
}

fn time_for_bytes(bytes_per_second: u64, bytes: u32) -> Picos {
    let ps = u128::from(bytes) * PS_PER_SECOND / u128::from(bytes_per_second);
    Picos(u64::try_from(ps).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_use_for_one_second_sends_the_rate() {
        let mut bucket = TokenBucket::new(ShaperConfig {
            bytes_per_second: 1_000_000,
            burst_bytes: 0,
        });
        let mut sent = 0u64;
        let mut now = Picos::ZERO;
        while now < Picos::from_millis(1_000) {
            bucket.charge(now, 1_000);
            sent += 1_000;
            now = bucket.ready_at();
        }
        assert_eq!(sent, 1_000_000);
    }

    #[test]
    fn a_burst_is_sent_at_once_and_then_the_rate_applies() {
        let mut bucket = TokenBucket::new(ShaperConfig {
            bytes_per_second: 1_000,
            burst_bytes: 3_000,
        });
        let now = Picos::from_millis(10_000);
        let mut at_once = 0;
        while bucket.ready_at() <= now {
            bucket.charge(now, 1_000);
            at_once += 1;
        }
        // The burst, and the one frame that may start while the bucket is not in debt.
        assert_eq!(at_once, 4);
        assert_eq!(bucket.ready_at(), now + Picos::from_millis(1_000));
    }
}
