//! The time between two packets of a queue pair.

use xoff_dataplane::Picos;

/// Bits of a byte times picoseconds of a second: payload below 2^14 and headers below 2^17 keep the product below 2^61.
const BIT_PICOS: u64 = 8_000_000_000_000;

/// How the time that a packet takes at a rate is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// Bits over rate, cut off to picoseconds.
    #[default]
    Exact,
    /// As ns-3 does, to be held against it: seconds as a floating-point number, cut off to nanoseconds. A quotient that is whole
    /// may come out one nanosecond short.
    Ns3,
}

impl Pacing {
    /// What `bytes` take at `rate_bps`, at least 1.
    #[inline]
    pub(super) fn interval(self, bytes: u32, rate_bps: u64) -> Picos {
        match self {
            Pacing::Exact => Picos(u64::from(bytes) * BIT_PICOS / rate_bps),
            Pacing::Ns3 => {
                let seconds = f64::from(bytes) * 8.0 / rate_bps as f64;
                Picos::from_nanos(ns3_nanos(seconds, 1_000_000_000).unwrap_or(u64::MAX))
            }
        }
    }
}

/// Nanoseconds of `value` units of `unit_ns` each, as ns-3 converts a floating-point time: to 64 whole and 64 fraction bits,
/// cut off, then multiplied and cut off to whole nanoseconds. So 2.3 s is 2 299 999 999 ns there, since the nearest double lies
/// below 2.3. `None`: negative, not a number, or beyond what model time holds.
pub fn ns3_nanos(value: f64, unit_ns: u64) -> Option<u64> {
    const NANOS_MAX: f64 = 1.8e16;
    if !(value >= 0.0 && value * (unit_ns as f64) < NANOS_MAX) {
        return None;
    }
    let whole = value.floor();
    // Scaling by a power of two is exact, and the fraction is below 1.
    let fraction = ((value - whole) * 18_446_744_073_709_551_616.0) as u128;
    let (whole, unit) = (whole as u128, u128::from(unit_ns));
    u64::try_from(whole * unit + ((fraction * unit) >> 64)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn times_are_cut_off_as_ns3_cuts_them() {
        assert_eq!(ns3_nanos(2.0, 1_000_000_000), Some(2_000_000_000));
        assert_eq!(ns3_nanos(0.001, 1_000_000), Some(1_000));
        // The nearest double of 2.3 lies below it, that of 2.1 above.
        assert_eq!(ns3_nanos(2.3, 1_000_000_000), Some(2_299_999_999));
        assert_eq!(ns3_nanos(2.1, 1_000_000_000), Some(2_100_000_000));
        assert_eq!(ns3_nanos(0.5, 1), Some(0));
        for value in [-1.0, f64::NAN, f64::INFINITY, 1e12] {
            assert_eq!(ns3_nanos(value, 1_000_000_000), None);
        }
    }
}
