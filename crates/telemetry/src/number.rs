//! Numbers as people read them.

/// With commas between thousands, as SONiC prints counters.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Nanoseconds in the unit that keeps the number short: `850 ns`, `12.3 us`, `4.56 ms`, `1.20 s`.
pub fn nanos(nanos: u64) -> String {
    scaled(nanos as f64, &[" ns", " us", " ms", " s"])
}

/// Bits per second: `986 Mb/s`, `1.00 Gb/s`.
pub fn rate(bits_per_second: u64) -> String {
    scaled(
        bits_per_second as f64,
        &[" b/s", " kb/s", " Mb/s", " Gb/s", " Tb/s"],
    )
}

/// 10^9 bytes per second, without their unit, as nccl-tests print them: two decimals, and for small ones four.
pub fn gbytes(gbytes_per_second: f64) -> String {
    match gbytes_per_second {
        small if small > 0.0 && small < 0.1 => format!("{small:.4}"),
        usual => format!("{usual:.2}"),
    }
}

/// A ratio in percent, or a dash where there is none.
pub fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.2} %", ratio * 100.0))
}

/// Three significant digits in the largest unit below 1000.
fn scaled(mut number: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // 999.5 and more would be printed as 1000 of the smaller unit.
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
    fn thousands_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (12_345_678, "12,345,678"),
        ] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn three_significant_digits_and_no_thousand_of_a_unit() {
        assert_eq!(nanos(0), "0 ns");
        assert_eq!(nanos(999), "999 ns");
        assert_eq!(nanos(1_234), "1.23 us");
        assert_eq!(nanos(999_999), "1.00 ms");
        assert_eq!(nanos(45_600_000), "45.6 ms");
        assert_eq!(nanos(120_000_000_000), "120 s");
        assert_eq!(rate(986_400_000), "986 Mb/s");
        assert_eq!(rate(1_000_000_000), "1.00 Gb/s");
        assert_eq!(percent(Some(0.98765)), "98.77 %");
        assert_eq!(percent(None), "-");
    }
}
