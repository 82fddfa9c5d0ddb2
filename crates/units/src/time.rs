//! Model time, link speeds and the length of a frame on a link.

use core::ops::{Add, AddAssign, Sub};

/// A point in model time or a span of model time, in picoseconds. The largest value is 213 days. The
/// operators `+` and `-` panic on overflow in debug builds and wrap in release builds.
///
/// At every speed from 10 Mb/s to 1.6 Tb/s, the transmission time of a byte is a whole number of picoseconds.
/// Nanoseconds are too coarse: the transmission of 64 bytes at 400 Gb/s takes 1280 ps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

impl Picos {
    /// The start of model time.
    pub const ZERO: Picos = Picos(0);
    /// The largest time. It marks a timer that is not armed.
    pub const NEVER: Picos = Picos(u64::MAX);

    /// Converts whole nanoseconds to picoseconds, at most [`Picos::NEVER`].
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Picos {
        Picos(nanos.saturating_mul(1_000))
    }

    /// Converts whole microseconds to picoseconds, at most [`Picos::NEVER`].
    #[inline]
    pub const fn from_micros(micros: u64) -> Picos {
        Picos(micros.saturating_mul(1_000_000))
    }

    /// Converts whole milliseconds to picoseconds, at most [`Picos::NEVER`].
    #[inline]
    pub const fn from_millis(millis: u64) -> Picos {
        Picos(millis.saturating_mul(1_000_000_000))
    }

    /// Returns the time in whole nanoseconds, rounded down.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns the span from `earlier` to this time. The span is zero if `earlier` is after this time.
    #[inline]
    pub const fn since(self, earlier: Picos) -> Picos {
        Picos(self.0.saturating_sub(earlier.0))
    }

    /// Returns this time plus `span`, at most [`Picos::NEVER`].
    #[inline]
    pub const fn saturating_add(self, span: Picos) -> Picos {
        Picos(self.0.saturating_add(span.0))
    }
}

impl Add for Picos {
    type Output = Picos;
    #[inline]
    fn add(self, rhs: Picos) -> Picos {
        Picos(self.0 + rhs.0)
    }
}

impl AddAssign for Picos {
    #[inline]
    fn add_assign(&mut self, rhs: Picos) {
        self.0 += rhs.0;
    }
}

impl Sub for Picos {
    type Output = Picos;
    #[inline]
    fn sub(self, rhs: Picos) -> Picos {
        Picos(self.0 - rhs.0)
    }
}

/// Converts `value` to whole nanoseconds in the same way as ns-3. The unit of `value` has `unit_ns`
/// nanoseconds. ns-3 truncates the floating-point value to 64 integer bits and 64 fraction bits, multiplies
/// the result by `unit_ns`, and truncates the product. For example, 2.3 s becomes 2 299 999 999 ns, because
/// the nearest double is less than 2.3. Returns `None` if the value is negative or NaN, or if the result
/// would be 1.8e16 ns (208 days) or more.
pub const fn nanos_as_in_ns3(value: f64, unit_ns: u64) -> Option<u64> {
    const NANOS_MAX: f64 = 1.8e16;
    if !(value >= 0.0 && value * (unit_ns as f64) < NANOS_MAX) {
        return None;
    }
    let whole = value as u64;
    // Multiplication by a power of two is exact, and the fraction is less than 1.
    let fraction = ((value - whole as f64) * 18_446_744_073_709_551_616.0) as u128;
    Some(whole * unit_ns + ((fraction * unit_ns as u128) >> 64) as u64)
}

/// The speed of a link, and the bytes that the link adds to each frame.
///
/// [`LinkTiming::ethernet`] has the values of IEEE 802.3: preamble 7 bytes, start delimiter 1 byte,
/// inter-packet gap 12 bytes, shortest frame 64 bytes with FCS. Comparisons with ns-3 use different values,
/// because ns-3 models links differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)] // the fields that a switch uses for each frame come first
pub struct LinkTiming {
    /// Number of bytes that the link adds to each frame: preamble, start delimiter and gap. The value for
    /// Ethernet is 20.
    pub overhead_bytes: u32,
    /// Number of bytes in the FCS. Frame lengths without FCS (`frame_len`) do not include these bytes. The
    /// value for Ethernet is 4.
    pub fcs_bytes: u32,
    /// Length of the shortest frame with FCS, in bytes. Shorter frames are padded to this length. The value
    /// for Ethernet is 64.
    pub min_frame_bytes: u32,
    /// Speed in Mb/s, 1 to 1 600 000 (SONiC `PORT` `speed`).
    pub speed_mbps: u32,
    /// Number of bytes in the gap after a frame. `overhead_bytes` includes the gap. A frame arrives at the
    /// start of its gap. The value for Ethernet is 12.
    pub gap_bytes: u32,
    /// Step of transmission times in picoseconds, at least 1. Transmission times are rounded down to a
    /// multiple of this step. The step 1 means whole picoseconds.
    pub rounding_ps: u32,
    /// True if transmission times are computed as in ns-3: in floating-point seconds, truncated to
    /// nanoseconds ([`nanos_as_in_ns3`]). The result may be one nanosecond too small, even if the exact time
    /// is a whole number of nanoseconds. `rounding_ps` is then not used.
    pub as_ns3: bool,
}

impl LinkTiming {
    /// Returns the timing of Ethernet (IEEE 802.3) at a speed in Mb/s, 1 to 1 600 000.
    #[inline]
    pub const fn ethernet(speed_mbps: u32) -> LinkTiming {
        LinkTiming {
            speed_mbps,
            overhead_bytes: 20,
            gap_bytes: 12,
            fcs_bytes: 4,
            min_frame_bytes: 64,
            rounding_ps: 1,
            as_ns3: false,
        }
    }

    /// Returns the length of a frame in bytes, with FCS and padding. `frame_len` is the length without FCS.
    /// The buffer accounting (MMU) and the counters use this length.
    #[inline]
    pub const fn mac_len(&self, frame_len: u32) -> u32 {
        let with_fcs = frame_len + self.fcs_bytes;
        if with_fcs < self.min_frame_bytes {
            self.min_frame_bytes
        } else {
            with_fcs
        }
    }

    /// Returns the number of bytes for which a frame occupies the link, including preamble, start delimiter
    /// and gap. `mac_len` is the length with FCS and padding, the result of [`LinkTiming::mac_len`].
    #[inline]
    pub const fn wire_len(&self, mac_len: u32) -> u32 {
        mac_len + self.overhead_bytes
    }

    /// Returns the time of the inter-packet gap. The gap follows the last bit of a frame and is part of the
    /// time for which the frame occupies the link.
    #[inline]
    pub const fn gap_duration(&self) -> Picos {
        let gap = if self.gap_bytes < self.overhead_bytes {
            self.gap_bytes
        } else {
            self.overhead_bytes
        };
        self.duration(gap)
    }

    /// Returns the transmission time of `bytes` bytes on the link. Panics if `speed_mbps` or `rounding_ps`
    /// is 0.
    #[inline]
    pub const fn duration(&self, bytes: u32) -> Picos {
        if self.as_ns3 {
            let seconds = bytes as f64 * 8.0 / (self.speed_mbps as u64 * 1_000_000) as f64;
            return match nanos_as_in_ns3(seconds, 1_000_000_000) {
                Some(nanos) => Picos::from_nanos(nanos),
                None => Picos::NEVER,
            };
        }
        let ps = bytes as u64 * 8_000_000 / self.speed_mbps as u64;
        Picos(ps - ps % self.rounding_ps as u64)
    }

    /// Returns the time of one pause quantum, rounded down to picoseconds. A quantum is 512 bit times (IEEE
    /// 802.3 Annex 31B).
    #[inline]
    pub const fn quantum_duration(&self) -> Picos {
        Picos(512 * 1_000_000 / self.speed_mbps as u64)
    }

    /// Returns the time of `quanta` pause quanta. Only the total is rounded down to picoseconds, so rounding
    /// errors do not accumulate.
    #[inline]
    pub const fn pause_duration(&self, quanta: u16) -> Picos {
        Picos(quanta as u64 * 512 * 1_000_000 / self.speed_mbps as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ns3_nanos_are_cut_as_in_ns3() {
        assert_eq!(nanos_as_in_ns3(2.0, 1_000_000_000), Some(2_000_000_000));
        assert_eq!(nanos_as_in_ns3(0.001, 1_000_000), Some(1_000));
        // The nearest double of 2.3 is less than 2.3. The nearest double of 2.1 is greater than 2.1.
        assert_eq!(nanos_as_in_ns3(2.3, 1_000_000_000), Some(2_299_999_999));
        assert_eq!(nanos_as_in_ns3(2.1, 1_000_000_000), Some(2_100_000_000));
        assert_eq!(nanos_as_in_ns3(0.5, 1), Some(0));
        for value in [-1.0, f64::NAN, f64::INFINITY, 1e12] {
            assert_eq!(nanos_as_in_ns3(value, 1_000_000_000), None);
        }
    }

    #[test]
    fn ns3_link_times_may_be_a_nanosecond_short() {
        let link = |speed_mbps| LinkTiming {
            as_ns3: true,
            ..LinkTiming::ethernet(speed_mbps)
        };
        assert_eq!(link(100_000).duration(1_048), Picos::from_nanos(83), "83.84 ns");
        assert_eq!(
            link(100_000).duration(1_000),
            Picos::from_nanos(79),
            "80 ns, whose fraction of a second is cut off to 64 bits"
        );
        assert_eq!(link(10_000).duration(60), Picos::from_nanos(47), "48 ns");
        assert_eq!(link(1_000).duration(1_048), Picos::from_nanos(8_383), "8384 ns");
        assert_eq!(link(1).duration(u32::MAX), Picos::from_nanos(34_359_738_360_000));
    }
}
