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

/// How a link turns frames into time: its speed, and what it adds to each frame.
///
/// The defaults are Ethernet's (IEEE 802.3: 7 octets preamble, 1 start delimiter, 12 inter-packet gap,
/// 64-octet minimum with FCS). Other values exist to be held against simulators that model links otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
