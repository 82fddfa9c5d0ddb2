//! Pacing: the interval between two packets of a queue pair.

use serde::{Deserialize, Serialize};
use xoff_units::{Picos, nanos_as_in_ns3};

/// Bits per byte, times picoseconds per second. A packet has fewer than 2^18 bytes, so the product of its
/// length and this constant is below 2^61.
const BIT_PICOS: u64 = 8_000_000_000_000;

/// Computation of the interval between two packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pacing {
    /// Length in bits divided by the rate, rounded down to picoseconds.
    #[default]
    Exact,
    /// The computation of ns-3, for comparisons: seconds in floating point, rounded down to
    /// nanoseconds ([`nanos_as_in_ns3`]).
    Ns3,
    /// The same computation as [`Pacing::Ns3`]. If the rate changes, the departure time of the next packet is
    /// also computed again (`RdmaHw::ChangeRate` of the HPCC model).
    Ns3Retimed,
}

impl Pacing {
    /// Returns the interval after a packet of `bytes` bytes at `rate_bps` bits per second. `rate_bps` must be
    /// at least 1.
    #[inline]
    pub(super) fn interval(self, bytes: u32, rate_bps: u64) -> Picos {
        match self {
            Pacing::Exact => Picos(u64::from(bytes) * BIT_PICOS / rate_bps),
            Pacing::Ns3 | Pacing::Ns3Retimed => {
                let seconds = f64::from(bytes) * 8.0 / rate_bps as f64;
                Picos::from_nanos(nanos_as_in_ns3(seconds, 1_000_000_000).unwrap_or(u64::MAX))
            }
        }
    }
}

/// The last interval with its packet length and rate. The next packet nearly always has the same length and
/// rate. The stored interval then saves a division.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PacingInterval {
    bytes: u32,
    rate_bps: u64,
    interval: Picos,
}

impl PacingInterval {
    /// Returns [`Pacing::interval`]. Every call must pass the same `pacing`.
    #[inline]
    pub(super) fn interval(&mut self, pacing: Pacing, bytes: u32, rate_bps: u64) -> Picos {
        if (self.bytes, self.rate_bps) != (bytes, rate_bps) {
            *self = PacingInterval {
                bytes,
                rate_bps,
                interval: pacing.interval(bytes, rate_bps),
            };
        }
        self.interval
    }

    /// Returns two intervals after the last packet: the interval at the previous rate, and the interval at
    /// `rate_bps`. Stores the interval at `rate_bps`.
    pub(super) fn change_rate(&mut self, pacing: Pacing, rate_bps: u64) -> (Picos, Picos) {
        let before = self.interval;
        (before, self.interval(pacing, self.bytes, rate_bps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_interval_is_that_of_the_last_packet() {
        let mut pace = PacingInterval::default();
        for (bytes, rate) in [
            (0, 1),
            (1_048, 1),
            (1_048, 1),
            (1_048, 100),
            (64, 100),
            (1_048, 100),
        ] {
            let expected = Pacing::Exact.interval(bytes, rate);
            assert_eq!(
                pace.interval(Pacing::Exact, bytes, rate),
                expected,
                "{bytes} {rate}"
            );
        }
    }

    #[test]
    fn exact_rounds_to_picoseconds_and_ns3_to_nanoseconds() {
        let gbps = |n: u64| n * 1_000_000_000;
        assert_eq!(Pacing::Exact.interval(1_048, gbps(100)), Picos(83_840));
        assert_eq!(Pacing::Ns3.interval(1_048, gbps(100)), Picos(83_000));
        // 8384 ns: as a double in seconds the value is slightly smaller.
        assert_eq!(Pacing::Exact.interval(1_048, gbps(1)), Picos(8_384_000));
        assert_eq!(Pacing::Ns3.interval(1_048, gbps(1)), Picos(8_383_000));
        assert_eq!(Pacing::Ns3.interval(1_048, 1), Picos(8_384_000_000_000_000));
    }
}
