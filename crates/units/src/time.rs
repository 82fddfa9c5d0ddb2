//! Model time, link speeds and the length of a frame on a link.

use core::ops::{Add, AddAssign, Sub};

/// A point in model time, or a span of it, in picoseconds (up to 213 days).
///
/// Picoseconds because a byte lasts a whole number of them at every speed from 10 Mb/s to 1.6 Tb/s:
/// 64 bytes at 400 Gb/s last 1280 ps, which nanoseconds cannot say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

impl Picos {
    /// The origin of model time.
    pub const ZERO: Picos = Picos(0);
    /// Later than every event: "not armed".
    pub const NEVER: Picos = Picos(u64::MAX);

    /// A span of whole nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Picos {
        Picos(nanos.saturating_mul(1_000))
    }

    /// A span of whole microseconds.
    pub const fn from_micros(micros: u64) -> Picos {
        Picos(micros.saturating_mul(1_000_000))
    }

    /// A span of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Picos {
        Picos(millis.saturating_mul(1_000_000_000))
    }

    /// Whole nanoseconds, rounded down.
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1_000
    }

    /// The span from `earlier` to here, zero when `earlier` lies later.
    pub const fn since(self, earlier: Picos) -> Picos {
        Picos(self.0.saturating_sub(earlier.0))
    }

    /// This time plus `span`, ending at [`Picos::NEVER`].
    pub const fn saturating_add(self, span: Picos) -> Picos {
        Picos(self.0.saturating_add(span.0))
    }
}

impl Add for Picos {
    type Output = Picos;
    fn add(self, rhs: Picos) -> Picos {
        Picos(self.0 + rhs.0)
    }
}

impl AddAssign for Picos {
    fn add_assign(&mut self, rhs: Picos) {
        self.0 += rhs.0;
    }
}

impl Sub for Picos {
    type Output = Picos;
    fn sub(self, rhs: Picos) -> Picos {
        Picos(self.0 - rhs.0)
    }
}

/// Nanoseconds of `value` units of `unit_ns` each, as ns-3 converts a floating-point time: to 64 whole and 64 fraction bits,
/// cut off, then multiplied and cut off to whole nanoseconds. So 2.3 s is 2 299 999 999 ns there, since the nearest double lies
/// below 2.3. `None`: negative, not a number, or more than 208 days.
pub const fn ns3_nanos(value: f64, unit_ns: u64) -> Option<u64> {
    const NANOS_MAX: f64 = 1.8e16;
    if !(value >= 0.0 && value * (unit_ns as f64) < NANOS_MAX) {
        return None;
    }
    let whole = value as u64;
    // Scaling by a power of two is exact, and the fraction is below 1.
    let fraction = ((value - whole as f64) * 18_446_744_073_709_551_616.0) as u128;
    Some(whole * unit_ns + ((fraction * unit_ns as u128) >> 64) as u64)
}

/// How a link turns frames into time: its speed, and what it adds to each frame.
///
/// The defaults are Ethernet's (IEEE 802.3: 7 octets preamble, 1 start delimiter, 12 inter-packet gap,
/// 64-octet minimum with FCS). Other values exist to be held against simulators that model links otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkTiming {
    /// Speed in Mb/s, 1 to 1 600 000 (SONiC `PORT.speed`).
    pub speed_mbps: u32,
    /// Octets a link spends on each frame beside the frame: preamble, start delimiter, gap. Ethernet: 20.
    pub overhead_bytes: u32,
    /// How many of those come behind the frame: the gap. The frame has arrived before them. Ethernet: 12.
    pub gap_bytes: u32,
    /// Octets appended to what a socket sees: the FCS. Ethernet: 4.
    pub fcs_bytes: u32,
    /// Smallest frame on the link with its FCS. Ethernet: 64.
    pub min_frame_bytes: u32,
    /// Serialisation times are cut off to a multiple of this many picoseconds; 1 keeps them exact.
    pub rounding_ps: u32,
    /// Serialisation times are computed as ns-3 computes them instead: seconds as a floating-point number, cut off to
    /// nanoseconds ([`ns3_nanos`]). One that is whole may come out a nanosecond short.
    pub as_ns3: bool,
}

impl LinkTiming {
    /// Ethernet's own timing at a speed in Mb/s.
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

    /// The length the MMU charges and counters count, for a frame of `frame_len` octets as a socket sees it.
    pub const fn mac_len(&self, frame_len: u32) -> u32 {
        let with_fcs = frame_len + self.fcs_bytes;
        if with_fcs < self.min_frame_bytes {
            self.min_frame_bytes
        } else {
            with_fcs
        }
    }

    /// The length a link takes for a frame of `mac_len`: with preamble and gap.
    pub const fn wire_len(&self, mac_len: u32) -> u32 {
        mac_len + self.overhead_bytes
    }

    /// How long the link stays silent behind a frame: part of what the frame takes, but over only after its last bit.
    pub const fn gap(&self) -> Picos {
        let gap = if self.gap_bytes < self.overhead_bytes {
            self.gap_bytes
        } else {
            self.overhead_bytes
        };
        self.duration(gap)
    }

    /// How long `bytes` octets last on this link.
    pub const fn duration(&self, bytes: u32) -> Picos {
        if self.as_ns3 {
            let seconds = bytes as f64 * 8.0 / (self.speed_mbps as u64 * 1_000_000) as f64;
            return match ns3_nanos(seconds, 1_000_000_000) {
                Some(nanos) => Picos::from_nanos(nanos),
                None => Picos::NEVER,
            };
        }
        let ps = bytes as u64 * 8_000_000 / self.speed_mbps as u64;
        Picos(ps - ps % self.rounding_ps as u64)
    }

    /// How long one pause quantum (512 bit times, IEEE 802.3 Annex 31B) lasts on this link.
    pub const fn quantum(&self) -> Picos {
        Picos(512 * 1_000_000 / self.speed_mbps as u64)
    }

    /// How long `quanta` pause quanta last: computed at once, so that rounding does not add up.
    pub const fn pause(&self, quanta: u16) -> Picos {
        Picos(quanta as u64 * 512 * 1_000_000 / self.speed_mbps as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_link_as_in_ns3_loses_a_nanosecond_of_some_whole_times() {
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
