//! Units of plot axes.

/// A unit of an axis. `size` is the number of smallest units (nanoseconds or bytes) in this unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AxisUnit {
    pub(super) name: String,
    pub(super) size: f64,
}

/// A physical quantity with the units in which it is shown, smallest first. The size of a unit is the number of
/// base units in it. The base unit is the unit of the values.
#[derive(Clone, Debug)]
pub(super) struct Quantity(Vec<(String, f64)>);

const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
const SIZES: [(&str, f64); 4] = [("bytes", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)];
const BIT_RATES: [(&str, f64); 5] = [
    ("b/s", 1.0),
    ("kb/s", 1e3),
    ("Mb/s", 1e6),
    ("Gb/s", 1e9),
    ("Tb/s", 1e12),
];
const BYTE_RATES: [(&str, f64); 5] = [
    ("B/s", 1.0),
    ("kB/s", 1e3),
    ("MB/s", 1e6),
    ("GB/s", 1e9),
    ("TB/s", 1e12),
];

impl Quantity {
    /// Returns the quantity whose values have this unit. Shares, such as `percent`, have one unit. Numbers of
    /// things have decimal multiples, such as `million frames`, and rates of things have decimal prefixes, such
    /// as `Mframes/s`.
    pub(super) fn of_unit(unit: &str) -> Quantity {
        for units in [&TIMES[..], &SIZES, &BIT_RATES, &BYTE_RATES] {
            if let Some((_, base)) = units.iter().find(|(name, _)| *name == unit) {
                return Quantity(
                    units
                        .iter()
                        .map(|(name, size)| ((*name).to_owned(), size / base))
                        .collect(),
                );
            }
        }
        let multiples: &[(&str, f64)] = match unit {
            "percent" | "ratio" | "index" | "ppm" | "" => &[("", 1.0)],
            rate if rate.ends_with("/s") => &[("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9)],
            _ => &[("", 1.0), ("million ", 1e6), ("billion ", 1e9)],
        };
        let scaled = |(prefix, size): &(&str, f64)| (format!("{prefix}{unit}"), *size);
        Quantity(multiples.iter().map(scaled).collect())
    }

    /// Selects the largest unit that is not larger than the value.
    pub(super) fn fitting_unit(&self, value: f64) -> AxisUnit {
        let units: Vec<(&str, f64)> = self.0.iter().map(|(name, size)| (name.as_str(), *size)).collect();
        largest_fitting_unit(value, &units)
    }
}

/// Returns the label of an axis with this unit. The label starts with a capital letter, unless the unit is a
/// symbol such as `ms`.
pub(super) fn axis_name(unit: &AxisUnit) -> String {
    let is_word = unit.name.chars().all(|c| c.is_ascii_lowercase() || c == ' ') && unit.name.len() > 2;
    let mut letters = unit.name.chars();
    match (is_word, letters.next()) {
        (true, Some(first)) => first.to_ascii_uppercase().to_string() + letters.as_str(),
        _ => unit.name.clone(),
    }
}

/// Selects the unit for times up to `longest_ns` nanoseconds.
pub(super) fn time_unit(longest_ns: f64) -> AxisUnit {
    largest_fitting_unit(longest_ns, &TIMES)
}

/// Selects the unit for sizes up to `largest_bytes`.
pub(super) fn byte_unit(largest_bytes: f64) -> AxisUnit {
    largest_fitting_unit(largest_bytes, &SIZES)
}

/// Returns the largest unit that is not larger than the value.
fn largest_fitting_unit(largest: f64, units: &[(&str, f64)]) -> AxisUnit {
    let fitting = units.iter().rev().find(|(_, size)| largest >= *size);
    let (name, size) = *fitting.unwrap_or(&units[0]);
    AxisUnit {
        name: name.to_owned(),
        size,
    }
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
        for (unit, value, name) in [
            ("us", 2_500.0, "ms"),
            ("Gb/s", 0.4, "Mb/s"),
            ("GB/s", 11.0, "GB/s"),
            ("frames/s", 1.5e6, "Mframes/s"),
            ("frames", 1.5e6, "million frames"),
            ("percent", 5e6, "percent"),
            ("ns", 0.0, "ns"),
        ] {
            assert_eq!(Quantity::of_unit(unit).fitting_unit(value).name, name);
        }
        let texts = [0.0, 0.5, 2.0, 12.34, 123.4].map(format_short);
        assert_eq!(texts, ["0", "0.5", "2", "12.3", "123"]);
    }
}
