//! Formatting of numbers for people.

pub use xoff_units::{count_noun, group_thousands};

/// Formats a time in nanoseconds with three significant digits, in a suitable unit: `850 ns`, `12.3 us`,
/// `4.56 ms`, `1.20 s`.
pub fn format_nanos(nanos: u64) -> String {
    format_in_unit(nanos as f64, &[" ns", " us", " ms", " s"])
}

/// Formats a bit rate with three significant digits, in a suitable unit: `986 Mb/s`, `1.00 Gb/s`.
pub fn format_bit_rate(bits_per_second: u64) -> String {
    format_in_unit(
        bits_per_second as f64,
        &[" b/s", " kb/s", " Mb/s", " Gb/s", " Tb/s"],
    )
}

/// Formats a rate in 10^9 bytes per second as nccl-tests does, without the unit. Positive values below 0.1
/// have four decimals. Zero and values of 0.1 or more have two decimals.
pub fn format_gbytes_per_second(gbytes_per_second: f64) -> String {
    match gbytes_per_second {
        small if small > 0.0 && small < 0.1 => format!("{small:.4}"),
        usual => format!("{usual:.2}"),
    }
}

/// Formats a ratio such as 0.987 as a percentage (`98.70 %`). Returns a dash for `None`.
pub fn format_percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.2} %", ratio * 100.0))
}

/// Formats a number with three significant digits. Each unit is 1000 times the unit before it. The function
/// selects the first unit in which the printed number is below 1000.
fn format_in_unit(mut number: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // A value of 999.5 or more would be printed as 1000, so it uses the next unit.
    while number >= 999.5 && unit + 1 < units.len() {
        number /= 1000.0;
        unit += 1;
    }
    let decimals = match number {
        _ if unit == 0 || number >= 99.95 => 0,
        _ if number >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.decimals$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits_and_are_below_1000() {
        assert_eq!(format_nanos(0), "0 ns");
        assert_eq!(format_nanos(999), "999 ns");
        assert_eq!(format_nanos(1_234), "1.23 us");
        assert_eq!(format_nanos(999_999), "1.00 ms");
        assert_eq!(format_nanos(45_600_000), "45.6 ms");
        assert_eq!(format_nanos(120_000_000_000), "120 s");
        assert_eq!(format_bit_rate(986_400_000), "986 Mb/s");
        assert_eq!(format_bit_rate(1_000_000_000), "1.00 Gb/s");
        assert_eq!(format_percent(Some(0.98765)), "98.77 %");
        assert_eq!(format_percent(None), "-");
    }
}
