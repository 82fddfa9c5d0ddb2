//! Units of plot axes.

/// A unit of an axis. `size` is the number of smallest units (nanoseconds or bytes) in this unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AxisUnit {
    pub(super) name: &'static str,
    pub(super) size: f64,
}

/// Selects the unit for times up to `longest_ns` nanoseconds.
pub(super) fn time_unit(longest_ns: f64) -> AxisUnit {
    largest_fitting_unit(longest_ns, &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)])
}

/// Selects the unit for sizes up to `largest_bytes`.
pub(super) fn byte_unit(largest_bytes: f64) -> AxisUnit {
    largest_fitting_unit(
        largest_bytes,
        &[("bytes", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)],
    )
}

/// Returns the largest unit that is not larger than the value.
fn largest_fitting_unit(largest: f64, units: &[(&'static str, f64)]) -> AxisUnit {
    let fitting = units.iter().rev().find(|(_, size)| largest >= *size);
    let (name, size) = *fitting.unwrap_or(&units[0]);
    AxisUnit { name, size }
}

/// Formats a number with about three digits.
pub(super) fn format_short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        small if small < 10.0 => trim_zeros(format!("{value:.2}")),
        small if small < 100.0 => trim_zeros(format!("{value:.1}")),
        _ => format!("{value:.0}"),
    }
}

fn trim_zeros(text: String) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_digits_fit_the_values() {
        let names = [1.0, 999.0, 1_000.0, 5e6, 3e9].map(|ns| time_unit(ns).name);
        assert_eq!(names, ["ns", "ns", "us", "ms", "s"]);
        assert_eq!(byte_unit(2.5e6).name, "MB");
        let texts = [0.0, 0.5, 2.0, 12.34, 123.4].map(format_short);
        assert_eq!(texts, ["0", "0.5", "2", "12.3", "123"]);
    }
}
