//! The units of numbers and names.

use std::fmt;

/// The dimension of a number, as exponents of time and data. For example, a rate is data divided by time, so
/// the exponents are -1 for time and 1 for data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dimension {
    time: i8,
    data: i8,
}

/// A number without a unit.
pub(super) const PLAIN: Dimension = Dimension { time: 0, data: 0 };
/// A time in picoseconds.
pub(super) const TIME: Dimension = Dimension { time: 1, data: 0 };
/// An amount of data in bytes.
pub(super) const DATA: Dimension = Dimension { time: 0, data: 1 };
/// A rate in bytes per picosecond.
pub(super) const RATE: Dimension = Dimension { time: -1, data: 1 };

/// One bit per second, in bytes per picosecond.
const BIT_PER_SECOND: f64 = 1.0 / 8e12;

impl Dimension {
    pub(super) fn multiply(self, other: Dimension) -> Dimension {
        Dimension {
            time: self.time.saturating_add(other.time),
            data: self.data.saturating_add(other.data),
        }
    }

    pub(super) fn divide(self, divisor: Dimension) -> Dimension {
        Dimension {
            time: self.time.saturating_sub(divisor.time),
            data: self.data.saturating_sub(divisor.data),
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PLAIN => f.write_str("a plain number"),
            TIME => f.write_str("a time"),
            DATA => f.write_str("an amount of data"),
            RATE => f.write_str("a rate"),
            Dimension { time, data } => write!(f, "time^{time} data^{data}"),
        }
    }
}

/// Returns the dimension of a unit such as `us` and the factor that converts the unit to base units. Returns
/// `None` for an unknown unit.
pub(super) fn look_up_unit(unit: &str) -> Option<(f64, Dimension)> {
    Some(match unit {
        "%" => (0.01, PLAIN),
        "ps" => (1.0, TIME),
        "ns" => (1e3, TIME),
        "us" | "µs" => (1e6, TIME),
        "ms" => (1e9, TIME),
        "s" => (1e12, TIME),
        "min" => (60e12, TIME),
        "B" => (1.0, DATA),
        "kB" => (1e3, DATA),
        "MB" => (1e6, DATA),
        "GB" => (1e9, DATA),
        "K" | "KiB" => (1024.0, DATA),
        "M" | "MiB" => (1_048_576.0, DATA),
        "G" | "GiB" => (1_073_741_824.0, DATA),
        "bps" | "b/s" => (BIT_PER_SECOND, RATE),
        "kbps" | "kb/s" => (1e3 * BIT_PER_SECOND, RATE),
        "Mbps" | "Mb/s" => (1e6 * BIT_PER_SECOND, RATE),
        "Gbps" | "Gb/s" => (1e9 * BIT_PER_SECOND, RATE),
        "Tbps" | "Tb/s" => (1e12 * BIT_PER_SECOND, RATE),
        _ => return None,
    })
}

/// The list of all units for error messages.
pub(super) const UNITS: &str =
    "ps, ns, us, ms, s, min; B, kB, MB, GB, K, M, G (of 1024); bps, kbps, Mbps, Gbps, Tbps; %";

/// Returns the dimension of a name and the factor that converts its value to base units. The end of the name,
/// such as `_us`, is the unit of the value.
pub(super) fn unit_of_name(path: &str) -> (f64, Dimension) {
    let last = path.rsplit('.').next().unwrap_or(path);
    // The unit can be the whole last part: `queue3.bytes` is an amount of data like `tx_bytes`.
    let unit = last.rsplit_once('_').map_or(last, |(_, unit)| unit);
    match unit {
        "ps" => (1.0, TIME),
        "ns" => (1e3, TIME),
        "us" => (1e6, TIME),
        "ms" => (1e9, TIME),
        "s" => (1e12, TIME),
        "bytes" => (1.0, DATA),
        "bps" => (BIT_PER_SECOND, RATE),
        "percent" => (0.01, PLAIN),
        _ => (1.0, PLAIN),
    }
}
