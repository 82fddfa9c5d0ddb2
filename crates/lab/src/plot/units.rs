//! Axes in units that people read.

/// A unit, and how many of the smallest unit it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    pub(super) size: f64,
}

/// For times up to so many nanoseconds.
pub(super) fn time(longest_ns: f64) -> Unit {
    of(longest_ns, &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)])
}

/// For sizes up to so many bytes.
pub(super) fn bytes(largest: f64) -> Unit {
    of(largest, &[("bytes", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)])
}

/// The largest of which there is one.
fn of(largest: f64, units: &[(&'static str, f64)]) -> Unit {
    let fitting = units.iter().rev().find(|(_, size)| largest >= *size);
    let (name, size) = *fitting.unwrap_or(&units[0]);
    Unit { name, size }
}

/// A number with about three digits.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        small if small < 10.0 => trimmed(format!("{value:.2}")),
        small if small < 100.0 => trimmed(format!("{value:.1}")),
        _ => format!("{value:.0}"),
    }
}

fn trimmed(text: String) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit_what_is_shown() {
        let names = [1.0, 999.0, 1_000.0, 5e6, 3e9].map(|ns| time(ns).name);
        assert_eq!(names, ["ns", "ns", "us", "ms", "s"]);
        assert_eq!(bytes(2.5e6).name, "MB");
        let texts = [0.0, 0.5, 2.0, 12.34, 123.4].map(short);
        assert_eq!(texts, ["0", "0.5", "2", "12.3", "123"]);
    }
}
