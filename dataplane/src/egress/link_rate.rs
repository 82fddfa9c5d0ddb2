//! Frame lengths and transmission times of a link, computed without a division for each frame.

use std::mem::offset_of;

use xoff_units::{LinkTiming, Picos};

/// A [`LinkTiming`] that also stores the transmission time of one byte. At Ethernet speeds, the time of one
/// byte is a whole number of picoseconds. The time of a frame is then computed by a multiplication. At a
/// speed without this property, the time of a frame is computed by a division.
#[derive(Clone, Copy, Debug)]
#[repr(C)] // `LinkTiming` starts with the fields that each frame uses
pub struct LinkRate {
    /// Transmission time of one byte in picoseconds. 0: the transmission time is computed by a division.
    ps_per_byte: u32,
    timing: LinkTiming,
}

impl LinkRate {
    /// Size of the fields that each frame uses. They are at the start.
    pub(crate) const USED_BYTES: usize = offset_of!(LinkRate, timing) + offset_of!(LinkTiming, speed_mbps);

    /// Creates the rate of a link with this timing. A speed or rounding of 0 counts as 1.
    pub fn new(timing: LinkTiming) -> LinkRate {
        // A speed or rounding of 0 is a configuration error. Use 1 instead, to avoid a division by zero.
        let timing = LinkTiming {
            speed_mbps: timing.speed_mbps.max(1),
            rounding_ps: timing.rounding_ps.max(1),
            ..timing
        };
        let exact = !timing.as_ns3 && timing.rounding_ps == 1 && 8_000_000 % timing.speed_mbps == 0;
        LinkRate {
            timing,
            ps_per_byte: match exact {
                true => 8_000_000 / timing.speed_mbps,
                false => 0,
            },
        }
    }

    /// Returns the timing of the link, with speed and rounding of at least 1.
    pub fn timing(&self) -> &LinkTiming {
        &self.timing
    }

    /// Returns true if every frame has the same [`LinkRate::mac_len`] on both links.
    #[inline]
    pub(crate) fn has_same_frame_lengths(&self, other: &LinkRate) -> bool {
        let (one, other) = (&self.timing, &other.timing);
        one.fcs_bytes == other.fcs_bytes && one.min_frame_bytes == other.min_frame_bytes
    }

    /// Returns the length of a frame with padding and FCS ([`LinkTiming::mac_len`]). `frame_len` has no FCS.
    #[inline]
    pub fn mac_len(&self, frame_len: u32) -> u32 {
        self.timing.mac_len(frame_len)
    }

    /// Returns the time for which a frame of `mac_len` bytes occupies the link, including preamble and
    /// interframe gap.
    #[inline]
    pub fn transmission_time(&self, mac_len: u32) -> Picos {
        let wire_len = self.timing.wire_len(mac_len);
        match self.ps_per_byte {
            0 => self.timing.duration(wire_len),
            ps => Picos(u64::from(wire_len) * u64::from(ps)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmission_time_equals_the_division() {
        for speed in [1, 7, 10, 100, 1_000, 2_500, 10_000, 40_000, 400_000, 1_600_000] {
            for rounding_ps in [1, 1_000] {
                let timing = LinkTiming {
                    rounding_ps,
                    ..LinkTiming::ethernet(speed)
                };
                for mac_len in [64, 65, 1_518, 9_216] {
                    let expected = timing.duration(timing.wire_len(mac_len));
                    assert_eq!(
                        LinkRate::new(timing).transmission_time(mac_len),
                        expected,
                        "{speed} {mac_len}"
                    );
                }
            }
        }
    }
}
