//! Parsers of times and rates in the format of ns-3.

use xoff_units::nanos_as_in_ns3;

/// Parses a duration such as `0.001ms` into nanoseconds, rounded down.
///
/// A number without a unit is in seconds, as in `Time::Time` of ns-3.
pub(super) fn parse_duration_ns(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 5] = [
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
        ("", 1_000_000_000),
    ];
    let (number, unit) = split_number_and_unit(text)?;
    if unit == "ps" {
        return nanos_as_in_ns3(number / 1_000.0, 1);
    }
    let (_, unit_ns) = UNITS.iter().find(|(name, _)| *name == unit)?;
    nanos_as_in_ns3(number, *unit_ns)
}

/// Parses a rate such as `100Gbps` or `20Mb/s` into bits per second, rounded down.
///
/// A number without a unit is in bits per second, as in `DataRate::DoParse` of ns-3.
pub(super) fn parse_rate_bps(text: &str) -> Option<u64> {
    let (number, unit) = split_number_and_unit(text)?;
    let factor = match unit {
        "" => 1.0,
        unit => rate_unit_factor(unit)?,
    };
    let bps = number * factor;
    (0.0..1e15).contains(&bps).then_some(bps as u64)
}

/// Returns the number of bits per second of a rate unit such as `Gbps` or `MB/s`.
fn rate_unit_factor(unit: &str) -> Option<f64> {
    let unit = unit.strip_suffix("ps").or_else(|| unit.strip_suffix("/s"))?;
    let (prefix, bits) = match unit.strip_suffix('b') {
        Some(prefix) => (prefix, 1.0),
        None => (unit.strip_suffix('B')?, 8.0),
    };
    let factor = match prefix {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        _ => return None,
    };
    Some(factor * bits)
}

/// Splits a text such as `0.001ms` into the number and the unit.
fn split_number_and_unit(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_rates_are_parsed_with_their_units() {
        assert_eq!(parse_duration_ns("0.001ms"), Some(1_000));
        assert_eq!(parse_duration_ns("1us"), Some(1_000));
        assert_eq!(parse_duration_ns("250ns"), Some(250));
        assert_eq!(parse_duration_ns("1.5s"), Some(1_500_000_000));
        assert_eq!(parse_duration_ns("2"), Some(2_000_000_000), "seconds");
        assert_eq!(parse_duration_ns("1500ps"), Some(1));
        for text in ["", "ms", "1m", "-1ms", "1 ms", "1e3ns"] {
            assert_eq!(parse_duration_ns(text), None, "{text}");
        }
        assert_eq!(parse_rate_bps("100Gbps"), Some(100_000_000_000));
        assert_eq!(parse_rate_bps("20Mb/s"), Some(20_000_000));
        assert_eq!(parse_rate_bps("2.5GBps"), Some(20_000_000_000));
        assert_eq!(parse_rate_bps("7bps"), Some(7));
        assert_eq!(parse_rate_bps("100"), Some(100), "bits per second");
        assert_eq!(parse_rate_bps("1KiB/s"), Some(8_192));
        for text in ["", "Gbps", "1Xbps", "1G", "1Gb", "9999999Gbps"] {
            assert_eq!(parse_rate_bps(text), None, "{text}");
        }
    }
}
