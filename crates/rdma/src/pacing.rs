//! The time between two packets of a queue pair.

use serde::{Deserialize, Serialize};
use xoff_units::{Picos, ns3_nanos};

/// Bits of a byte times picoseconds of a second: payload below 2^14 and headers below 2^17 keep the product below 2^61.
const BIT_PICOS: u64 = 8_000_000_000_000;

/// How the time that a packet takes at a rate is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pacing {
    /// Bits over rate, cut off to picoseconds.
    #[default]
    Exact,
    /// As ns-3 does, to be held against it: seconds as a floating-point number, cut off to nanoseconds ([`ns3_nanos`]).
    Ns3,
    /// As [`Pacing::Ns3`], and a change of the rate moves the departure of the next packet to where the new rate would have put it
    /// (`RdmaHw::ChangeRate` of the HPCC model).
    Ns3Retimed,
}

impl Pacing {
    /// What `bytes` take at `rate_bps`, at least 1.
    #[inline]
    pub(super) fn interval(self, bytes: u32, rate_bps: u64) -> Picos {
        match self {
            Pacing::Exact => Picos(u64::from(bytes) * BIT_PICOS / rate_bps),
            Pacing::Ns3 | Pacing::Ns3Retimed => {
                let seconds = f64::from(bytes) * 8.0 / rate_bps as f64;
                Picos::from_nanos(ns3_nanos(seconds, 1_000_000_000).unwrap_or(u64::MAX))
            }
        }
    }
}

/// The latest interval: the next packet is nearly always as long, and leaves at the same rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    bytes: u32,
    rate_bps: u64,
    interval: Picos,
}

impl Pace {
    /// As [`Pacing::interval`], always of the same `pacing`.
    #[inline]
    pub(super) fn interval(&mut self, pacing: Pacing, bytes: u32, rate_bps: u64) -> Picos {
        if (self.bytes, self.rate_bps) != (bytes, rate_bps) {
            *self = Pace {
                bytes,
                rate_bps,
                interval: pacing.interval(bytes, rate_bps),
            };
        }
        self.interval
    }

    /// The interval of the latest packet, and its interval at `rate_bps`, which counts from now on.
    pub(super) fn retime(&mut self, pacing: Pacing, rate_bps: u64) -> (Picos, Picos) {
        let before = self.interval;
        (before, self.interval(pacing, self.bytes, rate_bps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_that_of_the_packet_at_hand() {
        let mut pace = Pace::default();
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
    fn exact_is_to_the_picosecond_and_ns3_cut_off_to_nanoseconds() {
        let gbps = |n: u64| n * 1_000_000_000;
        assert_eq!(Pacing::Exact.interval(1_048, gbps(100)), Picos(83_840));
        assert_eq!(Pacing::Ns3.interval(1_048, gbps(100)), Picos(83_000));
        // 8384 ns: as a double of seconds it lies just below.
        assert_eq!(Pacing::Exact.interval(1_048, gbps(1)), Picos(8_384_000));
        assert_eq!(Pacing::Ns3.interval(1_048, gbps(1)), Picos(8_383_000));
        assert_eq!(Pacing::Ns3.interval(1_048, 1), Picos(8_384_000_000_000_000));
    }
}
